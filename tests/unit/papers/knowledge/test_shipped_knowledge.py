"""The knowledge that ships: a dataset that its world confirms, and ledgers that answer what is asked about it."""

import json
import re

import numpy as np
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.papers.knowledge import bk_code, dataset, labelling
from groundlab.papers.knowledge.bk_code import CodePotential
from groundlab.papers.knowledge.dataset import Dataset, Episode, windows_of, write
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.settings import DATASET, HOME, PROGRAMS, PUBLIC_MODEL, folder_of, ledger, source_of

KEYS = {"key", "model", "messages_sha256", "sampling", "reply", "tokens", "cost", "source", "created"}
LEDGERS = [("code", "pretraining-s20"), ("goals", "pretraining-s20"), ("goals", "crafter-reward")]
SUMMARY = "16 goals for 40 stretches of play (0 without a list)"


def lines(form, dataset="pretraining-s20"):
    return [json.loads(line) for line in ledger(form, dataset).read_text().splitlines()]


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


@pytest.mark.parametrize(("form", "dataset"), LEDGERS)
def test_a_ledger_answers_every_prompt_and_no_other_says_who_wrote_it_and_costs_nothing(form, dataset, tmp_path):
    for line in lines(form, dataset):
        assert set(line) == KEYS and line["source"] == "hand-written, reviewed" and line["model"] == "hand-written"
        assert line["tokens"] is None and line["cost"] == 0 and re.fullmatch("[0-9a-f]{64}", line["messages_sha256"])
    asked = labelling.Labelling(form, tmp_path, dataset=folder_of(dataset))
    report = labelling.label(asked, labelling.dataset(dataset))
    assert report.account.replies == 0
    assert len(lines(form, dataset)) == asked.settings.rounds == len({line["key"] for line in lines(form, dataset)})
    made = {file.name: file.read_text() for file in tmp_path.iterdir() if file.name != "account.json"}
    assert json.loads(made["labelling.json"])["knowledge"] == "hand-written knowledge"
    if dataset == "crafter-reward":
        assert report.summary.startswith(SUMMARY) and asked.settings.rounds <= 60
    else:
        assert made == {file.name: file.read_text() for file in (HOME / form).iterdir() if file.is_file()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_from_the_prompt_alone_is_what_its_ledger_comes_to(name, tmp_path):
    program, writer = source_of(name), f"writer-{name[-1]}"
    kept = [json.loads(line) for line in (program.parent / "ledger.jsonl").read_text().splitlines()]
    assert {(line["model"], line["source"]) for line in kept} == {
        (writer, "written from the prompt alone, not reviewed")
    }
    asked = labelling.Labelling("code", tmp_path, model=writer, ledger=program.parent / "ledger.jsonl")
    report = labelling.label(asked, labelling.dataset("pretraining-s20"))
    assert report.account.replies == 0
    assert (tmp_path / "code-final.py").read_text() == program.read_text()


@pytest.mark.parametrize("name", PUBLIC_MODEL)
def test_the_labels_of_the_public_model_are_what_its_ledger_comes_to(name, tmp_path):
    folder, form = source_of(name), name.partition("/")[2]
    if not (folder / "labelling.json").is_file():
        pytest.skip("its ledger is not whole yet")
    facts = json.loads((folder / "labelling.json").read_text())
    kept = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert {(line["model"], line["source"], line["cost"]) for line in kept} == {(facts["model"], "local", 0)}
    given = {**facts["settings"], "chat": {name: facts["chat"][name] for name in ("temperature", "max_tokens", "seed")}}
    asked = labelling.Labelling(form, tmp_path, model=facts["model"], ledger=folder / "ledger.jsonl", overrides=given)
    assert labelling.label(asked, labelling.dataset()).account.replies == 0
    made = [file.name for file in folder.iterdir() if file.name not in ("ledger.jsonl", "labelling.json")]
    assert {file: (tmp_path / file).read_bytes() for file in made} == {f: (folder / f).read_bytes() for f in made}
    assert ("judging.json" in made) == (form == "preferences") and "network.json" not in made


def test_every_hand_written_program_runs_on_windows_of_the_dataset_and_tells_them_apart(episodes):
    long = [number for number, length in enumerate(episodes.lengths) if length >= 10]
    segments = [episodes.segment(number, start, 5) for number in long for start in (0, 5)]
    windows = windows_of(segments)
    with Sandbox() as sandbox:
        for line in lines("code"):
            potential = CodePotential(bk_code.parse_program(line["reply"]) or "", sandbox)
            assert np.ptp(potential(windows)) > 0.3 and not potential.failed
