"""One run from start to end in one process, and the loop of a worker process that is given run after run.

`execute_run` is all there is to a run outside its method: the lock, the manifest, the log, the stop signal.
`groundlab run` calls it in its own process; `executor.py` starts processes that call `serve`.
A stop (SIGTERM, Ctrl-C) saves a checkpoint and raises Unfinished; the same call continues there. A stop during an
evaluation, which has nothing to save, ends it at once.

A launcher may start a run as several processes:

    accelerate launch --multi_gpu --num_processes 2 --module groundlab run glam --world ... --out DIR

The first process does what a lone one does. The others follow: they restore the checkpoint that it names, write nothing
but what their libraries print (`log-1.txt`, ...), and stop when any process was asked to. All must see the folder. The
number of processes is no part of what a run is: another number may continue it, with the same figures up to rounding
(learning/distributed.py shares work and gradients).
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, Unfinished, first_line
from groundlab.core.paths import RESULTS_VARIABLE
from groundlab.core.run import Checkpoint, Files, Progress, Run, RunSpec, load_checkpoint
from groundlab.core.sources import sources
from groundlab.lab import machine, run_folder, tracking
from groundlab.lab.machine import check_devices
from groundlab.lab.progress import at_most_every, output_to
from groundlab.lab.run_hash import computing_versions, hash_run, pinned_versions
from groundlab.lab.stops import at_first_signal, stop_on_signals
from groundlab.learning import devices, distributed
from groundlab.learning.distributed import SINGLE_PROCESS, Group
from groundlab.papers import registry

# glibc (others ignore it) keeps freed memory, in huge pages where the system offers them: updates take a tenth less.
# Larger blocks go back to the system: kept, blocks of changing size leave holes (Crafter's rollouts grew to 12 GB).
_MALLOC = {"hugetlb": 1, "trim_threshold": 2**30, "mmap_threshold": 2**25}
KEPT_MEMORY = {"GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in _MALLOC.items())}
SOURCES = sources()  # read now: a process goes on with the code that it has loaded
_REPORT_SECONDS = 0.2  # progress messages to the parent, at most this often


def execute_run(
    spec: RunSpec,
    folder: Path,
    *,
    expected: tuple[str, str] | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] | None = None,
    group: Group = SINGLE_PROCESS,
) -> run_folder.Manifest:
    """Run `spec` in `folder` to its end, or continue it there, and return its manifest.

    expected: name and sources as planned; stop: asked after each step, by default the signals SIGTERM and SIGINT;
    group: the processes that `follow` this one.
    Raises Unfinished after a stop, GroundlabError when the run failed (the traceback is in its log.txt).
    """
    run_hash = _own_hash(spec, expected)
    with run_folder.hold(folder):
        record = run_folder.ManifestWriter(folder, spec, run_hash, group.size)
        group.broadcast(None if record.finished else (run_hash, SOURCES))
        if record.finished:
            return record.manifest
        if record.restart:
            run_folder.start_again(folder, *record.restart)
        record.write()
        with (
            nullcontext(stop) if stop else stop_on_signals() as stopping,
            output_to(folder / "log.txt"),
            machine.one_thread(),
            tracking.mirrored(folder, spec, run_hash) as mirror,
        ):

            def heartbeat(progress: Progress) -> None:
                report(progress)
                record.heartbeat()
                mirror()

            run = PrimaryRun(folder, spec, group, report=heartbeat, stop=lambda: group.any(stopping()))
            with stop_together(group):
                _execute(run, record)
        return record.manifest


def follow(spec: RunSpec, folder: Path, group: Group) -> None:
    """The whole run of a process that is not the first of its group (`ReplicaRun`). Raises as `execute_run` does."""
    wanted = group.broadcast()
    if wanted is None:
        return  # it was finished
    if wanted != (_own_hash(spec, None), SOURCES):
        raise GroundlabError(
            f"process {group.rank} of {spec.label} has other code or other files of its model than the first one; "
            "start all processes from one checkout, with the same files"
        )
    log = folder / f"log-{group.rank}.txt"
    with stop_on_signals() as asked, output_to(log), machine.one_thread(), stop_together(group):
        try:
            with _as_asked(spec):
                registry.execute(ReplicaRun(folder, spec, group, stop=lambda: group.any(asked())))
        except (GroundlabError, Unfinished):
            raise
        except Exception as error:
            traceback.print_exc()
            line = f"process {group.rank} of {spec.label} failed: {type(error).__name__}: {first_line(error)}"
            raise GroundlabError(f"{line} (traceback: {log})") from error


def _own_hash(spec: RunSpec, expected: tuple[str, str] | None) -> str:
    """The name of a run here, which must be the plan's, as must be the sources that this process has loaded."""
    run_hash = hash_run(spec)
    if expected and tuple(expected) != (run_hash, SOURCES):
        what = "code" if expected[0] == run_hash else "inputs or packages"
        pinned, here = pinned_versions(), computing_versions()
        others = [
            f"{name} {here[name]}, pinned {pinned[name]}" for name in here if pinned.get(name, here[name]) != here[name]
        ]
        found = (
            f"{'; '.join(others)}; install the pinned versions, or"
            if others and what != "code"
            else "the plan is older;"
        )
        raise GroundlabError(
            f"expected the {what} that {spec.label} was planned with, got others ({found} run the same command again)"
        )
    return run_hash


