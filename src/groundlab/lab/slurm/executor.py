"""The Slurm executor: the pending runs of a plan become tasks of job arrays, submitted through submitit.

    groundlab reproduce --executor slurm --slurm my-cluster.yaml --no-wait   # returns; the same command collects later
    groundlab reproduce --executor slurm --slurm my-cluster.yaml             # waits

`.runs/.slurm/jobs.json` holds the job of each run, Slurm knows whether that job lives, and the run's folder how the run
ended. Shortly before its time limit a task saves, and its batch script puts it back into the queue; after a preemption,
a requeue or a lost node Slurm itself does that. Tables, figures and pages are a job too.
"""

import getpass
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError
from groundlab.lab import run_folder
from groundlab.lab.machine import ONE_THREAD
from groundlab.lab.plan import Outcome, Plan, PlannedRun, outcome_of
from groundlab.lab.progress import say
from groundlab.lab.slurm.settings import SlurmSettings, arrays
from groundlab.lab.slurm.task import call, execute
from groundlab.lab.stops import stop_on_signals

_ARRAY_SIZE = 1000  # Slurm's MaxArraySize is 1001 unless a site says otherwise
_POLL_SECONDS = 60.0  # between two questions to the controller of a whole site
_AGAIN = ("CANCELLED", "PREEMPTED", "UNKNOWN")  # taken away by a person or a more important job, or forgotten
_ENDED = (*_AGAIN, "COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REVOKED")
_ADVICE = {
    "TIMEOUT": " (no step ended in time; raise `minutes`, or `save_seconds` above the length of a step)",
    "OUT_OF_MEMORY": " (raise `memory_gb`)",
    "COMPLETED": " (but it shows no result here; is the results folder on a disk that all nodes share?)",
}
_REQUEUE = [
    "status=$?",
    f'if [ "$status" -eq {UNFINISHED_EXIT_CODE} ]; then  # saved before the time limit: back into the queue',
    '  scontrol requeue "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"',
    "fi",
    'exit "$status"',
]


def run(plan: Plan, settings: SlurmSettings, wait: bool = True) -> Outcome:
    """Submit what is pending and not yet queued, then wait for it, or return at once.

    Idempotent, like the local executor's `run`: queued and running tasks are found again, cancelled and lost ones
    are submitted again; what failed since the last call is reported, and submitted again by the call after that.
    Ctrl-C leaves the tasks alone. Raises GroundlabError when Slurm or the partition is not there.
    """
    jobs = _Jobs(plan, settings)
    with stop_on_signals() as stopping:
        if jobs.left:
            jobs.update()
        while wait and jobs.left and not stopping():
            _pause(stopping)
            try:
                jobs.update()
            except GroundlabError as error:  # a busy controller, or one that takes no more, answers another time
                if not jobs.alive:
                    raise
                say(str(error))
    if jobs.left:
        say(f"{len(jobs.left)} runs are left, {len(jobs.alive)} of them in the queue; the same command collects them")
    return outcome_of(plan, jobs.failed, jobs.left)


def _pause(is_over: Callable[[], bool]) -> None:
    until = time.monotonic() + _POLL_SECONDS
    while time.monotonic() < until and not is_over():
        time.sleep(0.1)


class _Jobs:
    """The pending runs of a plan by hash: all that are left, those whose job lives, and those that failed just now."""

    def __init__(self, plan: Plan, settings: SlurmSettings):
        self._plan, self._settings, self._home = plan, settings, run_folder.path_of(plan.results, ".slurm")
        self.left = {each.hash: each for each in plan.pending()}
        self.alive: set[str] = set()
        self.failed: dict[str, str] = {}

    def update(self) -> None:
        """Book the runs that have ended, and submit as many of those without a job as a site allows."""
        with _noted(self._home) as jobs:
            states = _states(self._home, [jobs[key] for key in self.left if key in jobs])
            for key, each in list(self.left.items()):
                folder, state = self._plan.folder_of(each), states[jobs[key]] if key in jobs else ""
                if run_folder.status_of(folder) == "finished":
                    self._end(each, jobs)
                elif state and run_folder.status_of(folder) == "failed":
                    self._end(each, jobs, (run_folder.read_manifest(folder) or {})["error"])
                elif state and state not in _ENDED:
                    self.alive.add(key)
                elif key in self.alive:
                    self.alive.remove(key)  # until the next look: a network disk shows late what a task wrote
                elif state in _AGAIN:
                    del jobs[key]
                elif state:
                    line = f"{each.label} failed: job {jobs[key]} {_obituary(_job(self._home, jobs[key]), state)}"
                    run_folder.mark(folder, "failed", line)
                    self._end(each, jobs, line)
            waiting = [each for key, each in self.left.items() if key not in jobs]
            if waiting and self._settings.image is None:
                from groundlab.lab.executor import compile_worlds  # the laboratory: it loads torch

                compile_worlds()
            room = self._settings.submit_at_most - sum(state not in _ENDED for state in states.values())
            for asks, tasks in arrays(waiting, self._settings, min(room, _ARRAY_SIZE)):
                self._submit(asks, tasks, jobs)

    def _end(self, run: PlannedRun, jobs: dict[str, str], error: str = "") -> None:
        jobs.pop(run.hash, None)
        del self.left[run.hash]
        self.alive.discard(run.hash)
        self.failed |= {run.hash: error} if error else {}
        say(error or f"finished {run.label}; {len(self.left)} runs are left")

    def _submit(self, asks: SlurmSettings, tasks: list[list[PlannedRun]], jobs: dict[str, str]) -> None:
        """Submit one array, and note which job has each run."""
        folder_of, sources, calls = self._plan.folder_of, self._plan.sources, list[Callable[[], None]]()
        for runs in tasks:
            for each in runs:  # an earlier attempt's failure must not be taken for this one's
                run_folder.mark(folder_of(each), "unfinished", None)
            words = [(each.spec.model_dump(), str(folder_of(each)), (each.hash, sources)) for each in runs]
            calls.append(partial(execute, words))
        for runs, job in zip(tasks, _sbatch(self._home, calls, asks, self._plan.results), strict=True):
            jobs |= {each.hash: job.job_id for each in runs}
            self.alive |= {each.hash for each in runs}
        say(f"submitted {sum(map(len, tasks))} runs as {len(tasks)} tasks; their logs are in {self._home}")


