"""The pages of worlds: what they say was measured and is measured alike again; a terminal prints them."""

import json
import random

import pytest

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.pages import world_facts, world_pages
from groundlab.worlds import facts

# Worlds of short episodes: a draw that stays the same, and one whose numbers are those of the published results.
_SHORT = [known.name for known in facts.every() if known.limits[1] <= 150 and not known.chance.source]
DRAWN = [*random.Random(20261124).sample(_SHORT, 3), "BabyAI-MixedTrainLocal-v0/putnext"]
CRAFTER = "Crafter-Text-EatCow"


@pytest.mark.parametrize("world", DRAWN)
def test_a_world_is_measured_alike_again(world):
    assert world_facts.measure(world) == facts.of(world)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["BabyAI-BossLevel-v0", "BabyAI-UnlockToUnlock-v0", CRAFTER])
def test_a_world_of_long_episodes_is_measured_alike_again(world):
    assert world_facts.measure(world) == facts.of(world)


def test_one_world_is_measured_anew_and_the_others_stay(tmp_path):
    file = tmp_path / "worlds.json"
    world_facts.write(["BabyAI-GoToObjS4-v0"], file)
    file.write_text(file.read_text().replace("one object", "no object"))
    world_facts.write(["SimpleDoorKey"], file)
    stored = json.loads(file.read_text())
    assert stored["SimpleDoorKey"]["chance"]["success"] == facts.of("SimpleDoorKey").chance.success
    assert stored["BabyAI-GoToObjS4-v0"]["summary"] == "no object"


def test_a_page_says_what_a_world_does_not_have():
    said = dict(world_pages.lines(facts.of(CRAFTER)))
    assert all(said[heading][0].startswith("none: ") for heading in ("mission", "bot", "best published agent"))
    door = dict(world_pages.lines(facts.of("SimpleDoorKey")))
    assert door["words"][0].startswith("none: ") and door["mission"] == ["open the door"]
    boxed = dict(world_pages.lines(facts.of("BabyAI-KeyInBox-v0")))
    assert "no plan in 100 of them" in boxed["bot"][0]


def test_the_terminal_prints_the_page_of_a_world(groundlab):
    code, out, _ = groundlab("worlds", "BabyAI-GoToLocal-v0")
    chance = facts.of("BabyAI-GoToLocal-v0").chance
    assert code == 0 and facts.of("BabyAI-GoToLocal-v0").level in out
    assert f"{chance.success:.1f} %" in out and "go to the green ball" in out
    assert 'worlds.make("BabyAI-GoToLocal-v0", num_envs=64, seed=0)' in out


@pytest.mark.parametrize(
    ("world", "why"),
    [("BabyAI-GoToLocl-v0", "did you mean"), ("MiniGrid-LockedRoom-v0", "runs through the minigrid package")],
)
def test_the_terminal_says_why_a_world_has_no_page(groundlab, world, why):
    code, _, error = groundlab("worlds", world)
    assert code == 2 and why in error and error.count("\n") == 1


def test_a_world_of_another_package_has_no_facts(monkeypatch):
    monkeypatch.setattr(facts, "find", lambda name: worlds.WORLDS["SimpleDoorKey"])
    with pytest.raises(GroundlabError, match="nothing was measured of Their-Room-v0"):
        facts.of("Their-Room-v0")
