"""Runs of the laboratory whose method only counts: real folders, locks, manifests and checkpoints, in milliseconds."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from groundlab.core.run import RunSpec
from groundlab.lab import worker
from groundlab.papers.training import Learner, train

STEPS = 8


class Counter(Learner):
    """Adds up its steps; `at` maps a step, or "evaluation", to what happens in it."""

    updates, shown = STEPS, ("value",)

    def __init__(self, at: dict):
        self.value, self._at = 0, at

    def train_step(self, number):
        self._at.get(number, int)()
        self.value += number
        return {"value": self.value}

    def state(self):
        return {"state.json": json.dumps({"value": self.value}).encode(), "weights.bin": bytes(range(self.value))}

    def load_state(self, files):
        self.value = json.loads(files["state.json"])["value"]

    load_weights = load_state

    def evaluate(self):
        self._at.get("evaluation", int)()
        return [{"policy": "rule", "mean": {"success": 1.0}, "rows": [{"layout": 0, "success": True, "steps": 3}]}]


class Laboratory:
    """Executes the counting run in folders."""

    spec = RunSpec(method="always", world="SimpleDoorKey", seed=0, settings={"layouts": "0-4"})

    def run(self, folder: Path, at: dict | None = None) -> dict:
        """The run to its end, or from where it stands there; returns its manifest."""
        self.at = at or {}
        return worker.execute_run(self.spec, folder)

    def stopped(self, folder: Path, step: int = 5) -> Path:
        """The run, stopped politely after a step."""
        with pytest.raises(worker.Unfinished):
            self.run(folder, {step: lambda: os.kill(os.getpid(), signal.SIGTERM)})
        return folder


@pytest.fixture(scope="module")
def laboratory():
    with pytest.MonkeyPatch.context() as patch:
        made = Laboratory()
        patch.setattr(worker, "_own_hash", lambda spec, expected: f"{spec.seed:016x}")
        patch.setattr(worker.registry, "execute", lambda run: train(run, Counter(made.at)))
        yield made


@pytest.fixture(scope="module")
def finished(laboratory, tmp_path_factory) -> Path:
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    laboratory.run(folder)
    return folder


@pytest.fixture(scope="module")
def stopped(laboratory, tmp_path_factory) -> Path:
    """The same, stopped after five of its steps."""
    return laboratory.stopped(tmp_path_factory.mktemp("stopped") / "run")


@pytest.fixture(scope="module")
def records():
    """The records of a run folder, by name."""

    def read(folder: Path) -> dict[str, bytes]:
        return {name: (folder / name).read_bytes() for name in ("config.yaml", "metrics.jsonl", "evaluation.json")}

    return read


@pytest.fixture
def in_children() -> Callable[..., list[int]]:
    """Calls something in as many forked processes at once; gives what `waitpid` says: 0, or the signal that killed."""

    def call(act: Callable[[], object], count: int = 1) -> list[int]:
        return [os.waitpid(pid, 0)[1] for pid in [fork(act) for _ in range(count)]]

    def fork(act: Callable[[], object]) -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                act()
                code = 0
            finally:
                os._exit(code)
        return pid

    return call
