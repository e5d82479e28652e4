"""The networks, filled with the recording's weights, compute what the original's computed."""

import math

import numpy as np
import pytest
import torch

from groundlab.core.errors import GroundlabError
from groundlab.papers.knowledge import bk_pref
from groundlab.papers.knowledge.bk_pref import (
    Pairs,
    PreferencePotential,
    PreferenceTransformer,
    Segments,
    TrainSettings,
)
from groundlab.papers.knowledge.networks import Pieces, RandomDistillation, TwoHeadedAgent
from groundlab.papers.knowledge.observations import Windows, normalise

SIZES = {"7": ((3, 7, 7), 7), "64": ((3, 64, 64), 20)}


def filled(network, layout, skip="\0"):
    """The network with the recording's weights: value i of entry k is sin(0.37 i + k) / sqrt(fan)."""
    entries = [(k, shape) for k, (name, shape) in enumerate(layout) if not name.startswith(skip)]
    state = network.state_dict()
    assert [list(weights.shape) for weights in state.values()] == [shape for _, shape in entries]
    for weights, (k, shape) in zip(state.values(), entries, strict=True):
        fan = math.prod(shape[1:]) if len(shape) > 1 else 1
        values = torch.sin(0.37 * torch.arange(math.prod(shape), dtype=torch.float64) + k) / math.sqrt(fan)
        weights.copy_(values.reshape(shape))
    return network.eval()


def pattern(shape, k=0):
    """The recording's inputs: 0.5 + 0.5 sin(0.13 i + k)."""
    flat = torch.arange(math.prod(shape), dtype=torch.float64)
    return (0.5 + 0.5 * torch.sin(0.13 * flat + k)).float().reshape(shape)


def parameters(network):
    return sum(weights.numel() for weights in network.parameters())


@pytest.mark.parametrize("size", ["7", "64"])
@torch.no_grad()
def test_the_agent_is_the_originals(golden, size):
    shape, actions = SIZES[size]
    facts = golden["train"][f"agent_{size}"]
    agent = filled(TwoHeadedAgent(shape, actions), facts["layout"])
    assert parameters(agent) == facts["n_params"]
    logits, value, curious = agent(pattern((2, *shape)))
    np.testing.assert_allclose(logits, facts["logits"], rtol=1e-4)
    np.testing.assert_allclose(value, facts["value_ext"], rtol=1e-5)
    np.testing.assert_allclose(curious, facts["value_int"], rtol=1e-5)
    policy = torch.distributions.Categorical(logits=logits)
    np.testing.assert_allclose(policy.entropy(), facts["entropy"], rtol=1e-4)
    chosen = policy.log_prob(torch.tensor([0, actions - 1]))
    np.testing.assert_allclose(chosen, facts["log_prob_of_[0,na-1]"], rtol=1e-4)


@pytest.mark.parametrize("size", ["7", "64"])
@torch.no_grad()
def test_curiosity_is_the_originals(golden, size):
    shape, _ = SIZES[size]
    facts = golden["train"][f"rnd_{size}"]
    novelty = filled(RandomDistillation(shape), facts["layout"])
    inputs = pattern((2, *shape))
    predicted, true = novelty(inputs)
    np.testing.assert_allclose(predicted[:, :4], facts["pred_first4"], rtol=1e-4)
    np.testing.assert_allclose(true[:, :4], facts["target_first4"], rtol=1e-3)
    np.testing.assert_allclose(novelty.curiosity(inputs), facts["curiosity_sum_half"], rtol=1e-4)
    assert not any(weights.requires_grad for weights in novelty.target.parameters())


def test_a_fresh_agent_begins_with_an_even_policy():
    torch.manual_seed(0)
    logits = TwoHeadedAgent((3, 7, 7), 7)(torch.rand(5, 3, 7, 7)).logits
    assert logits.softmax(-1).sub(1 / 7).abs().max() < 1e-3


def segments(shift, actions, first_time):
    times = torch.arange(first_time, first_time + 6).repeat(4, 1)
    return Segments(pattern((4, 6, 3, 7, 7), shift), actions.reshape(4, 5) % 7, times)


@torch.no_grad()
def test_the_preference_transformer_is_the_originals(golden):
    facts = golden["train"]["preference_model"]
    network = PreferenceTransformer((3, 7, 7), 7, scaled_attention=False)
    filled(network, facts["layout"], skip="causal_transformer_layer.")
    unused = sum(math.prod(shape) for name, shape in facts["layout"] if name.startswith("causal_transformer_layer."))
    assert parameters(network) == facts["n_params"] - unused
    first = segments(0, torch.arange(20), 0)
    second = segments(1, 3 * torch.arange(20) + 1, 10)
    np.testing.assert_allclose(network.values(first), facts["values_seg1"], atol=1e-4)
    np.testing.assert_allclose(network.values(first)[:, -1], facts["compute_reward"], atol=1e-4)
    scores = bk_pref.scores_of(network, Pairs(first, second, torch.zeros(4)))
    np.testing.assert_allclose(scores, facts["logits"], atol=2e-4)


