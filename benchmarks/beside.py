"""Steps a CPU second of these worlds beside EnvPool, NAVIX, XLand-MiniGrid and minigrid: one core, one run, one table.

    python -m venv out/beside && out/beside/bin/pip install . envpool navix xminigrid "jax[cpu]"
    out/beside/bin/python benchmarks/beside.py > table.md         # about 15 CPU minutes

Levels are those that the packages share by name; what a package lacks is a dash. Actions are random and the same for
all, episodes restart by themselves, each package gives the agent's own view of 7 by 7 cells. A batch takes turns with
the other packages', and the median turn counts. JAX runs `STEPS` steps in one compiled call, its fastest form, and
"first call" is what it costs to compile this once a process and a size of batch.
"""
# pyright: reportMissingImports=false

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from statistics import median
from typing import Any

import gymnasium
import numpy as np

STEPS = 64
SECONDS = 0.5  # of CPU, each turn at least
LEVELS = ("BabyAI-GoToLocal-v0", "MiniGrid-KeyCorridorS3R3-v0", "MiniGrid-BlockedUnlockPickup-v0")
Work = Callable[[], object]
"""`STEPS` steps of a batch."""


def _actions(count: int, kinds: int = 7) -> np.ndarray:
    """int32 [STEPS, count]."""
    return np.random.default_rng(0).integers(0, kinds, (STEPS, count), dtype=np.int32)


def groundlab(level: str, count: int) -> Work:
    """These worlds, a batch a call."""
    from groundlab import worlds

    env, actions = worlds.make(level, count, seed=0), _actions(count)
    env.reset()
    return lambda: [env.step(row) for row in actions]


def envpool(level: str, count: int) -> Work:
    """Levels in C++, one thread."""
    import envpool

    env, actions = envpool.make(level, env_type="gymnasium", num_envs=count, num_threads=1, seed=0), _actions(count)
    env.reset()
    return lambda: [env.step(row) for row in actions]


def navix(level: str, count: int) -> Work:
    """MiniGrid's levels in JAX, seen as the agent sees them."""
    import jax
    import navix
    from navix import observations

    env = navix.make(level.replace("MiniGrid", "Navix"), observation_fn=observations.symbolic_first_person)
    return _scan(jax.vmap(env.reset), jax.vmap(env.step), count, 7)


def xland(level: str, count: int) -> Work:
    """Some of MiniGrid's levels in JAX, with six actions."""
    import jax
    import xminigrid
    from xminigrid.wrappers import GymAutoResetWrapper

    env, settings = xminigrid.make(level.removesuffix("-v0").replace("Pickup", "PickUp"))
    env = GymAutoResetWrapper(env)
    start, step = (jax.vmap(partial(call, settings)) for call in (env.reset, env.step))
    return _scan(start, step, count, 6)


def _scan(start: Any, step: Any, count: int, kinds: int) -> Work:
    """Steps compiled into one call, which hands over every observation and reward."""
    import jax

    actions = jax.numpy.asarray(_actions(count, kinds))
    states = [jax.jit(start)(jax.random.split(jax.random.key(0), count))]

    @jax.jit
    def steps(state: Any) -> Any:
        def one(state: Any, action: Any) -> Any:
            state = step(state, action)
            return state, (state.observation, state.reward, state.step_type)

        return jax.lax.scan(one, state, actions)

    def work() -> None:
        states[0], shown = steps(states[0])
        jax.block_until_ready(shown)

    return work


def minigrid(level: str, count: int) -> Work:
    """The reference, one environment."""
    import minigrid  # noqa: F401 - registers its levels

    env, actions = gymnasium.make(level).unwrapped, _actions(1)[:, 0].tolist()
    env.reset(seed=0)

    def work() -> None:
        for action in actions:
            if any(env.step(action)[2:4]):
                env.reset()

    return work


PACKAGES = {"groundlab": groundlab, "envpool": envpool, "navix": navix, "xland": xland, "minigrid": minigrid}


def has(package: str, level: str, count: int) -> bool:
    """Whether a package has a level; minigrid steps one environment at a time, whatever the batch."""
    return {"navix": "KeyCorridor" in level, "xland": "Blocked" in level, "minigrid": count == 1}.get(package, True)


def measure(level: str, count: int, turns: int) -> Iterator[tuple[str, float, float]]:
    """(package, steps a CPU second, CPU seconds of making it and of its first call)."""
    works, first = {}, {}
    for name, make in PACKAGES.items():
        if has(name, level, count):
            start = time.process_time()
            works[name] = make(level, count)
            works[name]()
            first[name] = time.process_time() - start
            works[name]()
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(turns):
        for name, work in works.items():
            calls, start = 0, time.process_time()
            while time.process_time() - start < SECONDS:
                work()
                calls += 1
            rates[name].append(calls * STEPS * count / (time.process_time() - start))
    for name in works:
        yield name, median(rates[name]), first[name]


def main(words: argparse.Namespace) -> None:
    """Print the table as it is measured."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX counts the cores
    print("| level | batch | package | steps a CPU second | groundlab is | first call [CPU s] |")
    print("|---|---|---|---|---|---|")
    for level in words.levels:
        for count in words.batches:
            ours = 0.0
            with redirect_stdout(StringIO()):  # minigrid prints every level that it rejects
                rows = [*measure(level, count, words.turns)]
            for name, rate, first in rows:
                ours = rate if name == "groundlab" else ours
                print(f"| {level} | {count:,} | {name} | {rate:,.0f} | {ours / rate:.1f} x | {first:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", nargs="+", default=LEVELS)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16, 256, 1024])
    parser.add_argument("--turns", type=int, default=5)
    main(parser.parse_args())
