"""The knowledge paper's text variant of Crafter: its episodes and captions as recorded, its own rules, its tasks."""

import numpy as np
import pytest
from golden_facts import facts

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.worlds.crafter import rules, state, view
from groundlab.worlds.crafter.rules import ACHIEVEMENTS, CRAFTER_WORLDS, ITEMS, NAMES
from groundlab.worlds.crafter.view import describe

VERBS = tuple(rules.VERBS)
TASKS = {"Crafter-Text-PlaceCraftingTable": "place_table", "Crafter-Text-MakeWoodPickAxe": "make_wood_pickaxe"}
TASKS |= {"Crafter-Text-CollectDrink": "collect_drink", "Crafter-Text-EatCow": "eat_cow"}


@pytest.fixture(scope="module")
def golden() -> dict:
    return facts("background_knowledge")["crafter"]


def started(world: str = "Crafter-Text-Reward", count: int = 1, **options):
    env = worlds.make(world, count, seed=3, **options)
    env.reset()
    return env


def put(env, material: int, life: int | None = None) -> None:
    """Put a material, or a creature of that kind, into the cell below the player, which it faces."""
    lives, (x, y) = env.lives, env.lives.objects[0, 0, [state.X, state.Y]].tolist()
    lives.objects[0, 0, [state.WAY_X, state.WAY_Y]] = 0, 1
    if life is None:
        lives.materials[0, x, y + 1] = material
    else:
        lives.materials[0, x, y + 1] = rules.GRASS
        place = (lives.occupants[0], lives.objects[0], lives.counters[0], lives.chunks[0])
        state.add(*place, material, x, y + 1, life)


def act(env, verb: str):
    """(reward, terminated, truncated, unlocked names) of one step of the first environment."""
    _, rewards, terminated, truncated, info = env.step([VERBS.index(verb)] * env.num_envs)
    unlocked = {name for name, flag in zip(ACHIEVEMENTS, info["unlocked"][0], strict=True) if flag}
    return float(rewards[0]), bool(terminated[0]), bool(truncated[0]), unlocked


def test_actions_achievements_and_names_are_the_originals_in_order(golden):
    assert list(CRAFTER_WORLDS["Crafter-Text-Reward"].actions) == golden["actions"]
    assert list(ACHIEVEMENTS) == golden["achievements"]
    assert list(NAMES) == golden["id_to_item"]


@pytest.mark.parametrize("number", [0, 1])
def test_recorded_episodes_replay_in_words_rewards_and_pictures(golden, number):
    episode = golden["episodes"][number]
    env = worlds.make(episode["env"], 1, seed=episode["seed"])
    observations, info = env.reset()
    rewards, terminated, truncated, was = np.zeros(1), [False], [False], set()
    for step, (action, expected) in enumerate(zip([*episode["actions"], 0], episode["steps"], strict=True)):
        assert describe(observations["codes"][0]) == expected["description"], step
        assert int(observations["image"].sum(dtype=np.int64)) == expected["image_sum"], step
        outcome = [expected[name] for name in ("reward", "terminated", "truncated")]
        assert [rewards[0], terminated[0], truncated[0]] == outcome
        unlocked = {name for name, flag in zip(ACHIEVEMENTS, info["unlocked"][0], strict=True) if flag}
        assert (unlocked - was, info["success"][0]) == (set(expected["unlocked"]), expected["success"])
        was = unlocked
        lives = env.lives
        assert lives.objects[0, 0, [state.X, state.Y]].tolist() == expected["player_pos"]
        assert dict(zip(ITEMS, lives.inventory[0].tolist(), strict=True)) == expected["inventory"]
        observations, rewards, terminated, truncated, info = env.step([action])


def test_recorded_maps_are_captioned_to_the_letter(golden):
    for case in golden["synthetic_captions"]:
        lives = state.empty_lives(1)
        state.be_born(lives, 0)
        lives.materials[:] = rules.GRASS
        for x, y, name in case["patches"]:
            lives.materials[0, x, y] = NAMES.index(name)
        lives.occupants[:] = 0
        lives.occupants[0][tuple(case["pos"])] = 1
        lives.objects[0, 0, [state.X, state.Y]] = case["pos"]
        lives.objects[0, 0, [state.WAY_X, state.WAY_Y]] = case["facing"]
        lives.inventory[0] = list(case["inventory"].values())
        codes = np.zeros(view.CODES, np.uint8)
        arrays = (lives.materials, lives.occupants, lives.objects, lives.inventory, lives.body)
        view.draw_codes(*(array[0] for array in arrays), codes)
        assert describe(codes) == case["description"], case["tag"]


LOST = [((3, 32), (0, 1)), ((32, 2), (0, 1)), ((2, 32), (0, 1)), ((32, 1), (0, 1)), ((63, 32), (1, 0))]
LOST.append(((32, 63), (0, 1)))
TOLD = [((4, 32), (0, 1)), ((32, 3), (0, 1)), ((62, 32), (0, 1)), ((32, 62), (0, 1)), ((63, 32), (-1, 0))]


@pytest.mark.parametrize(
    ("place", "facing", "lost"), [*((*each, True) for each in LOST), *((*each, False) for each in TOLD)]
)
def test_near_the_left_and_upper_border_the_original_loses_its_words(place, facing, lost):
    env = started()
    env.lives.materials[0] = rules.GRASS
    env.lives.occupants[0], env.lives.counters[0, state.OBJECTS_USED] = 0, 1
    env.lives.occupants[0][place] = 1
    env.lives.objects[0, 0, [state.X, state.Y, state.WAY_X, state.WAY_Y]] = *place, *facing
    caption = describe(env.step([0])[0]["codes"][0])
    assert (caption == "Error, you are out of the map.") == lost
    seen = "You see: grass at 1 steps to your left.You face grass at your front. Your status"
    assert lost or caption.startswith(seen)


