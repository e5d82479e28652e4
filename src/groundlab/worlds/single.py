"""The single front: one environment with Gymnasium's `Env` interface and rendering, on the batch's own code.

env = gymnasium.make("groundlab/BabyAI-GoToLocal-v0", render_mode="rgb_array")
"""

from typing import Any

import gymnasium as gym
import numpy as np

from groundlab.core.errors import GroundlabError
from groundlab.worlds.codes import ACTIONS
from groundlab.worlds.family import families, find
from groundlab.worlds.levels import reset_envs, step_envs
from groundlab.worlds.missions import mission_text
from groundlab.worlds.pcg64 import seed_row
from groundlab.worlds.state import empty_grids
from groundlab.worlds.vector import as_seed, check_actions, configure, observation_space


class GridEnv(gym.Env):
    """One environment; observations are a dict of "image" uint8 (one of the batch's), "direction" int, "mission" str.

    options: `kinds` and `num_dists`, as for the batch.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 3}  # type: dict[str, Any]  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(self, world: str, render_mode: str | None = None, **options: Any):
        if not isinstance(options.get("kinds", ""), str):
            raise GroundlabError(f'one environment plays one kind; make {world}/KIND, or give kinds="per-episode"')
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise GroundlabError(f"unknown render mode {render_mode!r}; use rgb_array or ansi")
        self.world, self.render_mode = configure(find(world), **options), render_mode
        self.observation_space = observation_space(self.world.image_shape)  # type: gym.spaces.Dict
        self.action_space = gym.spaces.Discrete(len(ACTIONS))  # type: gym.spaces.Discrete[np.int64]
        self.grids = empty_grids(1, self.world.width, self.world.height, self.world.levels, [0])
        self.grids.random[0] = seed_row(None)
        self._images, self._actions = np.zeros((1, *self.world.image_shape), np.uint8), np.zeros(1, np.int64)
        self._rewards, self._flags = np.zeros(1), np.zeros((2, 1), np.bool_)
        self._yes, self._no = np.ones(1, np.bool_), np.zeros(1, np.bool_)
        self._mission = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; a seed gives the level of the original with that seed."""
        if seed is not None:
            seed = as_seed(seed)
            self.grids.random[0] = seed_row(seed)
        super().reset(seed=seed)  # Gymnasium's own generator, which nothing here draws from
        reset_envs(self.grids, self._yes, self._images)
        self._mission = mission_text(self.grids.missions[0])
        return self._observation(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """(observation, reward, terminated, truncated, info) after one action."""
        if not (isinstance(action, int | np.integer) and 0 <= action < len(ACTIONS)):
            check_actions([action], 1)
        self._actions[0] = action
        terminated, truncated = self._flags
        step_envs(
            self.grids, self._actions, self._yes, self._no, self._images, self._rewards, terminated, truncated
        )  # fmt: skip
        return self._observation(), float(self._rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def _observation(self) -> dict[str, Any]:
        return {
            "image": self._images[0].copy(),
            "direction": int(self.grids.agents[0, 2]),
            "mission": self._mission,
        }

    def render(self) -> np.ndarray | str | None:  # type: ignore[override] - gymnasium's has frames of any type
        """A picture uint8 [H * 32, W * 32, 3] for rgb_array, a string for ansi.

        Door-key worlds draw what the agent has seen, the others the whole level with the agent's view lit.
        """
        if self.render_mode is None:
            return None
        return families()[self.world.family].render(self.grids, self._images[0], self.render_mode)
