"""What ships as known of each world: complete, as the registry has it, and read without the engine."""

import subprocess
import sys

import pytest

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.worlds import facts


@pytest.mark.parametrize("known", facts.every(), ids=lambda known: known.name)
def test_the_facts_of_a_world_are_those_of_its_row(known):
    row, family = worlds.find(known.name), worlds.family_of(known.name)
    assert (known.family, known.summary, known.pattern) == (family.name, row.summary, row.mission)
    assert (known.width, known.height, tuple(known.actions)) == (row.width, row.height, family.actions(row))
    assert 0 < known.limits[0] <= known.limits[1] <= row.max_steps


def test_every_world_has_facts():
    assert [known.name for known in facts.every()] == list(worlds.names())


def test_what_a_world_lacks_has_its_reason_and_nothing_else_has():
    for known in facts.every():
        lacks = {what for what in ("missions", "words", "bot", "published") if not getattr(known, what)}
        assert lacks == known.without.keys() and all(known.without.values()), known.name
    silent = {known.name for known in facts.every() if not known.words}
    assert silent == {*worlds.names("door-key"), "BabyAI-OneRoomS16-v0", "BabyAI-OneRoomS20-v0"}
    assert {known.family for known in facts.every() if not known.bot} == {"door-key", "crafter"}


def test_an_agents_share_lies_in_its_interval_and_it_played_its_layouts():
    for known in facts.every():
        for agent in (known.chance, *([known.bot] if known.bot else [])):
            assert 0 <= agent.low <= agent.success <= agent.high <= 100 and agent.no_plan <= agent.episodes
            assert agent.source or agent.layouts == f"0-{agent.episodes - 1}"


def test_the_published_agents_are_of_the_mixed_world_and_its_kinds():
    mixed = "BabyAI-MixedTrainLocal-v0"
    kinds = {f"{mixed}/{kind}" for kind in worlds.find(mixed).kinds}
    assert {known.name for known in facts.every() if known.published} == {mixed, *kinds}


def test_the_line_of_a_world_makes_it():
    env = eval(facts.of("BabyAI-GoToLocal-v0").line, {"worlds": worlds})
    assert env.num_envs == 64 and env.world.name == "BabyAI-GoToLocal-v0"


def test_old_names_are_known_and_a_misspelt_one_names_the_nearest():
    assert facts.of("BabyAI-MixtTrainLocal-v0").name == "BabyAI-MixedTrainLocal-v0"
    with pytest.raises(GroundlabError, match="did you mean 'BabyAI-GoToLocal-v0'"):
        facts.of("BabyAI-GoToLocl-v0")


def test_facts_are_read_without_the_engine_or_a_laboratory():
    heavy = {"numba", "torch", "pandas", "matplotlib", "minigrid"}
    code = f"import sys; from groundlab.worlds import facts; facts.every(); print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
