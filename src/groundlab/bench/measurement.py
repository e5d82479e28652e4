"""Rates of pieces of work that take turns, so that a busy machine slows all of them alike."""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

SECONDS, TURNS = 0.4, 5  # CPU seconds of a turn at least, and turns of each piece of work
RATIO = "x"
"""The unit of a ratio of two rates that were measured in the same run."""

Work = Callable[[], int]
"""Does some work and returns how many units it did."""


class Measurement(NamedTuple):
    """One measured number."""

    name: str
    value: float
    unit: str


def rates(*works: Work) -> list[float]:
    """Return the units of each piece of work per CPU second: the median turn, after one call that warms up."""
    turns: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    for _ in range(TURNS):
        for own, work in zip(turns, works, strict=True):
            done, start = 0, time.process_time()
            while time.process_time() - start < SECONDS:
                done += work()
            own.append(done / (time.process_time() - start))
    return [median(own) for own in turns]


def compared(name: str, ours: Work, other: str, theirs: Work, unit: str) -> list[Measurement]:
    """Measure our rate of some units, the rate of the other way, and the ratio of the two."""
    own, peer = rates(ours, theirs)
    return [
        Measurement(name, own, f"{unit}/CPU-s"),
        Measurement(f"{name}: {other}, same run", peer, f"{unit}/CPU-s"),
        Measurement(f"{name} / {other}", own / peer, RATIO),
    ]
