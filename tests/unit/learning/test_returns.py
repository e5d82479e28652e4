"""Returns and advantages against recorded values and their definitions."""

from itertools import pairwise

import pytest
import torch

from groundlab.learning.returns import bandit, bilevel, discounted, gae, nested, token_gae


def test_discounted_returns_are_the_originals(mediator_golden):
    for case in mediator_golden["buffer"]:
        rewards = torch.tensor(case["rewards"], dtype=torch.float64)
        assert discounted(rewards, case["last_val"], 0.99).tolist() == pytest.approx(case["returns"], rel=1e-12)


def random_rollout(time: int, batch: int):
    g = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(time, batch, generator=g), torch.randn(time, batch, generator=g)
    return rewards, values, torch.rand(time, batch, generator=g) < 0.2, torch.randn(batch, generator=g)


def test_gae_is_the_sum_of_discounted_errors_within_an_episode():
    rewards, values, dones, last = random_rollout(12, 3)
    gamma, lam = 0.9, 0.7
    advantages, returns = gae(rewards, values, dones, last, gamma, lam)
    following = torch.cat([values[1:], last[None]])
    errors = rewards + gamma * following * ~dones - values
    for b in range(3):
        for t in range(12):
            expected, weight = 0.0, 1.0
            for k in range(t, 12):
                expected += weight * errors[k, b].item()
                weight *= gamma * lam
                if dones[k, b]:
                    break
            assert advantages[t, b].item() == pytest.approx(expected, abs=1e-5)
    torch.testing.assert_close(returns, advantages + values)


def test_wrong_shapes_are_refused():
    rewards, values, dones, last = random_rollout(4, 2)
    with pytest.raises(ValueError, match=r"\[T, B\]"):
        gae(rewards, values[:3], dones, last, 0.9, 0.9)
    with pytest.raises(ValueError, match=r"last_value \[B\]"):
        gae(rewards, values, dones, last[:1], 0.9, 0.9)
    with pytest.raises(ValueError, match=r"^rewards is of shape \[2\]; give one number for each of the 3 steps"):
        nested(rewards[:2, 0], values[:3, 0], 0.9, 0.9)
    with pytest.raises(ValueError, match=r"must be \[N\]"):
        token_gae(rewards[:, 0], values[:, 0], dones[:3, 0], 0.9, 0.9)


# The scores of nested PPO, as the original computed them (gamma 0.9, lambda 0.95).
NESTED = [
    ([0, 0, 0.9578125], [0.5, 0.6, 0.7], True, [0.754117, 0.850430, 0.957812]),
    ([0, -1, 0, 0.94375], [0.5, 0.2, 0.6, 0.7], True, [0.644981, -0.256163, 0.838406, 0.943750]),
    ([0, -1, 0, 0.94375], [0.5, 0.2, 0.6, 0.7], False, [-0.210019, -0.256163, 0.838406, 0.943750]),
    ([-1] * 5, [0.1, 0, -0.1, -0.2, -0.3], True, [-1.018865, -1.022064, -1.020543, -1.013500, -1.0]),
    ([-1] * 5, [0.0] * 5, True, [-1.0] * 5),
    ([-1] * 5, [0.0] * 5, False, [-3.745449, -3.211051, -2.586025, -1.855, -1.0]),
]


@pytest.mark.parametrize(("rewards", "values", "exclude", "expected"), NESTED)
def test_nested_scores_are_the_originals(rewards, values, exclude, expected):
    given = torch.tensor(rewards, dtype=torch.float64), torch.tensor(values, dtype=torch.float64)
    assert nested(*given, 0.9, 0.95, exclude).tolist() == pytest.approx(expected, abs=1e-6)
    assert nested(rewards, values, 0.9, 0.95, exclude).tolist() == pytest.approx(expected, abs=1e-6)


def test_an_episode_that_goes_on_bootstraps_as_the_original_or_with_the_next_observations_value():
    assert nested([0, 0], [0.5, 0.6], 0.9, 0.95, done=False).tolist() == pytest.approx([0.050085, 0.027], abs=1e-9)
    whole = nested([0, 0, 0, 0.9], [0.5, 0.6, 0.3, 0.2], 0.9, 1.0)
    cut = nested([0, 0], [0.5, 0.6], 0.9, 1.0, done=False, last_value=whole[2].item())
    torch.testing.assert_close(cut, whole[:2])


def test_nested_advantages_are_gae_over_the_steps():
    rewards, values, dones, last = random_rollout(10, 1)
    _, returns = gae(rewards, values, torch.zeros_like(dones), last, 0.9, 0.8)
    scores = nested(rewards[:, 0], values[:, 0], 0.9, 0.8, False, done=False, last_value=last.item())
    torch.testing.assert_close(scores, returns[:, 0])


