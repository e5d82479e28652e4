"""Returns and advantages: pure functions on time-major tensors.

Start at `gae`, for a rollout of many environments. The others are of one episode and two clocks: T steps of the
environment, each of which is a response of some tokens, N tokens in all.

    discounted   Monte-Carlo returns of the steps
    nested       TD(lambda) returns of the steps, each the score of its response (nested PPO's outer level)
    bandit       the last reward, or a step's own, as score: no credit over time
    token_gae    one chain over the tokens; cut at the ends of turns, it is nested PPO's inner level
    bilevel      both levels in one: what a turn earned starts the chain of its tokens

`nested`, then `token_gae` cut at the turns, is `bilevel` when both read the same values with one lambda and no penalty
is excluded (docs/papers/reasoning-method.md#s3-8; tested).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Series = Tensor | Sequence[float]


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
    # in NumPy's scalars, whose sums round as a tensor's do and cost a tenth of its time
    given, returns = rewards.numpy(), torch.empty_like(rewards)
    weight, following, written = given.dtype.type(gamma), given.dtype.type(last_value), returns.numpy()
    for t in reversed(range(len(given))):
        following = given[t] + weight * following
        written[t] = following
    return returns


def nested(
    rewards: Series,
    values: Series,
    gamma: float,
    lam: float,
    exclude_invalid: bool = True,
    *,
    done: bool = True,
    last_value: float | None = None,
) -> Tensor:
    """Scores [T] of the responses of one episode: TD(lambda) over its steps (docs/papers/reasoning-method.md#s3-2).

        score_t = r_t + gamma [(1 - lam) V_{t+1} + lam G_{t+1}],   G_t = score_t, or with max(0, r_t) for r_t

    rewards, values: [T]; V_t is read before or after response t (a caller's choice). exclude_invalid: a negative reward
    is an invalid reply's penalty; it counts for that reply, and the steps before do not see it. An episode that goes
    on (not done) bootstraps with `last_value`, the value of the observation after step T-1; without one, as the
    original does, with that step's own value at weight gamma (1 - lam). Raises ValueError when shapes differ.
    """
    rewards, values = _series("rewards", rewards, values), _series("values", values, rewards)
    scores, seen = torch.zeros_like(rewards), rewards.clamp(min=0) if exclude_invalid else rewards
    following, next_value = _beyond(values, done, last_value)
    for t in reversed(range(len(rewards))):
        future = gamma * (1 - lam) * next_value + gamma * lam * following
        scores[t] = rewards[t] + future
        following, next_value = seen[t] + future, values[t]
    return scores


def _series(name: str, given: Series, like: Series) -> Tensor:
    """One number a step, as floats; Python numbers in double precision."""
    tensor = given if isinstance(given, Tensor) else torch.tensor(given, dtype=torch.float64)
    if tensor.ndim != 1 or len(tensor) != len(like):
        raise ValueError(f"{name} is of shape {list(tensor.shape)}; give one number for each of the {len(like)} steps")
    return tensor if tensor.is_floating_point() else tensor.double()


def _beyond(values: Tensor, done: bool, last_value: float | None) -> tuple[Tensor, Tensor]:
    """(return, value) after the last step."""
    zero = values.new_zeros(())
    if done:
        return zero, zero
    if last_value is None:
        return zero, values[-1]
    return values.new_tensor(last_value), values.new_tensor(last_value)


def bandit(rewards: Series, overwrite_penalties: bool = True) -> Tensor:
    """Scores [T] without credit over time: all steps of a successful episode get its last reward
    (docs/papers/reasoning-method.md#s3-9).

    Steps of other episodes keep their own. overwrite_penalties: invalid replies of successful episodes are scored like
    the others, as published; False leaves them their penalty (docs/papers/reasoning-reference.md#q13).
    """
    rewards = _series("rewards", rewards, rewards)
    if not len(rewards) or rewards[-1] <= 0:
        return rewards.clone()
    overwritten = torch.ones_like(rewards, dtype=torch.bool) if overwrite_penalties else rewards >= 0
    return torch.where(overwritten, rewards[-1], rewards)


def token_gae(
    rewards: Tensor,
    values: Tensor,
    action_mask: Tensor,
    gamma: float,
    lam: float,
    *,
    ends: Tensor | None = None,
    last_value: float = 0.0,
) -> Tensor:
    """Advantages [N] of the tokens of an episode, zero where `action_mask` is False (the chain skips what it hides).

    rewards, values: [N], values of the states before each token. ends: bool [N], tokens after which the chain starts
    anew, without bootstrap: the last tokens of turns. last_value bootstraps after the last token.
    Raises ValueError when shapes differ.
    """
    mask = action_mask.bool()
    dones = torch.zeros_like(mask) if ends is None else ends.bool()
    if not rewards.shape == values.shape == mask.shape == dones.shape or rewards.ndim != 1:
        raise ValueError(f"rewards, values and masks must be [N], not {[tuple(x.shape) for x in (rewards, values)]}")
    advantages = torch.zeros_like(rewards)
    column, last = mask.nonzero(), rewards.new_tensor([last_value])
    advantages[column] = gae(rewards[column], values[column], dones[column], last, gamma, lam)[0]
    return advantages


def bilevel(
    rewards: Tensor,
    values: Tensor,
    action_mask: Tensor,
    turn_ends: Tensor,
    gamma_token: float,
    gamma_turn: float,
    lam: float,
    *,
    last_value: float = 0.0,
) -> Tensor:
    """Bi-level GAE of one episode's tokens, advantages [N] (VAGEN, arXiv 2510.16907;
    docs/papers/reasoning-method.md#s3-8).

    The outer level runs over the turns' last tokens, with their rewards and values; what it gives a turn, the inner
    level carries back over the turn's tokens. rewards, values: [N]; action_mask: bool [N], tokens of the agent;
    turn_ends: bool [N], the last token of each turn. last_value: the value after the last turn of an episode that goes
    on. Raises ValueError when shapes differ, or when a token of the agent belongs to no turn.
    """
    mask, ends = action_mask.bool(), turn_ends.bool()
    if mask.shape != ends.shape or (ends & ~mask).any() or (mask.any() and not ends[mask.nonzero()[-1]].all()):
        raise ValueError("every turn must end on a token of the agent, and its last token must end a turn")
    outer = {"exclude_invalid": False, "done": False, "last_value": last_value}
    given = rewards.clone()
    given[ends] = nested(rewards[ends], values[ends], gamma_turn, lam, **outer)
    return token_gae(given, values, mask, gamma_token, lam, ends=ends)
