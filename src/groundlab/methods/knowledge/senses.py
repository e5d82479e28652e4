"""What the agents of background knowledge see of a world, and how it is told: grids and Crafter behind one door.

    senses = senses_of("Crafter-Text-EatCow")
    envs = senses.make("Crafter-Text-EatCow", 16, "same-step")
    views = senses.view(envs.reset()[0])       # what windows and datasets hold, uint8 [B, ...]

A grid's view is its image. Crafter's is a row of bytes, the picture and then the view in codes: the networks read the
first, captions the second. Called from: `learner.py`, `shaped.py`, `collect.py`. Read next: `windows.py`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from groundlab import worlds
from groundlab.methods.knowledge.captions import MINIGRID_ACTIONS
from groundlab.worlds.codes import DONE
from groundlab.worlds.crafter.rules import NOOP, VERBS

WORLDS = (
    *(name for name, world in worlds.WORLDS.items() if not world.is_door_key),
    *(name for name, world in worlds.CRAFTER_WORLDS.items() if world.text),
)


class Senses(NamedTuple):
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


GRID = Senses((3, 7, 7), MINIGRID_ACTIONS, DONE, "minigrid", _grids, _image, lambda terminated, info: terminated)
CRAFTER = Senses(
    (3, 64, 64), tuple(VERBS), NOOP, "crafter", _crafter, _picture_and_codes, lambda terminated, info: info["done"]
)  # fmt: skip


def senses_of(world: str | None) -> Senses:
    """The senses for a world of that name; for none, a grid's."""
    return CRAFTER if world in worlds.CRAFTER_WORLDS else GRID
