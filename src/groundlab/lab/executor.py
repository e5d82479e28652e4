"""The local executor: worker processes that take the runs of a plan one after the other.

The shortest paper comes first, and of each paper its longest run. A worker for which a paper has nothing left takes the
next paper's runs, so no core waits while the last run of a paper goes on.

A GPU has one worker, which sees no other (CUDA_VISIBLE_DEVICES); runs that need none go on beside it on workers that
see no GPU at all.

`run(plan)` is idempotent: finished runs are left alone, started ones continue at their checkpoint. A failed run does
not stop the others; a worker that dies (kill -9, out of memory) fails its run only and is replaced. The first
SIGINT/SIGTERM is passed on: workers save and leave, and the exit code says "run me again".
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

import numba
from numba.core.caching import _CacheLocator

from groundlab.assets import unshipped
from groundlab.core import compiled, storage  # numba's cache folder: these words do not make this one of its sources
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Progress, RunSpec
from groundlab.lab import machine, run_folder, worker
from groundlab.lab.config import Estimate
from groundlab.lab.machine import ONE_THREAD, check_devices
from groundlab.lab.plan import Outcome, Plan, PlannedRun, outcome_of
from groundlab.lab.progress import View, progress_view, say
from groundlab.lab.run_hash import hash_run
from groundlab.lab.stops import is_over, stop_on_signals
from groundlab.lab.worker import KEPT_MEMORY, execute_run, follow
from groundlab.papers import registry
from groundlab.worlds import first_use

_STOP_WAIT_SECONDS = 0.2  # how often a stop is looked for
SHUTDOWN_TIMEOUT = 10.0  # how long a worker may take to leave once its pipe is closed


def run(
    plan: Plan,
    workers: int | None = None,
    until: float | None = None,
    gpus: Sequence[str] | None = None,
) -> Outcome:
    """Execute what is pending in a plan on so many worker processes (default: one a core); prints only progress.

    gpus: what CUDA_VISIBLE_DEVICES calls those to be used; by default all of this machine (machine.py). until: a
    reading of `time.monotonic()`; then runs save a checkpoint and stop, and none is started after it.
    Raises GroundlabError when `workers` is not positive, and for runs that want a GPU where there is none.
    """
    if workers is not None and workers < 1:
        raise GroundlabError(f"workers must be at least 1, not {workers}")
    pending = dict[str, PlannedRun]()
    for part in plan.by_paper():
        for each in sorted(part.pending(), key=lambda each: (not each.needs_gpu, -each.estimate.seconds)):
            pending.setdefault(each.hash, each)
    if not pending or is_over(until):
        return outcome_of(plan, {})
    storage.check_writable(plan.results / ".runs")  # else each run says so, after minutes of compiling
    check_devices(each.spec for each in pending.values())
    for each in pending.values():
        _explain_restart(each.label, plan.folder_of(each))
    compile_worlds()
    found = [each.handle for each in machine.gpus()] if gpus is None else list(gpus)
    count, waiting = workers or machine.core_count(), list(pending.values())
    with stop_on_signals() as asked, progress_view(waiting, count) as view:
        pool = Pool(plan, waiting, count, found, view, lambda: asked() or is_over(until))
        pool.work()
    return outcome_of(plan, pool.failed)


def compile_worlds() -> None:
    """Fill numba's cache before workers start, so that they do not all compile at once and no run's time holds it."""
    folder = Path(str(numba.config.CACHE_DIR))  # type: ignore[attr-defined]
    main_loop = Path(compiled.__file__).parents[1] / "worlds" / "levels.py"
    own = _CacheLocator.get_suitable_cache_subpath(str(main_loop))  # clones at other places have other folders
    if not any((folder / own).glob("*play_envs*.nbi")):  # the index of numba's cache of the engine's main loop
        say("compiling the worlds (once; about a minute)")
        list(first_use.compile_worlds(crafter=False))
        settings = registry.resolve_settings("always", "SimpleDoorKey", {})
        registry.evaluate(registry.Request("always", "SimpleDoorKey", 0, settings))


def run_one(spec: RunSpec, folder: Path) -> run_folder.Manifest | None:
    """One run outside any plan, in this process and in a folder of the caller's, with the same view as a plan's runs.

    Returns its manifest, or None where a launcher started several processes and this is not the first (worker.py).
    Raises Unfinished after a stop signal and GroundlabError when the run failed.
    """
    check_devices([spec])
    group = worker.join_group(spec)
    if group.rank > 0:
        return follow(spec, folder, group)
    _explain_restart(spec.label, folder)
    for model in unshipped(spec.settings):
        say(f"{model} does not ship: it is pretrained first, unless an earlier run did")
    compile_worlds()
    paper = registry.paper_of(spec.method, spec.world)
    lone = PlannedRun(spec, paper, hash_run(spec), Estimate(seconds=1, megabytes=1), run_folder.status_of(folder))
    with progress_view([lone], estimated=False) as view:
        view.started(lone)
        manifest = execute_run(spec, folder, report=lambda news: view.progressed(lone, news), group=group)
        view.ended(lone, "finished", "")
    return manifest


def _explain_restart(label: str, folder: Path) -> None:
    """Print why a run that had finished is run again, or why one with a checkpoint begins at its start."""
    damaged = run_folder.damage_of(folder, run_folder.read_manifest(folder))
    for name, problem in list(damaged.items())[:1]:
        say(f"{label} is run again: {folder / name} {problem}")
    status, other = run_folder.standing(folder)
    if other and status == "finished":
        say(f"{label} was finished by other sources; delete {folder} to repeat it")
    elif other and not damaged and (folder / "checkpoint").is_dir():
        say(f"{label} starts again: its checkpoint was made by other sources")


def start_child(module: str, environment: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process of its own that calls a module's `serve` with one end of a pipe, and the other end, which is ours."""
    ours, theirs = Pipe()
    with theirs:
        # -P: the folder we stand in must not shadow a module; -c: `-m` would import this package twice;
        # its own process group: Ctrl-C reaches us only.
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {module} import serve; serve({theirs.fileno()})"],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
    return process, ours