def make_pages(plan: Plan, settings: SlurmSettings, make: Callable[[], int], wait: bool = True) -> int:
    """Have the tables, figures and pages of a plan made by a job, and return its exit code; 75 while it goes on.

    make: what the job calls for them (task.py). What the job printed is printed. Pages that an earlier call began while
    other runs were missing are made again, and those whose job an earlier call began and somebody cancelled. Raises
    GroundlabError where the job died.
    """
    home, missing = run_folder.path_of(plan.results, ".slurm"), sorted(each.hash for each in plan.pending())
    key = f"pages-{storage.digest_json([plan.digest, missing])[:12]}"
    with _noted(home) as jobs:
        state = _page_state(home, jobs[key]) if key in jobs else "UNKNOWN"
        if state in _AGAIN:
            (job,) = _sbatch(home, [partial(call, make)], settings.for_pages(), plan.results)
            jobs[key], state = job.job_id, "PENDING"
            say(f"submitted the pages as job {jobs[key]}")
        job = _job(home, jobs[key])
    result = job.paths.result_pickle
    with stop_on_signals() as stopping:
        while state not in _ENDED and wait and not stopping():
            _pause(lambda: stopping() or result.is_file())
            with suppress(GroundlabError):  # a busy controller answers another time
                state = _page_state(home, job.job_id)
        if state == "COMPLETED":
            _pause(lambda: stopping() or result.is_file())  # a network disk shows late what a task wrote
    if state not in _ENDED:
        say(f"the pages are made by job {job.job_id}: the same command collects them")
        return UNFINISHED_EXIT_CODE
    with _noted(home) as jobs:
        del jobs[key]
    if not result.is_file():
        raise GroundlabError(f"the pages were not made: job {job.job_id} {_obituary(job, state)}; try the same again")
    print("\n".join(_own_lines(job)))
    return job.result()


def _page_state(home: Path, job: str) -> str:
    return "COMPLETED" if _job(home, job).paths.result_pickle.is_file() else _states(home, [job])[job]


def preview(plan: Plan, settings: SlurmSettings) -> str:
    """Return the tasks that `run` would submit to an empty queue, and their requests; needs no Slurm."""
    parts = list[str]()
    for asks, tasks in arrays(plan.pending(), settings, min(settings.submit_at_most, _ARRAY_SIZE)):
        runs = [run for each in tasks for run in each]
        hours = sum(run.estimate.seconds for run in runs) / 3600
        parts.append(f"{len(tasks)} tasks with {len(runs)} runs, about {hours:,.1f} hours in all; each task asks for:")
        parts += [f"    {name}: {value}" for name, value in sbatch_parameters(asks).items() if name != "teardown"]
        parts.append(f"    python: {python_command(asks, plan.results)}")
    return "\n".join([*parts, "then what is left, and a job for the pages"])


@contextmanager
def _noted(home: Path) -> Iterator[dict[str, str]]:
    """The job of each run (by hash) and of pages; changes inside are kept, and no other command makes any meanwhile."""
    with run_folder.hold(home):
        file = home / "jobs.json"
        jobs = storage.read_json(file) if file.is_file() else {}
        try:
            yield jobs
        finally:  # what was submitted before Slurm refused more is in the queue
            storage.write_json(file, jobs)


