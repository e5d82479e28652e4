"""NumPy's PCG64 stream inside compiled loops: the same seed gives the same draws as `numpy.random.Generator`.

A generator is a row of six uint64: state (high, low), increment (high, low), whether half of the last 64-bit draw is
still unused, and that half. `integers` is NumPy's bounded draw (Lemire 2019) for ranges below 2**32.
"""

import numpy as np

from groundlab.core.compiled import compiled_for, inlined

ROW = 6
_MASK64 = (1 << 64) - 1
_MULTIPLIER_HIGH = np.uint64(2549297995355413924)
_MULTIPLIER_LOW = np.uint64(4865540595714422341)
_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_63 = np.uint64(63)
_58 = np.uint64(58)
_64 = np.uint64(64)
_11 = np.uint64(11)
_1 = np.uint64(1)


def seed_row(seed: int | np.random.SeedSequence | None) -> np.ndarray:
    """The row [6] of a fresh PCG64 seeded as Gymnasium seeds environments; None takes entropy from the system."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    state = np.random.PCG64(sequence).state["state"]
    words = (state["state"] >> 64, state["state"] & _MASK64, state["inc"] >> 64, state["inc"] & _MASK64, 0, 0)
    return np.array(words, dtype=np.uint64)


@inlined
def _multiply_high(a, b):
    """The upper 64 bits of a 64 x 64-bit product."""
    a_high, a_low, b_high, b_low = a >> _32, a & _LOW32, b >> _32, b & _LOW32
    middle = a_high * b_low + ((a_low * b_low) >> _32)
    carry = a_low * b_high + (middle & _LOW32)
    return a_high * b_high + (middle >> _32) + (carry >> _32)


@inlined
def _next64(row):
    low_product = row[1] * _MULTIPLIER_LOW
    high = _multiply_high(row[1], _MULTIPLIER_LOW) + row[0] * _MULTIPLIER_LOW + row[1] * _MULTIPLIER_HIGH
    low = low_product + row[3]
    carry = _1 if low < low_product else np.uint64(0)
    high = high + row[2] + carry
    row[0], row[1] = high, low
    value, turn = high ^ low, high >> _58
    return (value >> turn) | (value << ((_64 - turn) & _63))


@inlined
def _next32(row):
    if row[4]:
        row[4] = np.uint64(0)
        return row[5]
    value = _next64(row)
    row[4], row[5] = _1, value >> _32
    return value & _LOW32


@compiled_for("void(uint64[::1])")
def skip_double(row):
    """Draw one float and forget it (`Generator.uniform` leaves an unused half of an earlier draw alone)."""
    _next64(row)


@compiled_for("float64(uint64[::1])")
def double(row):
    """One float in [0, 1), as `Generator.random` draws it."""
    return (_next64(row) >> _11) * (1.0 / (1 << 53))


@compiled_for("int64(uint64[::1], int64, int64)")
def integers(row, low, high):
    """One uniform integer in [low, high), the draw that `Generator.integers(low, high)` makes; low < high."""
    size = np.uint64(high - low)
    if size == _1:
        return low
    product = _next32(row) * size
    left_over = product & _LOW32
    if left_over < size:
        threshold = (_LOW32 + _1 - size) % size
        while left_over < threshold:
            product = _next32(row) * size
            left_over = product & _LOW32
    return low + np.int64(product >> _32)


@inlined
def draw_other(row, values, unwanted):
    """One of some different values but this one of them, in their order."""
    number = integers(row, 0, len(values) - 1)
    for value in values:
        if value == unwanted:
            continue
        if number == 0:
            return value
        number -= 1
    return unwanted
