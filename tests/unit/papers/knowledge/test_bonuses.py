"""Rewards in the style of ELLM and of Motif: what is paid, how often, and when it is forgotten."""

import json

import numpy as np
import pytest

from groundlab.papers.knowledge.bk_goal import EllmBonus
from groundlab.papers.knowledge.bk_pref import MotifBonus
from groundlab.papers.knowledge.observations import Windows
from groundlab.papers.knowledge.ppo import PPO
from groundlab.papers.knowledge.settings import PPOSettings

NEVER = False


class Goals:
    """Two goals; how near a step comes to each is written into its latest view."""

    horizon, threshold = 1, 0.5

    def similarities(self, windows):
        return windows.views[:, -1, 0, 0, :2] / 10.0


class Score:
    """The first number of the latest view."""

    horizon = 1

    def __call__(self, windows):
        return windows.views[:, -1, 0, 0, 0].astype(np.float64)


def steps_of(*numbers):
    """T steps of one environment, as windows whose latest views begin with these pairs."""
    views = np.zeros((len(numbers), 2, 7, 7, 3), np.uint8)
    views[:, -1, 0, 0, :2] = numbers
    return Windows(views, np.zeros((len(numbers), 1), np.int64), np.zeros((len(numbers), 2), np.int64))


def ends(*flags):
    return np.array(flags)[:, None]


def test_a_goal_pays_once_an_episode_by_how_near_the_step_comes_to_it():
    reached = steps_of((9, 0), (9, 0), (3, 8), (9, 8), (9, 4))
    paid = EllmBonus(Goals())(reached, ends(NEVER, NEVER, NEVER, True, NEVER))
    np.testing.assert_allclose(paid[:, 0], [0.9, 0.0, 0.8, 0.0, 0.9])


def test_what_two_goals_have_in_common_is_paid_once():
    paid = EllmBonus(Goals())(steps_of((6, 9), (6, 0), (0, 9)), ends(NEVER, NEVER, NEVER))
    np.testing.assert_allclose(paid[:, 0], [0.9, 0.0, 0.0])


def test_a_step_that_is_not_near_enough_pays_nothing_and_leaves_the_goal_open():
    paid = EllmBonus(Goals())(steps_of((5, 0), (6, 0)), ends(NEVER, NEVER))
    np.testing.assert_allclose(paid[:, 0], [0.0, 0.6])


def preferred():
    """Scores 0 .. 4 on known play: mean 2, deviation sqrt(2), the upper half from 2 on."""
    return MotifBonus(Score(), steps_of((0, 0), (1, 0), (2, 0), (3, 0), (4, 0)))


def test_a_preferred_view_pays_its_score_in_deviations_and_less_each_time_it_is_reached():
    paid = preferred()(steps_of((4, 0), (4, 0), (3, 0), (4, 0)), ends(NEVER, NEVER, NEVER, NEVER))
    np.testing.assert_allclose(paid[:, 0], np.array([2, 2 / 8, 1, 2 / 27]) / np.sqrt(2))


def test_the_lower_half_pays_nothing_and_not_less_than_nothing():
    assert not preferred()(steps_of((0, 0), (1, 0)), ends(NEVER, NEVER)).any()


def test_visits_are_counted_by_episode_and_environment():
    bonus = preferred()
    paid = bonus(steps_of(*[(4, 0)] * 4), ends(NEVER, True, NEVER, NEVER))[:, 0]
    np.testing.assert_allclose(paid / paid[0], [1, 1 / 8, 1, 1 / 8])
    apart = preferred()(steps_of((4, 0), (4, 0)), np.array([[NEVER, NEVER]]))
    np.testing.assert_allclose(apart[0], paid[0])


@pytest.mark.parametrize("make", [lambda: EllmBonus(Goals()), preferred], ids=["ellm", "motif"])
def test_what_was_met_is_remembered_from_rollout_to_rollout_and_in_a_checkpoint(make):
    whole, stopped, resumed = make(), make(), make()
    reached, flags = steps_of((4, 0), (8, 0), (8, 9), (4, 9), (8, 9), (4, 0)), ends(*[NEVER] * 3, True, NEVER, NEVER)
    expected = whole(reached, flags)
    parts = [Windows._make(field[place] for field in reached) for place in (slice(0, 3), slice(3, 6))]
    first = stopped(parts[0], flags[:3])
    resumed.load_state(json.loads(json.dumps(stopped.state())))
    np.testing.assert_array_equal(np.concatenate([first, resumed(parts[1], flags[3:])]), expected)
    assert expected.any()


class Reached(EllmBonus):
    """Pays 1 where the step led to something else than was seen before it, and keeps what it was asked."""

    def __init__(self):
        super().__init__(Goals())
        self.asked = []

    def __call__(self, reached, flags):
        self.asked.append((reached, flags))
        return (reached.views[:, -1] != reached.views[:, -2]).any((1, 2, 3)).astype(float).reshape(flags.shape)


def test_a_step_is_paid_for_the_view_it_led_to_that_of_an_episodes_end_included():
    settings = PPOSettings.model_validate(
        {"num_envs": 16, "frames_per_env": 60, "gamma": 0.9, "lam": 0.0, "reward_scale": 1.0, "strength": 3.0}
    )
    bonus = Reached()
    learner = PPO("BabyAI-GoToRedBallNoDists-v0", 0, settings, bonus, scale=2.0)
    for weights in learner.agent.critic_ext.parameters():
        weights.detach().zero_()
    experience, figures = learner._collect(np.random.default_rng(0))
    (reached, flags), *more = bonus.asked
    assert not more and flags.any() and len(reached.actions) == flags.size
    times = reached.times[:, -1].reshape(flags.shape)
    assert (times > 0).all() and (times[1:][~flags[:-1]] == times[:-1][~flags[:-1]] + 1).all()
    moved = (reached.views[:, -1] != reached.views[:, -2]).any((1, 2, 3))
    world = experience.returns.numpy() - 1.5 * moved  # no value, no trace: the return is what the step was paid
    succeeded = np.array([row["success"] for row in learner._episodes]).sum()
    assert (world > 0.05).sum() == succeeded > 0
    np.testing.assert_allclose(world[world <= 0.05], 0.0, atol=1e-6)
    assert figures["shaping"] == pytest.approx(1.5 * moved.mean(), rel=1e-5)