def test_bandit_scores_are_the_last_reward_of_a_success_and_nothing_else():
    assert bandit([0, -1, 0, 0.95]).tolist() == [0.95, 0.95, 0.95, 0.95]
    assert bandit([0, -1, 0, 0.95], overwrite_penalties=False).tolist() == [0.95, -1, 0.95, 0.95]
    assert bandit([0, -1, 0]).tolist() == [0, -1, 0]
    assert bandit([0, 0, -1]).tolist() == [0, 0, -1]


# Three turns at tokens 0-2, 4-5 and 7; 3 and 6 are observations, with values that must not be read.
TURNS = torch.tensor([1, 1, 1, 0, 1, 1, 0, 1]).bool()
ENDS = torch.tensor([0, 0, 1, 0, 0, 1, 0, 1]).bool()
REWARDS = torch.tensor([0, 0, 0.3, 0, 0, -0.2, 0, 1.0], dtype=torch.float64)
VALUES = torch.tensor([0.10, 0.25, 0.40, 9e9, 0.55, 0.70, -9e9, 0.85], dtype=torch.float64)


@pytest.mark.parametrize(
    ("gamma_token", "gamma_turn", "lam", "expected"),
    [
        (1, 0.95, 0.95, [0.837334, 0.723510, 0.603695, 0.190731, 0.042875, 0.15]),
        (1, 0.9, 0.98, [0.803725, 0.667066, 0.527619, 0.147354, -0.0027, 0.15]),
    ],
)
def test_bilevel_advantages_are_vagens(gamma_token, gamma_turn, lam, expected):
    advantages = bilevel(REWARDS, VALUES, TURNS, ENDS, gamma_token, gamma_turn, lam)
    assert advantages[TURNS].tolist() == pytest.approx(expected, abs=1e-6)
    assert advantages[~TURNS].tolist() == [0, 0]


def plain_bilevel(rewards, values, turns, gamma_token, gamma_turn, lam):
    """The two passes as the method's paper writes them: advantages of turns, then each turn's tokens back to front."""
    ends, advantages, following = [turn[-1] for turn in turns], {}, 0.0
    for number in reversed(range(len(ends))):
        after = values[ends[number + 1]] if number + 1 < len(ends) else 0.0
        following = rewards[ends[number]] + gamma_turn * after - values[ends[number]] + gamma_turn * lam * following
        advantages[ends[number]] = following
    for turn in turns:
        for token, after in reversed(list(pairwise(turn))):
            error = rewards[token] + gamma_token * values[after] - values[token]
            advantages[token] = error + gamma_token * lam * advantages[after]
    return advantages


def test_bilevel_is_its_two_passes_whatever_the_turns():
    g = torch.Generator().manual_seed(1)
    for _ in range(20):
        lengths = torch.randint(1, 6, (5,), generator=g).tolist()
        size = sum(lengths) + len(lengths)  # an observation after each turn
        rewards, values = torch.randn(2, size, generator=g, dtype=torch.float64)
        turns, mask, ends, start = [], torch.zeros(size).bool(), torch.zeros(size).bool(), 0
        for length in lengths:
            turns.append(list(range(start, start + length)))
            mask[start : start + length], ends[start + length - 1] = True, True
            start += length + 1
        expected = plain_bilevel(rewards.tolist(), values.tolist(), turns, 0.97, 0.9, 0.8)
        advantages = bilevel(rewards, values, mask, ends, 0.97, 0.9, 0.8)
        assert advantages[mask].tolist() == pytest.approx([expected[i] for i in sorted(expected)], abs=1e-12)


def test_bilevel_without_discount_and_with_lambda_one_is_token_gae():
    plain = token_gae(REWARDS, VALUES, TURNS, 1.0, 1.0)
    torch.testing.assert_close(bilevel(REWARDS, VALUES, TURNS, ENDS, 1.0, 1.0, 1.0), plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(plain[TURNS][0], torch.tensor(1.1 - 0.1, dtype=torch.float64))


def test_bilevel_of_an_episode_that_goes_on_sees_the_value_of_what_follows():
    cut = bilevel(REWARDS[:6], VALUES[:6], TURNS[:6], ENDS[:6], 1.0, 0.9, 1.0, last_value=1.0)
    whole = bilevel(REWARDS, VALUES, TURNS, ENDS, 1.0, 0.9, 1.0)  # with lambda 1, the last turn is worth its reward
    torch.testing.assert_close(cut, whole[:6])


def test_every_token_of_the_agent_belongs_to_a_turn():
    with pytest.raises(ValueError, match="last token must end a turn"):
        bilevel(REWARDS[:5], VALUES[:5], TURNS[:5], ENDS[:5], 1.0, 0.9, 0.9)
    with pytest.raises(ValueError, match="on a token of the agent"):
        bilevel(REWARDS, VALUES, TURNS, ~TURNS, 1.0, 0.9, 0.9)