def _execute(run: Run, record: run_folder.ManifestWriter) -> None:
    try:
        check_devices([run.spec])
        with storage.clear_disk_errors(run.folder, storage.UNWRITABLE), record.counting_warnings(), _as_asked(run.spec):
            registry.execute(run)
        record.write("finished")
    except Unfinished:
        record.write("unfinished")
        raise
    except GroundlabError as error:
        _close_failed(run, record, str(error))
        raise
    except Exception as error:
        line = f"{run.spec.label} failed: {type(error).__name__}: {first_line(error)}"
        _close_failed(run, record, line)
        raise GroundlabError(f"{line} (traceback: {run.folder / 'log.txt'})") from error


def _as_asked(spec: RunSpec) -> AbstractContextManager[None]:
    """Inside, products are those of the run's device and settings.

    Without a GPU there is nothing to choose but `--deterministic`; torch loads its compiler (2 s) to hear of either.
    """
    tf32, deterministic = bool(spec.settings.get("tf32")), machine.deterministic()
    return devices.arithmetic(tf32, deterministic) if deterministic or devices.count_gpus() else nullcontext()


def _close_failed(run: Run, record: run_folder.ManifestWriter, line: str) -> None:
    """Write down a failure; where even that is impossible (a full disk), the failure itself is what counts."""
    with suppress(GroundlabError, OSError):
        run.say(traceback.format_exc().rstrip())
        record.write("failed", line)


@contextmanager
def _raised_by_signals(error: Unfinished, enabled: bool) -> Iterator[None]:
    """Inside, a signal that is taken as a stop raises the error, after its usual handler has noted it.

    Not in a group of processes, which must stop at the same place.
    """

    def stop_at_once(number: int, frame: FrameType | None, usual: Any) -> None:
        usual(number, frame)
        raise error

    taken = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2) if enabled else ():
        handler = signal.getsignal(number)
        if callable(handler) and handler is not signal.default_int_handler:
            taken.append(number)
    with at_first_signal(taken, stop_at_once):
        yield


def serve(descriptor: int) -> None:
    """The life of a worker process: take a run from the pipe, run it, say how it ended, until the pipe closes.

    In: `(spec as a dict, folder, (hash, sources))`.
    Out: `("progress", Progress)` now and then, at the end `("finished" | "failed" | "unfinished", line)`.
    """
    stop = threading.Event()
    pipe = Connection(descriptor)
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())

    def send(progress: Progress) -> None:
        try:
            pipe.send(("progress", progress))
        except OSError:  # the parent is gone
            stop.set()

    while True:
        try:
            spec, folder, expected = pipe.recv()
        except EOFError:
            return
        os.environ[RESULTS_VARIABLE] = str(Path(folder).parents[1])  # pretrained models lie there, too
        report = at_most_every(_REPORT_SECONDS, send)
        options = {"expected": expected, "report": report, "stop": stop.is_set}
        ending = _outcome(RunSpec(**spec), Path(folder), options)
        try:
            pipe.send(ending)
        except OSError:
            sys.exit(1)  # the parent is gone; the run itself is safe on disk


def _outcome(spec: RunSpec, folder: Path, options: dict[str, Any]) -> tuple[run_folder.Status, str]:
    try:
        execute_run(spec, folder, **options)
    except Unfinished as end:
        return "unfinished", str(end)
    except GroundlabError as error:
        return "failed", str(error)
    except Exception as error:
        return "failed", f"{spec.label} failed: {type(error).__name__}: {first_line(error)}"
    return "finished", ""


def join_group(spec: RunSpec) -> Group:
    """The group of processes that this one was launched in; alone where there is no launcher.

    Raises GroundlabError for a method that one process trains.
    """
    if not distributed.launched():
        return SINGLE_PROCESS
    if not getattr(registry.load(spec.method, spec.world), "DISTRIBUTED", False):
        raise GroundlabError(f"{spec.method} is trained by one process; start it without accelerate launch")
    return distributed.join(spec.settings["device"])


class PrimaryRun(Run):
    """A run as the first process of a group sees it, or a lone one."""

    def __init__(self, folder: Path, spec: RunSpec, group: Group, **options: Any):
        super().__init__(folder, spec, **options)
        self._group = group

    def restore(self) -> Checkpoint | None:
        checkpoint = super().restore()
        self._group.broadcast(checkpoint.step if checkpoint else None)
        return checkpoint

    @contextmanager
    def abandonable(self) -> Iterator[None]:
        alone = self._group.size == 1
        try:
            with super().abandonable(), _raised_by_signals(self._stopped(), enabled=alone):
                yield
        except (GroundlabError, Unfinished):
            raise
        except Exception as error:  # a library that is cut short (numba while it compiles) raises its own
            if alone and self._stop():
                raise self._stopped() from error
            raise


class ReplicaRun(Run):
    """A run as all processes but the first see it."""

    def __init__(self, folder: Path, spec: RunSpec, group: Group, stop: Callable[[], bool]):
        super().__init__(folder, spec, stop=stop)
        self._group = group

    def _claim_folder(self) -> None:
        """The first process has."""

    def restore(self) -> Checkpoint | None:
        step = self._group.broadcast()
        return None if step is None else load_checkpoint(self.folder / "checkpoint" / str(step))

    def say(self, line: str) -> None:
        """The first process says it."""

    def log(self, record: dict) -> None:
        """The first process does."""

    def advance(self, step: int, total: int, state: Callable[[], Files], **figures: float) -> None:
        if self._stop() and step < total:
            raise Unfinished(f"{self.spec.label} stopped at iteration {step} of {total}")

    def write_evaluation(self, evaluations: list) -> None:
        """The first process does."""


@contextmanager
def stop_together(group: Group) -> Iterator[None]:
    """After a stop, wait for the first process to save: the launcher ends all as soon as one has left."""
    try:
        yield
    except Unfinished:
        group.broadcast()
        raise
