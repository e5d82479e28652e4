"""Test lives in Crafter: one from each seed, with what was achieved in it.

Called from: `shaped.py`, as `playing.play_layouts` is for grids. Read next: `senses.py`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from groundlab.methods.knowledge.senses import CRAFTER
from groundlab.methods.playing import Player, Row
from groundlab.worlds.crafter.rules import ACHIEVEMENTS


def play_lives(world: str, seeds: Sequence[int], player: Player) -> list[Row]:
    """Play the first life of each seed to its end: rows of layout, steps, success, return and achievements.

    The player is one that remembers nothing.
    """
    envs = CRAFTER.make(world, len(seeds), "disabled")
    observations, _ = envs.reset(seed=list(seeds))
    rows: list[Row] = [{} for _ in seeds]
    active, steps, returns = np.arange(len(seeds)), 0, np.zeros(len(seeds))
    while len(active):
        actions = np.zeros(len(seeds), np.int64)
        actions[active] = player.act(observations, active)
        observations, rewards, terminated, truncated, info = envs.step(actions)
        steps, returns = steps + 1, returns + rewards
        ended = (terminated | truncated)[active]
        for env in active[ended].tolist():
            rows[env] = _row(env, seeds[env], steps, float(returns[env]), info)
        active = active[~ended]
    return rows


def _row(env: int, seed: int, steps: int, total: float, info: dict[str, Any]) -> Row:
    done = [name for name, flag in zip(ACHIEVEMENTS, info["unlocked"][env], strict=True) if flag]
    return {"layout": seed, "steps": steps, "success": bool(info["done"][env]), "return": total, "achievements": done}
