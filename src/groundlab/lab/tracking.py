"""Mirror of run records in Weights & Biases, on request (`--track wandb`; needs the extra `wandb`).

    groundlab run reasoning --world Reasoning-GoTo-v0 --track wandb --out runs/reasoning
    WANDB_MODE=offline groundlab reproduce --only reasoning --track wandb       # `wandb sync RUN_FOLDER/wandb/*` later

A mirror reads what a run has written (rows of `metrics.jsonl`, means of `evaluation.json`), so results are the same
with and without it. The first failure is one line in the run's log.txt, and the run goes on. The run's hash is its id
there and a row's number its step, so a resumed run continues its own curve.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import first_line, unknown_name
from groundlab.core.run import RunSpec

TRACKER_VARIABLE = "GROUNDLAB_TRACK"
"""Names the tracker, also to the worker processes and Slurm tasks of a plan."""


def ask_for(tracker: str | None) -> None:
    """Mirror the runs that this command starts; a tracker that is not installed is a warning.

    Raises GroundlabError for an unknown one.
    """
    if tracker not in (None, "wandb"):
        raise unknown_name("tracker", tracker, ("wandb",))
    if tracker and find_spec(tracker):
        os.environ[TRACKER_VARIABLE] = tracker
    elif tracker:
        print("groundlab: wandb is not installed (pip install groundlab[wandb]); going on without", file=sys.stderr)


@contextmanager
def mirrored(folder: Path, spec: RunSpec, run_hash: str) -> Iterator[Callable[[], None]]:
    """Mirror the run inside; yields a function to call after each step, which does nothing unless a mirror is on."""
    mirror, finished = None, False

    def attempt(action: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal mirror
        try:
            return action(*arguments)
        except Exception as error:  # whatever fails there, the run must go on
            mirror = None
            print(f"warning: wandb mirrors this run no longer ({first_line(error)})", file=sys.stderr, flush=True)

    if os.environ.get(TRACKER_VARIABLE):
        mirror = attempt(_Mirror, folder, spec, run_hash)
    try:
        yield lambda: attempt(mirror.send) if mirror else None
        finished = True
    finally:
        if mirror:
            attempt(mirror.finish, finished)


class _Mirror:
    def __init__(self, folder: Path, spec: RunSpec, run_hash: str) -> None:
        wandb = import_module("wandb")
        if os.environ.get("WANDB_MODE", "online") == "online" and not wandb.login(prompt=False):
            raise RuntimeError("no account on this machine; run `wandb login`, or set WANDB_MODE=offline")
        self._folder = folder
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "groundlab"),
            id=run_hash,
            name=spec.label,
            config=spec.model_dump(),
            dir=str(folder),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(console="off", silent=True, disable_git=True, init_timeout=30, finish_timeout=60),
        )
        self._sent = self._run.starting_step

    def send(self) -> None:
        file = self._folder / "metrics.jsonl"
        rows = file.read_bytes().splitlines() if file.is_file() else []
        for row in rows[self._sent :]:
            self._run.log(_numbers(json.loads(row)), step=self._sent)
            self._sent += 1

    def finish(self, finished: bool) -> None:
        self.send()
        for result in storage.read_json(self._folder / "evaluation.json") if finished else []:
            means = _numbers(result["mean"])
            self._run.summary.update({f"{result['policy']}/{name}": value for name, value in means.items()})
        self._run.finish(exit_code=0 if finished else 1)


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in record.items() if isinstance(value, int | float)}
