"""Mirroring runs to Weights & Biases: rows and means arrive, results stay the same, a failure stops no run."""

import sys
from types import SimpleNamespace

import pytest

from groundlab import lab
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.lab import tracking


class Wandb:
    """As much of the module `wandb` as a mirror uses; one run, which a second `init` resumes."""

    def __init__(self):
        self.rows, self.summary, self.ids, self.codes = {}, {}, set(), []
        self.Settings, self.login = SimpleNamespace, lambda prompt: True

    def init(self, id, **_):
        self.ids.add(id)
        self.starting_step = len(self.rows)
        return self

    def log(self, row, step):
        assert step not in self.rows, "a row is sent once"
        self.rows[step] = row

    def finish(self, exit_code):
        self.codes.append(exit_code)


@pytest.fixture
def wandb(monkeypatch):
    fake = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv(tracking.TRACKER_VARIABLE, "wandb")
    return fake


def test_a_mirror_holds_rows_and_means_and_changes_neither(training_spec, tmp_path, wandb, monkeypatch):
    manifest = lab.execute_run(training_spec, tmp_path / "with")
    monkeypatch.delenv(tracking.TRACKER_VARIABLE)
    lab.execute_run(training_spec, tmp_path / "without")
    for name in ("metrics.jsonl", "evaluation.json"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    for row, record in zip(wandb.rows.values(), storage.read_lines(tmp_path / "with" / "metrics.jsonl"), strict=True):
        assert row == {name: value for name, value in record.items() if isinstance(value, int | float)}
    result = storage.read_json(tmp_path / "with" / "evaluation.json")[0]
    assert wandb.summary[f"{result['policy']}/success"] == result["mean"]["success"]
    assert wandb.ids == {manifest["hash"]} and wandb.codes == [0]


def test_a_stopped_run_is_the_same_one_when_it_goes_on(training_spec, tmp_path, wandb):
    steps = []
    with pytest.raises(Unfinished):
        lab.execute_run(training_spec, tmp_path / "run", report=steps.append, stop=lambda: len(steps) == 1)
    manifest = lab.execute_run(training_spec, tmp_path / "run")
    assert [*wandb.rows] == list(range(len(storage.read_lines(tmp_path / "run" / "metrics.jsonl"))))
    assert wandb.ids == {manifest["hash"]} and wandb.codes == [1, 0]


@pytest.mark.parametrize("fake", [None, SimpleNamespace(login=lambda prompt: False)], ids=["missing", "no account"])
def test_a_mirror_that_fails_is_one_line_and_stops_no_run(training_spec, tmp_path, wandb, monkeypatch, fake):
    monkeypatch.setitem(sys.modules, "wandb", fake)  # None: an import then meets a missing package
    assert lab.execute_run(training_spec, tmp_path / "run")["status"] == "finished"
    assert (tmp_path / "run" / "log.txt").read_text().count("warning: wandb mirrors this run no longer") == 1


def test_an_unknown_tracker_is_refused_and_one_that_is_not_installed_is_a_warning(monkeypatch, capsys):
    with pytest.raises(GroundlabError, match="did you mean 'wandb'"):
        tracking.ask_for("wandbb")
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    tracking.ask_for("wandb")
    assert "pip install groundlab[wandb]" in capsys.readouterr().err
