"""Compile worlds before they are needed: `groundlab worlds --compile`, and before workers start together.

Without it the first world of a family compiles what that family needs, in about 15 CPU-seconds. Compiled loops are
kept in `~/.cache/groundlab/numba`, or where `NUMBA_CACHE_DIR` says (core/compiled.py).
"""

from collections.abc import Iterator

import numpy as np

from groundlab.worlds.family import families, make

_GRIDS = ("SimpleDoorKey", "MovingObstacle", "BabyAI-GoToLocal-v0", "BabyAI-BossLevel-v0")  # each compiles more


def compile_worlds(crafter: bool = True) -> Iterator[str]:
    """Compile every loop of our own families that no cache holds; yields the worlds by which it was done."""
    names = [*_GRIDS, *list(families()["crafter"].worlds)[: 1 if crafter else 0]]
    for name in names:
        env = make(name, 1, seed=0)
        observations, _ = env.reset()
        env.step(np.zeros(1, np.int64))
        family = next(each for each in families().values() if name in each.worlds)
        family.describe(family.worlds[name], observations)
        yield name
