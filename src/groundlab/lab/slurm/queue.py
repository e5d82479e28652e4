"""The conversation with Slurm: submit an array, ask for states, explain why a task ended.

States come from `squeue`, which also lists jobs that ended in the last minutes and needs no accounting database. It is
asked at most once a minute, since it costs the controller of a whole site (`Poll`).
"""

import getpass
import shlex
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import run_folder
from groundlab.lab.plan import Plan, PlannedRun

FORGOTTEN = "FORGOTTEN"  # our word for a job that Slurm does not list any more
GOOD_ENDS = ("COMPLETED", FORGOTTEN)  # the result may be there, only not visible on this machine yet
TAKEN_AWAY = ("CANCELLED", "PREEMPTED")  # by a person or a more important job: nothing failed
BAD_ENDS = ("FAILED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED")
"""What a job has left to do after these may be submitted again without asking a person."""
_ADVICE = {
    "TIMEOUT": " (no step ended in time; raise `minutes`, or `save_seconds` above the length of a step)",
    "OUT_OF_MEMORY": " (raise `memory_gb`)",
    "COMPLETED": " (but its folder shows no result here; is the results folder on a disk that all nodes share?)",
}
_SUBMIT_LIMITS = ("Submit", "MaxArray")  # in Slurm's words for too many jobs: QOSMaxSubmitJobPerUserLimit, ...
JOB_FILE, _LOG = "slurm.json", "slurm.log"
_POLL_SECONDS = 60.0  # between two questions to the controller
_SLOWEST_POLL_SECONDS = 240.0  # where nothing changes; it forgets ended jobs after 300 (MinJobAge)


def sbatch(home: Path, tasks: Sequence[Any], python: str, parameters: dict[str, Any]) -> list[Any]:
    """Submit one array (a plain job for one task) and return submitit's jobs, in the order of the tasks.

    Raises GroundlabError when submitit or Slurm is missing, or Slurm refuses, in Slurm's words.
    """
    _check_submitit()
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError

    try:
        submitter = SlurmExecutor(home, python=python)
        submitter.update_parameters(**parameters)
        return submitter.submit_array(tasks)
    except FailedJobError as error:
        lines = [line.partition("sbatch: error:")[2].strip() for line in str(error).splitlines()]
        why = "; ".join(filter(None, lines)) or str(error).strip().splitlines()[-1]
        fix = "lower `submit_at_most` in" if any(word in why for word in _SUBMIT_LIMITS) else "correct"
        raise GroundlabError(f"Slurm refused the jobs: {why}; {fix} the settings file") from None
    except RuntimeError:  # submitit's word for no srun
        raise GroundlabError("srun was not found; run this on a login node of a Slurm cluster") from None


def script(home: Path, tasks: int, python: str, parameters: dict[str, Any]) -> str:
    """The batch script that `sbatch` would send, without asking Slurm. Raises GroundlabError without submitit."""
    _check_submitit()
    from submitit.slurm.slurm import _make_sbatch_string  # its own class refuses to be made where there is no srun

    command = shlex.join([*shlex.split(python), "-u", "-m", "submitit.core._submit", str(home)])
    return _make_sbatch_string(command, home, map_count=tasks if tasks > 1 else None, **parameters)


def _check_submitit() -> None:
    if not find_spec("submitit"):  # an extra: laptops do without
        raise GroundlabError("submitit is not installed; run pip install -e '.[slurm]'")


def submitted(home: Path, job: str) -> Any:
    """A job that was submitted before, as submitit's, which knows where its log and its result are."""
    from submitit import SlurmJob

    return SlurmJob(home, job)


