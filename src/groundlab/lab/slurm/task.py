"""What runs inside a job: some runs one after the other, or the pages; submitit unpickles it there.

SIGUSR2 (sent by Slurm `save_seconds` before the time limit) and SIGTERM (preemption, `scontrol requeue`, `scancel`)
both save a checkpoint at the next step. After the first the task leaves with exit code 75, and its batch script puts it
back into the queue; after the second whoever sent it decides.
"""

import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError, Unfinished
from groundlab.core.run import RunSpec
from groundlab.lab.progress import at_most_every
from groundlab.lab.slurm.queue import JOB_FILE

PROGRESS_FILE = "progress.json"  # in the run's folder: what the view of the waiting command shows
_PROGRESS_SECONDS = 5.0
_TERMINATED_EXIT_CODE = 128 + signal.SIGTERM
PackedRun = tuple[dict[str, Any], str, tuple[str, str], dict[str, str]]
"""The spec as plain data, the run's folder, name and sources as planned, and its arm (`PlannedRun.named`)."""


@dataclass(frozen=True)
class Task:
    """Runs as one task of a job array."""

    runs: list[PackedRun]

    def __call__(self) -> None:
        """Run to the end, or to the next step after a signal; a run that failed fails the task, after the others."""
        from groundlab.lab.worker import execute_run  # here, because it loads torch and whoever submits may have none

        stop, time_limit = threading.Event(), threading.Event()
        # in the place of submitit's handlers, which requeue at once and so lose the steps since the last checkpoint;
        # each signal may come twice (from srun and from the node), so a second one must do no harm
        signal.signal(signal.SIGUSR2, lambda number, frame: (time_limit.set(), stop.set()))
        signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
        failed = []
        for spec, place, expected, named in self.runs:
            if stop.is_set():
                _leave(time_limit)
            folder = Path(place)
            file = folder / PROGRESS_FILE
            report = at_most_every(_PROGRESS_SECONDS, lambda news, file=file: storage.write_json(file, vars(news)))
            try:
                _note_saved(folder, False)
                execute_run(RunSpec(**spec), folder, expected=expected, named=named, report=report, stop=stop.is_set)
            except Unfinished as end:
                print(end, flush=True)
                _note_saved(folder, time_limit.is_set())
                _leave(time_limit)
            except GroundlabError as error:
                failed.append(error)
        if len(self.runs) > 1:
            for error in failed:
                print(error, flush=True)
        if failed:
            raise failed[0]


def _leave(time_limit: threading.Event) -> None:
    sys.exit(UNFINISHED_EXIT_CODE if time_limit.is_set() else _TERMINATED_EXIT_CODE)


def _note_saved(folder: Path, saved: bool) -> None:
    """Tell a waiting command that this run is only interrupted, in case Slurm does not take the job back."""
    file = folder / JOB_FILE
    if file.is_file() and storage.read_json(file).get("saved", False) != saved:
        storage.write_json(file, {**storage.read_json(file), "saved": saved})


@dataclass(frozen=True)
class PagesTask:
    """Tables, figures and pages of a plan whose runs are done."""

    make: Callable[[], int]
    """Makes them and returns an exit code; it is pickled, so a function of a module or a partial of one."""

    def __call__(self) -> int:
        """Make them, and return an exit code, which submitit keeps.

        Slurm's warning before the time limit is only printed: pages cannot be continued.
        """
        signal.signal(signal.SIGUSR2, lambda number, frame: print("time is nearly over: raise `minutes` of `pages`"))
        try:
            return self.make()
        except GroundlabError as error:
            print(error, flush=True)
            return 1
