"""The batched and the single front of grids: Gymnasium's rules, seeds, rendering, errors (more in test_batches.py)."""

import functools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.worlds.view import NOT_HERE

ONE_A_KIND = (
    *("SimpleDoorKey", "MovingObstacle", "BabyAI-GoToLocal-v0", "BabyAI-GoToFrench-v0", "BabyAI-MixedTrainLocal-v0"),
    *("BabyAI-MixedTrainLocal-v0/open", "Reasoning-PutNext-v0", "BabyAI-Text-GoToLocal-RedBall-S20"),
)
ACTIONS = np.random.default_rng(3).integers(0, 7, (250, 80))


def test_every_world_has_an_id_of_gymnasium():
    assert all(gym.spec(world.gym_id) for name, world in worlds.WORLDS.items() if "/" not in name)


@pytest.mark.parametrize("world", ONE_A_KIND)
def test_the_single_front_passes_gymnasiums_checker(world, recwarn):
    if "/" in world:  # a kind of a mixed world: Gymnasium's ids have one slash only
        return check_env(worlds.GridEnv(world, render_mode="rgb_array"))
    check_env(gym.make(worlds.find(world).gym_id, render_mode="rgb_array").unwrapped)


def test_observations_are_as_the_original_draws_them(mediator_golden):
    episode = next(e for e in mediator_golden["episodes"] if e["task"] == "SimpleDoorKey" and e["mode"] == "hard")
    env = worlds.GridEnv("SimpleDoorKey")
    image = env.reset(seed=0)[0]["image"]
    np.testing.assert_array_equal(image.transpose(2, 0, 1), episode["initial_obs_channels_first_xy"])


def test_what_was_seen_stays_in_the_picture():
    env = worlds.make("SimpleDoorKey", 32, seed=0)
    seen = env.reset()[0]["image"][..., 0] > 0
    for actions in ACTIONS[:90, :32]:
        image = env.step(actions)[0]["image"]
        assert (image[..., 0] > 0)[seen].all()
        assert ((image[..., 3] != NOT_HERE).sum((1, 2)) == 1).all()
        seen = image[..., 0] > 0


def test_renderings_show_only_what_was_seen():
    env = worlds.GridEnv("SimpleDoorKey", render_mode="rgb_array")
    image = env.reset(seed=0)[0]["image"]
    picture = env.render()
    assert picture.shape == (320, 320, 3)
    fog = (picture.reshape(10, 32, 10, 32, 3) == 200).all(axis=(1, 3, 4))
    np.testing.assert_array_equal(fog.T, image[..., 0] == 0)
    text = worlds.GridEnv("SimpleDoorKey", render_mode="ansi")
    text.reset(seed=0)
    assert "^^" in text.render() and "KG" not in text.render()


