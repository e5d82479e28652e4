"""Facts, not an agent: a world played beside the minigrid package's own environment, and every difference counted.

    groundlab run facts --world BabyAI-GoToLocal-v0 --seed 0 --out out/facts

Both start from the same seeds and are given the same random actions, moving forward oftener than the rest so that they
meet things; after each reset and each step grid, view, heading, mission, reward and end must be equal. The counts are
stored like an evaluation, so that "0 mismatches" is judged from records like any other claim. The tests compare more
levels, the ones that minigrid lacks among them, and let its bot play.
"""

import io
from contextlib import redirect_stdout
from typing import Any

import gymnasium as gym
import numpy as np
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
from minigrid.core.world_object import WorldObj

from groundlab import worlds
from groundlab.core.seeding import generator
from groundlab.papers.method import Request
from groundlab.papers.worlds.settings import FactsSettings

__all__ = ["compare", "evaluate"]

FIELDS = ("grid", "image", "direction", "mission", "reward", "end")
_ACTION_WEIGHTS = (0.13, 0.13, 0.36, 0.16, 0.14, 0.06, 0.02)  # left, right, forward, pickup, drop, toggle, done


def _code(thing: WorldObj | None) -> tuple[int, int, int]:
    return (OBJECT_TO_IDX["empty"], COLOR_TO_IDX["red"], 0) if thing is None else thing.encode()


def _cells(env: Any) -> np.ndarray:
    """The grid of a minigrid environment as codes: [W, H, 3]."""
    codes = np.array([_code(thing) for thing in env.grid.grid], np.uint8)
    return codes.reshape(env.height, env.width, 3).transpose(1, 0, 2)


class _Pair:
    """The same episode twice, in our engine and in the package."""

    def __init__(self, world: str):
        self._ours = worlds.GridEnv(world)
        self._package: Any = gym.make(world).unwrapped

    def reset(self, seed: int) -> dict[str, bool]:
        """Start the level of a seed in both; which fields are equal."""
        observation, _ = self._ours.reset(seed=seed)
        with redirect_stdout(io.StringIO()):  # minigrid prints every level that it rejects
            theirs, _ = self._package.reset(seed=seed)
        return self._equal((observation, 0.0, False, False), (theirs, 0.0, False, False))

    def step(self, action: int) -> tuple[dict[str, bool], bool]:
        """One action in both: (which fields are equal, whether either has ended)."""
        ours, theirs = self._ours.step(action)[:4], self._package.step(action)[:4]
        return self._equal(ours, theirs), any((*ours[2:], *theirs[2:]))

    def _equal(self, ours: tuple, theirs: tuple) -> dict[str, bool]:
        return {
            "grid": np.array_equal(self._ours.grids.cells[0], _cells(self._package)),
            "image": np.array_equal(ours[0]["image"], theirs[0]["image"]),
            "direction": ours[0]["direction"] == theirs[0]["direction"],
            "mission": ours[0]["mission"] == theirs[0]["mission"],
            "reward": ours[1] == theirs[1],  # to the last bit
            "end": ours[2:4] == theirs[2:4],
        }


def compare(world: str, states: int, seed: int = 0) -> dict[str, int]:
    """Play `states` states, a new level for each episode (reset seeds 0, 1, ...); `seed` draws the actions.

    Returns counts: states, episodes, mismatches (states that differ in anything), and `FIELD_mismatches` of each field.
    """
    pair, rng = _Pair(world), generator(seed, "actions of facts")
    wrong, differing, episodes, over = dict.fromkeys(FIELDS, 0), 0, 0, True
    for _ in range(states):
        if over:
            equal, over = pair.reset(episodes), False
            episodes += 1
        else:
            equal, over = pair.step(int(rng.choice(len(_ACTION_WEIGHTS), p=_ACTION_WEIGHTS)))
        differing += not all(equal.values())
        wrong = {field: count + (not equal[field]) for field, count in wrong.items()}
    by_field = {f"{field}_mismatches": count for field, count in wrong.items()}
    return {"states": states, "episodes": episodes, "mismatches": differing, **by_field}


def evaluate(request: Request) -> list[dict[str, Any]]:
    """The comparison as an evaluation of one row: policy "facts"."""
    counts = compare(request.world, FactsSettings(**request.settings).states, request.seed)
    return [{"policy": "facts", "mean": counts, "rows": [{"layout": 0, **counts}]}]
