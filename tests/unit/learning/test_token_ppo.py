"""Token losses are the original's (trl 0.11.4), the KL its estimates, and an update is the same however it is cut."""

import math
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from groundlab.core.errors import GroundlabError
from groundlab.learning import token_ppo
from groundlab.learning.options import KLController
from groundlab.learning.token_ppo import Batch, kl_estimate, tokens_of, whitened


def chosen(**given) -> SimpleNamespace:
    """Settings: one epoch of one minibatch, and nothing in the loss but policy and value."""
    loss = {"clip": 0.2, "value_clip": 0.2, "critic_coefficient": 0.1, "entropy_coefficient": 0.0}
    loss |= {"kl_loss_coefficient": 0.0, "kl_estimator": "k3"}
    limits = dict.fromkeys(("max_grad_norm", "ratio_threshold", "target_kl"))
    return SimpleNamespace(**{"epochs": 1, "minibatch_size": 16, **loss, **limits, **given})


class Reading(NamedTuple):
    log_probs: Tensor
    values: Tensor
    entropies: Tensor


# Two responses of three tokens, as the original computed them (docs/papers/reasoning-reference.md#a9 and #a10).
LOG_PROBS = torch.tensor([-1, -0.5, -0.2, -0.3, -0.7, -0.1], dtype=torch.float64)
REFERENCE = torch.tensor([-1.2, -0.4, -0.1, -0.5, -0.6, -0.2], dtype=torch.float64)
VALUES = torch.tensor([0.3, 0.4, 0.5, 0.1, 0.2, -0.1], dtype=torch.float64)
ADVANTAGES = torch.tensor([0.580968, 0.5316, 0.42, -1.097968, -1.1816, -0.92], dtype=torch.float64)
WHITENED = [0.987521, 0.930754, 0.802427, -0.943059, -1.039226, -0.738417]
BATCH = Batch(torch.tensor([3, 3]), LOG_PROBS, REFERENCE, VALUES, whitened(ADVANTAGES), ADVANTAGES + VALUES)
NEW = Reading(
    LOG_PROBS + torch.tensor([0.3, -0.3, 0.1, 0.05, -0.4, 0.2]),
    torch.tensor([0.6, 0.35, 0.9, 0.05, -0.2, 0.4], dtype=torch.float64),
    torch.full((6,), 0.5, dtype=torch.float64),
)


def figures_of(reading=NEW, batch=BATCH, **settings):
    sums = token_ppo.losses_of(reading, batch, chosen(**settings))
    return dict(zip(token_ppo.FIGURES, (sums / len(batch.log_probs)).tolist(), strict=False))


def test_penalised_rewards_are_the_originals():
    rewards = -0.2 * kl_estimate(LOG_PROBS, REFERENCE, "k1")
    rewards[[2, 5]] += torch.tensor([0.9, -1.0])
    assert rewards.tolist() == pytest.approx([-0.04, 0.02, 0.92, -0.04, 0.02, -1.02])


def test_whitening_is_the_originals_over_all_tokens_of_a_batch():
    assert whitened(ADVANTAGES).tolist() == pytest.approx(WHITENED, abs=1e-6)
    assert whitened(torch.tensor([3.0])).tolist() == [0]
    assert whitened(torch.tensor([1.0, 5.0])).tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_losses_are_the_originals():
    figures = figures_of()
    assert figures["policy_loss"] == pytest.approx(-0.006111, abs=1e-6)
    assert figures["value_loss"] == pytest.approx(0.384164, abs=1e-6)
    assert figures["loss"] == pytest.approx(0.032305, abs=1e-6)
    assert figures["approx_kl"] == pytest.approx(0.032708, abs=1e-6)
    assert figures["policy_kl"] == pytest.approx(0.008333, abs=1e-6)
    assert figures["clip_fraction"] == pytest.approx(1 / 3)
    assert figures["value_clip_fraction"] == pytest.approx(0.5)


def test_entropy_and_kl_join_the_loss_by_their_coefficients():
    plain, both = figures_of(), figures_of(entropy_coefficient=0.01, kl_loss_coefficient=0.3)
    assert plain["entropy"] == pytest.approx(0.5)
    for name in ("k1", "k3"):
        estimate = kl_estimate(NEW.log_probs, REFERENCE, name).mean().item()
        assert figures_of(kl_estimator=name)["reference_kl"] == pytest.approx(estimate)
    assert both["loss"] == pytest.approx(plain["loss"] - 0.01 * plain["entropy"] + 0.3 * plain["reference_kl"])


