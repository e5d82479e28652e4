"""NumPy's legacy stream inside compiled loops: the same seed gives the same draws as `numpy.random.RandomState`.

A generator is a row of 625 uint32: the 624 words of MT19937 (Matsumoto and Nishimura 1998) and how many are used.
"""

import numpy as np

from groundlab.core.compiled import compiled_for, inlined

WORDS = 624
ROW = WORDS + 1
_SHIFT = 397
_UPPER, _LOWER, _TWIST = np.uint64(0x80000000), np.uint64(0x7FFFFFFF), np.uint64(0x9908B0DF)
_LOW32 = np.uint64(0xFFFFFFFF)
_0, _1, _5, _6, _7, _11, _15, _18, _30 = (np.uint64(n) for n in (0, 1, 5, 6, 7, 11, 15, 18, 30))
_TEMPER_1, _TEMPER_2 = np.uint64(0x9D2C5680), np.uint64(0xEFC60000)
_MULTIPLIER = np.uint64(1812433253)


@compiled_for("void(uint32[::1], int64)")
def seed_row(row, seed):
    """Write the state of `RandomState(seed)` into a row; 0 <= seed < 2**32."""
    word = np.uint64(seed)
    for i in range(WORDS):
        row[i] = word
        word = (_MULTIPLIER * (word ^ (word >> _30)) + np.uint64(i + 1)) & _LOW32
    row[WORDS] = WORDS


@compiled_for("void(uint32[::1])")
def _refill(row):
    for i in range(WORDS):
        following, far = (i + 1) % WORDS, (i + _SHIFT) % WORDS
        mixed = (np.uint64(row[i]) & _UPPER) | (np.uint64(row[following]) & _LOWER)
        row[i] = np.uint64(row[far]) ^ (mixed >> _1) ^ (_TWIST if mixed & _1 else _0)
    row[WORDS] = 0


@inlined
def _next32(row):
    if row[WORDS] == WORDS:
        _refill(row)
    word = np.uint64(row[row[WORDS]])
    row[WORDS] += np.uint32(1)
    word ^= word >> _11
    word ^= (word << _7) & _TEMPER_1
    word ^= (word << _15) & _TEMPER_2
    return word ^ (word >> _18)


@compiled_for("float64(uint32[::1])")
def uniform(row):
    """A float in [0, 1), the draw that `RandomState.uniform()` makes."""
    high, low = _next32(row) >> _5, _next32(row) >> _6
    return (np.float64(high) * 67108864.0 + np.float64(low)) / 9007199254740992.0


@compiled_for("int64(uint32[::1], int64)")
def below(row, limit):
    """An integer in [0, limit), the draw that `RandomState.randint(0, limit)` makes; 1 <= limit <= 2**32."""
    largest = np.uint64(limit - 1)
    if largest == _0:
        return 0
    mask = _1
    while mask < largest:
        mask = (mask << _1) | _1
    value = _next32(row) & mask
    while value > largest:
        value = _next32(row) & mask
    return np.int64(value)
