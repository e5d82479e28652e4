"""How fast the worlds are beside the public packages, minigrid and crafter, in the same run. Quote ratios.

Grid worlds are timed by the clock, in turns with minigrid's. Crafter is timed in CPU seconds of one thread, and the
package twice: with its noise in plain Python, as it runs where numba is not installed and as it was measured for the
original, and with opensimplex's own compiled noise, as it runs here. Steps are those of a random agent, pictures
included; its episodes go through nights and deaths, and begin in new worlds.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from itertools import cycle
from statistics import median
from typing import Any

import crafter
import gymnasium as gym
import minigrid  # noqa: F401 - registers the reference environments
import numpy as np

from groundlab import worlds
from groundlab.bench.measurement import TURNS, Measurement, Work, cpu_seconds, rates
from groundlab.worlds import text

_VIEWS = 20_000  # distinct views to describe
_TEXTS = 256  # text environments in a batch
_LOCAL, _MIXED = "BabyAI-GoToLocal-v0", "BabyAI-MixedTrainLocal-v0"
_SEVERAL_ROOMS = ("BabyAI-GoTo-v0", "BabyAI-BossLevel-v0", "MiniGrid-KeyCorridorS6R3-v0")
_DOOR_KEY = "MiniGrid-DoorKey-8x8-v0"
_FIRST_USE = """
import time
from groundlab import worlds
for count in (1, 64):
    env = worlds.make("BabyAI-MixedTrainLocal-v0", count, seed=0)
    env.reset()
    env.step([0] * count)
print(time.process_time())
"""
_CRAFTER_TURNS, _BATCH = 3, 16
_STEPS = 300  # of the package in each turn; ours does `_BATCH` times as many
_RESETS = 3  # of the package in each turn; ours does ten times as many
_PLAIN = """
import sys, time, crafter
env, resets = crafter.Env(seed=0), int(sys.argv[1])
start = time.process_time()
for _ in range(resets):
    env.reset()
print(resets / (time.process_time() - start))
"""


def _batched_steps(world: str, count: int) -> Work:
    env = worlds.make(world, count, seed=0)
    env.reset()
    plan = np.random.default_rng(0).integers(0, 7, (64, count))

    def step() -> int:
        for actions in plan:
            env.step(actions)
        return plan.size

    return step


def _single_steps(env: gym.Env) -> Work:
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 7, 256)

    def step() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(int(action))
            if terminated or truncated:
                env.reset()
        return len(actions)

    return step


def _resets(env: Any, count: int = 1) -> Work:
    """Of an environment, or of a batch of so many."""
    env.reset(seed=0)
    return lambda: env.reset() and count


def _distinct_views(count: int) -> np.ndarray:
    """uint8 [count, 7, 7, 3]: views that a random agent meets in the mixed world, each once."""
    env, rng = worlds.make(_MIXED, 256, seed=0), np.random.default_rng(0)
    images, seen = [env.reset()[0]["image"]], 0
    while seen < count:
        images += [env.step(rng.integers(0, 6, 256))[0]["image"] for _ in range(64)]
        images = [np.unique(np.concatenate(images), axis=0)]
        seen = len(images[0])
    return rng.permutation(images[0])[:count]


def _captions_per_second() -> float:
    """Views put into words a second, none of which was seen before."""
    views = _distinct_views(_VIEWS)
    text._captioner.cache_clear()
    text.describe_batch(np.zeros_like(views[:1]))  # the scan is compiled and the table of sentences written
    start = time.perf_counter()
    text.describe_batch(views)
    return len(views) / (time.perf_counter() - start)


def _megabytes(world: str, count: int) -> float:
    """Memory of all arrays of a batch."""
    env = worlds.GridVectorEnv(worlds.find(world), count)
    arrays = [*env.grids, *(value for value in vars(env).values() if isinstance(value, np.ndarray))]
    return sum(array.nbytes for array in arrays) / 1e6


def first_use_seconds() -> float:
    """CPU seconds that compiling every loop costs, once a machine: a first process less a second one."""
    with tempfile.TemporaryDirectory() as folder:
        return _printed(_FIRST_USE, NUMBA_CACHE_DIR=folder) - _printed(_FIRST_USE, NUMBA_CACHE_DIR=folder)


def _name(world: str) -> str:
    """`GoToLocal` for `BabyAI-GoToLocal-v0`, `DoorKey-8x8` for `MiniGrid-DoorKey-8x8-v0`."""
    return world.removeprefix("BabyAI-").removeprefix("MiniGrid-").removesuffix("-v0")


def _steps_beside(world: str, ours: dict[str, Work]) -> list[Measurement]:
    """Steps of minigrid's own world and of some of ours, in turns: image, direction, mission and reward."""
    with redirect_stdout(StringIO()):  # minigrid prints every level that it rejects
        theirs, *measured = rates(_single_steps(gym.make(world).unwrapped), *ours.values())
    found = [Measurement(f"minigrid {_name(world)}, same run", theirs, "steps/s")]
    for name, rate in zip(ours, measured, strict=True):
        found += [Measurement(name, rate, "steps/s"), Measurement(f"{name} / minigrid", rate / theirs, "x")]
    return found


