"""The Slurm executor: the pending runs of a plan become tasks of job arrays, submitted through submitit.

    groundlab reproduce --executor slurm --slurm my-cluster.yaml --no-wait   # returns; the same command collects later
    groundlab reproduce --executor slurm --slurm my-cluster.yaml             # waits, with the view of a local run

Nothing is remembered outside the run folders: `slurm.json` in one names the job that has the run, Slurm knows whether
that job lives, and the folder how far it is. Shortly before its time limit a task saves, and its batch script puts it
back into the queue; after a preemption, a requeue or a lost node Slurm itself does that. Short runs share a task, and
no more tasks are submitted than a site allows: the others follow as those end. Tables, figures and pages are a job too.
configs/slurm.yaml explains the settings, docs/cluster.md how to use all this.
"""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError
from groundlab.core.run import Progress
from groundlab.lab import executor, run_folder
from groundlab.lab.executor import Outcome
from groundlab.lab.plan import EXECUTED_VARIABLE, Plan, PlannedRun
from groundlab.lab.progress import View, progress_view, say
from groundlab.lab.slurm import queue
from groundlab.lab.slurm.settings import SlurmSettings, pack
from groundlab.lab.slurm.task import PROGRESS_FILE, PagesTask, Task
from groundlab.lab.worker import ONE_THREAD, stop_on_signals

_ARRAY_SIZE = 1000  # Slurm's MaxArraySize is 1001 unless a site says otherwise
_LOOK_SECONDS = 5.0  # between two looks at the run folders, which cost the controller nothing
_SHARED_DISK_SECONDS = 30.0  # how long a network disk may take to show what a task on another node has written
_REQUEUE = [
    "status=$?",
    f'if [ "$status" -eq {UNFINISHED_EXIT_CODE} ]; then  # saved before the time limit: back into the queue',
    '  scontrol requeue "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"',
    "fi",
    'exit "$status"',
]


def run(plan: Plan, settings: SlurmSettings, wait: bool = True) -> Outcome:
    """Submit what is pending and not yet queued, then watch it, or return at once.

    Idempotent, like the local executor's `run`: queued and running tasks are found again, cancelled and lost ones
    are submitted again; what failed since the last call is told, and submitted again by the call after that.
    Raises GroundlabError when submitit, Slurm or the partition is not there.
    """
    pending = {each.hash: each for each in plan.pending()}
    if not pending or os.environ.get(EXECUTED_VARIABLE):
        return executor.outcome_of(plan, {})
    jobs = Jobs(plan, settings)
    queued, failed, states = jobs.find_or_submit(list(pending.values()))
    left = [each.hash for each in (*queued, *jobs.waiting)]
    if wait:
        with stop_on_signals() as asked, progress_view([*queued, *jobs.waiting]) as view:
            watch = Watch(plan, queued, jobs, view, asked.is_set)
            watch.until_all_ended(queue.Poll(states))
        left, failed = [*watch.left, *(each.hash for each in jobs.waiting)], failed | watch.failed
    elif left:
        say(f"{len(queued)} runs are queued or going on{_room_note(jobs)}; the same command collects them")
    return executor.outcome_of(plan, failed, left)


def _room_note(jobs: "Jobs") -> str:
    return f", {len(jobs.waiting)} wait for others to end (submit_at_most)" if jobs.waiting else ""


