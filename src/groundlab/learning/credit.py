"""Credit assignment on tokens: every estimator for multi-turn agents, behind one name.

    credits = assign(episodes, settings)      # one (advantages [N], returns [N], scores [T]) an episode
    settings.estimator                        # one of ESTIMATORS; all else is held fixed

    nested        TD(lambda) over the steps scores each response; GAE over the response's tokens (nested PPO)
    bilevel       the same with one lambda, outer values of the states before the last tokens (VAGEN)
    token-gae     one GAE over all tokens of the episode
    monte-carlo   a response's score is its step's discounted return
    bandit        a response's score is the episode's last reward
    grpo, rloo    the episode's return against those of its group: all tokens alike, no critic
    gigpo         the same, plus a step's return against the steps of the group in the same state (its anchor); omega 1

Source: docs/papers/reasoning-method.md#s3 and #s10. The recursions over time are in `returns.py`; here are the
comparisons between episodes.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from groundlab.core.errors import GroundlabError
from groundlab.learning.options import CRITIC_FREE, WHOLE_EPISODES, Estimator, OuterValue
from groundlab.learning.returns import bandit, bilevel, discounted, nested, token_gae

_SMALLEST_SPREAD = 1e-6


class CreditSettings(Protocol):
    """What `assign` reads from a method's settings."""

    estimator: Estimator
    gamma: float  # over the environment's steps
    lam: float
    gamma_token: float
    lam_token: float
    exclude_invalid: bool  # earlier steps do not see penalties (nested, monte-carlo)
    outer_value: OuterValue  # where nested reads the value of a step
    bandit_overwrites: bool


class Episode(NamedTuple):
    """T steps in a row of one episode, or of its part: T responses of one or more tokens, N tokens in all.

    Estimators of WHOLE_EPISODES need it from its first step.
    """

    rewards: Tensor  # [T], of the environment, or the penalty of an invalid reply
    lengths: Tensor  # int64 [T], tokens of each response, its end token included
    values: Tensor  # [N], of the state before each token
    after: Tensor  # [T], of the state after each response's last token
    penalties: Tensor  # [N], added to the tokens' rewards: minus beta times the KL, or zeros
    done: bool = True
    last_value: float = 0.0  # of the observation after step T-1, where the episode goes on
    group: Hashable = None  # episodes from the same start share it
    anchors: Sequence[Hashable] = ()  # [T], the states that the responses answered

    @property
    def ends(self) -> Tensor:
        """Bool [N]: the last token of each response."""
        marks = torch.zeros(len(self.values), dtype=torch.bool, device=self.values.device)
        marks[self.lengths.cumsum(0) - 1] = True
        return marks


class Credit(NamedTuple):
    """What came to the responses of an `Episode`."""

    advantages: Tensor  # [N], as they are
    returns: Tensor  # [N], what a critic should have said: advantages + values
    scores: Tensor  # [T], what each response was given as a whole, before any penalty


def assign(episodes: Sequence[Episode], settings: CreditSettings) -> list[Credit]:
    """The credit of every token of every episode, by `settings.estimator`.

    Raises GroundlabError for an episode that goes on where the estimator reads how it ended, and ValueError for
    lengths that do not fit.
    """
    for episode in episodes:
        _check(episode, settings.estimator)
    if settings.estimator in CRITIC_FREE:
        return _group_relative(episodes, settings)
    return [_per_episode(episode, settings) for episode in episodes]


def _check(episode: Episode, estimator: str) -> None:
    steps, tokens = len(episode.rewards), len(episode.values)
    if not len(episode.lengths) == len(episode.after) == steps or (episode.lengths < 1).any():
        raise ValueError(f"{steps} steps need as many responses of at least one token, not {episode.lengths.tolist()}")
    if int(episode.lengths.sum()) != tokens or len(episode.penalties) != tokens:
        raise ValueError(f"responses of {int(episode.lengths.sum())} tokens have {tokens} values")
    if estimator in WHOLE_EPISODES and not episode.done:
        raise GroundlabError(f"estimator={estimator} reads how an episode ended; collect with episodes=whole")


def _per_episode(episode: Episode, settings: CreditSettings) -> Credit:
    """Estimators that look at one episode: scores at the ends of responses, then GAE over the tokens."""
    estimator, ends = settings.estimator, episode.ends
    everything = torch.ones_like(ends)
    rewards = episode.penalties.clone()
    if estimator in ("bilevel", "token-gae"):
        scores = episode.rewards
        rewards[ends] += scores
        given = (rewards, episode.values, everything)
        last = 0.0 if episode.done else episode.last_value
        if estimator == "bilevel":
            discounts = settings.gamma_token, settings.gamma
            advantages = bilevel(*given, ends, *discounts, settings.lam, last_value=last)
        else:
            advantages = token_gae(*given, settings.gamma_token, settings.lam_token, last_value=last)
    else:
        scores = _scores(episode, settings)
        rewards[ends] += scores
        inner = settings.gamma_token, settings.lam_token
        advantages = token_gae(rewards, episode.values, everything, *inner, ends=ends)
    return Credit(advantages, advantages + episode.values, scores)


