"""The random agent of the BabyAI worlds: one of the first `actions` actions, uniformly. (The door-key worlds' `random`
is an asker: mediator/baselines.py.)

    groundlab evaluate random --world BabyAI-GoToLocal-v0 --layouts 0-1999

It is measured twice, as every agent's success was once published and once not: over a fixed list of episodes, and over
the first episodes to finish (`papers/episodes.py`). On mixed worlds the two differ by a third, which is no skill.
"""

from typing import Any

import numpy as np

from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.papers.episodes import FIRST_FINISHED, Memoryless, play_first_finished, play_layouts, summary
from groundlab.papers.method import Request
from groundlab.papers.worlds.settings import RandomSettings

__all__ = ["RandomPlayer", "evaluate"]


class RandomPlayer(Memoryless):
    """Draws each action from its own generator."""

    def __init__(self, actions: int, rng: np.random.Generator):
        self._actions, self._rng = actions, rng

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        """One draw for each active environment."""
        return self._rng.integers(0, self._actions, len(active))


def evaluate(request: Request) -> list[dict[str, Any]]:
    """Policy "random" over the layouts, and "first-finished" where asked."""
    settings = RandomSettings(**request.settings)
    player = RandomPlayer(settings.actions, generator(request.seed, "random actions"))
    rows = play_layouts(request.world, parse_layouts(settings.layouts), player, settings.num_dists)
    results = [summary("random", rows)]
    if settings.first_finished:
        envs, count = settings.num_envs, settings.first_finished
        rows = play_first_finished(request.world, envs, count, request.seed, player, settings.num_dists)
        results.append(summary(FIRST_FINISHED, rows))
    return results
