"""The laboratory's words with Slurm: what a task does, submit an array, ask for states, say why a task ended.

States come from `squeue`, which also lists jobs that ended in the last minutes and needs no accounting database.

A task is one run of a plan, stopped in time to be continued; submitit unpickles it inside the job. SIGUSR2 (sent by
Slurm `save_seconds` before the time limit) and SIGTERM (preemption, `scontrol requeue`, `scancel`) both save a
checkpoint at the next step. After the first the task leaves with exit code 75, and its batch script puts it back into
the queue; after the second whoever sent it decides.
"""

import getpass
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError, Unfinished
from groundlab.core.run import Progress, RunSpec
from groundlab.lab import run_store
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.lab.worker import execute_run

FORGOTTEN = "FORGOTTEN"  # our word for a job that Slurm does not list any more
GOOD_ENDS = ("COMPLETED", FORGOTTEN)  # the result may be there, only not visible on this machine yet
TAKEN_AWAY = ("CANCELLED", "PREEMPTED")  # by a person or a more important job: nothing failed
_BAD_ENDS = ("FAILED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED")
_ADVICE = {
    "TIMEOUT": " (no step ended in time; raise `minutes`, or `save_seconds` above the length of a step)",
    "OUT_OF_MEMORY": " (raise `memory_gb`)",
    "COMPLETED": " (but its folder shows no result here; is the results folder on a disk that all nodes share?)",
}
_JOB_FILE, _LOG = "slurm.json", "slurm.log"


def sbatch(home: Path, tasks: list["Task"], python: str, parameters: dict[str, Any]) -> list[Any]:
    """Submit one array (a plain job for one task) and return submitit's jobs, in the order of the tasks.

    Raises GroundlabError when submitit or Slurm is missing, or Slurm refuses, in Slurm's words.
    """
    try:
        from submitit import SlurmExecutor  # an extra: laptops do without
        from submitit.core.utils import FailedJobError
    except ImportError:
        raise GroundlabError("submitit is not installed; run pip install -e '.[slurm]'") from None
    try:
        submitter = SlurmExecutor(home, python=python)
        submitter.update_parameters(**parameters)
        return submitter.submit_array(tasks)
    except FailedJobError as error:
        raise GroundlabError(f"Slurm refused the jobs: {_refusal(str(error))}; correct the settings file") from None
    except RuntimeError:  # submitit's word for no srun
        raise GroundlabError("srun was not found; run this on a login node of a Slurm cluster") from None


def _refusal(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "sbatch: error:" in line]
    return "; ".join(line.partition("sbatch: error:")[2].strip() for line in lines) or text.strip().splitlines()[-1]


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


def has_ended(state: str) -> bool:
    """Whether a job in that state will never run again by itself."""
    return state in (*GOOD_ENDS, *TAKEN_AWAY, *_BAD_ENDS)


def note_job(folder: Path, job: str, log: Path) -> None:
    """Write into a run's folder which job has it, and link that job's log beside the run's own."""
    storage.make_folder(folder)
    (folder / ".lock").touch()  # marks the folder as a run's, before the run itself does
    storage.write_json(folder / _JOB_FILE, {"job": job})
    (folder / _LOG).unlink(missing_ok=True)
    (folder / _LOG).symlink_to(Path("..") / log.parent.name / log.name)


def job_of(folder: Path) -> str | None:
    """The job that has a run, as noted in its folder."""
    file = folder / _JOB_FILE
    return storage.read_json(file)["job"] if file.is_file() else None


def close(plan: Plan, run: PlannedRun, state: str) -> str:
    """Book the end of a run's job and return the error line; empty when it finished or only was taken away.

    A job that Slurm has forgotten is taken for a failed one only if the run itself wrote down an error.
    """
    folder = plan.folder_of(run)
    status, error = run_store.status_of(folder), _own_error(folder)
    job = job_of(folder)
    with suppress(FileNotFoundError):
        (folder / _JOB_FILE).unlink()
    if status == "finished" or state in TAKEN_AWAY or (state == FORGOTTEN and not error):
        return ""
    line = error or f"{run.label} failed: job {job} ended as {state}{_ADVICE.get(state, '')}{_last_words(folder)}"
    run_store.mark_failed(folder, line)
    return line


def _own_error(folder: Path) -> str | None:
    """What the run itself wrote down since its job was submitted."""
    manifest, job = run_store.read_manifest(folder), folder / _JOB_FILE
    if not manifest or manifest["status"] != "failed" or not job.is_file():
        return None
    fresh = (folder / "manifest.json").stat().st_mtime >= job.stat().st_mtime
    return manifest["error"] if fresh else None


def _last_words(folder: Path) -> str:
    """The last line of a job's log that says something, and where the log is."""
    log = folder / _LOG
    if not log.exists():
        return f"; it left no log in {folder}"
    with log.open(errors="replace") as file:
        last = deque((line.strip() for line in file if _says_something(line)), maxlen=1)
    return f": {' '.join(last)} (log: {log})"


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(("srun:", "slurmstepd: error: ***"))


PROGRESS_FILE = "progress.json"  # in the run's folder: what the view of the waiting command shows
_PROGRESS_SECONDS = 5.0
_TERMINATED_EXIT_CODE = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Task:
    """A run as a job array's task: the spec as plain data, the run's folder, and the hash that the plan gave it."""

    spec: dict[str, Any]
    folder: str
    run_hash: str

    def __call__(self) -> None:
        """Run to the end, or to the next step after a signal; a failed run fails the task."""
        stop, time_limit = threading.Event(), threading.Event()
        _on_signals(stop, time_limit)
        folder = Path(self.folder)
        try:
            execute_run(
                RunSpec(**self.spec),
                folder,
                expected_hash=self.run_hash,
                report=_ProgressFile(folder / PROGRESS_FILE),
                stop=stop.is_set,
            )
        except Unfinished as end:
            print(end, flush=True)
            sys.exit(UNFINISHED_EXIT_CODE if time_limit.is_set() else _TERMINATED_EXIT_CODE)


def _on_signals(stop: threading.Event, time_limit: threading.Event) -> None:
    """Replace submitit's handlers, which requeue at once and so lose the steps since the last checkpoint.

    Each signal may come twice (from srun and from the node), so a second one must do no harm.
    """
    signal.signal(signal.SIGUSR2, lambda number, frame: (time_limit.set(), stop.set()))
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())


class _ProgressFile:
    """Writes how far the run is, now and then."""

    def __init__(self, file: Path):
        self._file, self._written_at = file, 0.0

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._written_at > _PROGRESS_SECONDS:
            self._written_at = time.monotonic()
            storage.write_json(self._file, vars(progress))
