"""What batched fronts of all families have in common: autoreset in three modes, partial resets, saving."""

import numpy as np
import pytest

from groundlab import worlds

MODES = ("next-step", "same-step", "disabled")
WORLDS = {"ColoredDoorKey": {}, "BabyAI-GoToObjS4-v0": {}, "Crafter-Text-EatCow": {"length": 12}}
WORLDS["MiniGrid-Empty-Random-5x5-v0"] = {}  # of minigrid's package
SAVED = [("MovingObstacle", {}), ("Crafter-Text-Reward", {"length": 30})]
SAVED += [("BabyAI-MixedTrainLocal-v0", {"kinds": kinds}) for kinds in ("fixed-per-env", "per-episode")]


def same(ours: dict, env: int, theirs: dict, other: int) -> bool:
    """Whether one environment of a batch sees what another of another one does."""
    return all(np.array_equal(values[env], theirs[name][other]) for name, values in ours.items())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("world", WORLDS)
def test_a_batch_is_its_environments_one_by_one_and_begins_anew_as_its_mode_says(world, mode):
    count = 80 if (world, mode) == ("BabyAI-GoToObjS4-v0", "next-step") else 3
    batch = worlds.make(world, count, seed=5, autoreset=mode, **WORLDS[world])
    singles = [worlds.make(world, 1, autoreset="disabled", **WORLDS[world]) for _ in range(count)]
    before = batch.reset()[0]
    assert all(same(before, i, single.reset(seed=5 + i)[0], 0) for i, single in enumerate(singles))
    over, ends = np.zeros(count, bool), 0
    for row in np.random.default_rng(0).integers(0, 7, (230, count)):
        observations, *outcome, info = batch.step(row)
        for i, single in enumerate(singles):
            begins = over[i] and mode == "next-step"
            shown, *results = (single.reset()[0], [0], [False], [False]) if begins else single.step(row[i : i + 1])[:4]
            assert [each[i] for each in outcome] == [each[0] for each in results]
            ended = results[1][0] or results[2][0]
            if over[i] and mode == "disabled":
                assert not results[0][0] and ended and same(observations, i, before, i)
            if ended and mode == "same-step":
                assert info["_final_obs"][i] and same(info["final_obs"], i, shown, 0)
                shown = single.reset()[0]
            assert same(observations, i, shown, 0)
            ends += ended and not over[i]
            over[i] = ended and mode != "same-step"
        before = observations
    assert ends >= count * (1 if mode == "disabled" else 2)


@pytest.mark.parametrize("world", WORLDS)
def test_a_partial_reset_leaves_the_others_and_all_streams_as_they_are(world):
    env, plain, fresh = (worlds.make(world, 4, seed=0, **WORLDS[world]) for _ in range(3))
    before, _ = env.reset()
    plain.reset()
    mask = np.array([True, False, False, True])
    after, _ = env.reset(seed=[40, 41, 42, 43], options={"reset_mask": mask})
    expected, _ = fresh.reset(seed=[40, 0, 0, 43])
    assert all(same(after, i, expected if mask[i] else before, i) for i in range(4))
    onwards, continued = plain.reset()[0], env.reset()[0]
    assert all(same(continued, i, onwards, i) for i in (1, 2)) and not same(continued, 1, before, 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("world", "options"), SAVED)
def test_a_saved_batch_continues_exactly(world, options, mode):
    env, other = (worlds.make(world, 8, seed=seed, autoreset=mode, **options) for seed in (1, 2))
    env.reset(), other.reset()
    rows = np.random.default_rng(3).integers(0, 7, (400, 8))
    for row in rows[:130]:
        env.step(row)
    other.load(env.save())
    for row in rows[130:]:
        (ours, *outcome, _), (theirs, *results, _) = env.step(row), other.step(row)
        assert all(same(ours, i, theirs, i) for i in range(8))
        np.testing.assert_array_equal(outcome, results)
