"""B grids as arrays: everything that an environment remembers between two steps.

`Grids` is a named tuple of NumPy arrays, so compiled loops take it whole and a checkpoint is a copy of its arrays.
Read next: `dynamics.py` (what an action does to it), `view.py` (what an agent sees of it).
"""

from typing import NamedTuple

import numpy as np

from groundlab.worlds.pcg64 import ROW


class Grids(NamedTuple):
    """The state of B environments on grids of W x H cells."""

    cells: np.ndarray  # uint8 [B, W, H, 3]: type, colour, state
    contents: np.ndarray  # uint8 [B, W, H, 2]: type, colour of what a box holds; type 0 for nothing
    agents: np.ndarray  # int64 [B, 3]: x, y, heading
    carried: np.ndarray  # uint8 [B, 4]: type (0 for nothing), colour, and its own content as in `contents`
    seen: np.ndarray  # bool [B, W, H]: cells that were ever in view
    steps: np.ndarray  # int64 [B]: actions since reset
    max_steps: np.ndarray  # int64 [B]: time limit
    random: np.ndarray  # uint64 [B, 6]: a PCG64 each (pcg64.py)


def empty_grids(num_envs: int, width: int, height: int) -> Grids:
    """Zeroed state for `num_envs` grids of `width` x `height` cells."""
    return Grids(
        cells=np.zeros((num_envs, width, height, 3), np.uint8),
        contents=np.zeros((num_envs, width, height, 2), np.uint8),
        agents=np.zeros((num_envs, 3), np.int64),
        carried=np.zeros((num_envs, 4), np.uint8),
        seen=np.zeros((num_envs, width, height), np.bool_),
        steps=np.zeros(num_envs, np.int64),
        max_steps=np.zeros(num_envs, np.int64),
        random=np.zeros((num_envs, ROW), np.uint64),
    )


def save_grids(grids: Grids) -> dict[str, np.ndarray]:
    """A copy of every array, by name (for checkpoints)."""
    return {name: array.copy() for name, array in grids._asdict().items()}


def load_grids(grids: Grids, saved: dict[str, np.ndarray]) -> None:
    """Write saved arrays back in place. Raises ValueError when a shape differs."""
    for name, array in grids._asdict().items():
        if saved[name].shape != array.shape:
            raise ValueError(f"saved {name} has shape {saved[name].shape}, these grids need {array.shape}")
        array[...] = saved[name]
