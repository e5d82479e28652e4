"""Kill -9 while something is written and the same command again: the same bytes, and little work done twice.

What is killed is a real process; this one goes on. Kills between two steps are those of test_executor.py, and of every
method in tests/contract.
"""

import json
import signal
import time

import pytest

from groundlab import lab
from groundlab.core.errors import GroundlabError
from groundlab.lab import run_folder

COMPARED = ("metrics.jsonl", "evaluation.json")
SLOWEST_START = 300.0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The records of the same run without any interruption, made once."""
    return {"folder": tmp_path_factory.mktemp("uninterrupted") / "run"}


@pytest.fixture
def expected(uninterrupted, laboratory, training_spec):
    """File name -> bytes of the uninterrupted run."""
    if "files" not in uninterrupted:
        folder = uninterrupted["folder"]
        lab.execute_run(training_spec, folder)
        uninterrupted["files"] = {name: (folder / name).read_bytes() for name in COMPARED}
    return uninterrupted["files"]


def _wait_for(moment, process):
    """Poll as fast as possible until `moment()` or the end of the process."""
    deadline = time.monotonic() + SLOWEST_START
    while not moment() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.0002)


def _steps(folder) -> int:
    file = folder / "timing.jsonl"
    return sum(b'"seconds"' in line for line in file.read_bytes().split(b"\n")) if file.is_file() else 0


def _at_step(number):
    return lambda folder: lambda: _steps(folder) >= number


def _writing_a_checkpoint(number):
    def moment(folder):
        partial = folder / "checkpoint" / "partial"
        return lambda: _steps(folder) >= number and partial.exists() and any(partial.iterdir())

    return moment


def _evaluating(folder):
    return lambda: (folder / "checkpoint" / "40" / "checkpoint.json").is_file()


MOMENTS = {"while a checkpoint is written": _writing_a_checkpoint(11), "during the evaluation": _evaluating}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_killed_and_started_again_ends_with_the_same_bytes(moment, laboratory, training_spec, expected, tmp_path):
    folder = tmp_path / "run"
    process = laboratory.start_run(training_spec, folder)
    _wait_for(MOMENTS[moment](folder), process)
    process.kill()
    assert laboratory.finish(process)[0] == -signal.SIGKILL
    assert run_folder.status_of(folder) == "unfinished"
    lab.execute_run(training_spec, folder)
    assert {name: (folder / name).read_bytes() for name in COMPARED} == expected
    assert "resumed at iteration" in (folder / "log.txt").read_text()
    assert _steps(folder) <= 44, "at most 10 % of 40 steps are done twice"


def test_sigterm_saves_says_75_and_the_same_command_continues(laboratory, training_spec, expected, tmp_path):
    folder = tmp_path / "run"
    process = laboratory.start_run(training_spec, folder)
    _wait_for(_at_step(5)(folder), process)
    process.send_signal(signal.SIGTERM)
    code, _, error = laboratory.finish(process)
    assert code == 75
    assert "the same command continues" in error
    stopped_at = _steps(folder)
    lab.execute_run(training_spec, folder)
    assert {name: (folder / name).read_bytes() for name in COMPARED} == expected
    assert f"resumed at iteration {stopped_at}" in (folder / "log.txt").read_text()
    assert _steps(folder) == 40, "a polite stop repeats nothing"
    _check_the_books(json.loads((folder / "manifest.json").read_text()))


def _check_the_books(manifest):
    """Times are summed over resumptions, each of which is kept."""
    assert [session["status"] for session in manifest["history"]] == ["unfinished", "finished"]
    assert manifest["wall_seconds"] == pytest.approx(
        sum(each["wall_seconds"] for each in manifest["history"]), abs=0.02
    )
    assert manifest["peak_memory_mib"] > 50
    assert {"git", "python", "platform", "packages", "hardware", "inputs", "hash", "seed"} <= manifest.keys()


def test_a_finished_run_is_not_repeated(laboratory, training_spec, expected, uninterrupted):
    folder = uninterrupted["folder"]
    before = (folder / "manifest.json").read_bytes(), _steps(folder)
    lab.execute_run(training_spec, folder)
    assert ((folder / "manifest.json").read_bytes(), _steps(folder)) == before


def test_a_corrupt_checkpoint_fails_the_run_with_a_line_that_names_it(laboratory, training_spec, tmp_path):
    folder = tmp_path / "run"
    process = laboratory.start_run(training_spec, folder)
    _wait_for(_at_step(5)(folder), process)
    process.terminate()
    laboratory.finish(process)
    newest = max((folder / "checkpoint").iterdir())
    next(newest.glob("network*")).write_bytes(b"x")
    with pytest.raises(GroundlabError) as error:
        lab.execute_run(training_spec, folder)
    assert str(newest) in str(error.value) and "\n" not in str(error.value)
    assert run_folder.status_of(folder) == "failed"
