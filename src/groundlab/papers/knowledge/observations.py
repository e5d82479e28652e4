"""Observations: the views of each family of worlds, and windows of the last steps, which potentials read.

    adapter = adapter_for(world)                         actions, shapes, and how environments are made and read
    history = History(num_envs, horizon=5, padding=adapter.padding)
    history.start(views)
    history.act(actions)                   # what was chosen, before the environments step
    history.observe(views, ended)          # the views after it; where an episode ended, its successor's first one
    history.windows()                      # B windows of 6 views, the 5 actions between them, and step numbers

A window holds nothing that was not known when its last view was: so a potential of it is a potential of the state.
The original fills an episode's first window with the action that is only then chosen (`padding=None`).
Source: docs/papers/knowledge-method.md#s6.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from groundlab import worlds
from groundlab.learning.options import Quirks
from groundlab.papers.knowledge.captions import MINIGRID_ACTIONS, PICTURE
from groundlab.worlds.codes import DONE
from groundlab.worlds.crafter.rules import NOOP, VERBS

# --- The families of worlds


class ObservationAdapter(NamedTuple):
    """What differs between the families of worlds."""

    shape: tuple[int, int, int]
    """Of the networks' input, channels first."""
    actions: tuple[str, ...]
    """As captions call them."""
    padding: int
    """The action that changes nothing; it fills an episode's first window."""
    prompt: str
    """The prompt that tells a language model about the world, by name (assets/prompts/knowledge)."""
    make: Callable[[str, int, str], Any]
    """(world, number, autoreset) to a vector environment that can be saved."""
    view: Callable[[dict[str, Any]], np.ndarray]
    """Observations to views uint8 [B, ...]."""
    success: Callable[[np.ndarray, dict[str, Any]], np.ndarray]
    """(terminated [B], info of a step) to whether the task was done, bool [B]."""


def _make_grids(world: str, count: int, autoreset: str) -> VectorEnv:
    return worlds.GridVectorEnv(worlds.find(world), count, autoreset=autoreset)


def _make_crafter(world: str, count: int, autoreset: str) -> VectorEnv:
    return worlds.make(world, count, autoreset=autoreset, success="terminated")


def _picture_and_codes(observations: dict[str, Any]) -> np.ndarray:
    pictures = observations["image"]
    return np.concatenate([pictures.reshape(len(pictures), -1), observations["codes"]], 1)


GRID = ObservationAdapter(
    shape=(3, 7, 7),
    actions=MINIGRID_ACTIONS,
    padding=DONE,
    prompt="minigrid",
    make=_make_grids,
    view=lambda observations: observations["image"],
    success=lambda terminated, info: terminated,
)
CRAFTER = ObservationAdapter(
    shape=(3, 64, 64),
    actions=tuple(VERBS),
    padding=NOOP,
    prompt="crafter",
    make=_make_crafter,
    view=_picture_and_codes,
    success=lambda terminated, info: info["done"],
)


def adapter_for(world: str | None) -> ObservationAdapter:
    """The adapter of a world's family; without a world, that of grids."""
    return CRAFTER if world in worlds.CRAFTER_WORLDS else GRID


# --- Views as networks and programs read them

_PICTURE_SHAPE = (64, 64, 3)
DIVISORS = np.array([10.0, 5.0, 3.0], np.float32)  # of a grid view's channels, for networks


def channels_first(views: np.ndarray) -> np.ndarray:
    """[..., X, Y, 3] to [..., 3, X, Y]: how LLM-written code and the networks index a view."""
    return np.moveaxis(views, -1, -3)


def normalise(views: np.ndarray) -> np.ndarray:
    """[..., 7, 7, 3] codes to float32 [..., 3, 7, 7], channels divided by 10, 5, 3
    (docs/papers/knowledge-method.md#s1-1, ImageObsWrapper).

    Crafter's views, [..., bytes]: their pictures, [..., 3, 64, 64], divided by 255
    (docs/papers/knowledge-method.md#s1-2).
    """
    if views.shape[-1] > PICTURE:
        return compact(views).astype(np.float32) / np.float32(255)
    return channels_first(views.astype(np.float32) / DIVISORS)


