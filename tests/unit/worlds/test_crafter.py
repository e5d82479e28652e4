"""Crafter is the crafter package's game: the same worlds, steps, pictures and random draws, to the last bit."""

import crafter
import numpy as np
import pytest
from crafter import constants, objects
from crafter_package import Package, differences, give, shift

from groundlab import worlds
from groundlab.worlds.crafter import mersenne, rules, state, terrain

ITEMS_OF_A_CRAFTSMAN = dict.fromkeys(("wood", "stone", "coal", "iron", "sapling", "wood_pickaxe", "stone_pickaxe"), 5)
WELL = dict.fromkeys(rules.VITALS, 9)


def pair(seed: int, length: int = 10_000):
    """(ours, theirs), both reset."""
    ours, theirs = worlds.make("Crafter-Reward", 1, seed=seed, length=length), Package(seed=seed, length=length)
    images = ours.reset()[0]["image"], theirs.reset()
    np.testing.assert_array_equal(images[0][0], images[1])
    return ours, theirs


def follow(ours, theirs, actions) -> int:
    """Play both and compare everything after each step; they end together. How many steps were played."""
    for number, action in enumerate(actions, start=1):
        observations, rewards, terminated, truncated, info = ours.step([action])
        image, reward, done, _ = theirs.step(action)
        assert differences(ours, 0, theirs) == [], (number, action)
        np.testing.assert_array_equal(observations["image"][0], image)
        assert (rewards[0], terminated[0] | truncated[0]) == (reward, done)
        assert info["unlocked"][0].tolist() == [name in theirs._unlocked for name in rules.ACHIEVEMENTS]
        if done:
            return number
    return len(actions)


def test_names_numbers_and_recipes_are_the_packages():
    assert list(rules.GAME_ACTIONS) == constants.actions
    assert list(rules.MATERIALS) == constants.materials
    assert list(rules.ACHIEVEMENTS) == constants.achievements
    assert {item: info["max"] for item, info in constants.items.items()} == dict.fromkeys(rules.ITEMS, rules.FULL)
    assert [info["initial"] for info in constants.items.values()] == [9] * 4 + [0] * 12
    collected = {
        source: {
            "require": {} if tool is None else {tool: 1},
            "receive": {item: 1},
            "leaves": leaves,
            **({"probability": rules.SAPLING_CHANCE} if source == "grass" else {}),
        }
        for source, (tool, item, leaves) in rules._COLLECT.items()
    }
    assert collected == constants.collect
    placed = {
        what: {"uses": {item: amount}, "where": list(onto), "type": "object" if what == "plant" else "material"}
        for what, (item, amount, onto) in rules._PLACE.items()
    }
    assert placed == constants.place
    made = {
        tool: {
            "uses": {item: 1 for item, used in zip(rules.ITEMS, uses, strict=True) if used},
            "nearby": ["table", "furnace"] if furnace else ["table"],
            "gives": 1,
        }
        for tool, uses, furnace in zip(rules.TOOLS, rules.MAKE_USES, rules.MAKE_NEEDS_FURNACE, strict=True)
    }
    assert made == constants.make
    walked = {name for number, name in enumerate(rules.NAMES) if state.walkable(number, rules.COW)}
    assert walked == set(constants.walkable)


def test_the_stream_is_numpys_legacy_one():
    row = np.zeros(mersenne.ROW, np.uint32)
    for seed in (0, 1, 12345, 2**31 - 2):
        mersenne.seed_row(row, seed)
        theirs = np.random.RandomState(seed)
        for limit in (1, 2, 3, 4, 7, 144, 2**31 - 1) * 200:
            assert mersenne.uniform(row) == theirs.uniform()
            assert mersenne.below(row, limit) == theirs.randint(0, limit)


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31 - 2])
def test_the_noise_is_opensimplexs(seed):
    theirs = crafter.worldgen.opensimplex.OpenSimplex(seed=seed)
    permutation, gradients = np.empty((2, 256), np.int64)
    terrain.permute(seed, permutation, gradients)
    for x, y, z in np.random.default_rng(seed).uniform(-40, 40, (500, 3)):
        assert terrain.noise(x, y, z, permutation, gradients) == theirs.noise3(x, y, z)


@pytest.mark.parametrize("seed", range(24))
def test_a_seed_gives_the_worlds_of_the_package_one_after_another(seed):
    ours, theirs = pair(seed)
    assert differences(ours, 0, theirs) == []
    ours.reset(), theirs.reset()
    assert differences(ours, 0, theirs) == []
    assert ours.lives.counters[0, state.OBJECTS_USED] > 10 and len(np.unique(ours.lives.materials)) > 7


