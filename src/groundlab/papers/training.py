"""The one run loop: restore, train step by step, log, save, stop when asked to, evaluate.

    train(run, learner)            a method that learns
    fit(run, learner)              the same without the evaluation: a teacher inside another run
    evaluate_once(run, evaluate)   a method that follows a rule

A run killed at any moment and started again by the same command gives the same bytes: what a learner needs to go on is
in `state()`, and everything random is drawn from a generator of (seed, purpose, step).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from groundlab.core.run import Files, Run
from groundlab.papers.method import Request

if TYPE_CHECKING:
    from groundlab.papers.watching import Watched

Evaluation = dict[str, Any]
"""`{"policy": name, "mean": {metric: value}, "rows": [{"layout": ..., metric: value}, ...]}`."""


class Learner(ABC):
    """An agent while it learns."""

    updates: int
    """Train steps in all."""
    shown: tuple[str, ...] = ("success", "entropy")
    """Metrics that the progress line shows, where a record has them."""

    @abstractmethod
    def train_step(self, number: int) -> dict[str, Any]:
        """Do update `number` (from 1); returns its record, which must be finite and hold no clock reading."""

    @abstractmethod
    def state(self) -> Files:
        """The files that `load_state` goes on from, to the bit."""

    @abstractmethod
    def load_state(self, files: Files) -> None:
        """Go on from a checkpoint."""

    @abstractmethod
    def load_weights(self, files: Files) -> None:
        """Take from a checkpoint what playing needs, and nothing else."""

    @abstractmethod
    def evaluate(self) -> list[Evaluation]:
        """Play the test layouts, one evaluation for each way of playing."""

    def watched(self, rng: np.random.Generator) -> "Watched | None":
        """The agent as it is, to be watched one decision at a time (watching.py); None where that cannot be."""
        return None

    def begin(self, run: Run) -> None:  # noqa: B027 - does nothing unless overridden
        """Before the first update of a run that was not resumed."""

    def logged(self, run: Run, number: int, record: dict[str, Any]) -> None:  # noqa: B027 - does nothing unless overridden
        """After a record was written and before its checkpoint: what the learner stores besides."""

    def figures(self, record: dict[str, Any]) -> dict[str, float]:
        """What the progress line shows of a record."""
        return {name: record[name] for name in self.shown if name in record}

    def finish(self, run: Run) -> None:  # noqa: B027 - does nothing unless overridden
        """After the evaluation was stored."""

    def close(self) -> None:  # noqa: B027 - does nothing unless overridden
        """Let go of processes and files that the learner holds."""


def fit(run: Run, learner: Learner) -> None:
    """Train to the end, or to a stop; nothing is evaluated."""
    checkpoint = run.restore()
    if checkpoint is None:
        learner.begin(run)
    else:
        learner.load_state(checkpoint.files)
    for number in range(checkpoint.step + 1 if checkpoint else 1, learner.updates + 1):
        record = {"iteration": number, **learner.train_step(number)}
        run.log(record)
        learner.logged(run, number, record)
        run.advance(number, learner.updates, learner.state, **learner.figures(record))


def train(run: Run, learner: Learner) -> None:
    """Train to the end, then store the evaluations. Raises Unfinished after a stop, in the evaluation too."""
    try:
        fit(run, learner)
        with run.abandonable():
            evaluations = learner.evaluate()
        run.write_evaluation(evaluations)
        learner.finish(run)
    finally:
        learner.close()


def evaluate_once(run: Run, evaluate: Callable[[Request], list[Evaluation]]) -> None:
    """The whole run of a method that follows a rule: there is nothing to train and nothing to resume."""
    logged = run.restore() is not None  # killed after its only step, before its manifest said so
    spec = run.spec
    with run.abandonable():
        results = evaluate(Request(spec.method, spec.world, spec.seed, spec.settings))
    mean = results[0]["mean"]
    if not logged:
        run.log({"iteration": 1, **mean})
    run.write_evaluation(results)
    run.advance(1, 1, dict, **{name: mean[name] for name in ("success", "mismatches") if name in mean})
