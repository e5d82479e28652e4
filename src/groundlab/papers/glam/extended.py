"""GLAM's agent as later papers changed it: scores divided by length, prompts in other formats.

    groundlab run glam-extended --world BabyAI-GoToLocalS8N4-v0 --seed 0 --set normalisation=word --out runs/word

normalisation   an action's log-probability is divided by its tokens or its words, so that short texts have no
                advantage: TWOSOME (Tan et al. 2024, arXiv 2401.14151, section 4)
prompt_format   how prompts are written (prompt_formats.py); `test_formats` tests the agent in further ones

All of it happens where a prompt enters the scorer and where a score leaves it. So without these settings an agent is
that of `glam`, bit for bit: same weights, same draws, same updates.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.core.run import Run, RunSpec
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.scoring import ActionScorer
from groundlab.learning.distributed import SINGLE_PROCESS, Group, joined
from groundlab.papers import training
from groundlab.papers.episodes import Player, play_layouts, summary
from groundlab.papers.glam import episodes
from groundlab.papers.glam.episodes import SAMPLED
from groundlab.papers.glam.policy import Alteration, CachedPolicy, TextPlayer, is_released
from groundlab.papers.glam.ppo import DISTRIBUTED, PPOLearner
from groundlab.papers.glam.prompt_formats import ExtendedSettings, PromptFormat, rewrite
from groundlab.papers.watching import WatchedPlayer
from groundlab.worlds.text_env.prompts import env_actions, text_actions

__all__ = ["DISTRIBUTED", "Settings", "make_learner"]

Settings = ExtendedSettings


def make_learner(spec: RunSpec, run: Run | None = None) -> training.Learner:
    """The agent of a run, before its first update. Raises GroundlabError as `ppo.make_learner`."""
    return ExtendedLearner(spec, joined())


def comes_trained(settings: dict[str, Any]) -> bool:
    """As `ppo.comes_trained`."""
    return is_released(Settings(**settings))


class ExtendedScorer(ActionScorer):
    """An `ActionScorer` over the weights and heads of another one, by the settings of this module."""

    def __init__(self, plain: ActionScorer, settings: ExtendedSettings, actions: tuple[str, ...], prompt_format: Any):
        super().__init__(
            plain.model,
            plain.tokenizer,
            actions,
            rule=settings.rule,
            temperature=plain.temperature,
            value_head=False,
            dropout=plain.dropout,
            move_blanks=settings.move_blanks,
            token_budget=settings.token_budget,
        )
        self.value_head, self._format = plain.value_head, prompt_format
        self._normalisation = settings.normalisation
        self._words = self.branches.real.new_tensor([len(action.split()) for action in self.actions], dtype=torch.long)

    def _rows(self, prompts: Sequence[str]) -> list[Any]:
        return super()._rows([rewrite(self._format, prompt) for prompt in prompts])

    def _rule(self, logits: Tensor) -> Tensor:
        scores, lengths = super()._rule(logits), {"token": self.branches.real.sum(-1), "word": self._words}
        return scores / lengths[self._normalisation] if self._normalisation in lengths else scores


class ExtendedLearner(PPOLearner):
    """GLAM's agent around another scorer."""

    def __init__(self, spec: RunSpec, group: Group = SINGLE_PROCESS):
        self._extended = extended = Settings(**spec.settings)
        super().__init__(spec.model_copy(update={"method": "glam", "settings": extended.plain()}), group)
        tests = episodes.plan_tests(self.settings)
        for world in {spec.world, *(test.world for test, _ in tests if test.world)} if extended.rewrites else ():
            if worlds.find(world).language != "english":
                raise GroundlabError(f"{world} is not in English; leave it, or prompt_format")
        self.scorer = self._scorer_for(self._actions, extended.prompt_format)
        self._policy = CachedPolicy(self.scorer, group=group)

    def _scorer_for(self, actions: tuple[str, ...], prompt_format: str) -> ExtendedScorer:
        return ExtendedScorer(self.scorer, self._extended, actions, prompt_format)

    def begin(self, run: Run) -> None:
        """The original has no name for such a run."""

    def evaluate(self) -> list[training.Evaluation]:
        """Evaluations on the test layouts, then "sampled format-xml" for each of `test_formats`."""
        self.scorer.train(False)
        policies: dict[tuple[str, ...], CachedPolicy] = {}

        def player_for(world: str, alteration: Alteration, num_envs: int, rng: np.random.Generator | None) -> Player:
            actions = text_actions(alteration.action_space or self.settings.action_space, worlds.find(world).language)
            if actions not in policies:
                scorer = self._scorer_for(actions, self._extended.prompt_format)
                policies[actions] = CachedPolicy(scorer, group=self._group)
            return TextPlayer(policies[actions], num_envs, world, self.settings, alteration, rng)

        own = episodes.evaluate(self._spec.world, self._spec.seed, self.settings, player_for)
        return [*own, *(self._in_format(name) for name in self._extended.test_formats)]

    def _in_format(self, name: PromptFormat) -> training.Evaluation:
        policy, layouts = f"{SAMPLED} format-{name}", parse_layouts(self.settings.layouts)
        scores = CachedPolicy(self._scorer_for(self._actions, name), group=self._group)
        rng = generator(self._spec.seed, "evaluation", policy)
        player = TextPlayer(scores, len(layouts), self._spec.world, self.settings, rng=rng)
        return summary(policy, play_layouts(self._spec.world, layouts, player, self.settings.num_dists))

    def watched(self, rng: np.random.Generator) -> WatchedPlayer:
        """Return the agent over the action texts that it is trained on."""
        self.scorer.train(False)
        player = TextPlayer(CachedPolicy(self.scorer), 1, self._spec.world, self.settings)
        return WatchedPlayer(player, tuple(self.scorer.actions), env_actions(np.arange(len(self.scorer.actions))), rng)
