"""Mirroring runs to Weights & Biases: the same figures with and without, the same run after a stop, never a failure.

What the mirror holds is read back from W&B's own offline files; that needs the extra `wandb`.
"""

import os
import struct
import sys
from importlib.util import find_spec

import pytest

from groundlab import lab
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.lab import tracking

STORED = ("metrics.jsonl", "evaluation.json")

real = pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb: pip install groundlab[wandb]")


@pytest.fixture
def offline(monkeypatch):
    """Ask for a mirror that needs no account; W&B's own variables and files stay out of it."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv(tracking.TRACKER_VARIABLE, "wandb")


def payloads(content):
    """The records of W&B's file: LevelDB's log format (blocks of 32 KiB, parts with a head of 7 bytes), 7 bytes in."""
    place, whole = 7, b""
    while place + 7 <= len(content):
        if (rest := 32768 - place % 32768) < 7:
            place += rest  # a block's end that no head fits into
            continue
        size, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        whole += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield whole
            whole = b""


def mirrored(folder):
    """(rows by step, summary, names, exit codes) of the offline records in a run's folder, oldest first."""
    import wandb
    from wandb.proto import wandb_internal_pb2

    wandb.teardown()  # its own process writes a little later than it answers
    rows, summary, names, codes = {}, {}, set(), []
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for payload in payloads(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(payload)
            if record.HasField("history"):
                row = {(item.key or ".".join(item.nested_key)): item.value_json for item in record.history.item}
                rows.setdefault(record.history.step.num, row)
            summary |= {(item.key or ".".join(item.nested_key)): item.value_json for item in record.summary.update}
            if record.HasField("run"):
                names.add(record.run.run_id)
            if record.HasField("exit"):
                codes.append(record.exit.exit_code)
    return rows, summary, names, codes


@real
def test_a_mirror_holds_the_rows_and_the_evaluation_and_changes_neither(training_spec, tmp_path, offline, monkeypatch):
    manifest = lab.execute_run(training_spec, tmp_path / "with")
    monkeypatch.delenv(tracking.TRACKER_VARIABLE)
    lab.execute_run(training_spec, tmp_path / "without")
    for name in STORED:
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    assert not (tmp_path / "without" / "wandb").exists()
    rows, summary, names, codes = mirrored(tmp_path / "with")
    records = storage.read_lines(tmp_path / "with" / "metrics.jsonl")
    assert sorted(rows) == list(range(len(records)))
    for step, record in enumerate(records):
        told = {name: value for name, value in record.items() if isinstance(value, int | float)}
        assert {name: float(rows[step][name]) for name in told} == pytest.approx(told)
    result = storage.read_json(tmp_path / "with" / "evaluation.json")[0]
    assert float(summary[f"{result['policy']}/success"]) == pytest.approx(result["mean"]["success"])
    assert names == {manifest["hash"]} and codes == [0]


@real
def test_a_stopped_run_is_the_same_one_when_it_goes_on(training_spec, tmp_path, offline):
    steps = []
    with pytest.raises(Unfinished):
        lab.execute_run(training_spec, tmp_path / "run", report=steps.append, stop=lambda: len(steps) == 1)
    manifest = lab.execute_run(training_spec, tmp_path / "run")
    rows, _, names, codes = mirrored(tmp_path / "run")
    assert sorted(rows) == list(range(len(storage.read_lines(tmp_path / "run" / "metrics.jsonl"))))
    assert names == {manifest["hash"]} and codes == [1, 0]


@real
def test_without_an_account_the_run_goes_on_and_says_so_once(training_spec, tmp_path, offline, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    assert lab.execute_run(training_spec, tmp_path / "run")["status"] == "finished"
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.count("warning: wandb mirrors this run no longer (no account") == 1


def test_a_tracker_that_is_not_installed_fails_no_run(training_spec, tmp_path, monkeypatch):
    monkeypatch.setenv(tracking.TRACKER_VARIABLE, "wandb")
    monkeypatch.setitem(sys.modules, "wandb", None)  # an import then meets a missing package
    assert lab.execute_run(training_spec, tmp_path / "run")["status"] == "finished"
    assert (tmp_path / "run" / "log.txt").read_text().count("warning: wandb mirrors this run no longer") == 1


def test_asking_for_a_tracker_reaches_the_workers_and_an_unknown_one_is_refused(monkeypatch, capsys):
    monkeypatch.setenv(tracking.TRACKER_VARIABLE, "")
    monkeypatch.delenv(tracking.TRACKER_VARIABLE)
    with pytest.raises(GroundlabError, match="did you mean 'wandb'"):
        tracking.ask_for("wandbb")
    tracking.ask_for(None)
    assert tracking.TRACKER_VARIABLE not in os.environ
    tracking.ask_for("wandb")
    if find_spec("wandb"):
        assert os.environ[tracking.TRACKER_VARIABLE] == "wandb"
    else:
        assert "pip install groundlab[wandb]" in capsys.readouterr().err
