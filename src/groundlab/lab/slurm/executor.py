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
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError
from groundlab.core.run import Progress
from groundlab.lab import run_folder
from groundlab.lab.machine import ONE_THREAD
from groundlab.lab.plan import EXECUTED_VARIABLE, Outcome, Plan, PlannedRun, outcome_of
from groundlab.lab.progress import View, progress_view, say
from groundlab.lab.slurm import queue
from groundlab.lab.slurm.settings import SlurmSettings, pack
from groundlab.lab.slurm.task import PROGRESS_FILE, PagesTask, Task
from groundlab.lab.stops import stop_on_signals

_Pack = list[PlannedRun]  # the runs of a task
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
    are submitted again; what failed since the last call is reported, and submitted again by the call after that.
    Raises GroundlabError when submitit, Slurm or the partition is not there.
    """
    jobs = Jobs(plan, settings)
    if not jobs.queued or os.environ.get(EXECUTED_VARIABLE):
        return outcome_of(plan, {})
    jobs.find_or_submit()
    if wait:
        with stop_on_signals() as asked, progress_view(jobs.left) as view:
            jobs.watch(view, asked)
    elif jobs.left:
        room = f", {len(jobs.waiting)} wait for others to end (submit_at_most)" if jobs.waiting else ""
        say(f"{len(jobs.queued)} runs are queued or going on{room}; the same command collects them")
    return outcome_of(plan, jobs.failed, [each.hash for each in jobs.left])


class Jobs:
    """The pending runs of a plan: those that Slurm has, those that wait for room there, and those that failed."""

    def __init__(self, plan: Plan, settings: SlurmSettings):
        self._plan, self._settings = plan, settings
        self._home = run_folder.path_of(plan.results, ".slurm")
        self.queued = {each.hash: each for each in plan.pending()}
        self.waiting: list[PlannedRun] = []
        self.failed: dict[str, str] = {}
        self._states: dict[str, str] = {}  # of all jobs, as Slurm last listed them
        self._ended_at: dict[str, float] = {}  # since when a run's job has been known to be over
        self._started: set[str] = set()

    @property
    def left(self) -> list[PlannedRun]:
        """The runs that go on, or wait for room."""
        return [*self.queued.values(), *self.waiting]

    def find_or_submit(self) -> None:
        """Book what ended while nobody watched, and submit what fits of the runs without a job that lives."""
        with run_folder.hold(self._home):  # two commands at once must not submit a run twice
            self._states = queue.states()
            for each in list(self.queued.values()):
                if queue.has_ended(self._state_of(each)) and not self._close(each):
                    self.waiting.append(each)
            self._submit_what_fits()

    def watch(self, view: View, stopping: Callable[[], bool]) -> None:
        """Return when no run is left, or after a stop: the tasks then go on without us."""
        poll = queue.Poll(self._states)
        while self.left and not stopping():
            states = poll.states()
            self._states = self._states if states is None else states
            for each in list(self.queued.values()):
                self._look(each, view)
            if states is not None and self.waiting:
                self._submit_more(view)
            until = time.monotonic() + _LOOK_SECONDS
            while self.left and time.monotonic() < until and not stopping():
                time.sleep(0.1)
        if self.queued:
            view.note(
                f"{len(self.queued)} runs stay in the queue: the same command collects them, scancel ends their tasks"
            )

    def _state_of(self, run: PlannedRun) -> str:
        return self._states.get(queue.job_of(self._plan.folder_of(run)) or "", queue.FORGOTTEN)

    def _close(self, run: PlannedRun) -> str:
        """Book the end of a run's job; returns the error line, empty when it finished or is only left to do."""
        line = queue.close(self._plan, run, self._state_of(run))
        self.failed |= {run.hash: line} if line else {}
        del self.queued[run.hash]
        self._ended_at.pop(run.hash, None)
        return line

    def _look(self, run: PlannedRun, view: View) -> None:
        """See in a run's folder how far it is, and in Slurm's last answer whether its job is over."""
        folder, state, now = self._plan.folder_of(run), self._state_of(run), time.monotonic()
        over, begun = queue.has_ended(state), queue.has_begun(folder)
        if over and state in queue.GOOD_ENDS:
            over = now - self._ended_at.setdefault(run.hash, now) > _SHARED_DISK_SECONDS
        if (begun or over) and run.hash not in self._started:
            self._started.add(run.hash)
            view.started(run)
        if over or (begun and (run_folder.status_of(folder) == "finished" or queue.own_error(folder))):
            line, finished = self._close(run), run_folder.status_of(folder) == "finished"
            view.ended(run, "finished" if finished else "failed" if line else "unfinished", line)
            self._started.discard(run.hash)
            if not finished and not line and state in queue.BAD_ENDS:
                self.waiting.append(run)
        elif begun:
            with suppress(GroundlabError):  # nothing written yet
                view.progressed(run, Progress(**storage.read_json(folder / PROGRESS_FILE)))

    def _submit_more(self, view: View) -> None:
        """Raises GroundlabError where Slurm refuses and nothing is left to wait for."""
        try:
            with run_folder.hold(self._home):
                self._submit_what_fits()
        except GroundlabError as error:
            if not self.queued:
                raise
            view.note(str(error))

    def _submit_what_fits(self) -> None:
        active = sum(not queue.has_ended(state) for state in self._states.values())
        tasks = pack(self.waiting, self._settings)[: max(0, self._settings.submit_at_most - active)]
        if tasks and self._settings.image is None:
            from groundlab.lab.executor import compile_worlds  # the laboratory: it loads torch

            compile_worlds()
        for asks, packs in _arrays(tasks):
            self._submit_array(asks, packs)

    def _submit_array(self, asks: SlurmSettings, packs: list[_Pack]) -> None:
        """Submit one array, and note in each run's folder which job has it and where that job's log is."""
        folder_of, sources = self._plan.folder_of, self._plan.sources
        tasks = [
            Task([(each.spec.model_dump(), str(folder_of(each)), (each.hash, sources), each.named) for each in runs])
            for runs in packs
        ]
        jobs = queue.sbatch(self._home, tasks, python_command(asks, self._plan.results), sbatch_parameters(asks))
        for runs, job in zip(packs, jobs, strict=True):
            self._states[job.job_id] = "PENDING"
            for place, each in enumerate(runs):
                queue.note_job(folder_of(each), job.job_id, job.paths.stdout, place)
                self.queued[each.hash] = each
        self.waiting = [each for each in self.waiting if each.hash not in self.queued]
        name, count = jobs[0].job_id.partition("_")[0], sum(map(len, packs))
        say(f"submitted {count} runs in {len(packs)} tasks as job {name}; job files are in {self._home}")


