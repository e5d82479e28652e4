"""Every random draw has an owner: one generator a purpose, derived from a run's seed.

`generator(seed, "exploration", 3)` is the child of `SeedSequence(seed)` whose spawn key is the purpose, so streams
never depend on the order in which they are made. There is no global generator anywhere in the package.
Torch generators are made in `learning/checkpoints.py` (this floor does not know torch).
"""

import zlib

import numpy as np

Purpose = str | int


def seed_sequence(seed: int, *purpose: Purpose) -> np.random.SeedSequence:
    """The seed sequence of one purpose of a run; words are folded to 32 bits by CRC-32, integers are kept."""
    key = tuple(zlib.crc32(part.encode()) if isinstance(part, str) else part for part in purpose)
    return np.random.SeedSequence(seed, spawn_key=key)


def generator(seed: int, *purpose: Purpose) -> np.random.Generator:
    """A PCG64 generator owned by `purpose`, e.g. `generator(7, "layouts")`."""
    return np.random.Generator(np.random.PCG64(seed_sequence(seed, *purpose)))


def child_seed(seed: int, *purpose: Purpose) -> int:
    """A 63-bit integer seed for libraries that take one (torch)."""
    return int(seed_sequence(seed, *purpose).generate_state(1, np.uint64)[0] >> np.uint64(1))