def _scores(episode: Episode, settings: CreditSettings) -> Tensor:
    """Scores [T] of nested, monte-carlo (nested without values: lambda 1) or bandit."""
    if settings.estimator == "bandit":
        return bandit(episode.rewards, settings.bandit_overwrites)
    values = outer_values(episode, settings.outer_value)
    lam = 1.0 if settings.estimator == "monte-carlo" else settings.lam
    outer = {"exclude_invalid": settings.exclude_invalid, "done": episode.done, "last_value": episode.last_value}
    return nested(episode.rewards, values, settings.gamma, lam, **outer)


def outer_values(episode: Episode, where: OuterValue) -> Tensor:
    """The value [T] of each step as the outer level reads it (docs/papers/reasoning-method.md#s3-2,
    docs/papers/reasoning-reference.md#q3).

    "prompt-end": of the observation, a state that the value loss trains; "before-last-token", likewise (VAGEN);
    "after-response": the original's, which no loss ever trains.
    """
    last = episode.lengths.cumsum(0) - 1
    if where == "after-response":
        return episode.after
    return episode.values[last if where == "before-last-token" else last + 1 - episode.lengths]


def _group_relative(episodes: Sequence[Episode], settings: CreditSettings) -> list[Credit]:
    """Estimators that compare episodes: one advantage a step, the same for all tokens of its response."""
    rewards = [episode.rewards + _sums(episode.penalties, episode.lengths) for episode in episodes]
    totals, groups = torch.stack([reward.sum() for reward in rewards]), [episode.group for episode in episodes]
    wholes = rloo(totals, groups) if settings.estimator == "rloo" else grpo(totals, groups)
    scores = [whole.expand(len(reward)) for whole, reward in zip(wholes, rewards, strict=True)]
    if settings.estimator == "gigpo":
        anchored = _anchored(episodes, rewards, settings)
        scores = [score + step for score, step in zip(scores, anchored, strict=True)]
    credits = []
    for episode, score in zip(episodes, scores, strict=True):
        advantages = score.repeat_interleave(episode.lengths)
        credits.append(Credit(advantages, advantages + episode.values, score))
    return credits


def _sums(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Sums [T] of the tokens [N] of each response."""
    return torch.stack([part.sum() for part in tokens.split(lengths.tolist())])


def _anchored(episodes: Sequence[Episode], rewards: list[Tensor], settings: CreditSettings) -> list[Tensor]:
    """GiGPO's step advantages: discounted returns against those of the same state in the same group."""
    if any(len(episode.anchors) != len(episode.rewards) for episode in episodes):
        raise ValueError("gigpo needs an anchor for every step")
    returns = [discounted(reward, 0.0, settings.gamma) for reward in rewards]
    states = [(episode.group, anchor) for episode in episodes for anchor in episode.anchors]
    advantages = grpo(torch.cat(returns), states)
    return list(advantages.split([len(reward) for reward in rewards]))


def grpo(returns: Tensor, groups: Sequence[Hashable]) -> Tensor:
    """Each return [K] less its group's mean, divided by its group's (unbiased) deviation.

    A return that is alone in its group, or equal to all of them, gets 0. (DeepSeekMath, arXiv 2402.03300.)
    """

    def advantages(group: Tensor) -> Tensor:
        centred = group - group.mean()
        return centred / (group.std() + _SMALLEST_SPREAD) if len(group) > 1 else centred

    return _by_group(returns, groups, advantages)


def rloo(returns: Tensor, groups: Sequence[Hashable]) -> Tensor:
    """Each return [K] less the mean of the others in its group; 0 for one that is alone (arXiv 2402.14740)."""
    return _by_group(returns, groups, lambda group: (group - group.mean()) * (len(group) / max(1, len(group) - 1)))


def _by_group(returns: Tensor, groups: Sequence[Hashable], advantages: Callable[[Tensor], Tensor]) -> Tensor:
    members: dict[Hashable, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        members[group].append(place)
    result = torch.zeros_like(returns)
    for places in members.values():
        result[places] = advantages(returns[places].double()).to(returns.dtype)  # equal returns have no spread at all
    return result
