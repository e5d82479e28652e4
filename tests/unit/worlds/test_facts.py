"""What ships as known of each world: complete, as the registry has it, measured alike again, and printed."""

import pytest

import world_facts
from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.worlds import facts

MIXED = "BabyAI-MixedTrainLocal-v0"


def test_every_world_has_the_facts_of_its_row():
    assert [known.name for known in facts.every()] == list(worlds.names())
    for known in facts.every():
        row, family = worlds.find(known.name), worlds.family_of(known.name)
        assert (known.family, known.summary, known.pattern) == (family.name, row.summary, row.mission)
        assert (known.width, known.height, tuple(known.actions)) == (row.width, row.height, family.actions(row))
        assert 0 < known.limits[0] <= known.limits[1] <= row.max_steps
        for agent in (known.chance, *([known.bot] if known.bot else [])):
            assert 0 <= agent.low <= agent.success <= agent.high <= 100 and agent.no_plan <= agent.episodes
            assert agent.source or agent.layouts == f"0-{agent.episodes - 1}"


def test_what_a_world_lacks_has_its_reason_and_nothing_else_has():
    for known in facts.every():
        lacks = {what for what in ("missions", "words", "bot", "published") if not getattr(known, what)}
        assert lacks == known.without.keys() and all(known.without.values()), known.name
    kinds = {f"{MIXED}/{kind}" for kind in worlds.find(MIXED).kinds}
    assert {known.name for known in facts.every() if known.published} == {MIXED, *kinds}


SHORT = ["BabyAI-GoToObjS4-v0", "SimpleDoorKey", f"{MIXED}/putnext"]  # the last one as published
LONG = ["BabyAI-BossLevel-v0", "BabyAI-UnlockToUnlock-v0", "Crafter-Text-EatCow"]


@pytest.mark.parametrize("world", [*SHORT, *(pytest.param(each, marks=pytest.mark.slow) for each in LONG)])
def test_a_world_is_measured_alike_again(world):
    assert world_facts.measure(world) == facts.of(world)


def test_old_names_are_known_and_worlds_of_other_packages_are_not(monkeypatch):
    assert facts.of("BabyAI-MixtTrainLocal-v0").name == MIXED
    monkeypatch.setattr(facts, "find", lambda name: worlds.WORLDS["SimpleDoorKey"])
    with pytest.raises(GroundlabError, match="nothing was measured of Their-Room-v0"):
        facts.of("Their-Room-v0")


def test_lines_say_what_a_world_does_not_have():
    crafter = dict(facts.lines(facts.of("Crafter-Text-EatCow")))
    assert all(crafter[heading][0].startswith("none: ") for heading in ("mission", "bot", "best published agent"))
    assert "no plan in 100 of them" in dict(facts.lines(facts.of("BabyAI-KeyInBox-v0")))["bot"][0]


def test_the_terminal_prints_the_facts_of_a_world(groundlab):
    code, out, _ = groundlab("worlds", "BabyAI-GoToLocal-v0")
    known = facts.of("BabyAI-GoToLocal-v0")
    assert code == 0 and known.level in out and f"{known.chance.success:.1f} %" in out and known.missions[0] in out


@pytest.mark.parametrize(
    ("world", "why"),
    [("BabyAI-GoToLocl-v0", "did you mean"), ("MiniGrid-LockedRoom-v0", "runs through the minigrid package")],
)
def test_the_terminal_says_why_a_world_has_no_facts(groundlab, world, why):
    code, _, error = groundlab("worlds", world)
    assert code == 2 and why in error and error.count("\n") == 1
