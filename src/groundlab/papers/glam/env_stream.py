"""What the baselines train on: environments that start again as soon as they end, and what became of the episodes.

    stream = Stream(world, num_envs=32, seed=0)
    rewards, ended = stream.step(actions)         # stream.observations are those of the next step

Levels are drawn from seeds above those of all test layouts. `state` and `load_state` carry it through a checkpoint.
Called from: `drrn.py`, `symbolic.py`.
"""

from typing import Any

import numpy as np
from safetensors.numpy import load, save

from groundlab import worlds
from groundlab.core.run import Files
from groundlab.core.seeding import generator
from groundlab.papers.glam.settings import TRAINING_LAYOUTS_FROM

_FILE = "stream.safetensors"
_TAKEN = "stream.steps"


class Stream:
    """`num_envs` copies of a world that restart in the step in which they end."""

    def __init__(self, world: str, num_envs: int, seed: int, num_dists: int | None = None):
        self._envs = worlds.GridVectorEnv(worlds.find(world), num_envs, autoreset="same-step", num_dists=num_dists)
        layouts = generator(seed, "training layouts").integers(TRAINING_LAYOUTS_FROM, 2**31, num_envs)
        self.observations, _ = self._envs.reset(seed=layouts.tolist())
        self._steps = np.zeros(num_envs, np.int64)
        self._ended: list[dict[str, float]] = []

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Raw rewards float64 [B], and which episodes ended, by success or by time, bool [B]."""
        self.observations, rewards, terminated, truncated, _ = self._envs.step(actions)
        self._steps += 1
        ended = terminated | truncated
        for env in np.flatnonzero(ended).tolist():
            outcome = {"success": terminated[env], "return": rewards[env], "length": self._steps[env]}
            self._ended.append({name: float(value) for name, value in outcome.items()})
        self._steps[ended] = 0
        return rewards, ended

    def outcomes(self) -> dict[str, Any]:
        """How many episodes ended since the last call, and their means, which none may have."""
        rows, self._ended = self._ended, []
        means = {name: float(np.mean([row[name] for row in rows])) for name in ("success", "return", "length") if rows}
        return {"episodes": len(rows), **means}

    def state(self) -> Files:
        """The file to continue from; to be taken when `outcomes` has just been called."""
        return {_FILE: save({**self._envs.save(), _TAKEN: self._steps})}

    def load_state(self, files: Files) -> None:
        """Continue from what `state` gave."""
        arrays = load(files[_FILE])
        self._steps[...] = arrays.pop(_TAKEN)
        self._envs.load(arrays)
        nobody = np.zeros(len(self._steps), np.bool_)
        self.observations, _ = self._envs.reset(options={"reset_mask": nobody})
