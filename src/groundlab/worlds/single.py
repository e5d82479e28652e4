"""The single front: one environment with Gymnasium's `Env` interface and rendering, on the batch's own code.

    env = gymnasium.make("groundlab/SimpleDoorKey-v0", render_mode="rgb_array")

Read next: `render.py` (pictures), `vector.py` (the batch).
"""

from typing import Any

import gymnasium as gym
import numpy as np

from groundlab.core.errors import GroundlabError
from groundlab.worlds.codes import ACTIONS
from groundlab.worlds.levels import reset_envs, step_envs
from groundlab.worlds.pcg64 import seed_row
from groundlab.worlds.registry import WORLDS, find
from groundlab.worlds.render import as_picture, as_text
from groundlab.worlds.state import empty_grids
from groundlab.worlds.vector import observation_space


class GridEnv(gym.Env):
    """One environment; observations are a dict of "image" uint8 [W, H, 4], "direction" int, "mission" str."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 3}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(self, world: str, render_mode: str | None = None):
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise GroundlabError(f"unknown render mode {render_mode!r}; use rgb_array or ansi")
        self.world, self.render_mode = find(world), render_mode
        self.observation_space, self.action_space = observation_space(self.world), gym.spaces.Discrete(len(ACTIONS))
        self.grids = empty_grids(1, self.world.width, self.world.height)
        self.grids.random[0] = seed_row(None)
        self._images, self._actions = np.zeros((1, *self.world.image_shape), np.uint8), np.zeros(1, np.int64)
        self._rewards, self._flags = np.zeros(1), np.zeros((2, 1), np.bool_)
        self._yes, self._no = np.ones(1, np.bool_), np.zeros(1, np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Start an episode; a seed gives the layout of the original with that seed."""
        super().reset(seed=seed)
        if seed is not None:
            self.grids.random[0] = seed_row(seed)
        reset_envs(self.grids, self.world.level, self._yes, self._images)
        return self._observation(), {}

    def step(self, action):
        """(observation, reward, terminated, truncated, info) after one action."""
        self._actions[0] = action
        terminated, truncated = self._flags
        step_envs(
            self.grids, self.world.level, self._actions, self._yes, self._no,
            self._images, self._rewards, terminated, truncated,
        )  # fmt: skip
        return self._observation(), float(self._rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def _observation(self) -> dict[str, Any]:
        return {
            "image": self._images[0].copy(),
            "direction": int(self.grids.agents[0, 2]),
            "mission": self.world.mission,
        }

    def render(self):
        """What the agent has seen: uint8 [H * 32, W * 32, 3] for rgb_array, a string for ansi."""
        if self.render_mode == "rgb_array":
            return as_picture(self._images[0])
        return as_text(self._images[0]) if self.render_mode == "ansi" else None


def register_worlds() -> None:
    """Make every world known to `gymnasium.make`."""
    for world in WORLDS.values():
        if world.gym_id not in gym.registry:
            gym.register(id=world.gym_id, entry_point="groundlab.worlds.single:GridEnv", kwargs={"world": world.name})
