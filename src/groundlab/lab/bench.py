"""How fast the hot paths are, on this machine, now: world steps, training, evaluation. A benchmark, never a test.

Each figure is taken in the same run as the thing it is compared with; quote ratios, not absolutes.
Called from: `groundlab bench`.
"""

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import minigrid  # noqa: F401 - registers the reference environments
import numpy as np
import torch

from groundlab import worlds
from groundlab.core.errors import unknown_name
from groundlab.core.run import Progress, Run, RunSpec
from groundlab.methods import registry

SUBJECTS = ("worlds", "training")
_SECONDS = 2.0  # per figure
_DOOR_KEY_WORLDS = ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey")
_WARM_UP, _ITERATIONS = 5, 45


class Figure(NamedTuple):
    """One measured figure."""

    name: str
    value: float
    unit: str


def bench(subject: str = "all", paper: str | None = None) -> list[Figure]:
    """Measure one subject, or all. Raises GroundlabError for an unknown subject or paper."""
    if subject not in (*SUBJECTS, "all"):
        raise unknown_name("benchmark", subject, (*SUBJECTS, "all"))
    if paper not in (None, "mediator"):
        raise unknown_name("paper", str(paper), ("mediator",))
    figures: list[Figure] = []
    if subject in ("worlds", "all"):
        figures += bench_worlds()
    if subject in ("training", "all"):
        figures += bench_mediator()
    return figures


def _rate(step: Callable[[], int]) -> float:
    """Units a second, where each call of `step` does as many units as it returns; two calls warm up."""
    for _ in range(2):
        step()
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < _SECONDS:
        done += step()
    return done / (time.perf_counter() - start)


def _batched_steps(world: str, count: int) -> float:
    env = worlds.make(world, count, seed=0)
    env.reset()
    plan = np.random.default_rng(0).integers(0, 7, (64, count))

    def step() -> int:
        for actions in plan:
            env.step(actions)
        return plan.size

    return _rate(step)


def _single_steps(env: gym.Env) -> float:
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 7, 256)

    def step() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(int(action))
            if terminated or truncated:
                env.reset()
        return len(actions)

    return _rate(step)


def bench_worlds() -> list[Figure]:
    """Steps a second with resets and full observations, and minigrid's in the same run."""
    with redirect_stdout(StringIO()):  # minigrid prints while it generates levels
        reference = _single_steps(gym.make("MiniGrid-DoorKey-8x8-v0").unwrapped)
    single = _single_steps(worlds.GridEnv("SimpleDoorKey"))
    batched = _batched_steps("SimpleDoorKey", 1024)
    return [
        Figure("SimpleDoorKey, batch of 1024", batched, "steps/s"),
        Figure("SimpleDoorKey, batch of 256", _batched_steps("SimpleDoorKey", 256), "steps/s"),
        Figure("ColoredDoorKey, batch of 1024", _batched_steps("ColoredDoorKey", 1024), "steps/s"),
        Figure("SimpleDoorKey, single environment", single, "steps/s"),
        Figure("minigrid DoorKey-8x8, same run", reference, "steps/s"),
        Figure("batch of 1024 / minigrid", batched / reference, "x"),
        Figure("single environment / minigrid", single / reference, "x"),
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