def test_the_preference_loss_is_the_originals(golden):
    for case in golden["train"]["preference_loss_fixed_logits"]:
        given = torch.tensor(case["logits"]), torch.tensor(case["labels"], dtype=torch.float32)
        losses = bk_pref.preference_loss(*given)
        assert [float(value) for value in losses] == pytest.approx([case["loss"], case["ce"], case["smooth"]], abs=1e-6)


def test_a_batch_of_ties_has_a_loss():
    losses = bk_pref.preference_loss(torch.tensor([[1.0, 0.0]], requires_grad=True), torch.tensor([0.5]))
    assert float(losses.cross_entropy) == 0.0 and torch.isfinite(losses.total)


@torch.no_grad()
def test_a_step_is_valued_by_what_came_before_it_only():
    torch.manual_seed(0)
    network = PreferenceTransformer((3, 7, 7), 7)
    one = segments(0, torch.arange(20), 0)
    other = one._replace(actions=one.actions.clone(), states=one.states.clone())
    other.actions[:, -1] = (other.actions[:, -1] + 1) % 7
    other.states[:, -1] += 1.0
    torch.testing.assert_close(network.values(one)[:, :-1], network.values(other)[:, :-1])
    assert not torch.allclose(network.values(one)[:, -1], network.values(other)[:, -1])


@pytest.mark.parametrize("size", ["paper", "small"])
@torch.no_grad()
def test_the_latest_value_alone_is_the_last_of_all_values_and_views_are_encoded_once(size, monkeypatch):
    torch.manual_seed(0)
    network = PreferenceTransformer((3, 7, 7), 7, size=size).eval()
    rng = np.random.default_rng(0)
    views = rng.integers(0, 4, (20, 7, 7, 3), np.uint8)[rng.integers(0, 20, (40, 6))]
    times = rng.integers(0, 90, (40, 1)) + np.arange(6)
    windows = Windows(views, rng.integers(0, 7, (40, 5)), times)
    states = torch.from_numpy(normalise(views))
    expected = network.values(Segments(states, torch.from_numpy(windows.actions), torch.from_numpy(times)))[:, -1]
    encode, encoded = network.encode, []
    monkeypatch.setattr(network, "encode", lambda states: encoded.append(len(states)) or encode(states))
    np.testing.assert_allclose(PreferencePotential(network)(windows), expected, atol=1e-5)
    assert sum(encoded) <= 20


def test_too_few_judged_pairs_are_one_clear_line():
    side = segments(0, torch.arange(20), 0)
    with pytest.raises(GroundlabError, match="too few to learn from"):
        bk_pref.train(Pairs(side, side, torch.zeros(4)), TrainSettings(), (3, 7, 7), 7, seed=0)


@torch.no_grad()
@pytest.mark.parametrize("size", ["7", "64"])
def test_an_agent_prepared_to_act_says_what_it_says(size):
    torch.manual_seed(0)
    shape, actions = SIZES[size]
    agent = TwoHeadedAgent(shape, actions, "small")
    observations = torch.rand(5, *shape)
    for one, other in zip(agent(observations), agent.prepared()(observations), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_views_in_pieces_are_read_as_whole_views_are():
    torch.manual_seed(0)
    agent = TwoHeadedAgent((3, 7, 7), 7, "small")
    views = np.random.default_rng(0).choice(np.array([0, 1, 1, 1, 1, 1], np.uint8), (60, 7, 7, 3))
    observations, some = torch.from_numpy(normalise(views)), torch.arange(3, 60, 4)
    pieces = Pieces.of(observations)
    assert len(pieces.squares) < 60 * 25 and len(pieces[some].squares) < len(pieces.squares)
    for whole, cut in ((observations, pieces), (observations[some], pieces[some])):
        gradients = []
        for output in (agent(whole), agent(cut)):
            total = output.logits.pow(2).sum() + output.value.sum() + output.curiosity_value.pow(3).sum()
            gradients.append((*output, *torch.autograd.grad(total, list(agent.parameters()))))
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("size", "side", "cells"), [("7", 1, (7, 7)), ("64", 7, (9, 9))])
def test_the_small_agent_sees_every_cell_of_the_view(size, side, cells):
    torch.manual_seed(0)
    shape, actions = SIZES[size]
    agent, view = TwoHeadedAgent(shape, actions, "small"), torch.zeros(1, *shape)
    before = agent.network(view)
    for y, x in np.ndindex(cells):
        changed = view.clone()
        changed[0, :, side * y : side * (y + 1), side * x : side * (x + 1)] = 1.0
        assert (agent.network(changed) != before).any()
