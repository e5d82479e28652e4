"""The batched and the single front: Gymnasium's rules, seeds, autoreset, saving, rendering, errors."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.worlds.view import NOT_HERE

ACTIONS = np.random.default_rng(3).integers(0, 7, (250, 80))


@pytest.mark.parametrize("world", worlds.WORLDS)
def test_the_single_front_passes_gymnasiums_checker(world, recwarn):
    check_env(gym.make(f"groundlab/{world}-v0", render_mode="rgb_array").unwrapped)


def test_observations_are_as_the_original_draws_them(mediator_golden):
    episode = next(e for e in mediator_golden["episodes"] if e["task"] == "SimpleDoorKey" and e["mode"] == "hard")
    env = worlds.GridEnv("SimpleDoorKey")
    image = env.reset(seed=0)[0]["image"]
    np.testing.assert_array_equal(image.transpose(2, 0, 1), episode["initial_obs_channels_first_xy"])
    images = [image, *(env.step(int(action))[0]["image"] for action in episode["actions"][:3])]
    for record in episode["uint8_frame_diffs_first3"]:
        difference = images[record["t"] + 1] - images[record["t"]]
        nonzero = [[*map(int, place), int(difference[tuple(place)])] for place in np.argwhere(difference)]
        assert sorted(nonzero) == sorted(record["nonzero"])


def test_every_episode_replays_to_the_originals_end(mediator_golden):
    for episode in mediator_golden["episodes"]:
        env = worlds.GridEnv(episode["task"])
        env.reset(seed=episode["seed"])
        results = [env.step(int(action)) for action in episode["actions"]]
        assert results[-1][2] == episode["done"]
        assert sum(result[1] for result in results) == pytest.approx(episode["game_return"], abs=1e-12)


def rollout(env: worlds.GridVectorEnv, actions: np.ndarray) -> list[np.ndarray]:
    steps = (env.step(row) for row in actions)
    return [np.concatenate([part.ravel() for part in (o["image"], r, te, tr)]) for o, r, te, tr, _ in steps]


def test_a_batch_is_its_environments_one_by_one():
    """The parallel loop (80 environments) and the single front agree, through time limits."""
    batch = worlds.make("ColoredDoorKey", 80, seed=11, autoreset="disabled")
    images = batch.reset(seed=list(range(80)))[0]["image"]
    singles = [worlds.GridEnv("ColoredDoorKey") for _ in range(80)]
    firsts = [env.reset(seed=seed)[0]["image"] for seed, env in enumerate(singles)]
    np.testing.assert_array_equal(images, np.stack(firsts))
    playing = dict(enumerate(singles))
    for actions in ACTIONS[:110]:
        observations, rewards, terminated, truncated, _ = batch.step(actions)
        for b, env in list(playing.items()):
            observation, reward, end, limit, _ = env.step(int(actions[b]))
            np.testing.assert_array_equal(observations["image"][b], observation["image"])
            assert (rewards[b], terminated[b], truncated[b]) == (reward, end, limit)
            assert observations["direction"][b] == observation["direction"]
            if end or limit:
                del playing[b]
    assert not playing


def test_an_integer_seed_counts_up_and_reset_without_seed_goes_on():
    env = worlds.make("RandomBoxKey", 3, seed=5)
    first = env.reset()[0]["image"]
    np.testing.assert_array_equal(first, env.reset(seed=[5, 6, 7])[0]["image"])
    second = env.reset()[0]["image"]
    assert not np.array_equal(first, second)
    env.reset(seed=5)
    np.testing.assert_array_equal(second, env.reset()[0]["image"])


def test_next_step_autoreset_starts_an_episode_on_the_step_after_the_end():
    env = worlds.make("SimpleDoorKey", 2, seed=0)
    env.reset()
    for _ in range(99):
        truncated = env.step(np.full(2, 6))[3]
    assert not truncated.any()
    assert env.step(np.full(2, 6))[3].all()
    _, rewards, terminated, truncated, _ = env.step(np.full(2, 6))
    assert not (terminated | truncated).any() and not rewards.any()
    assert (env.grids.steps == 0).all()


def test_same_step_autoreset_hands_over_the_last_observation():
    env = worlds.make("SimpleDoorKey", 2, seed=0, autoreset="same-step")
    env.reset()
    for _ in range(100):
        observations, _, _, truncated, info = env.step(np.full(2, 6))
    assert truncated.all() and info["_final_obs"].all()
    assert not np.array_equal(info["final_obs"]["image"], observations["image"])
    assert (env.grids.steps == 0).all()


def test_a_partial_reset_leaves_the_others_alone():
    env = worlds.make("KeyInBox", 4, seed=0)
    before = env.reset()[0]["image"]
    after = env.reset(options={"reset_mask": np.array([True, False, False, True])})[0]["image"]
    assert [np.array_equal(a, b) for a, b in zip(before, after, strict=True)] == [False, True, True, False]


def test_a_saved_batch_continues_exactly():
    env, other = worlds.make("MovingObstacle", 8, seed=1), worlds.make("MovingObstacle", 8, seed=2)
    env.reset(), other.reset()
    rollout(env, ACTIONS[:130, :8])
    other.load(env.save())
    for left, right in zip(rollout(env, ACTIONS[130:, :8]), rollout(other, ACTIONS[130:, :8]), strict=True):
        np.testing.assert_array_equal(left, right)


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


@pytest.mark.parametrize(
    ("make", "fix"),
    [
        (lambda: worlds.make("SimpleDoorKy", 2), "did you mean 'SimpleDoorKey'"),
        (lambda: worlds.make("SimpleDoorKey", 0), "at least 1"),
        (lambda: worlds.make("SimpleDoorKey", 2, autoreset="never"), "next-step"),
        (lambda: worlds.make("SimpleDoorKey", 2).reset(seed=[1, 2, 3]), "give one each"),
        (lambda: worlds.GridEnv("SimpleDoorKey", render_mode="human"), "rgb_array or ansi"),
    ],
)
def test_mistakes_are_answered_with_their_fix(make, fix):
    with pytest.raises(GroundlabError, match=fix):
        make()
