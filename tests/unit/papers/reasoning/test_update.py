"""The batch that PPO learns from equals a plain reading of the paper's equations, token by token."""

import numpy as np
import pytest
import torch

from groundlab.core.errors import GroundlabError
from groundlab.learning.options import KLController
from groundlab.papers.reasoning import ppo
from groundlab.papers.reasoning.evaluation import make_env
from groundlab.papers.reasoning.policy import ChatPolicy, open_policy
from groundlab.papers.reasoning.ppo import logprob_mismatch, make_batch, read_rollout, update_policy
from groundlab.papers.reasoning.rollouts import Collector
from groundlab.papers.reasoning.settings import TrainingSettings

from .conftest import WORLD


class Played:
    """A policy whose weights have moved away from the reference, and a rollout of it."""

    def __init__(self, settings):
        self.settings = settings
        self.policy, tokenizer = open_policy(settings, seed=0)
        with torch.no_grad():
            for parameter in self.policy.model.parameters():
                parameter.mul_(1.05)
        self.chat_policy = ChatPolicy(self.policy.model, tokenizer, settings)
        text_env = make_env(WORLD, settings.num_envs, False, settings)
        self.rollout = Collector(text_env, self.chat_policy, settings, 0).collect(1)

    def estimates(self):
        return read_rollout(self.policy, self.rollout, self.settings, self.chat_policy.end_token)


@pytest.fixture
def played(resolved):
    return lambda **given: Played(TrainingSettings(**resolved(**given)))


def log_probs_and_values(policy, model, prompt, tokens):
    """Of one reply, read alone: (log-probabilities, values before each token and after the last)."""
    ids = torch.tensor([[*prompt, *tokens]])
    with torch.no_grad():
        out = model(input_ids=ids, output_hidden_states=True)
        values = policy.value_head(out.hidden_states[-1])[0]
    log_all = out.logits.log_softmax(-1)[0]
    start = len(prompt) - 1
    said = [float(log_all[start + place, token]) for place, token in enumerate(tokens)]
    return said, values[start:].tolist()


def written_out(played, beta):
    """Advantages and returns of all tokens by docs/papers/reasoning-method.md#s3-2 to #s3-4, with loops."""
    settings, policy = played.settings, played.policy
    gamma, lam, inner = settings.gamma, settings.lam, settings.lam_token
    advantages, returns = [], []
    for segment in played.rollout.segments:
        read_ = [log_probs_and_values(policy, policy.model, t.prompt, t.reply.tokens) for t in segment.steps]
        references = [
            log_probs_and_values(policy, policy._reference[0], t.prompt, t.reply.tokens)[0] for t in segment.steps
        ]
        last = 0.0
        if segment.next_prompt is not None:
            last = log_probs_and_values(policy, policy.model, segment.next_prompt, [played.chat_policy.end_token])[1][0]
        scores, seen, next_value = [], last, last
        for step, (_, values) in reversed(list(zip(segment.steps, read_, strict=True))):
            future = gamma * (1 - lam) * next_value + gamma * lam * seen
            scores.insert(0, step.reward + future)
            seen, next_value = max(step.reward, 0.0) + future, values[0]
        for score, (own, values), reference in zip(scores, read_, references, strict=True):
            following, found = 0.0, []
            for m in reversed(range(len(own))):
                reward = -beta * (own[m] - reference[m]) + (score if m == len(own) - 1 else 0.0)
                next_state = values[m + 1] if m < len(own) - 1 else 0.0
                following = reward + next_state - values[m] + inner * following
                found.insert(0, following)
            advantages += found
            returns += [advantage + value for advantage, value in zip(found, values, strict=False)]
    return torch.tensor(advantages), torch.tensor(returns)


def test_nested_credit_is_the_papers_token_by_token(played):
    rolled = played(lr=1e-3)
    estimates = rolled.estimates()
    batch = make_batch(rolled.rollout, estimates, 0.2, rolled.settings)
    advantages, returns = written_out(rolled, 0.2)
    assert any(segment.next_prompt for segment in rolled.rollout.segments)
    assert float((estimates.reading.log_probs - estimates.reference).abs().max()) > 1e-3, "the KL has something to say"
    torch.testing.assert_close(batch.advantages, advantages, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(batch.returns, returns, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("given", [{}, {"temperature": 0.7}, {"top_k": 5, "top_p": 0.8}, {"lora_rank": 2}])
def test_tokens_are_learnt_from_with_the_probabilities_that_they_were_drawn_with(played, given):
    rolled = played(**given)
    gap = logprob_mismatch(rolled.rollout, rolled.estimates().reading, rolled.settings)
    assert gap is not None and gap < 1e-5


@pytest.mark.parametrize("given", [{"temperature": 0.7, "top_k": 5}, {"fidelity": {"dropout": True}}])
def test_where_the_distributions_differ_by_intent_there_is_no_gap_to_check(played, given):
    rolled = played(**given)
    assert logprob_mismatch(rolled.rollout, rolled.estimates().reading, rolled.settings) is None


def updated(rolled, kl: KLController, **options):
    """The figures of one update."""
    optimizer, rng = torch.optim.Adam(rolled.policy.parameters(), lr=1e-3), np.random.default_rng(0)
    given = (rolled.policy, optimizer, kl, rolled.rollout, rolled.settings, rng, rolled.chat_policy.end_token)
    return update_policy(*given, **options)


def test_a_policy_other_than_the_learner_is_noticed(played):
    rolled = played()
    with torch.no_grad():
        rolled.policy.model.get_input_embeddings().weight.mul_(1.1)
    with pytest.raises(GroundlabError, match="drawn with other probabilities"):
        updated(rolled, KLController(0.2), check_mismatch=True)


def test_the_first_ratios_are_one_and_the_coefficient_moves_after_the_update(played):
    rolled = played(minibatch_size=16, kl_target=1e-6)
    kl = rolled.settings.kl_controller()
    figures = updated(rolled, kl)
    assert figures["ratio"] == pytest.approx(1, abs=1e-5) and figures["approx_kl"] == pytest.approx(0, abs=1e-8)
    assert figures["kl_coefficient"] == 0.2
    assert kl.coefficient == pytest.approx(0.2 * (1 + 0.2 * 16 / 10_000))


def test_without_a_kl_there_is_no_reference_to_pay_for(played, monkeypatch):
    rolled = played(kl="none")
    monkeypatch.setattr(ppo.TokenPolicy, "reference", lambda *_: pytest.fail("the reference was read"))
    assert rolled.policy._reference == []
    batch = make_batch(rolled.rollout, rolled.estimates(), rolled.settings.kl_controller().coefficient, rolled.settings)
    assert torch.equal(batch.reference, batch.log_probs)


def test_dropping_unfinished_learns_from_a_random_choice_of_exactly_so_many_replies(played, monkeypatch):
    rolled = played(fidelity={"drop_unfinished": True}, steps=13, minibatch_size=13)
    batches, update = [], ppo.token_ppo.update
    monkeypatch.setattr(ppo.token_ppo, "update", lambda *given: batches.append(given[2]) or update(*given))
    updated(rolled, rolled.settings.kl_controller())
    assert sum(len(segment.steps) for segment in rolled.rollout.segments) > 13
    assert len(batches[0].lengths) == 13
    assert float(batches[0].advantages.mean()) == pytest.approx(0, abs=1e-5)
    assert float(batches[0].advantages.std()) == pytest.approx(1, abs=1e-3)
