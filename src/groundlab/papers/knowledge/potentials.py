"""Potentials: what is thought of the last steps of an episode, before any reward is earned. The three forms, and rows
to compare them with.

    CodePotential(source, sandbox)       BK-Code: a program of a language model, run in the sandbox
    PreferencePotential(network)         BK-Pref: what the preference transformer gives the latest step
    goals.GoalPotential(library, embed)  BK-Goal: how near the latest step comes to a suggested goal
    zero, RandomPotential, OraclePotential

Every one maps `Windows` of its `horizon` to float64 [N]. Read next: `learning/shaping.py`, what becomes of them.
"""

from abc import ABC, abstractmethod
from collections import Counter
from hashlib import blake2b
from typing import Any, Literal, Protocol

import numpy as np
import torch

from groundlab.core.errors import GroundlabError
from groundlab.core.hashing import digest_bytes
from groundlab.core.seeding import generator
from groundlab.papers.knowledge.bk_goal import GoalPotential
from groundlab.papers.knowledge.bk_pref import PreferenceTransformer, Segments
from groundlab.papers.knowledge.captions import readable
from groundlab.papers.knowledge.observations import Windows, channels_first, compact, normalised
from groundlab.papers.knowledge.sandbox import Sandbox
from groundlab.papers.knowledge.sandbox.results import Fault
from groundlab.worlds.codes import COLOURS, TYPES

_BATCH = 256
_PATIENCE = 200  # windows before a program may be given up


class Potential(Protocol):
    """Windows of `horizon` steps to numbers [N]."""

    @property
    def horizon(self) -> int: ...

    def __call__(self, windows: Windows) -> np.ndarray: ...


class Zero:
    """phi = 0: plain PPO."""

    horizon = 1

    def __call__(self, windows: Windows) -> np.ndarray:
        return np.zeros(len(windows.actions))


class RandomPotential:
    """A number for each distinct view, uniform in 0 .. 1: what shaping does without knowledge."""

    horizon = 1

    def __init__(self, seed: int):
        self._rng, self._weights = generator(seed, "random potential"), np.zeros(0, np.uint64)

    def __call__(self, windows: Windows) -> np.ndarray:
        latest = windows.views[:, -1].reshape(len(windows.actions), -1).astype(np.uint64)
        if not len(self._weights):
            self._weights = self._rng.integers(1, 2**63, latest.shape[1], dtype=np.uint64)
        mixed = (latest + 1) @ self._weights
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(11)).astype(np.float64) / 2**53


class OraclePotential:
    """1 while a thing that the mission is about is in view: it knows the task, which background knowledge does not."""

    horizon = 1

    def __init__(self, targets: list[tuple[str, str]]):
        """targets: (type, colour) by name, e.g. [("ball", "red")]."""
        self._targets = [(TYPES.index(kind), COLOURS.index(colour)) for kind, colour in targets]

    def __call__(self, windows: Windows) -> np.ndarray:
        kinds, colours = windows.views[:, -1, ..., 0], windows.views[:, -1, ..., 1]
        seen = [((kinds == kind) & (colours == colour)).any((1, 2)) for kind, colour in self._targets]
        return np.any(seen, axis=0).astype(np.float64)


class CodePotential:
    """A program's values. Where it fails phi is 0 and counted; a program that fails too often ends the run."""

    horizon = 5

    def __init__(
        self,
        source: str,
        sandbox: Sandbox,
        most_failures: float = 0.05,
        observation: Literal["codes", "normalised"] = "codes",
    ):
        """observation: integers as the prompt says; "normalised" are the original's fractions (quirk Q7)."""
        self.source, self.sha256 = source, digest_bytes(source.encode())
        self._sandbox, self._most, self._observation = sandbox, most_failures, observation
        self.asked, self.failed = 0, 0
        self.faults: list[Fault] = []

    def __call__(self, windows: Windows) -> np.ndarray:
        """phi [N]. Raises GroundlabError when more than `most_failures` of all windows have failed."""
        views = channels_first(windows.views) if self._observation == "codes" else normalised(windows.views)
        outcome = self._sandbox.evaluate(self.source, views, windows.actions)
        self.asked, self.failed = self.asked + len(outcome.values), self.failed + int(outcome.failed.sum())
        if outcome.fault:
            self.faults = [*self.faults, outcome.fault][:10]
        if self.asked >= _PATIENCE and self.failed > self._most * self.asked:
            share, last = self.failed / self.asked, self.faults[0].message.strip().split("\n")[-1]
            name = f"program {self.sha256[:12]} fails on {share:.0%} of {self.asked:,} windows"
            raise GroundlabError(f"{name} ({self.faults[0].kind}: {last}); choose another one")
        return outcome.values


class PreferencePotential:
    """The value of the latest step: of the state and the action before the present view, given those before."""

    horizon = 5

    def __init__(self, network: PreferenceTransformer, device: str = "cpu"):
        self._network, self._device = network.eval().to(device), device

    @torch.inference_mode()
    def __call__(self, windows: Windows) -> np.ndarray:
        """phi [N] of windows of views uint8 [N, 6, 7, 7, 3], or of Crafter's [N, 6, bytes]."""
        states = torch.from_numpy(compact(windows.views)).to(self._device)
        fields = (torch.from_numpy(field).to(self._device) for field in (windows.actions, windows.times))
        segments = Segments(states, *fields)
        rows = torch.arange(len(windows.actions)).split(_BATCH)
        values = [self._network.values(segments.rows(index))[:, -1] for index in rows]
        return torch.cat(values).double().cpu().numpy() if values else np.zeros(0)


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
