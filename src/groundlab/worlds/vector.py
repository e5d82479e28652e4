"""The batched front: B copies of a world as a Gymnasium vector environment, stepped in one compiled call.

    env = groundlab.worlds.make("SimpleDoorKey", num_envs=256, seed=0)
    observations, info = env.reset()
    observations, rewards, terminated, truncated, info = env.step(actions)

Observations: "image" uint8 [B, W, H, 4], "direction" int64 [B], "mission" a list of B strings.
Read next: `single.py` (one environment, with rendering), `levels.py` (the loops underneath).
"""

import string
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from groundlab.core.errors import GroundlabError
from groundlab.worlds.codes import ACTIONS
from groundlab.worlds.levels import reset_envs, step_envs, step_envs_parallel
from groundlab.worlds.pcg64 import seed_row
from groundlab.worlds.registry import World
from groundlab.worlds.state import empty_grids, load_grids, save_grids

_AUTORESET = {
    "next-step": AutoresetMode.NEXT_STEP,
    "same-step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}
_PARALLEL_FROM = 64  # below, starting threads costs more than the steps


def observation_space(world: World) -> gym.spaces.Dict:
    """The space of one environment's observations."""
    return gym.spaces.Dict(
        image=gym.spaces.Box(0, 255, world.image_shape, np.uint8),
        direction=gym.spaces.Discrete(4),
        mission=gym.spaces.Text(200, charset=string.printable),
    )


class GridVectorEnv(gym.vector.VectorEnv):
    """B copies of one world; see the module docstring for shapes.

    reset(seed=int) seeds environment i with seed + i, a list gives each its own seed, reset() continues each stream;
    reset(options={"reset_mask": bool [B]}) restarts only those. Autoreset is Gymnasium's next-step mode unless
    `autoreset` says "same-step" or "disabled" (then a finished environment stands still until it is reset).
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(self, world: World, num_envs: int, seed: int | None = None, autoreset: str = "next-step"):
        if num_envs < 1:
            raise GroundlabError(f"num_envs is {num_envs}; give at least 1")
        if autoreset not in _AUTORESET:
            raise GroundlabError(f"unknown autoreset {autoreset!r}; use one of {', '.join(_AUTORESET)}")
        self.world, self.num_envs = world, num_envs
        self.metadata = {**self.metadata, "autoreset_mode": _AUTORESET[autoreset]}
        self.single_observation_space, self.single_action_space = (
            observation_space(world),
            gym.spaces.Discrete(len(ACTIONS)),
        )
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._mode = self.metadata["autoreset_mode"]
        self._missions = [world.mission] * num_envs
        self._allocate(seed)

    def _allocate(self, seed: int | None) -> None:
        count = self.num_envs
        self.grids = empty_grids(count, self.world.width, self.world.height)
        self._images = np.zeros((count, *self.world.image_shape), np.uint8)
        self._rewards, self._finished = np.zeros(count), np.zeros(count, np.bool_)
        self._terminated, self._truncated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self._everyone, self._nobody = np.ones(count, np.bool_), np.zeros(count, np.bool_)
        self._step_envs = step_envs_parallel if count >= _PARALLEL_FROM else step_envs
        self._seed_envs(seed, self._everyone)

    def _seed_envs(self, seed: int | Sequence[int] | None, mask: np.ndarray) -> None:
        seeds = _spread(seed, self.num_envs)
        if len(seeds) != self.num_envs:
            raise GroundlabError(f"{len(seeds)} seeds for {self.num_envs} environments; give one each")
        for env in np.flatnonzero(mask):
            self.grids.random[env] = seed_row(seeds[env])

    def reset(self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None):
        """Start new episodes; see the class docstring for `seed` and `options`."""
        mask = (options or {}).get("reset_mask", self._everyone)
        if seed is not None:
            self._seed_envs(seed, mask)
        reset_envs(self.grids, self.world.level, mask, self._images)
        self._finished &= ~mask
        return self._observations(), {}

    def step(self, actions):
        """One step of all environments: (observations, rewards [B], terminated [B], truncated [B], info)."""
        actions = np.asarray(actions, np.int64)
        mask, resets = self._everyone, self._nobody
        if self._mode == AutoresetMode.NEXT_STEP:
            resets = self._finished
        elif self._mode == AutoresetMode.DISABLED:
            mask = ~self._finished
            self._rewards[self._finished] = 0.0
        self._step_envs(
            self.grids, self.world.level, actions, mask, resets,
            self._images, self._rewards, self._terminated, self._truncated,
        )  # fmt: skip
        finished = self._terminated | self._truncated
        info = self._restart_same_step(finished) if self._mode == AutoresetMode.SAME_STEP else {}
        self._finished = finished
        return self._observations(), self._rewards.copy(), self._terminated.copy(), self._truncated.copy(), info

    def _restart_same_step(self, finished: np.ndarray) -> dict[str, Any]:
        if not finished.any():
            return {}
        info = {"final_obs": self._observations(), "_final_obs": finished.copy()}
        reset_envs(self.grids, self.world.level, finished, self._images)
        return info

    def _observations(self) -> dict[str, Any]:
        return {
            "image": self._images.copy(),
            "direction": self.grids.agents[:, 2].copy(),
            "mission": list(self._missions),
        }

    def save(self) -> dict[str, np.ndarray]:
        """Everything needed to continue exactly here, as arrays by name."""
        return {**save_grids(self.grids), "images": self._images.copy(), "finished": self._finished.copy()}

    def load(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from what `save` gave."""
        load_grids(self.grids, saved)
        self._images[...] = saved["images"]
        self._finished = saved["finished"].copy()


def _spread(seed: int | Sequence[int] | None, count: int) -> list[int | None]:
    """One seed an environment: seed + i for an integer, None for None."""
    if seed is None:
        return [None] * count
    if isinstance(seed, int | np.integer):
        return [int(seed) + i for i in range(count)]
    return list(seed)