def _arrays(tasks: list[tuple[SlurmSettings, _Pack]]) -> Iterator[tuple[SlurmSettings, list[_Pack]]]:
    """Tasks that ask for the same, as arrays of no more than a site allows; within one the longest first."""
    for _, alike in groupby(sorted(tasks, key=_asked), key=_asked):
        kind = list(alike)
        for start in range(0, len(kind), _ARRAY_SIZE):
            yield kind[0][0], [runs for _, runs in kind[start : start + _ARRAY_SIZE]]


def _asked(task: tuple[SlurmSettings, _Pack]) -> str:
    return task[0].model_dump_json()


def preview(plan: Plan, settings: SlurmSettings) -> str:
    """What `run` would submit now if nothing were queued: each array in a line, and its batch script."""
    home, parts = run_folder.path_of(plan.results, ".slurm"), []
    tasks = pack(plan.pending(), settings)
    for asks, packs in _arrays(tasks[: settings.submit_at_most]):
        runs = [run for runs_of_task in packs for run in runs_of_task]
        hours = sum(run.estimate.seconds for run in runs) / 3600
        memory = f"{asks.memory_gb:g} GB" if asks.memory_gb else "the partition's memory"
        what = f"{len(packs)} tasks with {len(runs)} runs, about {hours:,.1f} hours in all"
        each = f"{asks.minutes} minutes at a time, {memory}, {asks.cpus} cores, {asks.gpus} GPUs"
        script = queue.script(home, len(packs), python_command(asks, plan.results), sbatch_parameters(asks))
        parts.append(f"{what}; each task: {each}\n\n{script}")
    total = f"{len(tasks)} tasks in all" + ("; the rest follows" if len(tasks) > settings.submit_at_most else "")
    return "\n".join([*parts, f"{total}; then a job for the pages"])


def make_pages(plan: Plan, settings: SlurmSettings, make: Callable[[], int], wait: bool = True) -> int:
    """Have the tables, figures and pages of a plan made by a job, and return its exit code; 75 while it goes on.

    make: what the job calls for them (task.py). What the job printed is printed. Pages that an earlier call began while
    other runs were missing are made again, and those whose job an earlier call began and somebody cancelled. Raises
    GroundlabError where the job died.
    """
    home, missing = run_folder.path_of(plan.results, ".slurm"), sorted(each.hash for each in plan.pending())
    note = home / f"pages-{plan.digest[:12]}.json"
    with run_folder.hold(home):
        is_ours = not note.is_file()
        if is_ours:
            asks = settings.for_pages()
            (job,) = queue.sbatch(home, [PagesTask(make)], python_command(asks, plan.results), sbatch_parameters(asks))
            storage.write_json(note, {"job": job.job_id, "missing": missing})
            say(f"submitted the pages as job {job.job_id}")
    noted = storage.read_json(note)
    job = queue.submitted(home, noted["job"])
    # where runs were missing, this call has asked Slurm a moment ago
    poll = queue.Poll({job.job_id: "PENDING"} if is_ours else {} if missing and wait else None)
    state, made = _wait_for_pages(poll, job, wait)
    if not made and (not queue.has_ended(state) or (state == "COMPLETED" and not wait)):
        say(f"the pages are made by job {job.job_id}: the same command collects them")
        return UNFINISHED_EXIT_CODE
    note.unlink()
    if noted["missing"] != missing:
        say(f"runs have finished since job {job.job_id} began the pages: they are made again")
        return make_pages(plan, settings, make, wait)
    log = job.paths.stdout
    if made:
        said = log.read_text(errors="replace") if log.is_file() else ""
        print("".join(line for line in said.splitlines(keepends=True) if not queue.is_noise(line)), end="")
        return job.result()
    if not is_ours and state in (*queue.TAKEN_AWAY, queue.FORGOTTEN):
        say(f"job {job.job_id} was to make the pages and is gone: they are made again")
        return make_pages(plan, settings, make, wait)
    raise GroundlabError(f"the pages were not made: job {job.job_id} ended as {state} (log: {log}); try the same again")


def _wait_for_pages(poll: queue.Poll, job: Any, wait: bool) -> tuple[str, bool]:
    """The job's state once it has ended, a person has seen enough, or at once; and whether its result is there."""
    state, ended_at, result = "PENDING", 0.0, job.paths.result_pickle
    with stop_on_signals() as asked:
        while not result.is_file() and not asked():
            if (states := poll.states()) is not None:
                state = states.get(job.job_id, queue.FORGOTTEN)
            ended_at = (ended_at or time.monotonic()) if queue.has_ended(state) else 0.0
            if not wait or (ended_at and time.monotonic() - ended_at > _SHARED_DISK_SECONDS):
                break
            time.sleep(1.0)
    return state, result.is_file()


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