def _levels_beside(world: str) -> list[Measurement]:
    """Levels of a batch of 256 against minigrid's own, with mission checks."""
    with redirect_stdout(StringIO()):
        theirs, ours = rates(_resets(gym.make(world).unwrapped), _resets(worlds.make(world, 256, seed=0), 256))
    return [
        Measurement(f"minigrid {_name(world)}, levels", theirs, "resets/s"),
        Measurement(f"{_name(world)}, levels of a batch of 256", ours, "resets/s"),
        Measurement(f"{_name(world)}, levels / minigrid", ours / theirs, "x"),
    ]


def _single(world: str) -> dict[str, Work]:
    return {f"{_name(world)}, single environment": _single_steps(worlds.GridEnv(world))}


def _batches(world: str, *sizes: int) -> dict[str, Work]:
    return {f"{_name(world)}, batch of {size}": _batched_steps(world, size) for size in sizes}


def _bench_grids() -> list[Measurement]:
    """Worlds of one room, of several, and of doors and keys beside minigrid's; then two kinds that it does not have."""
    found = _steps_beside(_LOCAL, _single(_LOCAL) | _batches(_LOCAL, 256, 1024)) + _levels_beside(_LOCAL)
    for world in _SEVERAL_ROOMS:
        found += _steps_beside(world, _batches(world, 256)) + _levels_beside(world)
    found += _steps_beside(_DOOR_KEY, _single("SimpleDoorKey") | _batches("SimpleDoorKey", 256, 1024))
    others = _batches(_MIXED, 256, 1024) | _batches("ColoredDoorKey", 1024)
    speeds = zip(others, rates(*others.values()), strict=True)
    return [*found, *(Measurement(name, rate, "steps/s") for name, rate in speeds)]


def _cpu_rate(work: Callable[[], object], times: int) -> float:
    """How often a CPU second has time for some work."""
    return times / cpu_seconds(work, times)


