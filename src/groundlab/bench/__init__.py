"""How fast the hot paths are, on this machine, now: worlds, scoring, training. A benchmark, never a test.

Each figure is taken in the same run as the thing it is compared with; quote ratios, not absolutes.
Called from: `groundlab bench`. Read next: `bench_scoring.py`, `bench_reasoning.py`, `bench_knowledge.py`.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import NamedTuple

import gymnasium as gym
import minigrid  # noqa: F401 - registers the reference environments
import numpy as np
import torch

from groundlab import worlds
from groundlab.core.errors import unknown_name
from groundlab.core.run import Progress, Run, RunSpec
from groundlab.papers import registry
from groundlab.worlds import text

SUBJECTS = ("worlds", "scoring", "training")
PAPERS = ("mediator", "glam", "reasoning", "knowledge")  # whose training is timed
_SECONDS, _TURNS = 2.0, 5  # per figure, taken in turns
_DOOR_KEY_WORLDS = ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey")
_WARM_UP, _ITERATIONS = 5, 45
_VIEWS = 20_000  # distinct views to describe
_LOCAL, _MIXED = "BabyAI-GoToLocal-v0", "BabyAI-MixedTrainLocal-v0"
_FIRST_USE = """
import time
from groundlab import worlds
for count in (1, 64):
    env = worlds.make("BabyAI-MixedTrainLocal-v0", count, seed=0)
    env.reset()
    env.step([0] * count)
print(time.process_time())
"""


class Figure(NamedTuple):
    """One measured figure."""

    name: str
    value: float
    unit: str


def bench(subject: str = "all", paper: str | None = None, first_use: bool = False) -> list[Figure]:
    """Measure one subject, or all; `first_use` adds what compiling the worlds costs, which takes half a minute.

    Raises GroundlabError for an unknown subject or paper.
    """
    if subject not in (*SUBJECTS, "all"):
        raise unknown_name("benchmark", subject, (*SUBJECTS, "all"))
    if paper not in (None, *PAPERS):
        raise unknown_name("paper", str(paper), PAPERS)
    figures: list[Figure] = []
    if subject in ("worlds", "all"):
        from groundlab.bench.crafter import bench_crafter

        figures += [*bench_worlds(), *bench_crafter()]
        if first_use:
            figures.append(Figure("compiling all worlds at first use", _first_use_seconds(), "CPU-s"))
    if subject in ("scoring", "all"):
        from groundlab.bench.scoring import bench_scoring

        figures += bench_scoring()
    if subject in ("training", "all") and paper in (None, "mediator"):
        figures += bench_mediator()
    if subject in ("training", "all") and paper in (None, "glam"):
        from groundlab.bench.distributed import bench_distributed

        figures += bench_distributed()
    if subject in ("training", "all") and paper in (None, "reasoning"):
        from groundlab.bench.generation import bench_generation

        figures += bench_generation()
    if subject in ("training", "all") and paper in (None, "knowledge"):
        from groundlab.bench import training

        figures += training.bench_training()
    return figures


Work = Callable[[], int]


def _rates(*works: Work) -> list[float]:
    """Units a second of each piece of work, where a call does as many units as it returns; two calls warm up.

    They take turns and the median turn counts, so that busy neighbours slow all of them alike.
    """
    rates: list[list[float]] = [[] for _ in works]
    for work in (*works, *works):
        work()
    for _ in range(_TURNS):
        for own, work in zip(rates, works, strict=True):
            done, start = 0, time.perf_counter()
            while time.perf_counter() - start < _SECONDS / _TURNS:
                done += work()
            own.append(done / (time.perf_counter() - start))
    return [median(own) for own in rates]


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


def _batched_resets(world: str, count: int) -> Work:
    env = worlds.make(world, count, seed=0)

    def reset() -> int:
        env.reset()
        return count

    return reset


def _single_resets(env: gym.Env) -> Work:
    env.reset(seed=0)

    def reset() -> int:
        env.reset()
        return 1

    return reset


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


def _first_use_seconds() -> float:
    """CPU seconds that compiling every loop costs, once a machine: a first process less a second one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", _FIRST_USE]
        first, second = (
            float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
            for _ in range(2)
        )
    return first - second