@pytest.mark.parametrize("seed", range(3))
def test_random_lives_are_the_packages_until_death(seed):
    ours, theirs = pair(seed)
    steps = follow(ours, theirs, np.random.default_rng(seed).integers(0, 17, 1000).tolist())
    assert steps < 1000 and theirs.player.health == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_craftsmans_days_and_nights_are_the_packages(seed):
    """Kept alive and supplied, so that nights, sleep, tools, tables and plants all occur."""
    ours, theirs = pair(seed)
    rng = np.random.default_rng(seed)
    done, steps, darkest = set(), [0], 1.0
    for actions in rng.choice([*range(17), 5, 5, 5, 6, 10], (60, 10)).tolist():
        give(ours, 0, theirs, **ITEMS_OF_A_CRAFTSMAN, **WELL | {"energy": int(rng.integers(5, 10))})
        follow(ours, theirs, actions)
        done, darkest = done | theirs._unlocked, min(darkest, theirs.world.daylight)
        steps.append(theirs._step)
        if theirs.player.health == 0:
            ours.reset(), theirs.reset()
    assert {"place_table", "place_plant", "make_wood_pickaxe", "wake_up"} <= done
    assert max(steps) > 200 and darkest < 0.1


@pytest.mark.parametrize(("seed", "armed"), [(1, True), (2, False)])
def test_fights_in_tunnels_are_the_packages(seed, armed):
    """Beside a skeleton: arrows fly, and creatures die of one blow or of several."""
    ours, theirs = pair(seed)
    skeletons = [thing for thing in theirs.world.objects if isinstance(thing, objects.Skeleton)][:4]
    shots = 0
    for thing in skeletons:
        around = [(thing.pos[0] + x, thing.pos[1] + y) for x in range(-3, 4) for y in range(-3, 4)]
        shift(ours, 0, theirs, *next(cell for cell in around if theirs.player.is_free(np.array(cell))))
        for part in range(16):
            give(ours, 0, theirs, **WELL, wood=9, iron_sword=int(armed), wood_sword=int(part > 7))
            way = theirs.player.toward(thing, bool(part % 3))
            follow(ours, theirs, [{-1: 1, 1: 2}.get(way[0], 3 if way[1] < 0 else 4), rules.DO, rules.DO])
            shots += sum(isinstance(each, objects.Arrow) for each in theirs.world.objects)
            assert theirs.player.health > 0
    assert shots and theirs.player.achievements["defeat_skeleton"]


def test_a_ripe_plant_is_eaten_and_a_gnawed_one_dies():
    ours, theirs = pair(2)
    give(ours, 0, theirs, sapling=3, food=3)
    follow(ours, theirs, [10])
    plant = next(thing for thing in theirs.world.objects if isinstance(thing, objects.Plant))
    for age in (298, 299, 300, 301):
        row = theirs.world.objects.index(plant)
        ours.lives.objects[0, row, state.CLOCK] = plant.grown = age
        follow(ours, theirs, [5])
    assert theirs.player.achievements["eat_plant"] == 1
    plant.health = ours.lives.objects[0, theirs.world.objects.index(plant), state.LIFE] = 0
    follow(ours, theirs, [0, 0])
    assert plant.removed


def test_at_the_borders_of_the_map_everything_is_the_packages():
    """Facing beyond the map, and crafting at its left border, where the package never finds the table."""
    ours, theirs = pair(4)
    grid = theirs.world._mat_map
    for border in (grid[0], grid[63], grid[:, 0], grid[:, 63]):
        border[:] = rules.GRASS
    grid[32, 1], grid[32, 0], grid[0, 31] = rules.GRASS, rules.TABLE, rules.TABLE
    ours.lives.materials[0] = grid
    for x, y, ways in ((0, 32, [1, 1, 3]), (63, 32, [2, 2]), (32, 1, [3, 3]), (32, 63, [4, 4])):
        shift(ours, 0, theirs, x, y)
        give(ours, 0, theirs, wood=9, stone=9, sapling=2)
        for way in ways:
            follow(ours, theirs, [way, 5, 7, 8, 10, 11, 14])


def test_lava_kills_and_the_time_limit_ends_an_episode():
    ours, theirs = pair(3, length=40)
    assert follow(ours, theirs, [0] * 60) == 40
    ours.reset(), theirs.reset()
    x, y = (int(place) for place in theirs.player.pos)
    theirs.world._mat_map[x + 1, y] = ours.lives.materials[0, x + 1, y] = rules.LAVA
    assert follow(ours, theirs, [2]) == 1
    assert theirs.player.health == 0