class Worker:
    """One worker process and our end of its pipe.

    visible: its CUDA_VISIBLE_DEVICES, None for ours; sets: variables of its own (`machine.instruction_sets`).
    """

    def __init__(self, visible: str | None = None, sets: Mapping[str, str] | None = None) -> None:
        environment = KEPT_MEMORY | os.environ | ONE_THREAD | dict(sets or {})
        environment |= {} if visible is None else machine.only_visible(visible)
        self.process, self.pipe = start_child("groundlab.lab.worker", environment)
        self.serves = visible, sets or {}
        self.run: PlannedRun | None = None

    def start(self, run: PlannedRun, plan: Plan) -> None:
        self.run = run
        self.pipe.send((run.spec.model_dump(), str(plan.folder_of(run)), (run.hash, plan.sources)))

    def shutdown(self) -> None:
        """Close the pipe, which ends the process; kill it when it does not leave."""
        self.pipe.close()
        try:
            self.process.wait(SHUTDOWN_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Pool:
    """Workers, the runs that wait for them, and the view that shows them."""

    def __init__(
        self,
        plan: Plan,
        waiting: list[PlannedRun],
        count: int,
        gpus: list[str],
        view: View,
        stopping: Callable[[], bool],
    ):
        """gpus: those that a run each may have; without any known, GPU runs go one after the other, as CUDA chooses."""
        self._plan, self._waiting, self._count = plan, list(waiting), count
        self._gpus: list[str | None] = [*gpus] or [None]
        self._no_gpu = "" if gpus else None
        self._view, self._stopping, self._stop_sent = view, stopping, False
        self._busy: dict[Connection, Worker] = {}
        self._idle: list[Worker] = []
        self.failed: dict[str, str] = {}

    def work(self) -> None:
        """Return when all runs have ended or, after a stop, when all workers have saved."""
        try:
            while self._hand_out():
                ready = wait(list(self._busy), timeout=_STOP_WAIT_SECONDS)
                for worker in [self._busy[pipe] for pipe in self._busy if pipe in ready]:
                    self._on_message(worker)
                if self._stopping() and not self._stop_sent:
                    self._stop_sent = True
                    self._view.stopping()
                    for worker in self._busy.values():
                        worker.process.terminate()  # it saves a checkpoint and leaves the run
        finally:
            for worker in (*self._idle, *self._busy.values()):
                worker.shutdown()

    def _hand_out(self) -> bool:
        """Give waiting runs to free workers; False when nothing is running any more."""
        while not self._stop_sent and len(self._busy) < self._count and (found := self._next()):
            next_run, visible = found
            self._waiting.remove(next_run)
            wanted = visible, machine.instruction_sets(next_run.spec.settings)
            idle = next((each for each in self._idle if each.serves == wanted), None)
            if idle:
                self._idle.remove(idle)
            worker = idle or Worker(*wanted)
            self._busy[worker.pipe] = worker
            self._view.started(next_run)
            with suppress(OSError):  # it died while idle; its pipe tells us so in a moment
                worker.start(next_run, self._plan)
        return bool(self._busy)

    def _next(self) -> tuple[PlannedRun, str | None] | None:
        """The first waiting run that can start, and what its worker may see; None when none can."""
        taken = {worker.serves[0] for worker in self._busy.values() if worker.run and worker.run.needs_gpu}
        free = [each for each in self._gpus if each not in taken]
        for run in self._waiting:
            if not run.needs_gpu:
                return run, self._no_gpu
            if free:
                return run, free[0]
        return None

    def _on_message(self, worker: Worker) -> None:
        assert worker.run
        try:
            word, content = worker.pipe.recv()
        except (EOFError, OSError):
            return self._on_exit(worker, worker.run)
        if isinstance(content, Progress):
            return self._view.progressed(worker.run, content)
        self._end(worker.run, word, content)
        self._idle.append(self._busy.pop(worker.pipe))

    def _on_exit(self, worker: Worker, run: PlannedRun) -> None:
        """A worker is gone without an answer; when we asked it to stop, that is how it stopped."""
        del self._busy[worker.pipe]
        worker.pipe.close()
        code = worker.process.wait()
        if self._stop_sent:
            return self._end(run, "unfinished", "")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        fix = "run the same command again, with fewer --workers if memory was short"
        self._end(run, "failed", f"{run.label} failed: worker died ({how}); {fix}")
        run_folder.mark(self._plan.folder_of(run), "failed", self.failed[run.hash])

    def _end(self, run: PlannedRun, status: run_folder.Status, line: str) -> None:
        if status == "failed":
            self.failed[run.hash] = line
        self._view.ended(run, status, line)
