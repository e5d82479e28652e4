"""A trained agent, one decision at a time: its probabilities, its choice, and another choice in its place.

    spec, agent = registry.watched(folder, seed=0)
    stage = Stage(spec.world, layout=3)
    agent.start(stage)
    probabilities, choice = agent.decide(stage)        # of agent.decisions
    stage.step(agent.act(choice))                      # or of any other choice: the agent goes on from there
    agent.observe(stage)

A learner supports this by implementing `Learner.watched`; where its player gives scores, `WatchedPlayer` is enough.
"""

from typing import Any, Protocol

import numpy as np
import torch

from groundlab.papers.stage import Stage


class ScoringPlayer(Protocol):
    """A player (episodes.py) that tells what it would choose by."""

    def start(self, env: int, observation: dict[str, Any]) -> None:
        """Environment `env` begins an episode."""

    def scores(self, observations: dict[str, Any], active: np.ndarray) -> torch.Tensor:
        """Log-probabilities or logits [len(active), A]; to be asked for once a step."""
        ...

    def observe(self, env: int, action: int, observation: dict[str, Any]) -> None:
        """Environment `env` was given `action` and goes on with this observation."""


class WatchedPlayer:
    """A player in one environment; it draws its choices as it does while it learns.

    numbers: the action of the world that each decision is.
    """

    moves = True

    def __init__(
        self, player: ScoringPlayer, decisions: tuple[str, ...], numbers: np.ndarray, rng: np.random.Generator
    ):
        self.decisions, self._player, self._numbers, self._rng = decisions, player, numbers, rng
        self._choice = 0

    def start(self, stage: Stage) -> None:
        """An episode begins."""
        self._player.start(0, stage.observation)

    @torch.no_grad()
    def decide(self, stage: Stage) -> tuple[np.ndarray, int]:
        """(probabilities [A], the choice that was drawn by them)."""
        scores = self._player.scores(stage.batch, np.array([0]))[0]
        probabilities = scores.double().softmax(-1).numpy()
        return probabilities, int(self._rng.choice(len(probabilities), p=probabilities / probabilities.sum()))

    def act(self, choice: int) -> int:
        """The world's action of a decision, which need not be the agent's own."""
        self._choice = choice
        if hasattr(self._player, "choose"):
            self._player.choose(0, choice)  # type: ignore[attr-defined] - several texts may be one action
        return int(self._numbers[choice])

    def choice_of(self, action: int) -> int | None:
        """The first decision that is this action of the world; None where there is none."""
        found = np.flatnonzero(self._numbers == action)
        return int(found[0]) if len(found) else None

    def observe(self, stage: Stage) -> None:
        """The stage has moved on."""
        self._player.observe(0, int(self._numbers[self._choice]), stage.observation)

    def note(self) -> str:
        """What else there is to say of its decision."""
        return ""


class Watched(Protocol):
    """An agent that is watched; `WatchedPlayer` tells what each method does."""

    decisions: tuple[str, ...]
    moves: bool
    """Whether a decision is an action of the world, so that a person can act in its place."""

    def start(self, stage: Stage) -> None: ...

    def decide(self, stage: Stage) -> tuple[np.ndarray, int]: ...

    def act(self, choice: int) -> int: ...

    def choice_of(self, action: int) -> int | None: ...

    def observe(self, stage: Stage) -> None: ...

    def note(self) -> str: ...
