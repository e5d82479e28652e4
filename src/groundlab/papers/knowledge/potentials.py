"""Potentials and bonuses: numbers for the last steps of an episode, before the world pays anything.

    potential = OraclePotential(targets(world))
    phi = potential(windows)                                       float64 [N] of `Windows` of its `horizon`
    scale = measure_scale(potential, world, seed, "range", 0.99)   what it is divided by
    centred = Adjusted(potential, offset=play_mean(potential, world, seed))
    effect = play_effect(potential, world, seed, 0.99)             mean |F| a step, before any division

A potential becomes shaping terms (learning/shaping.py), which leave optimal policies alone. A bonus is added to rewards
and changes them. Here are the controls; knowledge is in `bk_code.py`, `bk_pref.py` and `bk_goal.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch

from groundlab import worlds
from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.learning.shaping import scale_of
from groundlab.papers.knowledge.observations import History, Windows, adapter_for, stack
from groundlab.worlds import rules
from groundlab.worlds.codes import COLOURS, TYPES

_RANDOM_PLAY = (128, 16)  # steps of random play, and environments, on which sizes are measured
_PLAYS = 4  # as much play, for means and effects: sizes need less


class Potential(ABC):
    """Windows of `horizon` steps to numbers."""

    horizon: int

    @abstractmethod
    def __call__(self, windows: Windows) -> np.ndarray:
        """phi, float64 [N]."""

    def state(self) -> Any:
        """What `load_state` continues from, for JSON; None where there is nothing."""
        return None

    def load_state(self, state: Any) -> None:  # noqa: B027 - does nothing unless overridden
        """Continue from what `state` gave."""

    def notes(self) -> dict[str, Any]:
        """What the manifest of a run says of it."""
        return {}

    def close(self) -> None:  # noqa: B027 - does nothing unless overridden
        """End the processes that it needs."""


class Bonus(ABC):
    """Pays steps; remembers what each environment has met in its present episode."""

    horizon: int

    @abstractmethod
    def __call__(self, windows: Windows, ends: np.ndarray) -> np.ndarray:
        """float64 [T, B]. windows: T x B, step after step, each with the view that its step led to, that of an
        episode's end included; ends: bool [T, B]."""

    @abstractmethod
    def state(self) -> Any:
        """What `load_state` continues from, for JSON."""

    @abstractmethod
    def load_state(self, state: Any) -> None:
        """Continue from what `state` gave."""


class Zero(Potential):
    """phi = 0: plain PPO."""

    horizon = 1

    def __call__(self, windows: Windows) -> np.ndarray:
        return np.zeros(len(windows.actions))


class Constant(Potential):
    """phi = 1: what an offset alone does to learning."""

    horizon = 1

    def __call__(self, windows: Windows) -> np.ndarray:
        return np.ones(len(windows.actions))


class Adjusted(Potential):
    """Another potential, negated on request, less a constant."""

    def __init__(self, potential: Potential, negated: bool = False, offset: float = 0.0):
        self._potential, self._sign, self._offset = potential, -1.0 if negated else 1.0, offset
        self.horizon = potential.horizon

    def __call__(self, windows: Windows) -> np.ndarray:
        return self._sign * self._potential(windows) - self._offset

    def state(self) -> Any:
        return self._potential.state()

    def load_state(self, state: Any) -> None:
        self._potential.load_state(state)

    def notes(self) -> dict[str, Any]:
        return self._potential.notes()

    def close(self) -> None:
        self._potential.close()


class RandomPotential(Potential):
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


class OraclePotential(Potential):
    """1 while a thing that the mission is about is in view: it knows the task, which background knowledge does not."""

    horizon = 1

    def __init__(self, targets: list[tuple[str, str]]):
        """targets: (type, colour) by name, e.g. [("ball", "red")]."""
        self._targets = [(TYPES.index(kind), COLOURS.index(colour)) for kind, colour in targets]

    def __call__(self, windows: Windows) -> np.ndarray:
        kinds, colours = windows.views[:, -1, ..., 0], windows.views[:, -1, ..., 1]
        in_view = [((kinds == kind) & (colours == colour)).any((1, 2)) for kind, colour in self._targets]
        return np.any(in_view, axis=0).astype(np.float64)


