"""Every estimator is its definition, on whole episodes of responses of several tokens."""

from types import SimpleNamespace
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from groundlab.core.errors import GroundlabError
from groundlab.learning.credit import Episode, assign, outer_values, rloo
from groundlab.learning.options import CRITIC_FREE, ESTIMATORS, WHOLE_EPISODES, OuterValue
from groundlab.learning.returns import bandit, bilevel, nested


def chosen(estimator: str = "nested", **given) -> SimpleNamespace:
    """Settings: of nested PPO as published, and what others read."""
    nested_ppo = {"gamma": 0.9, "lam": 0.95, "gamma_token": 1.0, "lam_token": 0.98, "exclude_invalid": True}
    others = {"outer_value": "prompt-end", "bandit_overwrites": False}
    return SimpleNamespace(estimator=estimator, **{**nested_ppo, **others, **given})


def episode(rewards, lengths, seed=0, **facts):
    g = torch.Generator().manual_seed(seed)
    tokens, steps = sum(lengths), len(lengths)
    values, penalties = torch.randn(2, tokens, generator=g, dtype=torch.float64)
    after = torch.randn(steps, generator=g, dtype=torch.float64)
    rewards = torch.tensor(rewards, dtype=torch.float64)
    return Episode(rewards, torch.tensor(lengths), values, after, facts.pop("penalties", 0.1 * penalties), **facts)


EPISODE = episode([0, -1, 0, 0.9], [3, 1, 2, 4])
FREE = EPISODE._replace(penalties=torch.zeros(10, dtype=torch.float64))


def alone(settings, given=EPISODE):
    return assign([given], settings)[0]


def test_nested_scores_stand_on_last_tokens_and_gae_runs_within_each_response():
    values = torch.tensor([0.3, 0.4, 0.5, 0.1, 0.2, -0.1], dtype=torch.float64)
    change = torch.tensor([0.2, -0.1, -0.1, 0.2, -0.1, 0.1], dtype=torch.float64)
    two = [
        Episode(torch.tensor([score]).double(), torch.tensor([3]), values[part], torch.zeros(1), -0.2 * change[part])
        for score, part in ((0.9, slice(0, 3)), (-1.0, slice(3, 6)))
    ]
    first, second = assign(two, chosen())
    assert first.advantages.tolist() == pytest.approx([0.580968, 0.5316, 0.42], abs=1e-6)
    assert second.advantages.tolist() == pytest.approx([-1.097968, -1.1816, -0.92], abs=1e-6)
    assert first.returns.tolist() == pytest.approx([0.880968, 0.9316, 0.92], abs=1e-6)
    assert second.returns.tolist() == pytest.approx([-0.997968, -0.9816, -1.02], abs=1e-6)


def test_the_outer_value_is_read_where_the_settings_say():
    assert outer_values(EPISODE, "prompt-end").tolist() == EPISODE.values[[0, 3, 4, 6]].tolist()
    assert outer_values(EPISODE, "before-last-token").tolist() == EPISODE.values[[2, 3, 5, 9]].tolist()
    assert outer_values(EPISODE, "after-response").tolist() == EPISODE.after.tolist()
    for where in get_args(OuterValue):
        scores = nested(EPISODE.rewards, outer_values(EPISODE, where), 0.9, 0.95)
        torch.testing.assert_close(alone(chosen(outer_value=where)).scores, scores)


def test_nested_and_bilevel_agree_where_nothing_tells_them_apart():
    shared = {"outer_value": "before-last-token", "exclude_invalid": False, "lam_token": 0.95}
    first, second = (alone(chosen(name, **shared), FREE) for name in ("nested", "bilevel"))
    torch.testing.assert_close(first.advantages, second.advantages, rtol=0, atol=1e-12)
    everything = torch.ones(10, dtype=torch.bool)
    rewards = torch.zeros(10, dtype=torch.float64)
    rewards[[2, 3, 5, 9]] = EPISODE.rewards
    plain = bilevel(rewards, FREE.values, everything, FREE.ends, 1.0, 0.9, 0.95)
    torch.testing.assert_close(second.advantages, plain, rtol=0, atol=1e-12)


def test_without_discount_and_lambda_everything_over_time_is_the_return_to_come():
    shared = {"gamma": 1.0, "lam": 1.0, "lam_token": 1.0, "exclude_invalid": False}
    for name in ("nested", "bilevel", "token-gae", "monte-carlo"):
        returns = alone(chosen(name, **shared), FREE).returns
        expected = torch.tensor([-0.1, -0.1, 0.9, 0.9]).double().repeat_interleave(FREE.lengths)
        torch.testing.assert_close(returns, expected, msg=name)


def test_monte_carlo_scores_are_discounted_returns_without_values():
    scores = alone(chosen("monte-carlo", exclude_invalid=False)).scores
    assert scores.tolist() == pytest.approx([-0.9 + 0.9**4, -1 + 0.9**3, 0.9**2, 0.9])
    assert alone(chosen("monte-carlo")).scores.tolist() == pytest.approx([0.9**4, -1 + 0.9**3, 0.9**2, 0.9])


