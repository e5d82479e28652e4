"""Agents at play in the BabyAI worlds: a fixed list of episodes to their ends, or the first episodes that finish.

`play_layouts` is the unbiased measure: every layout counts once. `play_first_finished` counts as the GLAM paper did:
environments restart by themselves and the first N finished episodes are averaged, which favours short ones
(docs/papers/glam-reference.md#env-q4 and #env-q21). Both drive a `Player`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from groundlab import worlds
from groundlab.papers import recording
from groundlab.worlds import GridVectorEnv
from groundlab.worlds.codes import ACTIONS

Row = dict[str, Any]


class Player(Protocol):
    """An agent that plays B environments at once; it may keep a history for each."""

    def start(self, env: int, observation: dict[str, Any]) -> None:
        """Environment `env` begins an episode with this observation."""

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        """Actions [len(active)] for the environments `active` of a batch of observations."""
        ...

    def observe(self, env: int, action: int, observation: dict[str, Any]) -> None:
        """Environment `env` was given `action` and goes on with this observation."""


class Memoryless:
    """The parts of a Player that remembers nothing."""

    def start(self, env: int, observation: dict[str, Any]) -> None:
        """Nothing to prepare."""

    def observe(self, env: int, action: int, observation: dict[str, Any]) -> None:
        """Nothing to remember."""


def select_env(observations: dict[str, Any], env: int) -> dict[str, Any]:
    """What a batch of observations says of one environment."""
    return {name: values[env] for name, values in observations.items()}


def make(world: str, layouts: Sequence[int], num_dists: int | None = None) -> GridVectorEnv:
    """One environment a layout, standing still when finished; layout s of a mixed world is of kind s mod 5."""
    kinds = worlds.find(world).kinds
    chosen = [kinds[layout % len(kinds)] for layout in layouts] if kinds else "fixed-per-env"
    return GridVectorEnv(worlds.find(world), len(layouts), autoreset="disabled", kinds=chosen, num_dists=num_dists)


def play_layouts(
    world: str,
    layouts: Sequence[int],
    player: Player,
    num_dists: int | None = None,
    watch: Callable[[dict[str, Any], np.ndarray], None] | None = None,
) -> list[Row]:
    """Play each layout (a reset seed) once, to its end: rows of layout, steps, success, return (and kind).

    "return" is the sum of raw rewards, 1 - 0.9 * steps / limit on success. `watch` is called with the observations and
    the active environments before each step.
    """
    envs = make(world, layouts, num_dists)
    observations, _ = envs.reset(seed=list(layouts))
    for env in range(len(layouts)):
        player.start(env, select_env(observations, env))
    rows: list[Row] = [{} for _ in layouts]
    remembers = not isinstance(player, Memoryless)
    taken: list[list[int]] = [[] for _ in layouts]
    active, steps = np.arange(len(layouts)), 0
    while len(active):
        if watch:
            watch(observations, active)
        actions = np.zeros(len(layouts), np.int64)
        actions[active] = player.act(observations, active)
        if recording.wanted():
            for env in active.tolist():
                taken[env].append(int(actions[env]))
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        steps += 1
        ended = (terminated | truncated)[active]
        for env in active[ended].tolist():
            rows[env] = _row(envs, env, layouts[env], steps, float(rewards[env]))
            recording.keep(rows[env], kind_of(world, envs.kinds[env]), ACTIONS, taken[env], num_dists)
        active = active[~ended]
        if remembers:
            for env in active.tolist():
                player.observe(env, int(actions[env]), select_env(observations, env))
    return rows


def kind_of(world: str, kind: str | None) -> str:
    """The name of a world with one kind of task; of a world that has no other, its own."""
    return f"{world}/{kind}" if kind and len(worlds.find(world).kinds) > 1 else world


def _row(envs: GridVectorEnv, env: int, layout: int, steps: int, total: float) -> Row:
    kind = envs.kinds[env]
    row: Row = {"layout": layout, "steps": steps, "success": total > 0, "return": total}  # failures terminate too
    return {**row, "kind": kind} if kind else row


def play_first_finished(
    world: str, num_envs: int, episodes: int, seed: int, player: Player, num_dists: int | None = None
) -> list[Row]:
    """Play `num_envs` environments that restart by themselves until `episodes` have finished; rows in that order.

    Environment i has the seed `seed` + i; the last step may finish a few more, which are left out.
    """
    envs = GridVectorEnv(worlds.find(world), num_envs, seed, autoreset="same-step", num_dists=num_dists)
    observations, _ = envs.reset()
    everyone, steps = np.arange(num_envs), np.zeros(num_envs, np.int64)
    for env in range(num_envs):
        player.start(env, select_env(observations, env))
    rows: list[Row] = []
    remembers = not isinstance(player, Memoryless)
    while len(rows) < episodes:
        actions = player.act(observations, everyone)
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        steps += 1
        for env in range(num_envs):
            if terminated[env] or truncated[env]:
                rows.append(_row(envs, env, seed + env, int(steps[env]), float(rewards[env])))
                steps[env] = 0
                player.start(env, select_env(observations, env))
            elif remembers:
                player.observe(env, int(actions[env]), select_env(observations, env))
    return rows[:episodes]


def summary(policy: str, rows: list[Row]) -> dict[str, Any]:
    """An evaluation: {"policy", "mean", "rows"}; with task kinds, the mean of each kind's success as `success_KIND`.

    "success" is then the mean over the kinds, each counted alike, however many episodes each has.
    """
    mean = {key: float(np.mean([row[key] for row in rows])) for key in ("steps", "success", "return")}
    kinds = sorted({row["kind"] for row in rows if "kind" in row})
    if len(kinds) > 1 and policy != FIRST_FINISHED:
        by_kind = {kind: np.mean([row["success"] for row in rows if row["kind"] == kind]) for kind in kinds}
        mean |= {f"success_{kind}": float(rate) for kind, rate in by_kind.items()}
        mean["success"] = float(np.mean(list(by_kind.values())))
    return {"policy": policy, "mean": mean, "rows": rows}


FIRST_FINISHED = "first-finished"
