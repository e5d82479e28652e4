"""The last steps of every environment, which potentials look at, and the forms in which they want to see them.

    history = History(num_envs, horizon=5)
    history.start(images)
    history.act(actions)                   # what was chosen, before the environments step
    history.see(images, ended)             # what came of it; where an episode ended, its successor's first view
    history.windows()                      # B windows of 6 views, the 5 actions between them, and step numbers

A window holds nothing that was not known when its last view was: so a potential of it is a potential of the state.
The original fills an episode's first window with the action that is only then chosen (`padding=None`).
Source: spec background-knowledge 6. Called from: `potentials.py`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from groundlab import worlds
from groundlab.learning.shaping import Quirks
from groundlab.papers.knowledge.captions import MINIGRID_ACTIONS
from groundlab.worlds.codes import DONE
from groundlab.worlds.crafter.rules import NOOP, VERBS

_PICTURE_SHAPE = (64, 64, 3)
PICTURE = 64 * 64 * 3  # bytes of a view of Crafter before its codes
DIVISORS = np.array([10.0, 5.0, 3.0], np.float32)  # of an image's channels, in the policy's eyes


class Windows(NamedTuple):
    """N stretches of K steps."""

    views: np.ndarray  # [N, K + 1, ...], as the world gives them (uint8 [7, 7, 3], or captions)
    actions: np.ndarray  # int64 [N, K]
    times: np.ndarray  # int64 [N, K + 1], steps since the episode began


def channels_first(views: np.ndarray) -> np.ndarray:
    """[..., X, Y, 3] to [..., 3, X, Y]: how LLM-written code and the networks index a view."""
    return np.moveaxis(views, -1, -3)


def normalised(views: np.ndarray) -> np.ndarray:
    """[..., 7, 7, 3] codes to float32 [..., 3, 7, 7], channels divided by 10, 5, 3 (spec 1.1, ImageObsWrapper).

    Crafter's views, [..., bytes] (`senses.py`): their pictures, [..., 3, 64, 64], divided by 255 (spec 1.2).
    """
    if views.shape[-1] > PICTURE:
        return compact(views).astype(np.float32) / np.float32(255)
    return channels_first(views.astype(np.float32) / DIVISORS)


def compact(views: np.ndarray) -> np.ndarray:
    """What `normalised` gives, but Crafter's pictures still as bytes: a quarter of the room."""
    if views.shape[-1] > PICTURE:
        return channels_first(views[..., :PICTURE].reshape(*views.shape[:-1], *_PICTURE_SHAPE))
    return normalised(views)


def stacked(parts: list[Windows]) -> Windows:
    """The windows of several steps as one batch, step after step."""
    return Windows._make(np.concatenate(field) for field in zip(*parts, strict=True))


class History:
    """The last `horizon` steps of B environments that restart in the step in which they end."""

    def __init__(self, num_envs: int, horizon: int, padding: int | None = DONE, quirks: Quirks | None = None):
        """padding: the action that fills an episode's first window; None: its first action, as in the original."""
        self._horizon, self._padding = horizon, padding
        self._shared_clock = (quirks or Quirks()).shared_clock
        self._actions = np.zeros((num_envs, horizon), np.int64)
        self._times = np.zeros((num_envs, horizon + 1), np.int64)
        self._chosen = np.zeros(num_envs, np.int64)
        self._views = np.zeros((num_envs, horizon + 1))

    def start(self, views: np.ndarray) -> None:
        """First views [B, ...] of first episodes."""
        self._views = np.stack([views] * (self._horizon + 1), axis=1)
        self._times[:] = 0
        self._actions[:] = 0 if self._padding is None else self._padding

    def act(self, actions: np.ndarray) -> None:
        """What was chosen [B]; it enters the windows with the next views."""
        self._chosen = np.asarray(actions, np.int64)
        if self._padding is None:
            fresh = self._times[:, -1] == 0
            self._actions[fresh] = self._chosen[fresh, None]

    def see(self, views: np.ndarray, ended: np.ndarray) -> None:
        """The views [B, ...] after the chosen actions; ended: bool [B]."""
        following = self.after(views)
        self._views, self._actions = following.views, following.actions
        self._times = self._later()
        self._views[ended] = np.asarray(views)[ended][:, None]
        self._times[ended] = 0
        self._actions[ended] = 0 if self._padding is None else self._padding

    def after(self, views: np.ndarray) -> Windows:
        """The windows as they would be with these views next: those of observations that a time limit cuts off."""
        seen = np.concatenate([self._views[:, 1:], np.asarray(views)[:, None]], axis=1)
        actions = np.concatenate([self._actions[:, 1:], self._chosen[:, None]], axis=1)
        return Windows(
            seen, actions, self._clock(np.concatenate([self._times[:, 1:], self._times[:, -1:] + 1], axis=1))
        )

    def windows(self) -> Windows:
        """The windows [B] that end with the latest views; copies."""
        return Windows(self._views.copy(), self._actions.copy(), self._clock(self._times))

    def _later(self) -> np.ndarray:
        return np.concatenate([self._times[:, 1:], self._times[:, -1:] + 1], axis=1)

    def _clock(self, times: np.ndarray) -> np.ndarray:
        return np.repeat(times[-1:], len(times), axis=0) if self._shared_clock else times.copy()

    def state(self) -> dict[str, Any]:
        """What `load_state` continues from, for JSON."""
        fields = {"views": self._views, "actions": self._actions, "times": self._times}
        return {name: field.tolist() for name, field in fields.items()} | {"dtype": self._views.dtype.str}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from what `state` gave."""
        self._views = np.array(state["views"], dtype=state["dtype"])
        self._actions, self._times = (np.array(state[name], np.int64) for name in ("actions", "times"))


WORLDS = (
    *worlds.names("grid"),
    *(name for name, world in worlds.CRAFTER_WORLDS.items() if world.text),
)


class ObservationAdapter(NamedTuple):
    """What differs between the families of worlds."""

    shape: tuple[int, int, int]
    """What the networks read, channels first."""
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
    succeeded: Callable[[np.ndarray, dict[str, Any]], np.ndarray]
    """(terminated [B], info of a step) to who has done the task, bool [B]."""


def _grids(world: str, count: int, autoreset: str) -> VectorEnv:
    return worlds.GridVectorEnv(worlds.find(world), count, autoreset=autoreset)


def _crafter(world: str, count: int, autoreset: str) -> VectorEnv:
    return worlds.make(world, count, autoreset=autoreset, success="terminated")


def _image(observations: dict[str, Any]) -> np.ndarray:
    return observations["image"]


def _picture_and_codes(observations: dict[str, Any]) -> np.ndarray:
    pictures = observations["image"]
    return np.concatenate([pictures.reshape(len(pictures), -1), observations["codes"]], 1)


GRID = ObservationAdapter(
    (3, 7, 7), MINIGRID_ACTIONS, DONE, "minigrid", _grids, _image, lambda terminated, info: terminated
)
CRAFTER = ObservationAdapter(
    (3, 64, 64), tuple(VERBS), NOOP, "crafter", _crafter, _picture_and_codes, lambda terminated, info: info["done"]
)  # fmt: skip


def adapter_for(world: str | None) -> ObservationAdapter:
    """The senses for a world of that name; for none, a grid's."""
    return CRAFTER if world in worlds.CRAFTER_WORLDS else GRID
