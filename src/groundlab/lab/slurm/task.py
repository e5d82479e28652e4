"""Functions that a job calls: some runs one after the other, or the pages; submitit unpickles them there."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError, Unfinished
from groundlab.core.paths import RESULTS_VARIABLE
from groundlab.core.run import RunSpec

_TERMINATED_EXIT_CODE = 128 + signal.SIGTERM
PackedRun = tuple[dict[str, Any], str, tuple[str, str]]
"""The spec as plain data, the run's folder, and its name and sources as planned."""


def execute(runs: list[PackedRun]) -> None:
    """Execute runs to their end, or to the next step after a signal; one that failed fails the task, after the others.

    SIGUSR2 (sent by Slurm `save_seconds` before the time limit) and SIGTERM (preemption, `scontrol requeue`, `scancel`)
    both save a checkpoint at the next step. After the first the task leaves with exit code 75, and its batch script
    puts it back into the queue; after the second whoever sent it decides.
    """
    from groundlab.lab.machine import instruction_sets
    from groundlab.lab.worker import execute_run  # here, because it loads torch and whoever submits may have none

    stop, time_limit = threading.Event(), threading.Event()
    # in the place of submitit's handlers, which requeue at once and so lose the steps since the last checkpoint, and
    # call scontrol, which a container lacks; each signal may come twice (from srun and from the node)
    signal.signal(signal.SIGUSR2, lambda number, frame: (time_limit.set(), stop.set()))
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    sets = [instruction_sets(spec["settings"]) for spec, *_ in runs]
    os.environ.update(sets[0] if all(sets) else {})  # what is loaded once serves all runs of the task
    failed = []
    for spec, folder, expected in runs:
        try:
            if stop.is_set():
                raise Unfinished("stopped between two runs; the same command continues")
            os.environ[RESULTS_VARIABLE] = str(Path(folder).parents[1])  # pretrained models lie there, too
            execute_run(RunSpec(**spec), Path(folder), expected=expected, stop=stop.is_set)
        except Unfinished as end:
            print(end, flush=True)
            sys.exit(UNFINISHED_EXIT_CODE if time_limit.is_set() else _TERMINATED_EXIT_CODE)
        except GroundlabError as error:
            print(error, flush=True)
            failed.append(error)
    if failed:
        raise failed[0]


def call(make: Callable[[], int]) -> int:
    """Make the pages and return an exit code, which submitit keeps.

    Slurm's warning before the time limit is only printed: pages cannot be continued.
    """
    signal.signal(signal.SIGUSR2, lambda number, frame: print("time is nearly over: raise `minutes` of `pages`"))
    try:
        return make()
    except GroundlabError as error:
        print(error, flush=True)
        return 1
