"""What runs inside a Slurm job: one run of a plan, stopped in time to be continued.

SIGUSR2 (sent by Slurm `save_seconds` before the time limit) and SIGTERM (preemption, `scontrol requeue`, `scancel`)
both save a checkpoint at the next step. After the first the task leaves with exit code 75, and its batch script puts it
back into the queue; after the second whoever sent it decides. Submitted by `slurm.py`, unpickled here by submitit.
"""

import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import UNFINISHED_EXIT_CODE, Unfinished
from groundlab.core.run import Progress, RunSpec
from groundlab.lab.worker import execute_run

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
