"""What the agents train on: environments that start again as soon as they end, and the episodes that ended in them.

    stream = training_stream(world, num_envs=32, seed=0)
    step = stream.step(actions)         # stream.observations are those of the next step
    episode_stats(stream.pop_episodes())

Levels are drawn from seeds above those of all test layouts. `state` and `load_state` carry a stream through a
checkpoint.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save

from groundlab import worlds
from groundlab.core.run import Files
from groundlab.core.seeding import generator
from groundlab.papers.glam.settings import LAYOUTS_END, TRAINING_LAYOUTS_FROM

_FILE = "stream.safetensors"
_RETURNS, _LENGTHS = "stream.returns", "stream.steps"

Episode = dict[str, float]
"""`{"success": 0 or 1, "return": sum of raw rewards, "length": steps}`."""


class StreamStep(NamedTuple):
    """What one step of B environments led to."""

    rewards: np.ndarray  # float64 [B], raw
    ended: np.ndarray  # bool [B], by success or by time
    truncated: np.ndarray  # bool [B], by time alone
    final_observations: dict[str, Any]  # the last ones of episodes that ended; empty where none did


class EnvStream:
    """B environments that restart in the step in which they end (autoreset "same-step")."""

    def __init__(self, envs: worlds.GridVectorEnv, seeds: Sequence[int]):
        """Environment i begins with layout seeds[i]."""
        self._envs, self.num_envs = envs, envs.num_envs
        self._returns, self._lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        self._episodes: list[Episode] = []
        self.observations, _ = envs.reset(seed=list(seeds))

    def step(self, actions: np.ndarray) -> StreamStep:
        """Do the environment's actions [B]; `observations` are then those of the next step."""
        self.observations, rewards, terminated, truncated, info = self._envs.step(actions)
        self._returns += rewards
        self._lengths += 1
        ended = terminated | truncated
        for env in np.flatnonzero(ended).tolist():
            row = {"success": terminated[env], "return": self._returns[env], "length": self._lengths[env]}
            self._episodes.append({name: float(value) for name, value in row.items()})
        self._returns[ended], self._lengths[ended] = 0.0, 0
        return StreamStep(rewards, ended, truncated & ~terminated, info.get("final_obs", {}))

    def pop_episodes(self) -> list[Episode]:
        """The episodes that ended since the last call."""
        episodes, self._episodes = self._episodes, []
        return episodes

    def state(self) -> Files:
        """The file to continue from, without the episodes that nobody popped."""
        return {_FILE: save({**self._envs.save(), _RETURNS: self._returns, _LENGTHS: self._lengths})}

    def load_state(self, files: Files) -> None:
        """Continue from what `state` gave."""
        arrays = load(files[_FILE])
        self._returns[...], self._lengths[...] = arrays.pop(_RETURNS), arrays.pop(_LENGTHS)
        self._envs.load(arrays)
        nobody = np.zeros(self.num_envs, np.bool_)
        self.observations, _ = self._envs.reset(options={"reset_mask": nobody})


def training_stream(world: str, num_envs: int, seed: int, num_dists: int | None = None) -> EnvStream:
    """Copies of a world whose first layouts are drawn from the run's seed; none is a test layout."""
    envs = worlds.GridVectorEnv(worlds.find(world), num_envs, autoreset="same-step", num_dists=num_dists)
    seeds = generator(seed, "training layouts").integers(TRAINING_LAYOUTS_FROM, LAYOUTS_END, num_envs)
    return EnvStream(envs, seeds.tolist())


def episode_stats(episodes: list[Episode]) -> dict[str, float]:
    """Number of episodes, and the means of success, return and length where there are any."""
    names = ("success", "return", "length") if episodes else ()
    return {"episodes": len(episodes), **{name: float(np.mean([row[name] for row in episodes])) for name in names}}