GOTO, MIXED = "BabyAI-GoToLocal-v0", "BabyAI-MixedTrainLocal-v0"


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_autoreset_is_gymnasiums(mode):
    """Against Gymnasium's own vector environment around our single fronts, over hundreds of episodes."""
    names = [f"{MIXED}/{kind}" for kind in worlds.find(MIXED).kinds]
    ours = worlds.make(MIXED, 5, autoreset=mode)
    makers = [lambda name=name: worlds.GridEnv(name) for name in names]
    modes = {"next-step": AutoresetMode.NEXT_STEP, "same-step": AutoresetMode.SAME_STEP}
    theirs = SyncVectorEnv(makers, autoreset_mode=modes[mode])
    actions, endings = np.random.default_rng(0).choice([0, 1, 2, 2, 3, 5], (1500, 5)), 0
    assert alike(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    for row in actions:
        observations, *results, info = ours.step(row)
        expected, *outcomes, expected_info = theirs.step(row)
        assert alike(observations, expected)
        for result, outcome in zip(results, outcomes, strict=True):
            np.testing.assert_array_equal(result, outcome)
        assert ("final_obs" in info) == ("final_obs" in expected_info)
        if "final_obs" in info:
            np.testing.assert_array_equal(info["_final_obs"], expected_info["_final_obs"])
            for env in np.flatnonzero(info["_final_obs"]):
                last, expected_last = last_of(info, env), last_of(expected_info, env)
                assert last["mission"] == expected_last["mission"]
                np.testing.assert_array_equal(last["image"], expected_last["image"])
        endings += int((results[1] | results[2]).sum())
    assert endings > 80


def last_of(info: dict, env: int) -> dict:
    """The final observation of one environment, whether they come as one dict of batches or one dict each."""
    final = info["final_obs"]
    return {name: values[env] for name, values in final.items()} if isinstance(final, dict) else final[env]


def alike(ours: dict, theirs: dict) -> bool:
    """Whether a batch of observations equals Gymnasium's."""
    arrays = (np.array_equal(ours[name], theirs[name]) for name in ("image", "direction"))
    return all(arrays) and list(ours["mission"]) == list(theirs["mission"])


def test_none_in_a_list_of_seeds_lets_that_stream_go_on():
    env, plain = worlds.make(GOTO, 2, seed=0), worlds.make(GOTO, 2, seed=0)
    env.reset(), plain.reset()
    mixed, onwards = env.reset(seed=[9, None])[0], plain.reset()[0]
    np.testing.assert_array_equal(mixed["image"][1], onwards["image"][1])
    assert mixed["mission"] == [worlds.make(GOTO, 1).reset(seed=9)[0]["mission"][0], onwards["mission"][1]]


def test_what_was_given_out_is_not_changed_later():
    env = worlds.make(GOTO, 4, seed=0)
    first, _ = env.reset()
    kept = {name: np.array(value) for name, value in first.items()}
    result = env.step(np.full(4, 2))
    rewards = result[1].copy()
    for row in ACTIONS[:200, :4]:
        env.step(row)
    for name, value in kept.items():
        np.testing.assert_array_equal(value, first[name])
    np.testing.assert_array_equal(rewards, result[1])


def goto(count: int = 2) -> worlds.GridVectorEnv:
    return worlds.GridVectorEnv(worlds.find(GOTO), count)


@pytest.mark.parametrize(
    ("mistake", "fix"),
    [
        (lambda: worlds.make("BabyAI-GoToLocl-v0", 2), "did you mean 'BabyAI-GoToLocal-v0'"),
        (lambda: worlds.make(GOTO, 2, autorest="disabled"), "did you mean 'autoreset'"),
        (lambda: worlds.make(GOTO, 2, autoreset="never"), "use one of next-step, same-step, disabled"),
        (lambda: worlds.make(GOTO, 2, num_dists=3), "has no option num_dists; Reasoning-"),
        (lambda: worlds.make(GOTO, 2, kinds=["goto", "open"]), "has one kind of task; leave out kinds"),
        (lambda: worlds.make(MIXED, 2, kinds=["goto", "opn"]), "did you mean 'open'"),
        (lambda: worlds.make(MIXED, 3, kinds=["goto", "open"]), "2 kinds for 3 environments; give one each"),
        (lambda: worlds.make(MIXED, 2, kinds="per-step"), "use one of fixed-per-env, per-episode"),
        (lambda: worlds.GridEnv(MIXED, kinds=["open"]), "give kinds=.per-episode."),
        (lambda: worlds.make(MIXED, 2, num_dists=19), "whole number from 0 to 18"),
        (lambda: worlds.make(MIXED, 2, num_dists=2.0), "whole number from 0 to 18"),
        (lambda: worlds.make(GOTO, 2.0), "give a whole number"),
        (lambda: worlds.make(GOTO, 2, seed=-1), "from 0 on as seed, got -1"),
        (lambda: goto().reset(seed=1.5), "got 1.5; give one, or a batch a list"),
        (lambda: goto().reset(seed=True), "got True; give one"),
        (lambda: goto().reset(seed=bytearray(b"ab")), "expected a whole number from 0 on as seed"),
        (lambda: goto().reset(seed=[1]), "1 seeds for 2 environments; give one each"),
        (lambda: goto().reset(seed=[1, -2]), "from 0 on as seed, got -2"),
        (lambda: goto().reset(seed=[1, 2.5]), "from 0 on as seed, got 2.5"),
        (lambda: goto().reset(options={"mask": [True, True]}), "there is reset_mask, a bool .2."),
        (lambda: goto().reset(options={"reset_mask": np.ones(3, bool)}), "give a bool .2."),
        (lambda: goto().reset(options={"reset_mask": np.ones(2)}), "reset_mask is float64"),
        (lambda: goto().step([0, 7]), "action 7 does not exist; use 0 left, 1 right, 2 forward"),
        (lambda: goto().step([0, -1]), "action -1 does not exist"),
        (lambda: goto().step([0.0, 1.0]), "actions are float64 of shape .2,.; give 2 integers"),
        (lambda: goto().step([0, 1, 2]), "give 2 integers"),
        (lambda: worlds.GridEnv(GOTO).step(7), "action 7 does not exist; use 0 left"),
        (lambda: worlds.GridEnv(GOTO).step(1.5), "give 1 integers"),
        (lambda: worlds.make("SimpleDoorKey", 0), "at least 1"),
        (lambda: worlds.GridEnv("SimpleDoorKey", render_mode="human"), "rgb_array or ansi"),
    ],
)
def test_mistakes_are_answered_with_their_fix(mistake, fix):
    with pytest.raises(GroundlabError, match=fix):
        mistake()


FRONTS = {
    "grid": lambda: gym.make("groundlab/SimpleDoorKey-v0"),
    "text": lambda: worlds.TextEnv(GOTO),
    "batch": lambda: worlds.make("SimpleDoorKey", 1),
    "texts": lambda: worlds.TextVectorEnv(GOTO, 1),
    "crafter": lambda: worlds.make("Crafter-Text-EatCow", 1),
}


@pytest.mark.parametrize("front", FRONTS)
def test_any_integer_is_a_seed_and_nothing_else_changes_anything(front):
    env, twin = FRONTS[front](), FRONTS[front]()
    expected = str(env.reset(seed=3)[0])
    lists = ([np.int32(3)], np.array([3], np.uint16), range(3, 4), (np.array(3),))
    for seed in (np.int64(3), np.uint8(3), np.array(3), *(lists if hasattr(env, "num_envs") else ())):
        assert str(env.reset(seed=seed)[0]) == expected
    assert str(env.reset(seed=2**64 + 3)[0]) != str(twin.reset(seed=3)[0])
    env.reset(seed=3)
    for wrong in (-1, np.int64(-1), np.float64(3), 3.0, True, np.True_, "3", np.array(3.5), {3}):
        with pytest.raises(GroundlabError, match="expected a whole number from 0 on as seed, got"):
            env.reset(seed=wrong)
    assert str(env.reset()[0]) == str(twin.reset()[0]), "the stream goes on where it was"


@pytest.mark.parametrize("name", ["groundlab/SimpleDoorKey-v0", "groundlab/TextEnv-v0"])
def test_texts_never_pass_through_memory_that_processes_share(name):
    """Gymnasium's gave 400 zeros for every mission and 50,000 tabs for every text."""
    options = {"world": GOTO} if "Text" in name else {}
    one = functools.partial(gym.make, name, **options)
    for make in (lambda: gym.make_vec(name, 2, "async", **options), lambda: AsyncVectorEnv([one, one])):
        with pytest.raises(GroundlabError, match="expected shared_memory=False, which texts need, got True; give"):
            make()
    env = gym.make_vec(name, 2, "async", vector_kwargs={"shared_memory": False}, **options)
    assert str(env.reset(seed=0)[0]) == str(SyncVectorEnv([one, one]).reset(seed=0)[0])
    env.close()
