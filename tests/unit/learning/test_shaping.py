"""Shaping leaves optimal policies alone, and the original's deviations are what its code did."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from golden_facts import facts
from hypothesis import given, settings

from groundlab.learning.options import Quirks
from groundlab.learning.returns import gae
from groundlab.learning.shaping import RunningMeanStd, Shaper, scale_of, shaping

GOLDEN = facts("background_knowledge")["train"]
GAMMAS = st.sampled_from([0.5, 0.9, 0.99, 1.0])
FLOATS = st.floats(-100, 100, allow_nan=False)


@st.composite
def rollouts(draw):
    """(potentials [T + 1, B], ends [T, B]) of any episodes."""
    steps, envs = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    potentials = draw(st.lists(FLOATS, min_size=(steps + 1) * envs, max_size=(steps + 1) * envs))
    ends = draw(st.lists(st.booleans(), min_size=steps * envs, max_size=steps * envs))
    shaped = torch.tensor(potentials, dtype=torch.float64).reshape(steps + 1, envs)
    return shaped, torch.tensor(ends).reshape(steps, envs)


def episodes(ends):
    """(first step, last step, env) of every whole episode."""
    for env in range(ends.shape[1]):
        first = 0
        for last in ends[:, env].nonzero()[:, 0].tolist():
            yield first, last, env
            first = last + 1


def discounted_sum(terms, gamma):
    return sum(gamma**t * float(term) for t, term in enumerate(terms))


@settings(deadline=None)
@given(rollouts(), GAMMAS)
def test_the_discounted_terms_of_any_episode_add_up_to_minus_its_first_potential(rollout, gamma):
    """So they shift the value of every state by its potential, and leave optimal policies alone."""
    potentials, ends = rollout
    terms = shaping(potentials, ends, gamma)
    for first, last, env in episodes(ends):
        total = discounted_sum(terms[first : last + 1, env], gamma)
        assert total == pytest.approx(-float(potentials[first, env]), abs=1e-6)


@settings(deadline=None)
@given(rollouts(), GAMMAS, st.integers(1, 5))
def test_it_makes_no_difference_where_rollouts_are_cut(rollout, gamma, length):
    potentials, ends = rollout
    shaper, parts = Shaper(potentials.shape[1], gamma, scale=2.0), []
    for start in range(0, len(ends), length):
        stop = min(start + length, len(ends))
        parts.append(shaper.terms(potentials[start : stop + 1], ends[start:stop]))
    torch.testing.assert_close(torch.cat(parts), shaping(potentials / 2.0, ends, gamma))


@settings(deadline=None)
@given(rollouts(), GAMMAS, FLOATS)
def test_an_episode_that_is_cut_off_ends_with_the_potential_that_its_bootstrap_begins_with(rollout, gamma, last):
    potentials, ends = rollout
    truncation_values = torch.where(ends, torch.tensor(last, dtype=torch.float64), 0.0)
    terms = shaping(potentials, ends, gamma, truncation_values)
    for first, end, env in episodes(ends):
        total = discounted_sum(terms[first : end + 1, env], gamma)
        expected = gamma ** (end - first + 1) * last - float(potentials[first, env])
        assert total == pytest.approx(expected, abs=1e-6)


@settings(deadline=None)
@given(FLOATS, st.integers(2, 20))
def test_a_constant_potential_pays_nothing_within_an_episode_without_discount(value, steps):
    potentials, ends = torch.full((steps + 1, 1), value).double(), torch.zeros(steps, 1, dtype=torch.bool)
    assert shaping(potentials, ends, 1.0).abs().max() == 0


@pytest.mark.parametrize("quirk", ["late", "no_boundaries", "running_scale"])
def test_each_quirk_alone_breaks_the_sum_over_an_episode(quirk):
    potentials = torch.tensor([[1.0], [2.0], [4.0], [3.0], [5.0]]).double()
    ends = torch.tensor([[False], [True], [False], [True]])
    shaper = Shaper(1, 0.9, quirks=Quirks(**{quirk: True}))
    sums = []
    for _ in range(2):
        terms = shaper.terms(potentials, ends)[:, 0]
        sums += [discounted_sum(terms[a : b + 1], 0.9) + potentials[a, 0] for a, b, _ in episodes(ends)]
    assert max(map(abs, sums)) > 0.1


def test_late_terms_are_the_correct_ones_a_step_later_but_for_the_last_of_each_episode():
    potentials = torch.tensor([[1.0], [2.0], [4.0], [3.0], [5.0], [6.0]]).double()
    ends = torch.tensor([[False], [False], [True], [False], [False]])
    correct = shaping(potentials, ends, 0.9)[:, 0].tolist()
    for cut in (5, 4):  # in one rollout, and in two
        shaper = Shaper(1, 0.9, quirks=Quirks(late=True))
        parts = [shaper.terms(potentials[i : j + 1], ends[i:j]) for i, j in ((0, cut), (cut, 5)) if i < j]
        assert torch.cat(parts)[:, 0].tolist() == pytest.approx([0.0, correct[0], correct[1], 0.0, correct[3]])


def test_the_running_variance_is_the_originals():
    running, before = RunningMeanStd(), torch.zeros(2).double()
    for case in GOLDEN["filter_rms"]:
        sums = []
        for row in torch.tensor(case["in"], dtype=torch.float64):
            before = 0.99 * before + row
            sums.append(before)
        torch.testing.assert_close(torch.stack(sums), torch.tensor(case["filtered"], dtype=torch.float64))
        running.update(torch.stack(sums))
        found = float(running.mean), float(running.variance), running.count
        assert found == pytest.approx((case["mean"], case["var"], case["count"]), rel=1e-9)


@pytest.mark.parametrize("shape", [(), (3, 2)])
def test_running_moments_are_those_of_everything_seen(shape):
    values = torch.randn(50, *shape, generator=torch.Generator().manual_seed(0)).double() * 3 + 7
    moments = RunningMeanStd(*shape)
    for part in values.split(7):
        moments.update(part)
    torch.testing.assert_close(moments.mean, values.mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(moments.variance, values.var(0, correction=0), rtol=1e-3, atol=1e-3)


def original_rollouts():
    """(recorded rollout, raw potentials [T, B], ends [T, B]) of the original's loop on its stub environment."""
    recorded, counter = GOLDEN["train_loop"]["rollouts"], 0
    for rollout in recorded:
        steps, envs = np.array(rollout["actions"]).shape
        flat = np.arange(steps * envs) + counter
        counter += steps * envs
        ends = torch.tensor([*rollout["dones"][1:], rollout["next_done"]]).bool()
        yield rollout, torch.tensor(0.5 + 0.5 * np.sin(0.7 * flat)).reshape(steps, envs), ends


