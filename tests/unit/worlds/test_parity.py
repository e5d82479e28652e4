"""Every native level of one room, and BabyAI-Text's two, step for step with minigrid (parity.py says how)."""

import numpy as np
import pytest
from parity import STREAMS, Stream, assert_equal, compare, compare_level, expected, make, shown
from reference import KINDS, Mixture, reference

from groundlab import worlds
from groundlab.worlds.codes import DONE
from groundlab.worlds.rules import BABYAI

LEVELS = [name for name, world in worlds.WORLDS.items() if world.levels[0].family == BABYAI]
FEWER_OBJECTS = [(name, {"num_dists": n}) for name in LEVELS if name.startswith("Reasoning-") for n in (0, 3)]
STATES_A_LEVEL = 1300
STATES_A_KIND = 400  # of those that are compared in every run of the tests
ONE_A_KIND = (
    *(f"BabyAI-MixedTrainLocal-v0/{kind}" for kind in KINDS),
    "Reasoning-PickUpSeqGoTo-v0",
    "BabyAI-Text-GoToLocal-RedBall-S10",
)


@pytest.mark.parametrize("name", ONE_A_KIND)
def test_episodes_of_each_kind_of_level_are_minigrids(name):
    assert compare_level(name, {}, STATES_A_KIND) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name, options", [*((name, {}) for name in LEVELS), *FEWER_OBJECTS])
def test_every_episode_is_minigrids(name, options):
    assert compare_level(name, options, STATES_A_LEVEL) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BabyAI-MixedTrainLocal-v0", "BabyAI-MixedTestLocal-v0"])
def test_a_mixed_world_may_draw_the_kind_of_each_episode(name):
    env = make(name, kinds="per-episode")
    assert compare(f"{name} per episode", env, lambda b: Mixture(name), STATES_A_LEVEL) >= 10


@pytest.mark.parametrize("name", [name for name in LEVELS if "Mixed" in name and "/" in name])
def test_success_on_the_last_step_allowed_both_terminates_and_truncates(name):
    stream = Stream(reference(name), 11, np.random.default_rng(0), has_bot=True)
    stream.reset(seed=stream.seed)
    while not stream.finished:
        stream.step(stream.choose())
    plan, limit = stream.episodes[0], stream.env.max_steps
    ours, late = make(name), [DONE] * (limit - len(plan)) + plan
    observations, _ = ours.reset(seed=[stream.seed] * STREAMS)
    stream.reset(seed=stream.seed)
    for action in late:
        observations, *outcome, _ = ours.step(np.full(STREAMS, action))
        stream.step(action)
    assert stream.outcome == (pytest.approx(0.1), True, True)
    everyone = [stream] * STREAMS
    assert_equal(
        name, everyone, shown(ours, observations, tuple(outcome)), expected(everyone, ours.grids.cells.shape[1:3])
    )
