"""One environment of any world, for display: its words, its picture, and the state of the episode.

    stage = Stage("BabyAI-GoToLocal-v0", layout=3)
    stage.step(stage.actions.index("forward"))
    stage.sentences, stage.picture(), stage.outcome

A recording is played on it again (recording.py), a person plays on it (`groundlab play`), and an agent is watched on it
(watching.py).
"""

from typing import Any

import numpy as np

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.worlds import GridEnv, family_of, find

WIDEST = 480  # pixels of a picture
_LEAST_TILE = 8  # pixels of a cell


class Stage:
    """One episode of a world: the layout is its reset seed, `num_dists` the distractors of a grid world.

    Raises GroundlabError for an unknown world, and for more distractors than it has room for.
    """

    def __init__(self, world: str, layout: int, num_dists: int | None = None):
        self.world, self.layout, self.family = find(world), layout, family_of(world)
        self.actions: tuple[str, ...] = self.family.actions(self.world)
        self.is_grid = self.family.name in ("grid", "door-key")
        if self.is_grid:
            several = len(self.world.kinds) > 1
            kinds = "per-episode" if several else "fixed-per-env"
            self.env: Any = GridEnv(world, kinds=kinds, num_dists=num_dists)
        else:
            self.env = worlds.make(world, 1, autoreset="disabled")
        self.steps, self.reward, self.total = 0, 0.0, 0.0
        self.terminated = self.truncated = False
        observation, self._info = self.env.reset(seed=layout if self.is_grid else [layout])
        self.observation: dict[str, Any] = self._single(observation)
        task = getattr(self.world, "mission", "") or getattr(self.world, "summary", "")
        self.mission = str(self.observation.get("mission", task))

    def step(self, action: int) -> None:
        """Take an action by its number. Raises GroundlabError for one that does not exist, or after the end."""
        if self.over or not 0 <= action < len(self.actions):
            why = "the episode is over" if self.over else f"there is no action {action} in {self.world.name}"
            raise GroundlabError(f"{why}; record it again, or choose among {', '.join(self.actions)}")
        result = self.env.step(action if self.is_grid else np.array([action]))
        observation, reward, terminated, truncated, self._info = result
        self.observation = self._single(observation)
        self.reward = float(reward if self.is_grid else reward[0])
        self.terminated, self.truncated = bool(np.all(terminated)), bool(np.all(truncated))
        self.steps, self.total = self.steps + 1, self.total + self.reward

    def _single(self, observation: dict[str, Any]) -> dict[str, Any]:
        return observation if self.is_grid else {name: values[0] for name, values in observation.items()}

    @property
    def batch(self) -> dict[str, Any]:
        """The observation as a batch of one environment: what agents read."""
        return {
            name: [value] if isinstance(value, str) else np.asarray(value)[None]
            for name, value in self.observation.items()
        }

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated

    @property
    def success(self) -> bool:
        """Whether the mission is done; in Crafter, all that is paid for."""
        return self.reward > 0 and self.over if self.is_grid else bool(np.all(self._info.get("done", self.reward > 0)))

    @property
    def outcome(self) -> str:
        """How the episode ended, or that it has not."""
        if self.success:
            return f"mission done, reward {self.total:.3f}"
        return "mission failed" if self.terminated else "time is up" if self.truncated else "stopped"

    @property
    def limit(self) -> int:
        """The time limit, in steps."""
        return int(self.env.grids.max_steps[0]) if self.is_grid else int(self.world.max_steps)

    @property
    def unlocked(self) -> list[bool]:
        """Which of Crafter's achievements are done; none in other worlds."""
        return np.asarray(self._info.get("unlocked", [[]]))[0].tolist()

    @property
    def sentences(self) -> list[str]:
        """What an agent reads of the present observation; empty in worlds without words."""
        if not self.family.words_about:
            return []
        return [*self.family.describe(self.world, self.batch)[0]]

    def picture(self) -> np.ndarray:
        """uint8 [H, W, 3], at most `WIDEST` wide: a whole level, what was seen of a room, or what the player sees."""
        if self.family.name == "grid":
            from groundlab.worlds import render

            tile = max(_LEAST_TILE, min(render.TILE, WIDEST // int(self.env.grids.sizes[0, 0])))
            return render.level_picture(self.env.grids, tile=tile)
        if self.family.name == "door-key":
            return np.asarray(self.family.render(self.env.grids, self.observation["image"], "rgb_array"))
        image = np.asarray(self.observation["image"])
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
            raise GroundlabError(f"{self.world.name} shows no picture; record a grid world or Crafter")
        times = max(1, 320 // image.shape[1])
        return image.repeat(times, 0).repeat(times, 1)