def states() -> dict[str, str]:
    """The state of every job of ours that Slurm still lists: `{"12_0": "RUNNING", ...}`.

    Raises GroundlabError when there is no Slurm or its controller does not answer.
    """
    command = ["squeue", f"--user={getpass.getuser()}", "--states=all", "--array", "--noheader", "--format=%i|%T"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except FileNotFoundError:
        raise GroundlabError("squeue was not found; run this on a login node of a Slurm cluster") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        why = (error.stderr or "no answer within a minute").strip()
        raise GroundlabError(f"squeue does not answer ({why}); try again when Slurm is back") from None
    pairs = (line.strip().partition("|") for line in answer.stdout.splitlines())
    return {job: state for job, _, state in pairs}


class Poll:
    """Slurm's answer, at most once a minute, and less and less often while it stays the same."""

    def __init__(self, last: dict[str, str] | None = None):
        """last: what was answered a moment ago."""
        self._last, self._pause = last, _POLL_SECONDS
        self._due = time.monotonic() + (_POLL_SECONDS if last is not None else 0.0)

    def states(self) -> dict[str, str] | None:
        """`states()`, or None where it is not time yet or the controller does not answer."""
        if time.monotonic() < self._due:
            return None
        answer = None
        with suppress(GroundlabError):  # a busy controller answers the next time
            answer = states()
        same = answer is None or answer == self._last
        self._pause = min(1.5 * self._pause, _SLOWEST_POLL_SECONDS) if same else _POLL_SECONDS
        self._due, self._last = time.monotonic() + self._pause, answer or self._last
        return answer


def has_ended(state: str) -> bool:
    """Whether a job in that state will never run again by itself."""
    return state in (*GOOD_ENDS, *TAKEN_AWAY, *BAD_ENDS)


def note_job(folder: Path, job: str, log: Path, place: int = 0) -> None:
    """Write into a run's folder which job has it, and link that job's log beside the run's own.

    place: how many runs of the same task come before it.
    """
    storage.make_folder(folder)
    (folder / ".lock").touch()  # marks the folder as a run's, before the run itself does
    storage.write_json(folder / JOB_FILE, {"job": job, "place": place})
    (folder / _LOG).unlink(missing_ok=True)
    (folder / _LOG).symlink_to(Path("..") / log.parent.name / log.name)


def job_of(folder: Path) -> str | None:
    """The job that has a run, as noted in its folder."""
    file = folder / JOB_FILE
    return storage.read_json(file)["job"] if file.is_file() else None


def has_begun(folder: Path) -> bool:
    """Whether a run has written its manifest since its job was submitted."""
    with suppress(FileNotFoundError):
        return (folder / "manifest.json").stat().st_mtime >= (folder / JOB_FILE).stat().st_mtime
    return False


def close(plan: Plan, run: PlannedRun, state: str) -> str:
    """Book the end of a run's job and return the error line; empty when it finished or is only left to do.

    Left to do are three kinds of runs: the job was taken away, the run had saved before its time limit, or it never
    began because its task died over an earlier run. A job that Slurm has forgotten counts as failed only if the run
    itself wrote down an error.
    """
    folder = plan.folder_of(run)
    status, error, begun = run_folder.status_of(folder), own_error(folder), has_begun(folder)
    file = folder / JOB_FILE
    note: dict[str, Any] = storage.read_json(file) if file.is_file() else {"job": None}
    file.unlink(missing_ok=True)
    if status == "finished" or state in TAKEN_AWAY or (state == FORGOTTEN and not error):
        return ""
    if not error and state in BAD_ENDS and (note.get("saved") or (note.get("place") and not begun)):
        return ""
    line = (
        error or f"{run.label} failed: job {note['job']} ended as {state}{_ADVICE.get(state, '')}{last_words(folder)}"
    )
    run_folder.mark_failed(folder, line)
    return line


def own_error(folder: Path) -> str | None:
    """What the run itself wrote down since its job was submitted."""
    manifest = run_folder.read_manifest(folder)
    return manifest["error"] if manifest and manifest["status"] == "failed" and has_begun(folder) else None


def last_words(folder: Path) -> str:
    """The last line of a job's log that says something, else srun's own last error, and where the log is."""
    log = folder / _LOG
    if not log.exists():
        return f"; it left no log in {folder}"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    own = [line for line in lines if not is_noise(line)]
    said = own or [line for line in lines if line.startswith("srun: error:")] or ["no word of why"]
    return f": {said[-1]} (log: {log})"


def is_noise(line: str) -> bool:
    """Whether a line of a job's log is none of our program's: empty, or a word of submitit or srun about itself."""
    return not line.strip() or line.startswith(("srun:", "slurmstepd: error: ***", "submitit "))
