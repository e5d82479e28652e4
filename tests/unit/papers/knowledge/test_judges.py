"""Labels of preferences on disk, a judge that only scores, and a network small enough for a laptop."""

import pytest
import torch
from knowledge_data import told, warm

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Sampling
from groundlab.papers.knowledge import bk_pref, scripted


@pytest.fixture(scope="module")
def judged(episodes):
    return bk_pref.judge(scripted.scripted_judge(0.0, 0), warm, episodes, bk_pref.LabelSettings(pairs=600), seed=0)


def test_labels_come_back_as_they_were(episodes, judged, tmp_path):
    bk_pref.store_labels(tmp_path / "labels.json", judged, episodes, bk_pref.LabelSettings())
    back = bk_pref.load_labels(tmp_path / "labels.json", episodes)
    assert (back.labels, back.positions, back.unreadable) == (judged.labels, judged.positions, judged.unreadable)
    for one, other in zip(back.pairs().first, judged.pairs().first, strict=True):
        torch.testing.assert_close(one, other)


def test_labels_of_another_dataset_or_broken_ones_are_one_clear_line(episodes, judged, data, tmp_path):
    bk_pref.store_labels(tmp_path / "labels.json", judged, episodes, bk_pref.LabelSettings())
    with pytest.raises(GroundlabError, match="labels another dataset than"):
        bk_pref.load_labels(tmp_path / "labels.json", data)
    (tmp_path / "labels.json").write_text('{"dataset": 1}')
    with pytest.raises(GroundlabError, match="holds no whole labels; label again"):
        bk_pref.load_labels(tmp_path / "labels.json", data)


def test_our_own_model_finds_turning_to_a_thing_more_plausible_than_turning_away():
    judge = scripted.scoring_judge("quick-t5-s0")
    to, away = (told([("You see a red ball 3 steps left.", turn)]) for turn in ("turn left", "turn right"))
    both = "You see a red ball 3 steps left. You see a blue key 2 steps right."
    one, ahead = told([(both, "turn right")]), told([(both, "forward")])  # one thing that fits is enough
    ranks = ((to, away, "A > B"), (away, to, "B > A"), (to, to, "A = B"), (one, ahead, "A > B"))
    for first, second, rank in ranks:
        asked = f"Description of Trajectory Segment A:\n{first}\nDescription of Trajectory Segment B:\n{second}"
        assert judge.reply([{"role": "user", "content": asked}], Sampling()).endswith(rank)


def test_a_small_network_learns_the_rule_and_comes_back_from_disk(episodes, judged, tmp_path):
    settings = bk_pref.TrainSettings(network="small", epochs=15)
    network, _ = bk_pref.train(judged.pairs(), settings, (3, 7, 7), 7, seed=0)
    assert sum(weights.numel() for weights in network.parameters()) < 40_000
    others = bk_pref.LabelSettings(pairs=300)
    new = bk_pref.judge(scripted.scripted_judge(0.0, 0), warm, episodes, others, seed=9).pairs()
    assert bk_pref.accuracy(network, new) > 0.8
    bk_pref.store(tmp_path, network)
    back = bk_pref.load(tmp_path)
    torch.testing.assert_close(back(new.first), network(new.first))
