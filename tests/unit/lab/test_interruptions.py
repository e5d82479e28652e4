"""Stops in the last update and in the evaluation, and two processes on one folder."""

import os
import shutil
import signal
import time

import pytest

from groundlab.core import manifests
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.lab import comparison, machine, run_folder

STEPS = 8
STOPS = (signal.SIGTERM, signal.SIGINT)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def _minutes_of_evaluation(number: int) -> None:
    send(number)
    time.sleep(30)
    raise AssertionError("the evaluation went on")


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("moment", [STEPS, "evaluation"])
def test_a_stop_in_the_last_update_or_in_the_evaluation_ends_the_run_at_once_and_it_continues(
    number, moment, laboratory, finished, records, tmp_path
):
    act = {STEPS: lambda: send(number), "evaluation": lambda: _minutes_of_evaluation(number)}
    before = signal.getsignal(number)
    with pytest.raises(Unfinished, match="stopped before its evaluation was done; the same command continues it"):
        laboratory.run(tmp_path / "run", {moment: act[moment]})
    assert signal.getsignal(number) is before
    assert run_folder.status_of(tmp_path / "run") == "unfinished"
    assert not (tmp_path / "run" / "evaluation.json").exists()
    laboratory.run(tmp_path / "run", dict.fromkeys(range(1, STEPS + 1), lambda: pytest.fail("trained again")))
    assert records(tmp_path / "run") == records(finished)


def test_a_library_that_a_stop_cuts_short_makes_no_failed_run(laboratory, tmp_path):
    """numba raised an error of its own when a task was requeued while it compiled."""

    def compile_in_vain() -> None:
        try:
            _minutes_of_evaluation(signal.SIGTERM)
        except Unfinished:
            raise RuntimeError("no compiled object yet for <Library 'step_envs_parallel'>") from None

    with pytest.raises(Unfinished):
        laboratory.run(tmp_path / "run", {"evaluation": compile_in_vain})
    assert run_folder.status_of(tmp_path / "run") == "unfinished"


def test_two_processes_on_one_folder_give_one_run(laboratory, finished, records, in_children, tmp_path):
    folder, slow = tmp_path / "run", dict.fromkeys(range(1, STEPS + 1), lambda: time.sleep(0.05))
    assert in_children(lambda: laboratory.run(folder, slow), count=2) == [0, 0]
    assert records(folder) == records(finished)
    history = run_folder.read_manifest(folder)["history"]  # type: ignore[index]
    assert [session["status"] for session in history] == ["finished"], "the second found it done"


def test_a_continued_run_keeps_the_origin_of_each_session_and_the_first_rules(
    laboratory, stopped, tmp_path, monkeypatch
):
    """It was continued on another commit and CPU after the claims had changed."""
    folder, first = shutil.copytree(stopped, tmp_path / "run"), run_folder.read_manifest(stopped)
    here = machine.facts()
    other = {**here, "git": {"commit": "b" * 40, "dirty": None}, "hardware": {**here["hardware"], "cpu": "another"}}
    monkeypatch.setattr(machine, "facts", lambda: {**other, "packages": {"torch": "0"}})
    monkeypatch.setattr(run_folder, "rounding", lambda: "0" * 16)
    monkeypatch.setattr(run_folder, "rules", lambda: {"claims": {}, "commit": "c" * 40})
    manifest = laboratory.run(folder)
    session, last = manifest["history"]
    assert manifest["rules"] == first["rules"] and session["git"] == here["git"]
    assert {"torch", "transformers", "tokenizers", "peft", "numpy", "numba"} <= session["packages"].keys()
    assert [each["rounding"] for each in (session, last, manifest)] == [first["rounding"], "0" * 16, "0" * 16]
    assert last["sources"] == session["sources"] and last["packages"] == {"torch": "0"}
    assert manifests.values_of(manifest, "hardware", "cpu", "?") == f"{here['hardware']['cpu']} and another"
    assert len(comparison.roundings_of(manifest)) == 2 and not manifests.is_clean(manifest)
    old = {**first, "history": [{"started": "", "status": "finished"}], "git": {"commit": "a", "dirty": False}}
    assert manifests.values_of(old, "git", "commit", "?") == "a" and manifests.is_clean(old)


def test_a_folder_that_stays_in_use_is_refused_in_one_line(laboratory, finished, monkeypatch):
    monkeypatch.setattr(run_folder, "_LOCK_SECONDS", 0.2)
    with run_folder.hold(finished), pytest.raises(GroundlabError, match="in use by another process; wait for it"):
        laboratory.run(finished)
