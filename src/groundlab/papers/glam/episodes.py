"""What agents train on and are tested on: environments that start again, fixed layouts, other words and worlds.

    stream = training_stream(world, num_envs=32, seed=0)
    step = stream.step(actions)         # stream.observations are those of the next step
    episode_stats(stream.pop_episodes())

Training levels are drawn from seeds above those of all test layouts. `state` and `load_state` carry a stream through a
checkpoint. Tests are the layouts of the agent's own world, the control of a fixed mission, and other words or worlds.

A test is named by its words, in any order: a world, a modifier (`MODIFIERS` of the prompts), an action space by
name, and "fixed-mission". So "adj_synonym" is the training world in unknown adjectives, "synonyms" the same with
other names for the actions, "BabyAI-GoToLocal-v0 fixed-mission" eight objects and one mission for all prompts.

    evaluate("BabyAI-GoToLocalS8N4-v0", seed, settings, player_for)    # [{"policy", "mean", "rows"}, ...]
    evaluate_scorer(scorer, world, seed, settings)                     # the same for a language model

Policies are "sampled" and "greedy", each also with "fixed-mission"; then "sampled TEST" for each of `settings.tests`.
A policy that does as well when every prompt names the same mission does not read its goal, and its scores under other
words mean nothing. Source: docs/papers/glam-method.md#env-6.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save

from groundlab import worlds
from groundlab.core.bounds import TRAINING_LAYOUTS
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Files
from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.scoring import ActionScorer
from groundlab.learning.distributed import SINGLE_PROCESS, Group
from groundlab.papers.episodes import FIRST_FINISHED, Player, play_first_finished, play_layouts, summary
from groundlab.papers.glam.policy import UNALTERED, Alteration, CachedPolicy, TextPlayer
from groundlab.papers.glam.settings import ModelSettings, ReadingSettings
from groundlab.papers.training import Evaluation
from groundlab.worlds.text_env.prompts import ACTION_SPACES, MODIFIERS, text_actions

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
            row = {"success": rewards[env] > 0, "return": self._returns[env], "length": self._lengths[env]}
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
    seeds = generator(seed, "training layouts").integers(*TRAINING_LAYOUTS, num_envs)
    return EnvStream(envs, seeds.tolist())


def episode_stats(episodes: list[Episode]) -> dict[str, float]:
    """Number of episodes, and the means of success, return and length where there are any."""
    names = ("success", "return", "length") if episodes else ()
    return {"episodes": len(episodes), **{name: float(np.mean([row[name] for row in episodes])) for name in names}}


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
        move_blanks=settings.move_blanks,
        value_head=False,
        token_budget=settings.token_budget,
        pass_tokens=settings.pass_tokens,
    )