def _bench_babyai() -> list[Figure]:
    """BabyAI's levels against minigrid's own, with mission checks, resets, image, direction, mission and reward."""
    with redirect_stdout(StringIO()):  # minigrid prints every level that it rejects
        steps, single, batched, large = _rates(
            _single_steps(gym.make(_LOCAL).unwrapped),
            _single_steps(worlds.GridEnv(_LOCAL)),
            _batched_steps(_LOCAL, 256),
            _batched_steps(_LOCAL, 1024),
        )
        resets, drawn = _rates(_single_resets(gym.make(_LOCAL).unwrapped), _batched_resets(_LOCAL, 256))
    mixed = _rates(_batched_steps(_MIXED, 256), _batched_steps(_MIXED, 1024))
    return [
        Figure("minigrid GoToLocal, same run", steps, "steps/s"),
        Figure("GoToLocal, single environment", single, "steps/s"),
        Figure("GoToLocal, batch of 256", batched, "steps/s"),
        Figure("GoToLocal, batch of 1024", large, "steps/s"),
        Figure("MixedTrainLocal, batch of 256", mixed[0], "steps/s"),
        Figure("MixedTrainLocal, batch of 1024", mixed[1], "steps/s"),
        Figure("GoToLocal, single environment / minigrid", single / steps, "x"),
        Figure("GoToLocal, batch of 256 / minigrid", batched / steps, "x"),
        Figure("GoToLocal, batch of 1024 / minigrid", large / steps, "x"),
        Figure("minigrid GoToLocal, levels", resets, "resets/s"),
        Figure("GoToLocal, levels of a batch of 256", drawn, "resets/s"),
        Figure("GoToLocal, levels / minigrid", drawn / resets, "x"),
    ]


def _bench_door_key() -> list[Figure]:
    reference, single, batched, smaller, coloured = _rates(
        _single_steps(gym.make("MiniGrid-DoorKey-8x8-v0").unwrapped),
        _single_steps(worlds.GridEnv("SimpleDoorKey")),
        _batched_steps("SimpleDoorKey", 1024),
        _batched_steps("SimpleDoorKey", 256),
        _batched_steps("ColoredDoorKey", 1024),
    )
    return [
        Figure("SimpleDoorKey, batch of 1024", batched, "steps/s"),
        Figure("SimpleDoorKey, batch of 256", smaller, "steps/s"),
        Figure("ColoredDoorKey, batch of 1024", coloured, "steps/s"),
        Figure("SimpleDoorKey, single environment", single, "steps/s"),
        Figure("minigrid DoorKey-8x8, same run", reference, "steps/s"),
        Figure("SimpleDoorKey, batch of 1024 / minigrid", batched / reference, "x"),
        Figure("SimpleDoorKey, single environment / minigrid", single / reference, "x"),
    ]


def bench_worlds() -> list[Figure]:
    """Steps and levels a second with full observations, minigrid's in the same run; captions, memory."""
    return [
        *_bench_babyai(),
        *_bench_door_key(),
        Figure(f"captions of {_VIEWS:,} views never seen before", _captions_per_second(), "captions/s"),
        Figure("memory of 4,096 environments, GoToLocal", _megabytes(_LOCAL, 4096), "MB"),
        Figure("memory of 4,096 environments, MixedTrainLocal", _megabytes(_MIXED, 4096), "MB"),
    ]


def _iterations_per_second(world: str) -> float:
    """PPO iterations a second of one process with one thread, after a warm-up."""
    torch.set_num_threads(1)
    settings = registry.resolve_settings("mediator", world, {"iterations": _ITERATIONS + 1, "test_every": 1000})
    marks: dict[int, float] = {}

    def mark(progress: Progress) -> None:
        marks[progress.step] = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        spec = RunSpec(method="mediator", world=world, seed=0, settings=settings)
        registry.execute(Run(Path(folder), spec, report=mark))
    return (_ITERATIONS - _WARM_UP) / (marks[_ITERATIONS] - marks[_WARM_UP])


def _evaluate_world(world: str) -> None:
    for method in ("hard-coded", "always", "random"):
        settings = registry.resolve_settings(method, world, {})
        registry.evaluate(registry.Request(method, world, 0, settings))


def bench_mediator() -> list[Figure]:
    """Training speed, and 100 layouts x 4 worlds x 3 baselines on two processes (started and warmed up before)."""
    figures = [
        Figure(f"mediator on {world}, one process", _iterations_per_second(world), "PPO iterations/s")
        for world in ("SimpleDoorKey", "ColoredDoorKey")
    ]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(_evaluate_world, _DOOR_KEY_WORLDS))
        start = time.perf_counter()
        list(pool.map(_evaluate_world, _DOOR_KEY_WORLDS))
        seconds = time.perf_counter() - start
    return [*figures, Figure("100 layouts x 4 worlds x 3 baselines, two processes", seconds, "s")]
