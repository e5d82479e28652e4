"""Run folders: metrics cut back to the checkpoint, whole checkpoints or none, stops, corrupt and foreign folders."""

import json
from functools import partial

import pytest

from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec, load_checkpoint

SPEC = RunSpec(method="counting", world="nowhere", seed=3, settings={"total": 40})


def pack(value: int) -> dict[str, bytes]:
    return {"state.json": json.dumps({"value": value}).encode()}


def count(run: Run, until: int | None = None, total: int = 40) -> None:
    """A method that counts; stops without a word (as a kill would) after `until`."""
    checkpoint = run.restore()
    state = json.loads(checkpoint.files["state.json"])["value"] if checkpoint else 0
    for step in range(checkpoint.step + 1 if checkpoint else 1, total + 1):
        state += step
        run.log({"step": step, "value": state})
        if step == until:
            return
        run.advance(step, total, partial(pack, state))


def test_a_run_cut_off_anywhere_writes_the_same_metrics(tmp_path):
    count(Run(tmp_path / "whole", SPEC))
    expected = (tmp_path / "whole" / "metrics.jsonl").read_bytes()
    for until in range(1, 41):
        folder = tmp_path / f"cut-{until}"
        count(Run(folder, SPEC), until)
        count(Run(folder, SPEC))
        assert (folder / "metrics.jsonl").read_bytes() == expected


def test_a_twentieth_of_the_steps_is_repeated_at_most(tmp_path):
    for until in (7, 20, 39):
        count(Run(tmp_path / str(until), SPEC), until)
        assert until - load_checkpoint(tmp_path / str(until)).step <= 2


def test_a_corrupt_checkpoint_is_one_clear_line_and_nothing_is_lost(tmp_path):
    count(Run(tmp_path, SPEC), 21)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    state = tmp_path / "checkpoint" / "20" / "state.json"
    state.write_bytes(state.read_bytes()[:-2])
    with pytest.raises(GroundlabError, match=r"checkpoint .*20 is corrupt; delete that folder"):
        count(Run(tmp_path, SPEC))
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_a_folder_belongs_to_one_spec(tmp_path):
    Run(tmp_path, SPEC)
    with pytest.raises(GroundlabError, match="already holds another run"):
        Run(tmp_path, SPEC.model_copy(update={"seed": 4}))


def test_a_folder_without_checkpoint_says_what_to_give(tmp_path):
    with pytest.raises(GroundlabError, match="give a run folder"):
        load_checkpoint(tmp_path)
