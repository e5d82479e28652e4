"""Potentials: what is thought of the last steps of an episode, before any reward is earned. The three forms, and rows
to compare them with.

    CodePotential(source, sandbox)       BK-Code: a program of a language model, run in the sandbox
    PreferencePotential(network)         BK-Pref: what the preference transformer gives the latest step
    goals.GoalPotential(library, embed)  BK-Goal: how near the latest step comes to a suggested goal
    zero, RandomPotential, OraclePotential

Every one maps `Windows` of its `horizon` to float64 [N]. Read next: `learning/shaping.py`, what becomes of them.
"""

from typing import Literal, Protocol

import numpy as np
import torch

from groundlab.core.errors import GroundlabError
from groundlab.core.hashing import digest_bytes
from groundlab.core.seeding import generator
from groundlab.methods.knowledge.outcomes import Fault
from groundlab.methods.knowledge.preference import PreferenceTransformer, Segments
from groundlab.methods.knowledge.sandbox import Sandbox
from groundlab.methods.knowledge.windows import Windows, channels_first, compact, normalised
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