class Jobs:
    """What of a plan is with Slurm, and what waits for room there."""

    def __init__(self, plan: Plan, settings: SlurmSettings):
        self._plan, self._settings = plan, settings
        self._home = run_folder.path_of(plan.results, ".slurm")
        self.waiting: list[PlannedRun] = []

    def find_or_submit(self, pending: list[PlannedRun]) -> tuple[list[PlannedRun], dict[str, str], dict[str, str]]:
        """Submit what fits of these runs, unless their jobs still live.

        Returns the runs that Slurm now has; by hash the errors of those that failed while nobody watched; and the
        states of all jobs, as Slurm listed them.
        """
        with run_folder.hold(self._home):  # two commands at once must not submit a run twice
            states = queue.states()
            queued, failed = [], {}
            for each in pending:
                job = queue.job_of(self._plan.folder_of(each))
                state = states.get(job, queue.FORGOTTEN) if job else None
                if state and not queue.has_ended(state):
                    queued.append(each)
                elif state and (error := queue.close(self._plan, each, state)):
                    failed[each.hash] = error
                else:
                    self.waiting.append(each)
            return [*queued, *self._submit_what_fits(states)], failed, states

    def submit_more(self, states: dict[str, str]) -> list[PlannedRun]:
        """Submit waiting runs as far as there is room, and return them."""
        with run_folder.hold(self._home):
            return self._submit_what_fits(states)

    def _submit_what_fits(self, states: dict[str, str]) -> list[PlannedRun]:
        active = sum(not queue.has_ended(state) for state in states.values())
        tasks = pack(self.waiting, self._settings)[: max(0, self._settings.submit_at_most - active)]
        submitted = [run for _, runs in tasks for run in runs]
        if submitted and self._settings.image is None:
            executor.compile_worlds()
        tasks.sort(key=lambda task: task[0].model_dump_json())  # stable: of one kind still the longest first
        for _, alike in groupby(tasks, key=lambda task: task[0].model_dump_json()):
            kind = list(alike)
            for start in range(0, len(kind), _ARRAY_SIZE):
                self._submit_array(kind[0][0], [runs for _, runs in kind[start : start + _ARRAY_SIZE]])
        done = {each.hash for each in submitted}
        self.waiting = [each for each in self.waiting if each.hash not in done]
        return submitted

    def _submit_array(self, asks: SlurmSettings, packs: list[list[PlannedRun]]) -> None:
        """Submit one array, and note in each run's folder which job has it and where that job's log is."""
        folder_of = self._plan.folder_of
        tasks = [
            Task([(each.spec.model_dump(), str(folder_of(each)), each.hash, each.named) for each in runs])
            for runs in packs
        ]
        jobs = queue.sbatch(self._home, tasks, python_command(asks, self._plan.results), sbatch_parameters(asks))
        for runs, job in zip(packs, jobs, strict=True):
            for place, each in enumerate(runs):
                queue.note_job(folder_of(each), job.job_id, job.paths.stdout, place)
        name, count = jobs[0].job_id.partition("_")[0], sum(map(len, packs))
        say(f"submitted {count} runs in {len(packs)} tasks as job {name}; job files are in {self._home}")


def make_pages(plan: Plan, settings: SlurmSettings, make: Callable[[], int], wait: bool = True) -> int:
    """Have the tables, figures and pages of a plan made by a job, and return its exit code; 75 while it goes on.

    make: what the job calls for them (task.py). What the job printed is printed. Pages that an earlier call began while
    other runs were missing are made again, and those whose job an earlier call began and somebody cancelled. Raises
    GroundlabError where the job died.
    """
    home, missing = run_folder.path_of(plan.results, ".slurm"), sorted(each.hash for each in plan.pending())
    note, code = (home / f"pages-{plan.digest[:12]}{end}" for end in (".json", ".code"))
    with run_folder.hold(home):
        is_ours = not note.is_file()
        if is_ours:
            code.unlink(missing_ok=True)
            asks, task = settings.for_pages(), PagesTask(make, str(code))
            (job,) = queue.sbatch(home, [task], python_command(asks, plan.results), sbatch_parameters(asks))
            storage.write_json(note, {"job": job.job_id, "log": str(job.paths.stdout), "missing": missing})
            say(f"submitted the pages as job {job.job_id}")
            poll = queue.Poll({job.job_id: "PENDING"})
        else:  # where runs were missing, this call has asked Slurm a moment ago
            poll = queue.Poll({} if missing and wait else None)
    noted = storage.read_json(note)
    job, log = noted["job"], noted["log"]
    state = _wait_for_pages(poll, job, code, wait)
    if not code.is_file() and (not queue.has_ended(state) or (state == "COMPLETED" and not wait)):
        say(f"the pages are made by job {job}: the same command collects them")
        return UNFINISHED_EXIT_CODE
    note.unlink()
    if noted["missing"] != missing:
        say(f"runs have finished since job {job} began the pages: they are made again")
        return make_pages(plan, settings, make, wait)
    if not code.is_file() and not is_ours and state in (*queue.TAKEN_AWAY, queue.FORGOTTEN):
        say(f"job {job} was to make the pages and is gone: they are made again")
        return make_pages(plan, settings, make, wait)
    said = Path(log).read_text(errors="replace") if Path(log).is_file() else ""
    if not code.is_file():
        raise GroundlabError(f"the pages were not made: job {job} ended as {state} (log: {log}); try the same again")
    print("".join(line for line in said.splitlines(keepends=True) if not queue.is_noise(line)), end="")
    return storage.read_json(code)["code"]


