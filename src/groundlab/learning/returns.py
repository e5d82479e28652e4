"""Returns and advantages: pure functions on time-major tensors.

Start at `gae`. Called from: `methods/mediator/asking.py`.
"""

import torch
from torch import Tensor


def gae(
    rewards: Tensor, values: Tensor, dones: Tensor, last_value: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Advantages and returns of a rollout (Schulman et al. 2016, eq. 16).

    rewards, values, dones: [T, B] (dones[t] = the episode ended at step t); last_value: [B].
    Returns (advantages, returns), both [T, B], returns = advantages + values. Raises ValueError when shapes differ.
    """
    if not rewards.shape == values.shape == dones.shape or last_value.shape != rewards.shape[1:]:
        shapes = [tuple(x.shape) for x in (rewards, values, dones, last_value)]
        raise ValueError(f"rewards, values, dones must be [T, B] and last_value [B], not {shapes}")
    advantages = torch.zeros_like(rewards)
    following, next_value = torch.zeros_like(last_value), last_value
    for t in reversed(range(rewards.shape[0])):
        alive = 1.0 - dones[t].to(rewards.dtype)
        error = rewards[t] + gamma * next_value * alive - values[t]
        following = error + gamma * lam * alive * following
        advantages[t], next_value = following, values[t]
    return advantages, advantages + values


def discounted(rewards: Tensor, last_value: float, gamma: float) -> Tensor:
    """Monte-Carlo returns [T] of one episode, bootstrapped with `last_value` after its last step (0 if it ended)."""
    returns = torch.empty_like(rewards)
    following = torch.tensor(last_value, dtype=rewards.dtype)
    for t in reversed(range(rewards.shape[0])):
        following = rewards[t] + gamma * following
        returns[t] = following
    return returns