def test_with_all_quirks_the_terms_rewards_and_advantages_are_the_originals():
    recorded = GOLDEN["train_loop"]["rollouts"]
    shaper = Shaper(2, 0.99, quirks=Quirks(*[True] * 5))
    for number, (rollout, potentials, ends) in enumerate(original_rollouts()):
        terms = shaper.terms(torch.cat([potentials, torch.full((1, 2), math.nan)]), ends)
        np.testing.assert_allclose(terms, rollout["shaped_rewards"], atol=1e-5)
        assert float(shaper.running.variance) == pytest.approx(rollout["reward_rms_var"], rel=1e-6)
        total, values = torch.tensor(rollout["rewards_total"]), torch.tensor(rollout["ext_values"])
        earned = torch.where(total - terms > 2.5, 5.0, 0.0)
        np.testing.assert_allclose(earned + terms, rollout["rewards_total"], atol=1e-5)
        if number + 1 < len(recorded):
            after = torch.tensor(recorded[number + 1]["ext_values"][0])
            advantages, returns = gae((earned + terms).float(), values, ends, after, 0.99, 0.95)
            np.testing.assert_allclose(advantages, rollout["ext_advantages"], atol=1e-5)
            np.testing.assert_allclose(returns, rollout["ext_returns"], atol=1e-5)


def test_the_scale_is_the_deviation_of_discounted_sums():
    case = GOLDEN["filter_rms"][0]
    deviation = float(torch.tensor(case["filtered"]).std())
    assert scale_of(torch.tensor(case["in"]), 0.99) == pytest.approx(deviation, rel=1e-5)
    assert scale_of(torch.zeros(4, 2), 0.99) == 1.0


def test_potentials_without_the_row_after_the_last_step_are_refused():
    with pytest.raises(ValueError, match="potentials must be"):
        shaping(torch.zeros(3, 2), torch.zeros(3, 2), 0.9)
    with pytest.raises(ValueError, match="potentials must be"):
        shaping(torch.zeros(3, 2), torch.zeros(2, 2), 0.9, torch.zeros(1, 2))
