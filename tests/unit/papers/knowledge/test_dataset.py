"""Episodes come back from disk as they were, without pickle, and a broken dataset is one clear line."""

import json

import numpy as np
import pytest
from knowledge_data import make_episodes

from groundlab.core.errors import GroundlabError
from groundlab.core.paths import user_cache
from groundlab.papers.knowledge.captions import observations
from groundlab.papers.knowledge.dataset import Dataset, sample, write

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def episodes():
    return make_episodes(4, 9, 7, 30)


def test_episodes_come_back_as_they_were(tmp_path, episodes):
    write(tmp_path / "data", episodes, {"world": "W"})
    data = Dataset(tmp_path / "data")
    assert len(data) == 4 and data.lengths.tolist() == [4, 9, 7, 30]
    for number, episode in enumerate(episodes):
        back = data.episode(number)
        for name in ("views", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(back, name), getattr(episode, name))
        facts = ("terminated", "truncated", "layout", "snapshot")
        assert [getattr(back, name) for name in facts] == [getattr(episode, name) for name in facts]


def test_a_segment_is_told_as_its_views_are(tmp_path, episodes):
    write(tmp_path / "data", episodes, {})
    segment = Dataset(tmp_path / "data").segment(1, 3, 5)
    np.testing.assert_array_equal(segment.views, episodes[1].views[3:9])
    np.testing.assert_array_equal(segment.actions, episodes[1].actions[3:8])
    assert segment.captions == observations(episodes[1].views[3:9])
    assert segment.times.tolist() == [3, 4, 5, 6, 7, 8]


def test_a_dataset_holds_no_pickle_and_stores_each_view_once(tmp_path, episodes):
    card = write(tmp_path / "data", episodes, {})
    with np.load(tmp_path / "data" / "arrays.npz", allow_pickle=False) as arrays:
        distinct = {view.tobytes() for episode in episodes for view in episode.views}
        assert len(arrays["views"]) == len(distinct) == card["distinct_views"]
        assert not any(arrays[name].dtype.hasobject for name in arrays)


def test_the_card_tells_what_came_of_each_snapshot(tmp_path, episodes):
    card = write(tmp_path / "data", episodes, {"world": "W"})
    assert card == json.loads((tmp_path / "data" / "card.json").read_text())
    assert card["steps"] == 50 and card["world"] == "W"
    assert card["snapshots"]["0"]["success"] == 0.5 and card["snapshots"]["1024"]["length"] == 18.5
    assert sum(card["actions"].values()) == 50


def test_a_dataset_that_is_broken_gone_or_of_another_version_is_one_clear_line(tmp_path, episodes):
    card, packed = write(tmp_path / "data", episodes, {}), tmp_path / "data" / "arrays.npz"
    for damage in (lambda: packed.write_bytes(packed.read_bytes()[:-5]), packed.unlink):
        damage()
        with pytest.raises(GroundlabError, match="missing or broken; copy or collect"):
            Dataset(tmp_path / "data")
    (tmp_path / "data" / "card.json").write_text(json.dumps(card | {"version": 99}))
    with pytest.raises(GroundlabError, match="is of version 99, this package reads 1"):
        Dataset(tmp_path / "data")


def test_an_unpacked_file_that_was_changed_is_unpacked_again(tmp_path, episodes):
    home = user_cache("datasets") / write(tmp_path / "data", episodes, {})["sha256"]
    Dataset(tmp_path / "data")
    for file in sorted(home.iterdir()):
        file.write_bytes(file.read_bytes()[:-12] + b"\xff" * 12)
        np.testing.assert_array_equal(Dataset(tmp_path / "data").episode(3).actions, episodes[3].actions)
    (home / "views.npy").unlink()
    assert len(Dataset(tmp_path / "data")) == 4 and (home / "views.npy").is_file()


def test_segments_are_drawn_as_the_original_draws_them(golden):
    facts = golden["misc"]["sample_data_seed42"]
    rng = np.random.RandomState(42)
    lengths = np.array(facts["episode_action_lengths"])
    drawn = [sample(lengths, facts["sequence_length"], rng) for _ in facts["samples"]]
    assert [f"e{number}t{start}" for number, start in drawn] == [case["description"][0] for case in facts["samples"]]


def test_episodes_that_are_too_short_are_one_clear_line():
    with pytest.raises(GroundlabError, match="no episode has 5 steps"):
        sample(np.array([3, 4]), 5, np.random.default_rng(0))