@pytest.mark.parametrize("overwrites", [True, False])
def test_bandit_scores_know_no_time(overwrites):
    credit = alone(chosen("bandit", bandit_overwrites=overwrites, lam_token=1.0), FREE)
    assert credit.scores.tolist() == bandit(EPISODE.rewards, overwrites).tolist()
    torch.testing.assert_close(credit.returns, credit.scores.repeat_interleave(EPISODE.lengths))


def test_an_open_episode_bootstraps_and_is_refused_where_its_end_is_read():
    half = episode([0, 0], [2, 2], done=False, last_value=0.7)
    for name in ESTIMATORS:
        settings = chosen(name, gamma=1.0, lam=1.0, lam_token=1.0, exclude_invalid=False)
        if name in WHOLE_EPISODES:
            with pytest.raises(GroundlabError, match=f"estimator={name}.*episodes=whole"):
                assign([half], settings)
        else:
            returns = alone(settings, half._replace(penalties=torch.zeros(4).double())).returns
            torch.testing.assert_close(returns, torch.full((4,), 0.7, dtype=torch.float64), msg=name)


def test_the_kl_penalty_is_a_reward_of_its_token():
    shared = {"gamma": 1.0, "lam": 1.0, "lam_token": 1.0}
    for name in ("nested", "monte-carlo", "bandit", "bilevel"):
        with_penalty, without = (alone(chosen(name, **shared), e) for e in (EPISODE, FREE))
        first = EPISODE.penalties[:3].flip(0).cumsum(0).flip(0)  # within the response, what is still to come
        earlier = (with_penalty.returns - without.returns)[:3]
        if name != "bilevel":  # whose outer level reads the last tokens' rewards
            torch.testing.assert_close(earlier, first, msg=name)
        torch.testing.assert_close(with_penalty.scores, without.scores, msg=name)


def group(*ends, seed=0):
    return [episode([0, end], [2, 1], seed + i, group="start", anchors=("a", "b")) for i, end in enumerate(ends)]


def without_penalties(episodes):
    return [e._replace(penalties=torch.zeros_like(e.values)) for e in episodes]


def test_grpo_standardises_a_groups_returns_and_gives_every_token_the_same():
    credits = assign(without_penalties(group(1.0, 0.0, 0.5)), chosen("grpo"))
    expected = torch.tensor([1.0, 0.0, 0.5]).double()
    expected = (expected - expected.mean()) / expected.std()
    for credit, value in zip(credits, expected.tolist(), strict=True):
        assert credit.advantages.tolist() == pytest.approx([value] * 3, abs=1e-5)


def test_leave_one_out_is_the_mean_of_the_others():
    returns = torch.tensor([0.9, 0.0, 0.3, 0.5, 7.0]).double()
    groups = ["a", "b", "a", "a", "c"]
    expected = [0.9 - 0.4, 0.0, 0.3 - 0.7, 0.5 - 0.6, 0.0]
    assert rloo(returns, groups).tolist() == pytest.approx(expected)


def test_a_group_without_contrast_teaches_nothing():
    for name in CRITIC_FREE:
        equal = [e._replace(rewards=e.rewards.float()) for e in without_penalties(group(*[0.1] * 7))]
        for credit in assign(equal, chosen(name)):
            assert credit.advantages.abs().max() < 1e-6


def test_gigpo_adds_the_step_compared_with_the_same_state_of_the_group():
    first = episode([0, 0, 1.0], [1, 2, 1], group=0, anchors=("start", "fork", "goal"))
    second = episode([0, 0, 0, 0.0], [1, 1, 1, 1], group=0, anchors=("start", "fork", "fork", "lost"))
    other = episode([0.5], [1], group=1, anchors=("fork",))  # another group's fork is not compared
    episodes = without_penalties([first, second, other])
    plain, full = (assign(episodes, chosen(name)) for name in ("grpo", "gigpo"))
    steps = [(f.scores - p.scores).tolist() for f, p in zip(full, plain, strict=True)]
    start, fork = 0.5**0.5, 1 / 3**0.5  # over their deviations: 0.81 against 0, and 0.9 against 0 and 0
    assert steps[0] == pytest.approx([start, 2 * fork, 0], abs=1e-5)
    assert steps[1] == pytest.approx([-start, -fork, -fork, 0], abs=1e-5)
    assert steps[2] == [0]


def test_gigpo_without_anchors_is_refused():
    with pytest.raises(ValueError, match="anchor for every step"):
        assign([e._replace(anchors=()) for e in group(1.0, 0.0)], chosen("gigpo"))


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="at least one token"):
        assign([episode([0, 0], [2, 1])._replace(lengths=torch.tensor([3, 0]))], chosen())
    with pytest.raises(ValueError, match="4 tokens have 3 values"):
        assign([episode([0, 0], [2, 1])._replace(lengths=torch.tensor([2, 2]))], chosen())


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5]), st.integers(1, 4)), min_size=1), min_size=1),
    st.sampled_from(ESTIMATORS),
)
def test_every_token_gets_a_finite_credit_whatever_the_episodes(steps, name):
    episodes = [
        episode(*map(list, zip(*each, strict=True)), seed, group=seed % 2, anchors=("s",) * len(each))
        for seed, each in enumerate(steps)
    ]
    for one, credit in zip(episodes, assign(episodes, chosen(name)), strict=True):
        assert credit.advantages.shape == credit.returns.shape == one.values.shape
        assert credit.scores.shape == one.rewards.shape
        assert credit.advantages.isfinite().all()
