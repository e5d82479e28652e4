"""Stops in the last update and in the evaluation, kills while a seal is written, two processes on one folder."""

import os
import signal
import time
from pathlib import Path

import pytest

from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.lab import run_folder, worker

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


def test_a_worker_and_a_task_of_slurm_keep_their_own_handlers():
    """A handler that only notes the stop is called, and the work is left; a second signal then does no harm."""
    noted = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: noted.append(number))
    try:
        with pytest.raises(Unfinished), worker._raised_by_signals(Unfinished("stopped"), enabled=True):
            send(signal.SIGUSR2)
        send(signal.SIGUSR2)
        with worker._raised_by_signals(Unfinished("stopped"), enabled=False):
            send(signal.SIGUSR2)
        assert noted == [signal.SIGUSR2] * 3
    finally:
        signal.signal(signal.SIGUSR2, before)


def _killed_at(text: str, after: bool):
    """What makes a process kill itself when it renames a whole file that holds this text into its place."""
    rename = Path.replace

    def replace(self: Path, target: Path) -> Path:
        due = text.encode() in self.read_bytes()
        if due and not after:
            send(signal.SIGKILL)
        renamed = rename(self, target)
        if due:
            send(signal.SIGKILL)
        return renamed

    return replace


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("text", ['"metrics_sha256"', '"records"'])
def test_a_run_killed_while_it_is_sealed_continues_to_equal_bytes(
    text, after, laboratory, finished, records, in_children, tmp_path, monkeypatch
):
    """Killed around the rename of a checkpoint's index, and of the seals."""
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", _killed_at(text, after))
        assert in_children(lambda: laboratory.run(folder)) == [signal.SIGKILL]
    sealed = text == '"records"' and after
    assert (run_folder.status_of(folder) == "finished") == sealed
    laboratory.run(folder)
    assert records(folder) == records(finished) and run_folder.status_of(folder) == "finished"


def test_two_processes_on_one_folder_give_one_run(laboratory, finished, records, in_children, tmp_path):
    folder, slow = tmp_path / "run", dict.fromkeys(range(1, STEPS + 1), lambda: time.sleep(0.05))
    assert in_children(lambda: laboratory.run(folder, slow), count=2) == [0, 0]
    assert records(folder) == records(finished)
    history = run_folder.read_manifest(folder)["history"]  # type: ignore[index]
    assert [session["status"] for session in history] == ["finished"], "the second found it done"


def test_a_folder_that_stays_in_use_is_refused_in_one_line(laboratory, finished, monkeypatch):
    monkeypatch.setattr(run_folder, "_LOCK_SECONDS", 0.2)
    with run_folder.hold(finished), pytest.raises(GroundlabError, match="in use by another process; wait for it"):
        laboratory.run(finished)