def test_a_sleeper_is_told_so():
    env = started()
    env.lives.inventory[0, rules.ENERGY] = 3
    caption = describe(env.step([VERBS.index("sleep")])[0]["codes"][0])
    assert caption.startswith("You are sleeping, and will not be able take actions until energy is full. You see: ")


@pytest.mark.parametrize(("kind", "life"), [(rules.ZOMBIE, 5), (rules.SKELETON, 3), (rules.COW, 3)])
@pytest.mark.parametrize("verb", ["eat", "drink", "attack", "collect"])
def test_every_creature_dies_of_one_blow_by_any_of_four_verbs(kind, life, verb):
    env = started()
    put(env, kind, life)
    unlocked = act(env, verb)[3]
    expected = {rules.ZOMBIE: "defeat_zombie", rules.SKELETON: "defeat_skeleton", rules.COW: "eat_cow"}
    assert expected[kind] in unlocked


def test_in_the_public_game_a_cow_takes_three_blows():
    env = worlds.make("Crafter-Reward", 1, seed=3)
    env.reset()
    put(env, rules.COW, 3)
    lives = env.lives
    cow = lives.counters[0, state.OBJECTS_USED] - 1
    env.step([rules.DO])
    assert lives.objects[0, cow, state.LIFE] == 2 and not lives.achievements[0, rules.EAT_COW]


def test_what_does_not_fit_the_bag_is_not_collected_though_its_source_is_gone():
    env = started()
    put(env, rules.STONE)
    env.lives.inventory[0, [ITEMS.index("stone"), ITEMS.index("wood_pickaxe")]] = 9, 1
    x, y = env.lives.objects[0, 0, [state.X, state.Y]]
    assert "collect_stone" not in act(env, "collect")[3]
    assert env.lives.materials[0, x, y + 1] == rules.PATH
    put(env, rules.WATER)
    assert "collect_drink" not in act(env, "drink")[3], "thirst is quenched already"
    env.lives.inventory[0, rules.DRINK] = 8
    assert "collect_drink" in act(env, "drink")[3]


def achieve(env, achievement: str):
    """Do what one achievement needs."""
    inventory = env.lives.inventory[0]
    if achievement == "eat_cow":
        put(env, rules.COW, 3)
        return act(env, "eat")
    if achievement == "collect_drink":
        put(env, rules.WATER)
        inventory[rules.DRINK] = 5
        return act(env, "drink")
    put(env, rules.GRASS if achievement == "place_table" else rules.TABLE)
    inventory[rules.WOOD] = 9
    return act(env, "place crafting table" if achievement == "place_table" else "make wood pickaxe")


@pytest.mark.parametrize(("world", "achievement"), TASKS.items())
@pytest.mark.parametrize("end", ["truncated", "terminated"])
def test_a_task_pays_one_once_and_ends_as_asked(world, achievement, end):
    env = started(world, success=end)
    assert achieve(env, achievement)[:3] == (1.0, end == "terminated", end == "truncated")
    assert env.reset(options={"reset_mask": np.array([False])})[1]["done"].tolist() == [True]


@pytest.mark.parametrize("world", TASKS)
def test_tasks_do_not_pay_for_health_or_other_achievements(world):
    env = started(world)
    env.lives.inventory[0, rules.HEALTH] = 4
    put(env, rules.TREE)
    reward, _, truncated, unlocked = act(env, "collect")
    assert (reward, truncated, unlocked) == (0.0, False, {"collect_wood"})


def test_the_reward_world_pays_a_tenth_of_health_and_one_for_two_achievements_at_once():
    env = started()
    env.lives.inventory[0, rules.HEALTH] = 4
    env.lives.body[0, state.FELT_HEALTH] = 4
    put(env, rules.TREE)
    env.lives.achievements[0, rules.WAKE_UP] = 1
    assert act(env, "collect")[0] == 1.0 + (4 - 9) / 10
    assert act(env, "do nothing")[0] == 0.0


def test_same_step_autoreset_hands_over_the_last_view_and_the_finished_episodes_achievements():
    env = started("Crafter-Text-EatCow", autoreset="same-step")
    put(env, rules.COW, 3)
    observations, rewards, _, truncated, info = env.step([VERBS.index("eat")])
    assert (rewards[0], truncated[0], info["success"][0], info["done"][0]) == (1.0, True, 1, True)
    assert info["unlocked"][0, ACHIEVEMENTS.index("eat_cow")] and not env.lives.unlocked.any()
    assert not np.array_equal(info["final_obs"]["codes"], observations["codes"]) and env.lives.steps[0] == 1


@pytest.mark.parametrize(
    ("mistake", "fix"),
    [
        (lambda: worlds.make("Crafter-Text-EatCows", 1), "did you mean 'Crafter-Text-EatCow'"),
        (lambda: worlds.make("Crafter-Text-EatCow", 1, kinds="per-episode"), "takes autoreset, success, length"),
        (lambda: worlds.make("Crafter-Text-EatCow", 1, success="paid"), "use one of truncated, terminated"),
        (lambda: worlds.make("Crafter-Text-EatCow", 1, length=1), "give at least 2"),
        (lambda: worlds.make("Crafter-Text-EatCow", 0), "give at least 1"),
        (lambda: started().step([20]), "action 20 does not exist; use 0 do nothing, 1 move left"),
        (lambda: started().step([0.5]), "give 1 integers"),
        (lambda: worlds.GridEnv("Crafter-Text-EatCow"), "is no grid world"),
    ],
)
def test_every_mistake_is_answered_with_its_fix(mistake, fix):
    with pytest.raises(GroundlabError, match=fix):
        mistake()
