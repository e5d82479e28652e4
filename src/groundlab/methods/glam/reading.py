"""From observations to prompts: what a text agent has read of its episodes, one history an environment.

    reader = Reader(num_envs, world, settings)
    reader.start(env, observation); reader.see(env, action, observation)     # as playing.Player
    prompts = reader.prompts(observations, active)

An `Alteration` changes what is read without changing the world: words (the generalisation tests), the names of the
actions, or the mission (the control that shows whether a policy reads its goal). Read next: `policy.py`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from groundlab import worlds
from groundlab.language.prompts import History, env_actions, modify, text_actions
from groundlab.methods.glam.settings import ReadingSettings
from groundlab.worlds.text import describe_batch


@dataclass(frozen=True)
class Alteration:
    """How prompts differ from those of training."""

    modifier: str = "no_modification_test"
    """A table of `language.prompts.MODIFIERS`, applied to the finished prompt."""
    mission: str | None = None
    """Told instead of every mission."""
    action_space: int | str | None = None
    """Told, and scored, instead of the settings' action space."""


UNALTERED = Alteration()


class Reader:
    """The prompts of B environments. Actions are indices into the text action space."""

    def __init__(
        self, num_envs: int, world: str, settings: ReadingSettings, alteration: Alteration = UNALTERED
    ) -> None:
        self.language, self._alteration = worlds.find(world).language, alteration
        self.action_texts = text_actions(alteration.action_space or settings.action_space)
        self._listed = self.action_texts if settings.action_list else ()
        self._history = History(num_envs, settings.nbr_obs)

    def sentences(self, observation: dict[str, Any]) -> list[str]:
        """What one observation says."""
        return describe_batch(observation["image"][None], self.language)[0]

    def start(self, env: int, observation: dict[str, Any]) -> None:
        """Environment `env` begins an episode with this observation; what was before is forgotten."""
        self._history.start(env, self.sentences(observation))

    def see(self, env: int, action: int, observation: dict[str, Any]) -> None:
        """Text action `action` was done in environment `env` and led to this observation."""
        self._history.step(env, self.action_texts[action], self.sentences(observation))

    def prompts(self, observations: dict[str, Any], active: np.ndarray) -> list[str]:
        """The prompts of the environments `active`; observations give the missions."""
        missions = observations["mission"]
        return [self._prompt(env, self._alteration.mission or missions[env]) for env in active.tolist()]

    def _prompt(self, env: int, mission: str) -> str:
        prompt = self._history.prompt(env, mission, self._listed, self.language)
        return modify(prompt, self._alteration.modifier, self.language)

    def state(self) -> list[dict[str, list]]:
        """All histories, as JSON knows them."""
        return self._history.state()

    def load_state(self, state: list[dict[str, list]]) -> None:
        """Take over what `state` gave."""
        self._history.load_state(state)


class ReadingPlayer(Reader, ABC):
    """A Player (playing.py) that chooses among text actions: a subclass says how, in `choose`."""

    def __init__(
        self, num_envs: int, world: str, settings: ReadingSettings, alteration: Alteration = UNALTERED
    ) -> None:
        super().__init__(num_envs, world, settings, alteration)
        self._chosen = np.zeros(num_envs, np.int64)

    @abstractmethod
    def choose(self, prompts: list[str]) -> np.ndarray:
        """Text action indices [P]."""

    def act(self, observations: dict[str, Any], active: np.ndarray) -> np.ndarray:
        """The environment's actions for the environments `active`."""
        self._chosen[active] = self.choose(self.prompts(observations, active))
        return env_actions(self._chosen[active])

    def see(self, env: int, action: int, observation: dict[str, Any]) -> None:
        """As `Reader.see`; what was chosen counts, since several texts may be one action of the environment."""
        super().see(env, int(self._chosen[env]), observation)
