"""Speed of the worlds compared with the minigrid package in the same run: steps of a random agent, and new levels."""

from contextlib import redirect_stdout
from io import StringIO

import gymnasium as gym
import minigrid  # noqa: F401 - registers the reference environments
import numpy as np

from groundlab import worlds
from groundlab.bench.measurement import Measurement, Work, compared

_LOCAL, _DOOR_KEY = "BabyAI-GoToLocal-v0", "MiniGrid-DoorKey-8x8-v0"
_SEVERAL_ROOMS = ("BabyAI-GoTo-v0", "BabyAI-BossLevel-v0", "MiniGrid-KeyCorridorS6R3-v0")


def _batched_steps(world: str, count: int) -> Work:
    env = worlds.make(world, count, seed=0)
    env.reset()
    plan = np.random.default_rng(0).integers(0, 7, (64, count))

    def step() -> int:
        for row in plan:
            env.step(row)
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


def _name(world: str) -> str:
    """Return `GoToLocal` for `BabyAI-GoToLocal-v0`, `DoorKey-8x8` for `MiniGrid-DoorKey-8x8-v0`."""
    return world.removeprefix("BabyAI-").removeprefix("MiniGrid-").removesuffix("-v0")


def _steps(reference: str, ours: str, *sizes: int) -> list[Measurement]:
    """Compare steps of one of minigrid's worlds with ours, in batches of these sizes; 1 is a single environment."""
    theirs, found = _single_steps(gym.make(reference).unwrapped), []
    for size in sizes:
        name = f"{_name(ours)}, {f'batch of {size}' if size > 1 else 'single environment'}"
        work = _batched_steps(ours, size) if size > 1 else _single_steps(worlds.GridEnv(ours))
        found += compared(name, work, "minigrid", theirs, "steps")
    return found


def _levels(world: str) -> list[Measurement]:
    """Compare how fast levels are generated, with minigrid's checks of missions."""
    theirs, ours = gym.make(world).unwrapped, worlds.make(world, 256, seed=0)
    theirs.reset(seed=0)
    new, peer = (lambda: ours.reset() and 256), (lambda: theirs.reset() and 1)
    return compared(f"{_name(world)}, levels", new, "minigrid", peer, "resets")


def measure() -> list[Measurement]:
    """Measure steps and levels per CPU second, ours and minigrid's."""
    with redirect_stdout(StringIO()):  # minigrid prints every level that it rejects
        found = [*_steps(_LOCAL, _LOCAL, 1, 256, 1024), *_levels(_LOCAL)]
        for world in _SEVERAL_ROOMS:
            found += [*_steps(world, world, 256), *_levels(world)]
        return [*found, *_steps(_DOOR_KEY, "SimpleDoorKey", 1, 256, 1024)]