def test_the_gradient_is_that_of_the_loss_written_out_token_by_token():
    ours, plain = (Reading(*(part.clone().requires_grad_() for part in NEW)) for _ in range(2))
    token_ppo.losses_of(ours, BATCH, chosen(entropy_coefficient=0.01, kl_loss_coefficient=0.05))[0].backward()
    total = torch.zeros(())
    for m in range(6):
        ratio = (plain.log_probs[m] - LOG_PROBS[m]).exp()
        total = total + max(-BATCH.advantages[m] * ratio, -BATCH.advantages[m] * ratio.clamp(0.8, 1.2))
        near = VALUES[m] + (plain.values[m] - VALUES[m]).clamp(-0.2, 0.2)
        total = total + 0.05 * max((plain.values[m] - BATCH.returns[m]) ** 2, (near - BATCH.returns[m]) ** 2)
        further = plain.log_probs[m] - REFERENCE[m]
        total = total + 0.05 * ((-further).exp() - 1 + further) - 0.01 * plain.entropies[m]
    total.backward()
    for left, right in zip(ours, plain, strict=True):
        torch.testing.assert_close(left.grad, right.grad)


def test_a_reference_that_says_nothing_harms_only_a_kl_loss():
    nowhere = BATCH._replace(reference=torch.full_like(REFERENCE, float("nan")))
    for coefficient, finite in ((0.0, True), (0.1, False)):
        log_probs = NEW.log_probs.clone().requires_grad_()
        reading = NEW._replace(log_probs=log_probs)
        token_ppo.losses_of(reading, nowhere, chosen(kl_loss_coefficient=coefficient))[0].backward()
        assert log_probs.grad.isfinite().all() == finite


def test_kl_estimates_are_right_on_average_and_k3_never_negative():
    policy, reference = (torch.tensor(p).double().log() for p in ([0.7, 0.2, 0.1], [0.5, 0.2, 0.3]))
    truth = (policy.exp() * (policy - reference)).sum()
    for name in ("k1", "k3"):
        torch.testing.assert_close((policy.exp() * kl_estimate(policy, reference, name)).sum(), truth)
    assert (kl_estimate(policy, reference, "k3") >= 0).all()


@pytest.mark.parametrize(
    ("kl", "expected"), [(0, 0.199488), (3, 0.199488), (5.9, 0.1999573), (6, 0.2), (6.6, 0.200256), (20, 0.200512)]
)
def test_the_kl_coefficient_moves_as_the_originals(kl, expected):
    controller = KLController(0.2, target=6.0)
    controller.update(kl, 128)
    assert controller.coefficient == pytest.approx(expected, abs=1e-7)


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_chosen_responses_keep_their_tokens_in_their_order(lengths, random):
    owners = [row for row, length in enumerate(lengths) for _ in range(length)]
    chosen = random.sample(range(len(lengths)), random.randint(0, len(lengths)))
    found = tokens_of(torch.tensor(lengths), torch.tensor(chosen, dtype=torch.long)).tolist()
    assert found == [token for row in chosen for token, owner in enumerate(owners) if owner == row]


class Table(nn.Module):
    """A policy and critic of tokens that depend on nothing: one logit and one value for each of `size` tokens."""

    def __init__(self, size: int):
        super().__init__()
        self.logits, self.worth = nn.Parameter(torch.zeros(size)), nn.Parameter(torch.zeros(size))
        self.read: list[list[int]] = []

    def reading(self, tokens: Tensor) -> Reading:
        log_all = self.logits.log_softmax(0)
        entropy = -(log_all.exp() * log_all).sum()
        return Reading(log_all[tokens], self.worth[tokens], entropy.expand(len(tokens)))

    def backward(self, lengths: Tensor, tokens: Tensor, parts: int):
        """Reads responses in `parts` parts."""

        def of(index, loss):
            self.read.append(index.tolist())
            for places in torch.arange(len(index)).flip(0).tensor_split(parts):
                if len(places):
                    loss(places, self.reading(tokens[tokens_of(lengths, index[places])])).backward()

        return of


