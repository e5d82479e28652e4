"""What runs write, mirrored to Weights & Biases while they go on: only when asked for, and never needed.

    groundlab run reasoning --world Reasoning-GoTo-v0 --track wandb --out runs/reasoning
    WANDB_MODE=offline groundlab reproduce --only reasoning --track wandb       # `wandb sync RUN_FOLDER/wandb/*` later

A mirror reads what a run has written: the rows of `metrics.jsonl`, the means of `evaluation.json`. It touches nothing
else, so figures are the same with and without it. Whatever goes wrong with it is one line in the run's log.txt.
A run is named by its hash there, so a resumed run is the same one. A row's step is its number in the file, so rows that
a killed run writes again are not sent twice. Needs the extra `wandb`. Project and server are what wandb's own variables
say (WANDB_PROJECT, WANDB_BASE_URL; default project: groundlab).
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import first_line, unknown_name
from groundlab.core.run import RunSpec

TRACKERS = ("wandb",)
TRACKER_VARIABLE = "GROUNDLAB_TRACK"
"""Names the tracker, also to the worker processes and Slurm tasks of a plan."""


def ask_for(tracker: str | None) -> None:
    """Mirror the runs that this command starts; a tracker that is not installed is a warning.

    Raises GroundlabError for an unknown one.
    """
    if tracker is None:
        return
    if tracker not in TRACKERS:
        raise unknown_name("tracker", tracker, TRACKERS)
    if find_spec(tracker) is None:
        print(
            f"groundlab: {tracker} is not installed (pip install groundlab[wandb]); going on without", file=sys.stderr
        )
    else:
        os.environ[TRACKER_VARIABLE] = tracker


class Mirror:
    """One run's mirror."""

    def __init__(self, folder: Path):
        self._folder, self._bytes_read, self._rows = folder, 0, 0
        self._wandb_run: Any = None
        self._is_lost = False

    def attempt(self, act: Callable[..., None], *arguments: Any) -> None:
        """Never raises: the first failure is printed, and nothing is attempted after it."""
        if self._is_lost:
            return
        try:
            act(*arguments)
        except Exception as error:
            self._is_lost = True
            print(f"warning: wandb mirrors this run no longer ({first_line(error)})", file=sys.stderr, flush=True)

    def open(self, spec: RunSpec, run_hash: str) -> None:
        wandb = importlib.import_module("wandb")
        mode = os.environ.get("WANDB_MODE", "online")
        if mode == "online" and not wandb.login(prompt=False):  # it would ask, where nobody sees the question
            raise RuntimeError("no account on this machine; run `wandb login`, or set WANDB_MODE=offline")
        self._wandb_run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "groundlab"),
            id=run_hash,
            name=spec.label,
            config=spec.model_dump(),
            dir=str(self._folder),
            mode=mode,
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(console="off", silent=True, disable_git=True, init_timeout=30, finish_timeout=60),
        )
        self._rows_sent_before = self._wandb_run.starting_step

    def send(self) -> None:
        """Send the rows that were written since the last call."""
        file = self._folder / "metrics.jsonl"
        if not file.is_file():
            return
        with file.open("rb") as content:
            content.seek(self._bytes_read)
            for line in content:
                if not line.endswith(b"\n"):
                    return
                self._bytes_read += len(line)
                if self._rows >= self._rows_sent_before:
                    self._wandb_run.log(_numbers(json.loads(line)), step=self._rows)
                self._rows += 1

    def close(self, finished: bool) -> None:
        """Send what is left, the evaluation with it, and that the run is over or has stopped."""
        self.send()
        if finished and (self._folder / "evaluation.json").is_file():
            for result in storage.read_json(self._folder / "evaluation.json"):
                means = _numbers(result["mean"])
                self._wandb_run.summary.update({f"{result['policy']}/{name}": value for name, value in means.items()})
        self._wandb_run.finish(exit_code=0 if finished else 1)


@contextmanager
def mirrored(folder: Path, spec: RunSpec, run_hash: str) -> Iterator[Callable[[], None]]:
    """Around a run: gives what is to be called after each step, which does nothing where no tracker was asked for."""
    if not os.environ.get(TRACKER_VARIABLE):
        yield lambda: None
        return
    mirror, finished = Mirror(folder), False
    mirror.attempt(mirror.open, spec, run_hash)
    try:
        yield lambda: mirror.attempt(mirror.send)
        finished = True
    finally:
        mirror.attempt(mirror.close, finished)


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in record.items() if isinstance(value, int | float)}
