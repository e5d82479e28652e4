"""All other minigrid ids behind the same batched interface: the minigrid package's own environments, one by one.

    env = groundlab.worlds.make("MiniGrid-LockedRoom-v0", num_envs=4, seed=0)

Slower by two orders of magnitude than the compiled worlds (`groundlab bench worlds`), and a checkpoint cannot hold
them. The interface is that of `worlds/vector.py`.
"""

import io
from contextlib import redirect_stdout
from typing import Any

import gymnasium as gym
import minigrid  # noqa: F401 - registers its environments
import numpy as np
from gymnasium.vector import AutoresetMode

from groundlab.core.errors import GroundlabError
from groundlab.worlds.vector import BatchEnv, check_actions, observation_space, spread_seeds

PREFIXES = ("BabyAI-", "MiniGrid-")


def package_ids() -> list[str]:
    """The ids that the minigrid package registers, sorted."""
    return sorted(name for name in gym.registry if name.startswith(PREFIXES))


class PackageVectorEnv(BatchEnv):
    """B environments of the minigrid package; observations, seeds, resets and modes as in `GridVectorEnv`."""

    def __init__(self, world: str, num_envs: int, seed: int | None = None, autoreset: str = "next-step"):
        first: Any = gym.make(world).unwrapped
        image = first.observation_space["image"]
        self._declare(num_envs, autoreset, observation_space(image.shape), first.action_space)
        self.envs = [first, *(gym.make(world).unwrapped for _ in range(num_envs - 1))]
        self._seeds: list[int | None] = spread_seeds(seed, num_envs)
        self._current: list[dict[str, Any]] = [{}] * num_envs

    def _seed(self, env: int, seed: int) -> None:
        self._seeds[env] = seed

    def _restart(self, mask: np.ndarray) -> None:
        with redirect_stdout(io.StringIO()):  # minigrid prints every level that it rejects
            for env in np.flatnonzero(mask).tolist():
                self._current[env], _ = self.envs[env].reset(seed=self._seeds[env])
                self._seeds[env] = None  # the next episode continues the stream

    def step(self, actions):
        """One step of all environments: (observations, rewards [B], terminated [B], truncated [B], info)."""
        actions = check_actions(actions, self.num_envs)
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        for env in np.flatnonzero(~self._finished).tolist():
            self._current[env], rewards[env], terminated[env], truncated[env], _ = self.envs[env].step(actions[env])
        if self._mode == AutoresetMode.DISABLED:
            terminated, truncated = terminated | self._finished, truncated
        elif self._mode == AutoresetMode.NEXT_STEP:
            self._restart(self._finished)
        finished = terminated | truncated
        info = self._restart_same_step(finished) if self._mode == AutoresetMode.SAME_STEP else {}
        self._finished = finished if self._mode != AutoresetMode.SAME_STEP else np.zeros_like(finished)
        return self._observations(), rewards, terminated, truncated, info

    def _observations(self) -> dict[str, Any]:
        return {
            "image": np.stack([observation["image"] for observation in self._current]),
            "direction": np.array([observation["direction"] for observation in self._current]),
            "mission": [observation["mission"] for observation in self._current],
        }

    def save(self) -> dict[str, np.ndarray]:
        """Not possible: the package's environments cannot be written down. Raises GroundlabError."""
        raise GroundlabError("worlds of the minigrid package cannot be checkpointed; use one of `groundlab worlds`")