def learn(net, tokens, batch, parts=1, seed=3, **given) -> dict[str, float]:
    """The figures of an update of plain gradient descent."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    backward = net.backward(batch.lengths, tokens, parts)
    return token_ppo.update(backward, optimizer, batch, chosen(**given), np.random.default_rng(seed))


def example(responses=12, size=7):
    g = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 5, (responses,), generator=g)
    tokens = torch.randint(0, size, (int(lengths.sum()),), generator=g)
    log_probs = torch.full((len(tokens),), -math.log(size)) + 0.1 * torch.randn(len(tokens), generator=g)
    values, advantages, noise = torch.randn(3, len(tokens), generator=g)
    return tokens, Batch(lengths, log_probs, log_probs - 0.1 * noise, values, whitened(advantages), values + noise)


def test_an_update_is_the_same_however_its_minibatches_are_cut():
    outcomes = []
    for parts in (1, 2, 5, 12):
        net, terms = Table(7), {"entropy_coefficient": 0.1, "kl_loss_coefficient": 0.1}
        figures = learn(net, *example(), parts, epochs=3, minibatch_size=5, **terms)
        outcomes.append([*figures.values(), *net.logits.tolist(), *net.worth.tolist()])
    for outcome in outcomes[1:]:
        assert outcome == pytest.approx(outcomes[0], rel=1e-4, abs=1e-6)


def test_every_response_is_learnt_from_once_an_epoch():
    net = Table(7)
    figures = learn(net, *example(), parts=2, epochs=2, minibatch_size=4)
    for epoch in (net.read[:3], net.read[3:]):
        assert sorted(row for index in epoch for row in index) == list(range(12))
    assert figures["epochs"] == 2


def test_a_policy_too_far_away_gets_no_gradient_but_momentum_goes_on():
    tokens, batch = example()
    far = batch._replace(log_probs=batch.log_probs - 4)  # ratios near e^4
    moved = []
    for threshold in (None, 10.0):
        net = Table(7)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        for each in (batch, far):
            before = net.logits.detach().clone()
            backward = net.backward(each.lengths, tokens, 1)
            settings = chosen(ratio_threshold=threshold)
            figures = token_ppo.step(lambda loss: backward(torch.arange(12), loss), optimizer, each, settings)  # noqa: B023
        assert figures["ratio"] > 10 and figures["grad_norm"] > 0
        moved.append((net.logits.grad.norm().item(), (net.logits - before).norm().item()))
    (free, _), (stopped, by_momentum) = moved
    assert free > 0 and stopped == 0 and by_momentum > 0


def test_no_further_epoch_after_the_kl_target():
    for target, expected in ((0.0, 1), (100.0, 4)):
        assert learn(Table(7), *example(), epochs=4, target_kl=target)["epochs"] == expected


def test_clipped_gradients_are_reported_as_they_were():
    tokens, batch = example()
    norms = []
    for limit in (None, 1e-3):
        net = Table(7)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        backward = net.backward(batch.lengths, tokens, 1)
        settings = chosen(max_grad_norm=limit)
        figures = token_ppo.step(lambda loss: backward(torch.arange(12), loss), optimizer, batch, settings)  # noqa: B023
        total = torch.cat([net.logits.grad, net.worth.grad]).norm().item()
        norms.append((figures["grad_norm"], total))
    assert norms[0][0] == pytest.approx(norms[0][1]) == norms[1][0]
    assert norms[1][1] == pytest.approx(1e-3, rel=1e-2)


def test_a_loss_that_is_no_number_changes_no_weight():
    tokens, batch = example()
    net = Table(7)
    broken = batch._replace(returns=torch.full_like(batch.returns, float("inf")))
    with pytest.raises(GroundlabError, match="use an lr below"):
        learn(net, tokens, broken, parts=2)
    assert net.logits.tolist() == [0] * 7

    def spoilt(index, loss):
        net.backward(batch.lengths, tokens, 1)(index, loss)
        net.worth.grad[0] = float("nan")

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(GroundlabError, match="use an lr below"):
        token_ppo.update(spoilt, optimizer, batch, chosen(), np.random.default_rng())
    assert net.logits.tolist() == [0] * 7, "the loss is a number, its gradient is none"
