"""How fast Crafter is against the public package, in CPU seconds of one thread, all in the same run.

The package's worlds are timed twice: with its noise in plain Python, as it runs where numba is not installed and as it
was measured for the original, and with opensimplex's own compiled noise, as it runs here. Steps are those of a random
agent, pictures included; its lives go through nights and deaths, and begin in new worlds.
Called from: `bench.py` (`groundlab bench worlds`).
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import crafter
import numpy as np

from groundlab import worlds
from groundlab.bench import Figure

_TURNS, _BATCH = 3, 16
_STEPS = 300  # of the package in each turn; ours does `_BATCH` times as many
_RESETS = 3  # of the package in each turn; ours does ten times as many
_PLAIN = f"""
import time, crafter
env = crafter.Env(seed=0)
start = time.process_time()
for _ in range({_RESETS}):
    env.reset()
print({_RESETS} / (time.process_time() - start))
"""


def _rate(work: Callable[[], object], times: int) -> float:
    """How often a CPU second has time for some work."""
    start = time.process_time()
    for _ in range(times):
        work()
    return times / (time.process_time() - start)


def _plain_resets() -> float:
    """The package's worlds a CPU second, its noise not compiled."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _PLAIN]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def _package_lives(rng: np.random.Generator) -> Callable[[], None]:
    package = crafter.Env(seed=0)
    package.reset()

    def step() -> None:
        if package.step(int(rng.integers(17)))[2]:
            package.reset()

    return step


def _our_lives(rng: np.random.Generator) -> Callable[[], object]:
    batch = worlds.make("Crafter-Reward", _BATCH, seed=0, autoreset="same-step")
    batch.reset()
    return lambda: batch.step(rng.integers(0, 17, _BATCH))


def bench_crafter() -> list[Figure]:
    """Worlds and steps a CPU second, ours and the package's."""
    package, ours = crafter.Env(seed=0), worlds.make("Crafter-Reward", 1, seed=0)
    their_step, our_step = (make(np.random.default_rng(0)) for make in (_package_lives, _our_lives))
    for first in (package.reset, ours.reset, their_step, our_step):
        first()
    rates = [
        (
            _plain_resets(),
            _rate(package.reset, _RESETS),
            _rate(ours.reset, 10 * _RESETS),
            _rate(their_step, _STEPS),
            _rate(our_step, _STEPS) * _BATCH,
        )
        for _ in range(_TURNS)
    ]
    plain, compiled, drawn, stepped, batched = (median(each) for each in zip(*rates, strict=True))
    return [
        Figure("crafter package, worlds, noise in Python", plain, "resets/CPU-s"),
        Figure("crafter package, worlds, noise compiled", compiled, "resets/CPU-s"),
        Figure("Crafter, worlds", drawn, "resets/CPU-s"),
        Figure("Crafter, worlds / package, noise in Python", drawn / plain, "x"),
        Figure("Crafter, worlds / package, noise compiled", drawn / compiled, "x"),
        Figure("crafter package, a random agent's lives, noise compiled", stepped, "steps/CPU-s"),
        Figure(f"Crafter, a random agent's lives, batch of {_BATCH}", batched, "steps/CPU-s"),
        Figure(f"Crafter, lives, batch of {_BATCH} / package", batched / stepped, "x"),
    ]
