"""GLAM's agent as later papers changed it: scores divided by length, prompts in other formats, other action words.

    groundlab run glam-extended --world BabyAI-GoToLocalS8N4-v0 --seed 0 --set normalisation=word --out runs/word

normalisation   an action's log-probability is divided by its tokens or its words, so that short texts have no
                advantage: TWOSOME (Tan et al. 2024, arXiv 2401.14151, section 4)
prompt_format   how prompts are written (prompt_formats.py); `test_formats` tests the agent in further ones
action_words    any words for the actions of a space, e.g. ["west", "east", "north", ...]

All of it happens where a prompt enters the scorer and where a score leaves it. So without these settings an agent is
that of `glam`, bit for bit: same weights, same draws, same updates.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec
from groundlab.language.scoring import ActionScorer, Inputs
from groundlab.learning.distributed import SINGLE_PROCESS, Group, joined
from groundlab.papers import training
from groundlab.papers.episodes import Player
from groundlab.papers.glam import episodes
from groundlab.papers.glam.episodes import SAMPLED
from groundlab.papers.glam.policy import Alteration, CachedPolicy, TextPlayer
from groundlab.papers.glam.ppo import DISTRIBUTED, PPOLearner
from groundlab.papers.glam.prompt_formats import ExtendedSettings, PromptFormat, rewrite
from groundlab.worlds.text_env.prompts import text_actions

__all__ = ["DISTRIBUTED", "Settings", "make_learner"]

Settings = ExtendedSettings


def make_learner(spec: RunSpec, run: Run | None = None) -> training.Learner:
    """The agent of a run, before its first update. Raises GroundlabError as `ppo.make_learner`."""
    return ExtendedLearner(spec, joined())


class ExtendedScorer(ActionScorer):
    """An `ActionScorer` over the weights and heads of another one, by the settings of this module."""

    def __init__(self, plain: ActionScorer, settings: ExtendedSettings, actions: tuple[str, ...], prompt_format: Any):
        """`actions` are canonical texts: those of the settings' own space get its `action_words`."""
        words = settings.renamed
        super().__init__(
            plain.model,
            plain.tokenizer,
            [words.get(action, action) for action in actions],
            rule=settings.rule,
            temperature=plain.temperature,
            value_head=False,
            dropout=plain.dropout,
            token_budget=settings.token_budget,
        )
        self.value_head, self._words, self._format = plain.value_head, words, prompt_format
        real, counts = self.branches.real, [len(action.split()) for action in self.actions]
        lengths = {"token": real.sum(-1), "word": torch.tensor(counts, device=real.device)}
        self._lengths = lengths.get(settings.normalisation)

    def _rows(self, inputs: Inputs) -> list[tuple[int, ...]]:
        if isinstance(inputs, Tensor):
            return super()._rows(inputs)
        return super()._rows([rewrite(self._format, prompt, self._words) for prompt in inputs])

    def _rule(self, logits: Tensor) -> Tensor:
        scores = super()._rule(logits)
        return scores if self._lengths is None else scores / self._lengths


class ExtendedLearner(PPOLearner):
    """GLAM's agent around another scorer."""

    def __init__(self, spec: RunSpec, group: Group = SINGLE_PROCESS):
        extended = Settings(**spec.settings)
        rewrites = extended.prompt_format != "glam" or extended.action_words or extended.test_formats
        if rewrites and worlds.find(spec.world).language != "english":
            raise GroundlabError(f"{spec.world} is not in English; leave prompt_format, test_formats and action_words")
        super().__init__(spec.model_copy(update={"method": "glam", "settings": extended.plain()}), group)
        self._extended = extended
        self.scorer = self._scorer_for(self._actions, extended.prompt_format)
        self._policy = CachedPolicy(self.scorer, group=group)

    def _scorer_for(self, actions: tuple[str, ...], prompt_format: PromptFormat | str) -> ExtendedScorer:
        return ExtendedScorer(self.scorer, self._extended, actions, prompt_format)

    def begin(self, run: Run) -> None:
        """The original has no name for such a run."""

    def evaluate(self) -> list[training.Evaluation]:
        """Evaluations on the test layouts, then "sampled format-xml" for each of `test_formats`."""
        self.scorer.train(False)
        results = self._play(self.settings, self._extended.prompt_format)
        own = self.settings.model_copy(update={"tests": [], "fixed_mission": "", "first_finished": 0})
        for name in self._extended.test_formats:
            (drawn,) = (each for each in self._play(own, name) if each["policy"] == SAMPLED)
            results.append({**drawn, "policy": f"{SAMPLED} format-{name}"})
        return results

    def _play(self, settings: Any, prompt_format: str) -> list[training.Evaluation]:
        policies: dict[tuple[str, ...], CachedPolicy] = {}

        def player_for(world: str, alteration: Alteration, num_envs: int, rng: np.random.Generator | None) -> Player:
            actions = text_actions(alteration.action_space or settings.action_space, worlds.find(world).language)
            if actions not in policies:
                policies[actions] = CachedPolicy(self._scorer_for(actions, prompt_format), group=self._group)
            return TextPlayer(policies[actions], num_envs, world, settings, alteration, rng)

        return episodes.evaluate(self._spec.world, self._spec.seed, settings, player_for)