def targets(world: str) -> list[tuple[str, str]]:
    """What the missions of a world are about, (type, colour) by name. Raises GroundlabError where that differs."""
    level = worlds.find(world).levels[0]
    pairs = [(level.target_type, level.target_colour), (level.second_type, level.second_colour)]
    fixed = [pair for pair in pairs if rules.DRAWN not in pair and pair[0] in range(len(TYPES) - 1)]
    if not fixed:
        raise GroundlabError(f"{world} draws its targets, so there is no oracle; choose a world with a fixed one")
    return [(TYPES[kind], COLOURS[colour]) for kind, colour in fixed]


def random_play(world: str, horizon: int, seed: int, steps: int, num_envs: int, *part: int) -> Windows:
    """Windows of uniformly random actions, step after step [steps * num_envs]. part: its number, of several."""
    rng = generator(seed, "random play", *part)
    adapter = adapter_for(world)
    envs = adapter.make(world, num_envs, "same-step")
    history = History(num_envs, horizon, adapter.padding)
    layouts = rng.integers(*TRAINING_LAYOUTS, num_envs)
    history.start(adapter.view(envs.reset(seed=layouts.tolist())[0]))
    windows = []
    for _ in range(steps):
        windows.append(history.windows())
        actions = rng.integers(0, len(adapter.actions), num_envs)
        history.act(actions)
        observations, _, terminated, truncated, _ = envs.step(actions)
        history.observe(adapter.view(observations), terminated | truncated)
    return stack(windows)


def measure_scale(
    knowledge: Potential | Bonus, world: str, seed: int, measure: float | Literal["range", "sums"], gamma: float
) -> float:
    """What potentials or bonuses are divided by: a number, or measured in random play of the world.

    measure: "range", from the least phi to the most, and for a bonus its discounted sum over endless random play;
    "sums", the deviation of the discounted sums of phi (`learning.shaping.scale_of`).
    """
    if not isinstance(measure, str):
        return measure
    windows = random_play(world, knowledge.horizon, seed, *_RANDOM_PLAY)
    if isinstance(knowledge, Bonus):
        fresh, starts = knowledge.state(), (windows.times[:, -1] == 0).reshape(_RANDOM_PLAY)
        ends = np.concatenate([starts[1:], np.ones_like(starts[:1])])
        bonuses = knowledge(windows, ends)[~starts]  # no step led to a first view
        knowledge.load_state(fresh)
        return float(bonuses.mean()) / max(1 - gamma, 1e-3) or 1.0
    phi = knowledge(windows)
    if measure == "sums":
        return scale_of(torch.from_numpy(phi).reshape(_RANDOM_PLAY), gamma)
    return float(np.ptp(phi)) or 1.0


def play_mean(potential: Potential, world: str, seed: int) -> float:
    """The mean of phi in random play of the world."""
    return float(np.mean([phi.mean() for phi, _ in _played(potential, world, seed)]))


def play_effect(potential: Potential, world: str, seed: int, gamma: float) -> float:
    """The mean |gamma phi' - phi| of the steps of random play that end no episode."""
    terms = [np.abs(gamma * phi[1:] - phi[:-1])[~starts[1:]] for phi, starts in _played(potential, world, seed)]
    return float(np.concatenate(terms).mean())


def _played(potential: Potential, world: str, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(phi, whether an episode begins there), both [T, B], of each part of some random play."""
    for part in range(_PLAYS):
        windows = random_play(world, potential.horizon, seed, *_RANDOM_PLAY, part)
        yield potential(windows).reshape(_RANDOM_PLAY), (windows.times[:, -1] == 0).reshape(_RANDOM_PLAY)
