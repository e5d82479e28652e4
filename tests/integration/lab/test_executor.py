"""Runs of a plan on worker processes: failures are collected, dead workers replaced, stops passed on."""

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from groundlab import lab
from groundlab.core import numerics
from groundlab.core.run import RunSpec
from groundlab.core.storage import read_json
from groundlab.lab import executor


def test_a_failed_run_stops_no_other_and_finished_ones_are_recognised_and_not_repeated(laboratory, rule_entry):
    """One worker: a method that nobody knows, a ledger that is none, and two runs of an arm with a name of its own."""
    (laboratory.root / "ledger.jsonl").write_text("not json\n")
    named = {**rule_entry, "worlds": ["SimpleDoorKey", "KeyInBox"], "arm": "asks/always/yes", "label": "always"}
    settings = {"planner": "recorded", "ledger": str(laboratory.root / "ledger.jsonl"), "layouts": "0-4"}
    laboratory.write_config([named, {**rule_entry, "settings": settings}])
    plan = lab.plan("mediator", scale="smoke")
    (torn,) = [run for run in plan.runs if run.arm == rule_entry["method"]]
    fine = tuple(run for run in plan.runs if run is not torn)
    broken = dataclasses.replace(torn, spec=RunSpec(method="alwys", world="KeyInBox", seed=0), hash="b" * 16)
    outcome = lab.run(dataclasses.replace(plan, runs=(broken, torn, *fine)), workers=1)
    assert (outcome.finished, len(outcome.failed), outcome.exit_code) == (2, 2, 1)
    assert "did you mean 'always'" in outcome.failed["b" * 16] and "ledger.jsonl" in outcome.failed[torn.hash]
    assert "Traceback" in (plan.folder_of(torn) / "log.txt").read_text()

    files = [plan.folder_of(run) / "manifest.json" for run in fine]
    before = [file.read_bytes() for file in files]
    assert lab.run(dataclasses.replace(plan, runs=fine), workers=1).exit_code == 0
    assert [file.read_bytes() for file in files] == before
    assert [run.hash for run in lab.plan("mediator", scale="smoke").pending()] == [torn.hash]


def test_two_workers_that_need_a_model_that_does_not_ship_pretrain_it_once_and_keep_the_names_of_runs(laboratory):
    entry = {"method": "zero-shot", "worlds": ["BabyAI-GoToObj-v0", "BabyAI-GoToLocal-v0"]}
    entry |= {"settings": {"model": "smoke-t5-s3", "layouts": "0-1"}, "estimate": {"seconds": 1, "megabytes": 0.1}}
    laboratory.write_config([entry], paper="glam", notebooks=[])

    def planned() -> lab.Plan:
        return lab.plan("glam", scale="smoke", results=laboratory.root / "elsewhere")

    plan, home = planned(), laboratory.root / "elsewhere" / ".models" / "smoke-t5-s3"
    assert "the first run of each pretrains it: smoke-t5-s3" in str(plan)
    assert lab.run(plan, workers=2).finished == 2
    assert [run.hash for run in planned().runs] == [run.hash for run in plan.runs]
    logs = [(plan.folder_of(run) / "log.txt").read_text() for run in plan.runs]
    assert sorted(text.count(f"pretraining smoke-t5-s3 into {home}") for text in logs) == [0, 1]
    assert read_json(home / "recipe.json")["recipe"]["seed"] == 3 and not (home / "training").exists()


def test_a_run_in_bfloat16_has_a_worker_of_its_own(laboratory, rule_entry, monkeypatch):
    laboratory.write_config([{**rule_entry, "worlds": ["SimpleDoorKey", "KeyInBox"]}])
    worker, begun = executor.Worker, []
    monkeypatch.setattr(executor, "Worker", lambda *given: begun.append(given) or worker(*given))
    plan = lab.plan("mediator", scale="smoke")
    coarse = {**plan.runs[0].spec.settings, "chat": {"dtype": "bfloat16", "device": "cpu"}}  # which it does not take
    first = dataclasses.replace(plan.runs[0], spec=plan.runs[0].spec.model_copy(update={"settings": coarse}))
    assert lab.run(dataclasses.replace(plan, runs=(first, *plan.runs[1:])), workers=1).finished == 1
    assert sorted(begun, key=str) == [(None, dict(numerics.NATIVE)), (None, {})]


def _interrupt_a_worker(plan, laboratory, step: int, number: int) -> None:
    """The local executor: its worker is killed at that step, which fails this run only, or it is told to stop."""

    def interrupt() -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        os.kill(os.getpid() if number == signal.SIGTERM else int(children[0]), number)

    laboratory.once(lambda: laboratory.steps(plan) >= step, interrupt)
    outcome = lab.run(plan, workers=1)
    assert (outcome.finished, outcome.exit_code) == (1, 75 if number == signal.SIGTERM else 1)
    died = "failed: worker died (signal 9); run the same command again"
    assert all(died in error for error in outcome.failed.values()) and bool(outcome.failed) == (number == 9)


INTERRUPTED = {"iterations": 60, "trajectories": 1, "epochs": 1, "layouts": "0-4"}


# Slurm's side of this is in test_slurm.py, that of a run by itself in tests/contract/test_every_method.py.
def test_two_kills_and_a_stop_leave_the_bytes_of_a_run_that_nothing_interrupted(
    laboratory, training_entry, rule_entry, tmp_path
):
    laboratory.write_config([{**training_entry, "seeds": 1, "settings": INTERRUPTED}, rule_entry])
    plan = lab.plan("mediator", scale="smoke")
    for step, number in ((5, signal.SIGKILL), (20, signal.SIGKILL), (35, signal.SIGTERM)):
        _interrupt_a_worker(plan, laboratory, step, number)
    folder = plan.folder_of(plan.runs[0])
    manifest = lab.execute_run(plan.runs[0].spec, folder)
    assert [each["status"] for each in manifest["history"]] == ["unfinished"] * 3 + ["finished"]
    seconds = sum(each["wall_seconds"] for each in manifest["history"])
    assert manifest["wall_seconds"] == pytest.approx(seconds, abs=0.04) and manifest["peak_memory_mib"] > 50
    assert laboratory.steps(plan) <= 72, "at most 10 % of 60 steps are done twice for each of two kills"
    lab.execute_run(plan.runs[0].spec, tmp_path / "undisturbed")
    for name in ("metrics.jsonl", "evaluation.json"):
        assert (folder / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


def test_what_libraries_print_goes_to_the_log_of_the_run(laboratory, tmp_path, capfd):
    from groundlab.lab.progress import output_to

    with output_to(tmp_path / "log.txt"):
        print("from Python")
        os.write(1, b"from below\n")
        os.system("echo from a child >&2")
    assert (tmp_path / "log.txt").read_text().split("\n")[:3] == ["from Python", "from below", "from a child"]
    assert capfd.readouterr() == ("", "")
