"""Rewards in the style of two other papers, made of the same knowledge, to compare potentials with.

    Suggested(goals)             ELLM (Du et al. 2023, arXiv 2302.06692): near to a suggested goal, once an episode
    Preferred(network, windows)  Motif (Klissarov et al. 2023, arXiv 2310.00166): what a judge prefers, less each time
    bonus(reached, ends)         what the steps of a rollout are paid [T, B]

They are paid as they are, not as differences of a potential, so they can change which policy is best. Neither is a
rebuilding of its paper: knowledge is asked for once, before training, where ELLM asks at every step; the encoder, the
judge and the networks are this package's. Called from: `shaped.py`, `learner.py`.
"""

from abc import ABC, abstractmethod
from collections import Counter
from hashlib import blake2b
from typing import Any

import numpy as np

from groundlab.methods.knowledge.captions import readable
from groundlab.methods.knowledge.goals import GoalPotential
from groundlab.methods.knowledge.potentials import Potential
from groundlab.methods.knowledge.windows import Windows

RARER = 3.0  # the power of visits that Motif divides by
KEPT_SHARE = 0.5  # of scores that count, the upper ones (Motif's threshold is a quantile too)


class Bonus(ABC):
    """Pays steps; remembers what each environment has met in its present episode."""

    horizon: int

    @abstractmethod
    def __call__(self, reached: Windows, ends: np.ndarray) -> np.ndarray:
        """float64 [T, B]. reached: T x B windows, step after step, each with the view that its step led to, that of an
        episode's end included; ends: bool [T, B]."""

    @abstractmethod
    def state(self) -> Any:
        """What `load_state` continues from, for JSON."""

    @abstractmethod
    def load_state(self, state: Any) -> None:
        """Continue from what `state` gave."""


class Suggested(Bonus):
    """How near a step comes to the nearest goal on offer, beyond BK-Goal's threshold; a goal pays once an episode."""

    def __init__(self, goals: GoalPotential):
        self._goals, self.horizon = goals, goals.horizon
        self._met = np.zeros((0, 0), bool)  # [B, goals]

    def __call__(self, reached: Windows, ends: np.ndarray) -> np.ndarray:
        near = self._goals.nearness(reached).reshape(*ends.shape, -1)
        if not self._met.size:
            self._met = np.zeros(near.shape[1:], bool)
        paid = np.zeros(ends.shape)
        for step, ended in enumerate(ends):
            counted = np.where(self._met | (near[step] <= self._goals.threshold), 0.0, near[step])
            paid[step] = counted.max(1)
            self._met = (self._met | (counted > 0)) & ~ended[:, None]
        return paid

    def state(self) -> list[list[bool]]:
        return self._met.tolist()

    def load_state(self, state: list[list[bool]]) -> None:
        self._met = np.array(state, bool) if state else np.zeros((0, 0), bool)


class Preferred(Bonus):
    """The judge's score of a step, in deviations from its mean on known play, where it is among the upper half; divided
    by how often the present view has been reached in this episode, to the third power.

    Visits are counted by what captions are read from, where Motif counts captions.
    """

    def __init__(self, score: Potential, known: Windows):
        """score: what the preference network says of windows; known: of the labelled dataset, to measure it on."""
        self._score, self.horizon = score, score.horizon
        told = score(known)
        self._mean, self._deviation = float(told.mean()), float(told.std()) or 1.0
        self._least = float(np.quantile(self._standard(told), 1 - KEPT_SHARE))
        self._visits: list[Counter[str]] = []

    def _standard(self, scores: np.ndarray) -> np.ndarray:
        return (scores - self._mean) / self._deviation

    def __call__(self, reached: Windows, ends: np.ndarray) -> np.ndarray:
        scores = self._standard(self._score(reached)).reshape(ends.shape)
        views = _names(reached.views[:, -1]).reshape(ends.shape)
        self._visits = self._visits or [Counter() for _ in range(ends.shape[1])]
        times = np.array([self._counted(*row) for row in zip(views, ends, strict=True)])
        return np.where(scores >= self._least, scores, 0.0) / times**RARER

    def _counted(self, views: np.ndarray, ended: np.ndarray) -> list[int]:
        """How often each environment's view [B] was reached in its episode, this time included."""
        times = []
        for env, view in enumerate(views.tolist()):
            self._visits[env][view] += 1
            times.append(self._visits[env][view])
            if ended[env]:
                self._visits[env].clear()
        return times

    def state(self) -> list[dict[str, int]]:
        return [dict(visits) for visits in self._visits]

    def load_state(self, state: list[dict[str, int]]) -> None:
        self._visits = [Counter(visits) for visits in state]


def _names(views: np.ndarray) -> np.ndarray:
    """A short name [N] of each distinct view."""
    rows = np.ascontiguousarray(readable(views)).reshape(len(views), -1)
    return np.array([blake2b(row.tobytes(), digest_size=8).hexdigest() for row in rows])