def _wait_for_pages(poll: queue.Poll, job: str, code: Path, wait: bool) -> str:
    """The job's state once it has ended, a person has seen enough, or at once."""
    state, ended_at = "PENDING", 0.0
    with stop_on_signals() as asked:
        while not code.is_file() and not asked.is_set():
            if (states := poll.states()) is not None:
                state = states.get(job, queue.FORGOTTEN)
            ended_at = (ended_at or time.monotonic()) if queue.has_ended(state) else 0.0
            late = ended_at and time.monotonic() - ended_at > _SHARED_DISK_SECONDS
            if late or not wait:
                break
            time.sleep(1.0)
    return state


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
        "setup": [*_environment(settings), *settings.setup],
        "teardown": _REQUEUE,
        "additional_parameters": fixed | settings.sbatch,
    }


def _environment(settings: SlurmSettings) -> Iterable[str]:
    """One thread, as the local executor's workers have; and no Python code of the host in a container."""
    yield from (f"export {name}={value}" for name, value in ONE_THREAD.items())
    yield "export PYTHONSAFEPATH=1"  # the folder that a job starts in must not shadow a module
    if settings.image:
        yield "unset PYTHONPATH"


class Watch:
    """Runs that Slurm has, looked at until they have ended or a person has seen enough."""

    def __init__(self, plan: Plan, queued: list[PlannedRun], jobs: Jobs, view: View, stopping: Callable[[], bool]):
        self._plan, self._jobs, self._view, self._stopping = plan, jobs, view, stopping
        self._ended: dict[str, tuple[float, str]] = {}  # by Slurm's word: since when, and how
        self._started: set[str] = set()
        self.left = {each.hash: each for each in queued}
        self.failed: dict[str, str] = {}

    def until_all_ended(self, poll: queue.Poll) -> None:
        """Return when no run is left, or after a stop: the tasks then go on without us."""
        while (self.left or self._jobs.waiting) and not self._stopping():
            states = poll.states()
            for each in list(self.left.values()):
                self._look(each, states)
            if states is not None and self._jobs.waiting:
                self._submit_more(states)
            until = time.monotonic() + _LOOK_SECONDS
            while (self.left or self._jobs.waiting) and time.monotonic() < until and not self._stopping():
                time.sleep(0.1)
        if self.left:
            self._view.note(
                f"{len(self.left)} runs stay in the queue: the same command collects them, scancel ends their tasks"
            )

    def _submit_more(self, states: dict[str, str]) -> None:
        """Raises GroundlabError where Slurm refuses and nothing is left to wait for."""
        try:
            self.left |= {each.hash: each for each in self._jobs.submit_more(states)}
        except GroundlabError as error:
            if not self.left:
                raise
            self._view.note(str(error))

    def _look(self, run: PlannedRun, states: dict[str, str] | None) -> None:
        """See in a run's folder how far it is, and in Slurm's states, where there are new ones, whether it ended."""
        folder = self._plan.folder_of(run)
        if states is not None:
            self._note_state(run, states.get(queue.job_of(folder) or "", queue.FORGOTTEN))
        since, state = self._ended.get(run.hash, (0.0, "RUNNING"))
        late = time.monotonic() - since > _SHARED_DISK_SECONDS
        begun = queue.has_begun(folder)
        done = begun and (run_folder.status_of(folder) == "finished" or queue.own_error(folder))
        if done or (since and (late or state not in queue.GOOD_ENDS)):
            self._end(run, state)
        elif begun:
            self._begin(run)
            with suppress(GroundlabError):  # nothing written yet
                self._view.progressed(run, Progress(**storage.read_json(folder / PROGRESS_FILE)))

    def _note_state(self, run: PlannedRun, state: str) -> None:
        if queue.has_ended(state):
            self._ended.setdefault(run.hash, (time.monotonic(), state))
        else:
            self._ended.pop(run.hash, None)

    def _begin(self, run: PlannedRun) -> None:
        if run.hash not in self._started:
            self._started.add(run.hash)
            self._view.started(run)

    def _end(self, run: PlannedRun, state: str) -> None:
        self._begin(run)
        line = queue.close(self._plan, run, state)
        if line:
            self.failed[run.hash] = line
        finished = run_folder.status_of(self._plan.folder_of(run)) == "finished"
        self._view.ended(run, "finished" if finished else "failed" if line else "unfinished", line)
        self._started.discard(run.hash)
        self._ended.pop(run.hash, None)
        del self.left[run.hash]
        if not finished and not line and queue.goes_on_elsewhere(state):
            self._jobs.waiting.append(run)