def compact(views: np.ndarray) -> np.ndarray:
    """As `normalise`, but Crafter's pictures stay bytes: a quarter of the memory."""
    if views.shape[-1] > PICTURE:
        return channels_first(views[..., :PICTURE].reshape(*views.shape[:-1], *_PICTURE_SHAPE))
    return normalise(views)


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(first [M], which [N]) of rows [N, ...]: those that differ, by first showing, and each row's among them.

    So `rows[first][which]` is `rows`. What is computed of views is computed of `views[first]` alone.
    """
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
    numbers: dict[bytes, int] = {}
    keys = flat.view(f"S{flat.shape[1]}")[:, 0].tolist()  # less the zeros at their ends, which tells them apart as well
    which = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    first = np.zeros(len(numbers), np.int64)
    first[which[::-1]] = np.arange(len(which))[::-1]
    return first, which


# --- Windows


class Windows(NamedTuple):
    """N stretches of K steps."""

    views: np.ndarray  # [N, K + 1, ...], as the world gives them (uint8 [7, 7, 3])
    actions: np.ndarray  # int64 [N, K]
    times: np.ndarray  # int64 [N, K + 1], steps since the episode began


def stack(parts: list[Windows]) -> Windows:
    """The windows of several steps as one batch, step after step."""
    return Windows._make(np.concatenate(field) for field in zip(*parts, strict=True))


class History:
    """The last `horizon` steps of B environments that restart in the step in which they end."""

    def __init__(self, num_envs: int, horizon: int, padding: int | None = DONE, quirks: Quirks | None = None):
        """padding: the action that fills an episode's first window; None: its first action, as in the original."""
        self._horizon, self._padding, self._first_fills = horizon, padding or 0, padding is None
        self._shared_clock = (quirks or Quirks()).shared_clock
        self._actions = np.zeros((num_envs, horizon), np.int64)
        self._times = np.zeros((num_envs, horizon + 1), np.int64)
        self._choice = np.zeros(num_envs, np.int64)
        self._views = np.zeros((num_envs, horizon + 1))

    def start(self, views: np.ndarray) -> None:
        """First views [B, ...] of first episodes."""
        self._views = np.stack([views] * (self._horizon + 1), axis=1)
        self._times[:] = 0
        self._actions[:] = self._padding

    def act(self, actions: np.ndarray) -> None:
        """The actions chosen [B]; they enter the windows with the next views."""
        self._choice = np.asarray(actions, np.int64)
        if self._first_fills:
            fresh = self._times[:, -1] == 0
            self._actions[fresh] = self._choice[fresh, None]

    def observe(self, views: np.ndarray, ended: np.ndarray) -> None:
        """The views [B, ...] after the chosen actions; ended: bool [B]."""
        following = self.after(views)
        self._views, self._actions = following.views, following.actions
        self._times = self._next_times()
        self._views[ended] = np.asarray(views)[ended][:, None]
        self._times[ended] = 0
        self._actions[ended] = self._padding

    def after(self, views: np.ndarray) -> Windows:
        """The windows as they would be with these views next: those of observations that a time limit cuts off."""
        following = np.concatenate([self._views[:, 1:], np.asarray(views)[:, None]], axis=1)
        actions = np.concatenate([self._actions[:, 1:], self._choice[:, None]], axis=1)
        return Windows(following, actions, self._clock(self._next_times()))

    def windows(self) -> Windows:
        """The windows [B] that end with the latest views; copies."""
        return Windows(self._views.copy(), self._actions.copy(), self._clock(self._times))

    def _next_times(self) -> np.ndarray:
        return np.concatenate([self._times[:, 1:], self._times[:, -1:] + 1], axis=1)

    def _clock(self, times: np.ndarray) -> np.ndarray:
        return np.repeat(times[-1:], len(times), axis=0) if self._shared_clock else times.copy()

    def state(self) -> dict[str, Any]:
        """What `load_state` continues from, for JSON."""
        fields = {"views": self._views, "actions": self._actions, "times": self._times}
        return {name: field.tolist() for name, field in fields.items()} | {"dtype": self._views.dtype.str}

    def load_state(self, state: dict[str, Any]) -> None:
        self._views = np.array(state["views"], dtype=state["dtype"])
        self._actions, self._times = (np.array(state[name], np.int64) for name in ("actions", "times"))