def _states(home: Path, jobs: Iterable[str]) -> dict[str, str]:
    """The states of all our jobs that Slurm still lists, and of these: `{"12_0": "RUNNING", ...}`.

    squeue answers for jobs that live or ended in the last minutes; submitit asks sacct for others, which needs an
    accounting database and says UNKNOWN where a site has none. Raises GroundlabError when squeue is missing or the
    controller does not answer.
    """
    command = ["squeue", f"--user={getpass.getuser()}", "--states=all", "--array", "--noheader", "--format=%i|%T"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except FileNotFoundError:
        raise GroundlabError("squeue was not found; run this on a login node of a Slurm cluster") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        why = (error.stderr or "no answer within a minute").strip()
        raise GroundlabError(f"squeue does not answer ({why}); try again when Slurm is back") from None
    states = dict(line.strip().split("|") for line in answer.stdout.splitlines())
    others = [_job(home, job) for job in jobs if job not in states]  # all are made before sacct is asked, once
    return states | {job.job_id: job.state.split()[0] for job in others}  # `CANCELLED by 1000`


def _job(home: Path, job: str) -> Any:
    from submitit import SlurmJob  # an extra: laptops do without

    return SlurmJob(home, job)


def _obituary(job: Any, state: str) -> str:
    """Return how a job ended, the last meaningful line of its log, and the path of the log."""
    lines = _own_lines(job) or (job.stdout() or "").splitlines() or ["no word of why"]
    last = lines[-1].removeprefix("groundlab.core.errors.GroundlabError: ")
    return f"ended as {state}{_ADVICE.get(state, '')}: {last} (log: {job.paths.stdout})"


def _own_lines(job: Any) -> list[str]:
    """The lines of a job's log, without those of submitit and Slurm about themselves."""
    lines = (job.stdout() or "").splitlines()
    return [each for each in lines if each.strip() and not each.startswith(("srun:", "slurmstepd:", "submitit "))]


def _sbatch(home: Path, tasks: list[Callable[[], Any]], asks: SlurmSettings, results: Path) -> list[Any]:
    """Submit one array (a plain job for one task) and return submitit's jobs, in the order of the tasks.

    Raises GroundlabError when Slurm is missing or refuses, in Slurm's words.
    """
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError

    try:
        submitter = SlurmExecutor(home, python=python_command(asks, results))
        submitter.update_parameters(**sbatch_parameters(asks))
        return submitter.submit_array(tasks)
    except FailedJobError as error:
        lines = [line.partition("sbatch: error:")[2].strip() for line in str(error).splitlines()]
        why = "; ".join(filter(None, lines)) or str(error).strip().splitlines()[-1]
        too_many = any(word in why for word in ("Submit", "MaxArray"))  # QOSMaxSubmitJobPerUserLimit, ...
        fix = "lower `submit_at_most` in" if too_many else "correct"
        raise GroundlabError(f"Slurm refused the jobs: {why}; {fix} the settings file") from None
    except RuntimeError:  # submitit's word for no srun
        raise GroundlabError("srun was not found; run this on a login node of a Slurm cluster") from None


def python_command(settings: SlurmSettings, results: Path) -> str:
    """The Python that a task starts with: this one, or the one of the image with the results folder bound into it."""
    if settings.image is None:
        return shlex.quote(sys.executable)
    binds = [word for path in (str(results), *settings.bind) for word in ("--bind", path)]
    gpu = ["--nv"] if settings.nv else []
    return shlex.join([settings.runtime, "exec", *gpu, *binds, str(settings.image.absolute()), "python3"])


def sbatch_parameters(settings: SlurmSettings) -> dict[str, Any]:
    """The settings as submitit's parameters; `sbatch` in the settings goes over everything."""
    given = {"partition": settings.partition, "account": settings.account, "qos": settings.qos}
    fixed = {"signal": f"USR2@{settings.save_seconds}", "requeue": True}
    memory = {"mem": f"{round(settings.memory_gb * 1024)}M"} if settings.memory_gb else {}
    setup = [f"export {name}={value}" for name, value in ONE_THREAD.items()]  # as the local executor's workers have
    setup.append("export PYTHONSAFEPATH=1")  # the folder that a job starts in must not shadow a module
    setup += ["unset PYTHONPATH"] if settings.image else []  # no Python code of the host in a container
    return {
        **{name: value for name, value in given.items() if value is not None},
        **memory,
        **({"gpus_per_node": settings.gpus} if settings.gpus else {}),
        "job_name": "groundlab",
        "time": settings.minutes,
        "cpus_per_task": settings.cpus,
        # what srun does not take over from sbatch: the cores (since 22.05), and that a requeued task continues its log
        "srun_args": [f"--cpus-per-task={settings.cpus}", "--open-mode=append"],
        "array_parallelism": settings.at_once,
        "stderr_to_stdout": True,
        "setup": [*setup, *settings.setup],
        "teardown": _REQUEUE,
        "additional_parameters": fixed | settings.sbatch,
    }
