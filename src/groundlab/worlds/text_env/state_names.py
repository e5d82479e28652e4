"""The bytes that name a state: equal states of a world have equal names, different states have different ones.

Neither the time nor the position of the random stream counts, so what a name tells apart is what can be done from
there. Agents that compare steps taken in the same state (GiGPO's anchors) use them as keys.
"""

import hashlib
from typing import Any

import numpy as np

from groundlab.core.compiled import compiled, inlined

NAME_BYTES = 16
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd, from the golden ratio; xxHash's
_SHIFT, _OTHER_SHIFT = np.uint64(32), np.uint64(29)
_SKIPPED = {"steps", "random", "seeds", "episodes"}


@inlined
def _mix(name, word):
    """Take one word into both halves of a name; each step can be undone, so no information is lost but by length."""
    name[0] = (name[0] ^ word) * _FIRST
    name[0] ^= name[0] >> _SHIFT
    name[1] = (name[1] + word) * _SECOND
    name[1] ^= name[1] >> _OTHER_SHIFT


@compiled
def name_grids(grids, names):
    """Write the name of each environment of the grid engine (state.py) into `names` uint64 [B, 2]."""
    for env in range(names.shape[0]):
        name, cells, contents = names[env], grids.cells[env], grids.contents[env]
        name[0], name[1] = _FIRST, _SECOND
        for x in range(cells.shape[0]):
            for y in range(cells.shape[1]):
                thing = np.uint64(cells[x, y, 0]) | np.uint64(cells[x, y, 1]) << np.uint64(8)
                thing |= np.uint64(cells[x, y, 2]) << np.uint64(16) | np.uint64(contents[x, y, 0]) << np.uint64(24)
                thing |= np.uint64(contents[x, y, 1]) << np.uint64(32)
                thing |= np.uint64(grids.tracked[env, x, y, 0]) << np.uint64(40)
                _mix(name, thing | np.uint64(grids.tracked[env, x, y, 1]) << np.uint64(48))
        for each in grids.agents[env]:
            _mix(name, np.uint64(each))
        for each in grids.carried[env]:
            _mix(name, np.uint64(each))
        for each in grids.missions[env]:
            _mix(name, np.uint64(each))
        for each in grids.progress[env]:
            _mix(name, np.uint64(each))


def name_states(envs: Any, observations: dict[str, Any]) -> np.ndarray:
    """uint64 [B, 2]: the names of the environments of a batch, after these observations of theirs.

    Of a game that keeps no arrays, the view names the state.
    """
    names = np.zeros((envs.num_envs, 2), np.uint64)
    if hasattr(envs, "grids"):
        name_grids(envs.grids, names)
        return names
    lives = getattr(envs, "lives", None)
    arrays = observations if lives is None else lives._asdict()
    kept = [np.asarray(array) for name, array in arrays.items() if name not in _SKIPPED]
    for env in range(envs.num_envs):
        state = b"".join(array[env].tobytes() for array in kept)
        names[env] = np.frombuffer(hashlib.blake2b(state, digest_size=NAME_BYTES).digest(), np.uint64)
    return names