def _printed(program: str, *words: str, **variables: str) -> float:
    """The number that a program prints in a process of its own, with these variables in its environment."""
    command, environment = [sys.executable, "-c", program, *words], {**os.environ, **variables}
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def _bench_crafter() -> list[Measurement]:
    """Worlds and steps a CPU second, ours and the package's."""
    package, ours = crafter.Env(seed=0), worlds.make("Crafter-Reward", 1, seed=0)
    lives, batch = crafter.Env(seed=0), worlds.make("Crafter-Reward", _BATCH, seed=0, autoreset="same-step")
    rng, ours_rng = np.random.default_rng(0), np.random.default_rng(0)

    def their_step() -> None:
        if lives.step(int(rng.integers(17)))[2]:
            lives.reset()

    def our_step() -> None:
        batch.step(ours_rng.integers(0, 17, _BATCH))

    for first in (lives.reset, batch.reset, package.reset, ours.reset, their_step, our_step):
        first()
    rates = [
        (
            _printed(_PLAIN, str(_RESETS), NUMBA_DISABLE_JIT="1", OMP_NUM_THREADS="1"),
            _cpu_rate(package.reset, _RESETS),
            _cpu_rate(ours.reset, 10 * _RESETS),
            _cpu_rate(their_step, _STEPS),
            _cpu_rate(our_step, _STEPS) * _BATCH,
        )
        for _ in range(_CRAFTER_TURNS)
    ]
    plain, compiled, drawn, stepped, batched = (median(each) for each in zip(*rates, strict=True))
    return [
        Measurement("crafter package, worlds, noise in Python", plain, "resets/CPU-s"),
        Measurement("crafter package, worlds, noise compiled", compiled, "resets/CPU-s"),
        Measurement("Crafter, worlds", drawn, "resets/CPU-s"),
        Measurement("Crafter, worlds / package, noise in Python", drawn / plain, "x"),
        Measurement("Crafter, worlds / package, noise compiled", drawn / compiled, "x"),
        Measurement("crafter package, a random agent's lives, noise compiled", stepped, "steps/CPU-s"),
        Measurement(f"Crafter, a random agent's lives, batch of {_BATCH}", batched, "steps/CPU-s"),
        Measurement(f"Crafter, lives, batch of {_BATCH} / package", batched / stepped, "x"),
    ]


def _text_steps(world: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """A random agent's step in words, of one environment and of a batch of `_TEXTS`; texts and info included."""
    rng, single, batch = np.random.default_rng(0), worlds.TextEnv(world), worlds.TextVectorEnv(world, _TEXTS)
    single.reset(seed=0)
    batch.reset(seed=0)
    words = cycle([[batch.actions[k] for k in row] for row in rng.integers(0, 6, (64, _TEXTS))])

    def step() -> None:
        for word in next(words)[:64]:
            _, _, terminated, truncated, _ = single.step(word)
            if terminated or truncated:
                single.reset()

    return step, lambda: batch.step(next(words))


def _bench_text() -> list[Measurement]:
    """Steps a CPU second of one thread, of the text environments and of minigrid's pictures."""
    single, batched = _text_steps(_LOCAL)
    with redirect_stdout(StringIO()):
        package = _single_steps(gym.make(_LOCAL).unwrapped)
        for first in (single, batched, package) * 2:
            first()
        rates = [
            (_cpu_rate(single, 100) * 64, _cpu_rate(batched, 100) * _TEXTS, _cpu_rate(package, 4) * 256)
            for _ in range(TURNS)
        ]
    one, many, reference = (median(each) for each in zip(*rates, strict=True))
    return [
        Measurement("TextEnv, GoToLocal", one, "steps/CPU-s"),
        Measurement(f"TextVectorEnv, GoToLocal, batch of {_TEXTS}", many, "steps/CPU-s"),
        Measurement("TextEnv / minigrid's pictures", one / reference, "x"),
        Measurement(f"TextVectorEnv, batch of {_TEXTS} / minigrid's pictures", many / reference, "x"),
    ]


def bench_worlds() -> list[Measurement]:
    """Steps and levels a second with full observations, minigrid's in the same run; captions, memory."""
    return [
        *_bench_grids(),
        *_bench_text(),
        Measurement(f"captions of {_VIEWS:,} views never seen before", _captions_per_second(), "captions/s"),
        Measurement("memory of 4,096 environments, GoToLocal", _megabytes(_LOCAL, 4096), "MB"),
        Measurement("memory of 4,096 environments, MixedTrainLocal", _megabytes(_MIXED, 4096), "MB"),
        *_bench_crafter(),
    ]
