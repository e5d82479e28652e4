"""What an agent is tested on: the layouts of its own world, the control of a fixed mission, and other words or worlds.

A test is named by its words, in any order: a world, a modifier (`language.prompts.MODIFIERS`), an action space by
name, and "fixed-mission". So "adj_synonym" is the training world told in unknown adjectives, "synonyms" the same with
other names for the actions, "BabyAI-GoToLocal-v0 fixed-mission" eight objects and one mission for all prompts.

    examine("BabyAI-GoToLocalS8N4-v0", settings, player_for)     # [{"policy", "mean", "rows"}, ...]

Policies are "sampled" and "greedy", each also with "fixed-mission"; then "sampled TEST" for each of `settings.tests`.
A policy that does as well when every prompt names the same mission does not read its goal, and its scores under other
words mean nothing. Source: spec glam-environment 6. Called from: the agents of this paper.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from groundlab import worlds
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.schema import parse_layouts
from groundlab.language.prompts import ACTION_SPACES, MODIFIERS
from groundlab.papers.episodes import FIRST_FINISHED, Player, play_first_finished, play_layouts, summary
from groundlab.papers.glam.policy import UNALTERED, Alteration
from groundlab.papers.glam.settings import ReadingSettings

FIXED_MISSION = "fixed-mission"
SAMPLED, GREEDY = POLICIES = ("sampled", "greedy")


@dataclass(frozen=True)
class Test:
    """One row of the table: where, and told how; `name` is empty for the training task itself."""

    name: str = ""
    world: str | None = None
    alteration: Alteration = UNALTERED

    def policy(self, choice: str) -> str:
        """The name of the evaluation: "sampled", "greedy fixed-mission", "sampled adj_synonym"."""
        return f"{choice} {self.name}".strip()


PlayerFor = Callable[[str, Alteration, bool, int, str], Player]
"""(world, alteration, greedy, num_envs, what for) -> a player; the last word names its random draws."""


def parse_test(name: str, settings: ReadingSettings) -> Test:
    """The test of that name. Raises GroundlabError for a word that is no world, modifier, action space or control."""
    world, changes = None, {}
    spaces = [space for space in ACTION_SPACES if isinstance(space, str)]
    for word in name.split():
        if word == FIXED_MISSION:
            changes["mission"] = _mission(settings)
        elif word in MODIFIERS["english"]:
            changes["modifier"] = word
        elif word in spaces:
            changes["action_space"] = word
        elif word in worlds.WORLDS:
            world = word
        else:
            raise unknown_name("word in tests", word, [FIXED_MISSION, *MODIFIERS["english"], *spaces, *worlds.WORLDS])
    return Test(name, world, Alteration(**changes))


def _mission(settings: ReadingSettings) -> str:
    if not settings.fixed_mission:
        raise GroundlabError(f"the test {FIXED_MISSION} needs a mission; set fixed_mission")
    return settings.fixed_mission


def planned(settings: ReadingSettings) -> Iterator[tuple[Test, str]]:
    """All tests of an agent, each with the way its actions are chosen."""
    control = [parse_test(FIXED_MISSION, settings)] if settings.fixed_mission else []
    for test in (Test(), *control):
        for choice in POLICIES:
            yield test, choice
    for name in settings.tests:
        yield parse_test(name, settings), SAMPLED


def examine(world: str, settings: ReadingSettings, player_for: PlayerFor) -> list[dict[str, Any]]:
    """Play all tests: a fixed list of layouts to their ends, and first-finished episodes where asked."""
    own, results = parse_layouts(settings.layouts), []
    others = parse_layouts(settings.test_layouts) if settings.test_layouts else own
    for test, choice in planned(settings):
        place, policy = test.world or world, test.policy(choice)
        layouts = others if test.name in settings.tests else own
        player = player_for(place, test.alteration, choice == GREEDY, len(layouts), policy)
        distractors = settings.num_dists if place == world else None
        results.append(summary(policy, play_layouts(place, layouts, player, distractors)))
    if settings.first_finished:
        player = player_for(world, UNALTERED, False, settings.num_envs, FIRST_FINISHED)
        count, seed = settings.first_finished, own[0]
        rows = play_first_finished(world, settings.num_envs, count, seed, player, settings.num_dists)
        results.append(summary(FIRST_FINISHED, rows))
    return results
