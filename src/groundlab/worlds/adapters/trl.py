"""TRL: `GRPOTrainer(environment_factory=...)`, each action a tool. Tried with trl 1.16.0; imports nothing of it.

    trainer = GRPOTrainer(model, environment_factory=trl.factory("BabyAI-GoToLocal-v0"), train_dataset=trl.rows(64))

The rows have a column `seed`, which TRL hands to `reset`: the members of a group share their level.
"""

from collections.abc import Callable
from typing import Any

from groundlab.worlds import TextEnv

PROMPT = "Reach the goal by calling the tools, one action a call. Say DONE when the game is over.\n\n"


class GridTools:
    """One episode: every public method but `reset` and `get_reward` is a tool."""

    def __init__(self, world: str = "BabyAI-GoToLocal-v0", **options: Any):
        self._env = TextEnv(world, **{"prompt": "plain", **options})
        self._return, self._over = 0.0, True

    def reset(self, seed: int | None = None, **columns: Any) -> str:
        """Begin the episode of a row; returns what the agent reads first, which TRL adds to the prompt."""
        text, _ = self._env.reset(seed=seed)
        self._return, self._over = 0.0, False
        return text

    def get_reward(self) -> float:
        """The episode's return: the world's own reward, 0 without success."""
        return self._return

    def _act(self, word: str) -> str:
        if self._over:
            raise ValueError("Game over.")
        text, reward, terminated, truncated, _ = self._env.step(word)
        self._return += reward
        self._over = terminated or truncated
        return f"{text}\nGame over." if self._over else text

    def turn_left(self) -> str:
        """Turn left, on the spot."""
        return self._act("turn left")

    def turn_right(self) -> str:
        """Turn right, on the spot."""
        return self._act("turn right")

    def go_forward(self) -> str:
        """Go one step forward, if nothing is in the way."""
        return self._act("go forward")

    def pick_up(self) -> str:
        """Pick up the object one step ahead."""
        return self._act("pick up")

    def drop(self) -> str:
        """Drop what you carry onto the free cell one step ahead."""
        return self._act("drop")

    def toggle(self) -> str:
        """Open or close the door, or open the box, one step ahead."""
        return self._act("toggle")


def factory(world: str, **options: Any) -> Callable[[], GridTools]:
    """What to give as `environment_factory`. Raises GroundlabError for an unknown world, before any model is loaded."""
    GridTools(world, **options)
    return lambda: GridTools(world, **options)


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    """The rows of a training set (`datasets.Dataset.from_list`): a prompt, and the seed of a level each."""
    return [{"prompt": [{"role": "user", "content": PROMPT}], "seed": first + number} for number in range(count)]
