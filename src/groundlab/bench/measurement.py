"""What a benchmark measures, and how a rate is timed: in turns, so that busy neighbours slow all sides alike."""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

SECONDS, TURNS = 2.0, 5  # of each rate, taken in turns


class Measurement(NamedTuple):
    """One measured number."""

    name: str
    value: float
    unit: str


Work = Callable[[], int]


def cpu_seconds(work: Callable[[], object], times: int = 1) -> float:
    """What some work takes, done so many times."""
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start


def rates(*works: Work) -> list[float]:
    """Units a second of each piece of work, where a call does as many units as it returns; two calls warm up.

    They take turns and the median turn counts, so that busy neighbours slow all of them alike.
    """
    taken: list[list[float]] = [[] for _ in works]
    for work in (*works, *works):
        work()
    for _ in range(TURNS):
        for own, work in zip(taken, works, strict=True):
            done, start = 0, time.perf_counter()
            while time.perf_counter() - start < SECONDS / TURNS:
                done += work()
            own.append(done / (time.perf_counter() - start))
    return [median(own) for own in taken]
