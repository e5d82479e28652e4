"""The knowledge that ships: a dataset that its world confirms, and ledgers that answer what is asked about it."""

import json
import re

import numpy as np
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.core.storage import digest_json
from groundlab.papers.knowledge import bk_code, bk_goal, dataset, labelling
from groundlab.papers.knowledge.bk_code import CodePotential
from groundlab.papers.knowledge.dataset import Dataset, Episode, write
from groundlab.papers.knowledge.observations import Windows, stack
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.settings import DATASET, HOME, ledger

KEYS = {"key", "model", "messages_sha256", "sampling", "reply", "tokens", "cost", "source", "created"}


@pytest.fixture(scope="module")
def episodes():
    return labelling.dataset()


def lines(form):
    return [json.loads(line) for line in ledger(form).read_text().splitlines()]


def test_the_dataset_is_small_and_its_three_policies_get_better(episodes):
    assert (DATASET / "arrays.npz").stat().st_size < 1_500_000 and len(episodes) == 60
    found = list(episodes.card["snapshots"].values())
    assert [part["episodes"] for part in found] == [20, 20, 20]
    assert found[0]["success"] < found[1]["success"] < found[2]["success"]
    assert episodes.card["world"] == "BabyAI-Text-GoToLocal-Pretraining-S20"


def test_every_episode_is_what_its_world_shows_for_its_seed_and_actions(episodes, tmp_path):
    visits = dataset.count_visits(episodes)
    dataset.write_coverage(tmp_path, visits)
    assert (tmp_path / "coverage.json").read_bytes() == (DATASET / "coverage.json").read_bytes()
    assert sum(int(counts.sum()) for counts in visits.values()) == episodes.card["steps"] + 60
    shares = {str(snapshot): dataset.visited_share(counts) for snapshot, counts in visits.items()}
    assert shares == episodes.card["cells_visited"]
    for counts in visits.values():
        assert counts.shape == (20, 20) and not counts[0].any() and not counts[:, -1].any()


def test_an_episode_that_its_world_does_not_show_is_found(episodes, tmp_path):
    first = episodes.episode(0)
    views = first.views.copy()
    views[3] = views[4] if (views[3] != views[4]).any() else 0
    forged = Episode(views, *(getattr(first, name) for name in list(Episode.__annotations__)[1:]))
    write(tmp_path / "data", [forged], {"world": episodes.card["world"]})
    with pytest.raises(GroundlabError, match=r"episode 0 is not what .* shows at step 3; collect the dataset again"):
        dataset.count_visits(Dataset(tmp_path / "data"))


@pytest.mark.parametrize("form", ["code", "goals"])
def test_ledgers_say_who_wrote_them_and_cost_nothing(form):
    for line in lines(form):
        assert set(line) == KEYS and line["source"] == "hand-written, reviewed" and line["model"] == "hand-written"
        assert line["tokens"] is None and line["cost"] == 0 and re.fullmatch("[0-9a-f]{64}", line["messages_sha256"])


@pytest.mark.parametrize("form", ["code", "goals"])
def test_ledgers_answer_every_prompt_and_come_to_what_is_unfolded_beside_them(form, episodes, tmp_path):
    report = labelling.label(labelling.Labelling(form, tmp_path), episodes)
    assert report.account.replies == 0
    unfolded = {file.name: file.read_text() for file in (HOME / form).iterdir()}
    made = {file.name: file.read_text() for file in tmp_path.iterdir() if file.name != "account.json"}
    assert made == unfolded
    assert json.loads(unfolded["labelling.json"])["knowledge"] == "hand-written knowledge"


def test_a_ledger_holds_no_reply_that_nothing_asks_for(episodes, tmp_path):
    for form in ("code", "goals"):
        rounds = labelling.Labelling(form, tmp_path).settings.rounds
        assert len(lines(form)) == rounds == len({line["key"] for line in lines(form)})


def test_goals_are_about_things_of_their_stretch_without_numbers():
    library = bk_goal.load(HOME / "goals")
    assert len(library.captions) <= 60
    for caption, goals in zip(library.captions, library.goals, strict=True):
        for goal in goals:
            assert not re.search(r"\d|step", goal)
            for thing in re.findall(r"(?:red|green|blue|purple|yellow|grey) (?:key|ball|box)", goal):
                assert thing in caption


def test_every_hand_written_program_runs_on_windows_of_the_dataset_and_tells_them_apart(episodes):
    long = [number for number, length in enumerate(episodes.lengths) if length >= 10]
    segments = [episodes.segment(number, start, 5) for number in long for start in (0, 5)]
    windows = stack([Windows(each.views[None], each.actions[None], each.times[None]) for each in segments])
    with Sandbox() as sandbox:
        for line in lines("code"):
            potential = CodePotential(bk_code.parse_program(line["reply"]) or "", sandbox)
            assert np.ptp(potential(windows)) > 0.3 and not potential.failed


def test_the_first_prompt_of_a_ledger_is_the_one_that_the_package_sends():
    from groundlab.papers.knowledge import bk_code

    assert lines("code")[0]["messages_sha256"] == digest_json(bk_code.opening())
