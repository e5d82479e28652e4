"""Mirror of run records in Weights & Biases, on request (`--track wandb`; needs the extra `wandb`).

    groundlab run reasoning --world Reasoning-GoTo-v0 --track wandb --out runs/reasoning
    WANDB_MODE=offline groundlab reproduce --only reasoning --track wandb       # `wandb sync RUN_FOLDER/wandb/*` later

A mirror reads what a run has written (rows of `metrics.jsonl`, means of `evaluation.json`), so results are the same
with and without it. The first failure is one line in the run's log.txt, and the run goes on. The run's hash is its id
there and a row's number its step, so a resumed run continues its own curve.
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
    is_on, finished = bool(os.environ.get(TRACKER_VARIABLE)), False
    run: Any = None
    sent = bytes_read = 0

    def attempt(action: Callable[..., None], *arguments: Any) -> None:
        nonlocal is_on
        try:
            if is_on:
                action(*arguments)
        except Exception as error:  # whatever fails there, the run must go on
            is_on = False
            print(f"warning: wandb mirrors this run no longer ({first_line(error)})", file=sys.stderr, flush=True)

    def begin() -> None:
        nonlocal run
        wandb, mode = importlib.import_module("wandb"), os.environ.get("WANDB_MODE", "online")
        if mode == "online" and not wandb.login(prompt=False):
            raise RuntimeError("no account on this machine; run `wandb login`, or set WANDB_MODE=offline")
        settings = wandb.Settings(console="off", silent=True, disable_git=True, init_timeout=30, finish_timeout=60)
        project, config = os.environ.get("WANDB_PROJECT", "groundlab"), spec.model_dump()
        run = wandb.init(
            project=project,
            id=run_hash,
            name=spec.label,
            config=config,
            dir=str(folder),
            mode=mode,
            resume="allow",
            reinit="create_new",
            settings=settings,
        )

    def send() -> None:
        nonlocal sent, bytes_read
        file = folder / "metrics.jsonl"
        content = file.read_bytes()[bytes_read:] if file.is_file() else b""
        for line in content[: content.rfind(b"\n") + 1].splitlines(keepends=True):
            if sent >= run.starting_step:
                run.log(_numbers(json.loads(line)), step=sent)
            sent, bytes_read = sent + 1, bytes_read + len(line)

    def end() -> None:
        send()
        for result in storage.read_json(folder / "evaluation.json") if finished else []:
            means = _numbers(result["mean"])
            run.summary.update({f"{result['policy']}/{name}": value for name, value in means.items()})
        run.finish(exit_code=0 if finished else 1)

    attempt(begin)
    try:
        yield lambda: attempt(send)
        finished = True
    finally:
        attempt(end)


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in record.items() if isinstance(value, int | float)}
