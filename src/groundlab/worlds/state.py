"""B grids as arrays: everything that an environment remembers between two steps.

`Grids` is a named tuple of NumPy arrays, so compiled loops take it whole and a checkpoint is a copy of its arrays.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from groundlab.worlds import missions
from groundlab.worlds.pcg64 import ROW
from groundlab.worlds.rules import Rules, table


class Grids(NamedTuple):
    """The state of B environments on grids of W x H cells."""

    cells: np.ndarray  # uint8 [B, W, H, 3]: type, colour, state
    contents: np.ndarray  # uint8 [B, W, H, 2]: type, colour of what a box holds; type 0 for nothing
    agents: np.ndarray  # int64 [B, 3]: x, y, heading
    carried: np.ndarray  # uint8 [B, 5]: type (0 for nothing), colour, its own content as in `contents`, its marks
    seen: np.ndarray  # bool [B, W, H]: cells that were ever in view
    steps: np.ndarray  # int64 [B]: actions since reset
    max_steps: np.ndarray  # int64 [B]: time limit
    sizes: np.ndarray  # int64 [B, 2]: width and height in use; BabyAI levels wall off the rest
    levels: np.ndarray  # int64 [K, rules]: the world's levels (`rules.table`), the same for all environments
    kind: np.ndarray  # int64 [B]: which of them each environment plays
    missions: np.ndarray  # int64 [B, 39]: what is asked (missions.py)
    tracked: np.ndarray  # uint8 [B, W, H, 2]: what the descriptions mean (bits), and where that is believed to lie
    progress: np.ndarray  # int64 [B, 7]: how far the mission has come (missions.py)
    random: np.ndarray  # uint64 [B, 6]: a PCG64 each (pcg64.py)


def empty_grids(num_envs: int, width: int, height: int, levels: Sequence[Rules], kinds: Sequence[int]) -> Grids:
    """Zeroed state for `num_envs` canvases of `width` x `height` cells; `kinds` [B] says which level each one plays."""
    return Grids(
        cells=np.zeros((num_envs, width, height, 3), np.uint8),
        contents=np.zeros((num_envs, width, height, 2), np.uint8),
        agents=np.zeros((num_envs, 3), np.int64),
        carried=np.zeros((num_envs, 5), np.uint8),
        seen=np.zeros((num_envs, width, height), np.bool_),
        steps=np.zeros(num_envs, np.int64),
        max_steps=np.zeros(num_envs, np.int64),
        sizes=np.tile(np.array([width, height]), (num_envs, 1)),
        levels=table(levels),
        kind=np.array(kinds, np.int64),
        missions=np.zeros((num_envs, missions.WIDTH), np.int64),
        tracked=np.zeros((num_envs, width, height, 2), np.uint8),
        progress=np.zeros((num_envs, missions.PROGRESS), np.int64),
        random=np.zeros((num_envs, ROW), np.uint64),
    )


def save_arrays(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A copy of every array, by name (for checkpoints)."""
    return {name: array.copy() for name, array in arrays.items()}


def load_arrays(arrays: dict[str, np.ndarray], saved: dict[str, np.ndarray]) -> None:
    """Write saved arrays back in place. Raises ValueError when a shape differs."""
    for name, array in arrays.items():
        if saved[name].shape != array.shape:
            raise ValueError(f"saved {name} has shape {saved[name].shape}, this needs {array.shape}")
        array[...] = saved[name]
