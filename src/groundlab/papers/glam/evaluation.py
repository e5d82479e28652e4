"""What an agent is tested on: the layouts of its own world, the control of a fixed mission, and other words or worlds.

A test is named by its words, in any order: a world, a modifier (`language.prompts.MODIFIERS`), an action space by
name, and "fixed-mission". So "adj_synonym" is the training world in unknown adjectives, "synonyms" the same with
other names for the actions, "BabyAI-GoToLocal-v0 fixed-mission" eight objects and one mission for all prompts.

    evaluate("BabyAI-GoToLocalS8N4-v0", seed, settings, player_for)    # [{"policy", "mean", "rows"}, ...]
    evaluate_scorer(scorer, world, seed, settings)                     # the same for a language model

Policies are "sampled" and "greedy", each also with "fixed-mission"; then "sampled TEST" for each of `settings.tests`.
A policy that does as well when every prompt names the same mission does not read its goal, and its scores under other
words mean nothing. Source: docs/papers/glam.md#env-6.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from groundlab import worlds
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.prompts import ACTION_SPACES, MODIFIERS, text_actions
from groundlab.language.scoring import ActionScorer
from groundlab.learning.distributed import SINGLE_PROCESS, Group
from groundlab.papers.episodes import FIRST_FINISHED, Player, play_first_finished, play_layouts, summary
from groundlab.papers.glam.policy import UNALTERED, Alteration, CachedPolicy, TextPlayer
from groundlab.papers.glam.settings import ModelSettings, ReadingSettings
from groundlab.papers.training import Evaluation

FIXED_MISSION = "fixed-mission"
SAMPLED, GREEDY = POLICIES = ("sampled", "greedy")


@dataclass(frozen=True)
class Test:
    """One row of the table: which world, in which words; `name` is empty for the training task itself."""

    name: str = ""
    world: str | None = None
    alteration: Alteration = UNALTERED

    def policy(self, choice: str) -> str:
        """The name of the evaluation: "sampled", "greedy fixed-mission", "sampled adj_synonym"."""
        return f"{choice} {self.name}".strip()


def parse_test(name: str, settings: ReadingSettings) -> Test:
    """The test of that name. Raises GroundlabError for a word that is no world, modifier, action space or control."""
    world, changes = None, {}
    spaces = [space for space in ACTION_SPACES if isinstance(space, str)]
    for word in name.split():
        if word == FIXED_MISSION:
            if not settings.fixed_mission:
                raise GroundlabError(f"the test {FIXED_MISSION} needs a mission; set fixed_mission")
            changes["mission"] = settings.fixed_mission
        elif word in MODIFIERS["english"]:
            changes["modifier"] = word
        elif word in spaces:
            changes["action_space"] = word
        elif word in worlds.WORLDS:
            world = word
        else:
            raise unknown_name("word in tests", word, [FIXED_MISSION, *MODIFIERS["english"], *spaces, *worlds.WORLDS])
    return Test(name, world, Alteration(**changes))


def plan_tests(settings: ReadingSettings) -> list[tuple[Test, str]]:
    """All tests of an agent, each with the way its actions are chosen. Raises GroundlabError as `parse_test`."""
    own = [Test(), *([parse_test(FIXED_MISSION, settings)] if settings.fixed_mission else [])]
    others = [(parse_test(name, settings), SAMPLED) for name in settings.tests]
    return [*((test, choice) for test in own for choice in POLICIES), *others]


PlayerFor = Callable[[str, Alteration, int, np.random.Generator | None], Player]
"""(world, alteration, num_envs, generator of its draws; None: greedy) -> a player."""


def evaluate(world: str, seed: int, settings: ReadingSettings, player_for: PlayerFor) -> list[Evaluation]:
    """Play all tests: a fixed list of layouts to their ends, and first-finished episodes where asked."""
    own, results = parse_layouts(settings.layouts), []
    others = parse_layouts(settings.test_layouts) if settings.test_layouts else own
    for test, choice in plan_tests(settings):
        test_world, policy = test.world or world, test.policy(choice)
        layouts = others if test.name in settings.tests else own
        rng = None if choice == GREEDY else generator(seed, "evaluation", policy)
        player = player_for(test_world, test.alteration, len(layouts), rng)
        distractors = settings.num_dists if test_world == world else None
        results.append(summary(policy, play_layouts(test_world, layouts, player, distractors)))
    if settings.first_finished:
        rng = generator(seed, "evaluation", FIRST_FINISHED)
        player, count = player_for(world, UNALTERED, settings.num_envs, rng), settings.first_finished
        rows = play_first_finished(world, settings.num_envs, count, own[0], player, settings.num_dists)
        results.append(summary(FIRST_FINISHED, rows))
    return results


def evaluate_scorer(
    scorer: ActionScorer,
    world: str,
    seed: int,
    settings: ModelSettings,
    temperature: float = 1.0,
    group: Group = SINGLE_PROCESS,
) -> list[Evaluation]:
    """All tests of a language-model policy; equal prompts are read once in all of them."""
    policies: dict[tuple[str, ...], CachedPolicy] = {}

    def player_for(world: str, alteration: Alteration, num_envs: int, rng: np.random.Generator | None) -> TextPlayer:
        space = alteration.action_space or settings.action_space
        actions = text_actions(space, worlds.find(world).language)
        if actions not in policies:
            policies[actions] = CachedPolicy(with_actions(scorer, actions, settings), temperature, group=group)
        return TextPlayer(policies[actions], num_envs, world, settings, alteration, rng)

    return evaluate(world, seed, settings, player_for)


def with_actions(scorer: ActionScorer, actions: tuple[str, ...], settings: ModelSettings) -> ActionScorer:
    """The same network over other action texts; an action head keeps its outputs, whatever they are called."""
    if list(actions) == scorer.actions or scorer.action_head is not None:
        return scorer
    return ActionScorer(
        scorer.model,
        scorer.tokenizer,
        actions,
        rule=settings.rule,
        temperature=scorer.temperature,
        value_head=False,
        token_budget=settings.token_budget,
    )
