"""Returns and advantages against recorded values and their definitions."""

import pytest
import torch

from groundlab.learning.returns import discounted, gae


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


def test_gae_with_lambda_one_is_monte_carlo():
    rewards, values, dones, last = random_rollout(9, 1)
    _, returns = gae(rewards, values, torch.zeros_like(dones), last, 0.99, 1.0)
    torch.testing.assert_close(returns[:, 0], discounted(rewards[:, 0], last.item(), 0.99))


def test_wrong_shapes_are_refused():
    rewards, values, dones, last = random_rollout(4, 2)
    with pytest.raises(ValueError, match=r"\[T, B\]"):
        gae(rewards, values[:3], dones, last, 0.9, 0.9)
    with pytest.raises(ValueError, match=r"last_value \[B\]"):
        gae(rewards, values, dones, last[:1], 0.9, 0.9)
