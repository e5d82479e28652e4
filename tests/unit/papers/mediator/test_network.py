"""The frame network in compiled loops computes what its definition in torch does: acting, its gradient, the update."""

import copy

import numpy as np
import pytest
import torch

from groundlab.learning import ppo
from groundlab.papers.mediator import network
from groundlab.papers.mediator.agent import OptionHeads
from groundlab.papers.mediator.network import FrameNetwork, Playing
from groundlab.papers.mediator.settings import TrainingSettings

SETTINGS = TrainingSettings(epochs=2, entropy_coefficient=0.3)


def built(outputs: int) -> tuple[FrameNetwork, torch.optim.Adam]:
    torch.manual_seed(outputs)
    policy = FrameNetwork(outputs)
    return policy, torch.optim.Adam(policy.parameters(), lr=1e-3, eps=1e-8, fused=True)


def frames(size: int, channels: int = 4) -> torch.Tensor:
    """As frame differences are: mostly zero, else a byte; and some that are full."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 256, (size, 10, 10, channels))
    changed = rng.random(drawn.shape) < np.where(rng.random(size) < 0.8, 0.03, 1.0)[:, None, None, None]
    return torch.from_numpy((drawn * changed).astype(np.float32) / 16)


def batch_of(policy: FrameNetwork, outputs: int, size: int = 100) -> tuple[ppo.Batch, torch.Tensor]:
    """Decisions so far from the policy's that ratios and values leave their ranges on either side."""
    inputs, draw = frames(size), torch.Generator().manual_seed(1)
    with torch.inference_mode():
        logits, values = policy(inputs)
    actions = torch.randint(outputs, (size,), generator=draw)
    log_probs = torch.log_softmax(logits, -1)[torch.arange(size), actions]
    near = [0.3 * torch.randn(size, generator=draw) for _ in range(2)]
    returns = values + torch.randn(size, generator=draw)
    return ppo.Batch(inputs, actions, log_probs + near[0], values + near[1], returns), returns - values


@pytest.mark.parametrize("outputs", [2, 5])
def test_acting_is_what_torch_computes_and_each_images_own(outputs):
    policy, given = built(outputs)[0], frames(20)
    log_probs, values = Playing(policy)(given.numpy())
    with torch.inference_mode():
        logits, expected = policy(given)
    np.testing.assert_allclose(log_probs, torch.log_softmax(logits, -1), atol=1e-5)
    np.testing.assert_allclose(values, expected, atol=1e-5)
    alone = Playing(policy)(given[7:8].numpy())
    assert alone[0][0].tolist() == log_probs[7].tolist() and alone[1][0] == values[7]


def test_one_that_plays_keeps_the_weights_that_it_began_with():
    policy, given = built(2)[0], frames(3).numpy()
    playing = Playing(policy)
    before = playing(given)[1].tolist()
    with torch.no_grad():
        policy.critic[2].bias += 1
    assert playing(given)[1].tolist() == before
    assert Playing(policy)(given)[1] == pytest.approx(np.array(before) + 1, abs=1e-5)


@pytest.mark.parametrize("outputs", [2, 5])
@pytest.mark.parametrize("max_grad_norm", [0.5, 100.0])
def test_an_update_is_that_of_ppo(outputs, max_grad_norm):
    settings = SETTINGS.model_copy(update={"max_grad_norm": max_grad_norm})
    policy, optimizer = built(outputs)
    batch, advantages = batch_of(policy, outputs)
    ours = copy.deepcopy(policy)
    ours_optimizer = torch.optim.Adam(ours.parameters(), lr=1e-3, eps=1e-8, fused=True)
    for number in range(2):
        expected = ppo.update(policy, optimizer, batch, advantages, settings, np.random.default_rng(number))
        losses = network.update(ours, ours_optimizer, batch, advantages, settings, np.random.default_rng(number))
        assert losses == pytest.approx(expected, abs=1e-5)
    torch.testing.assert_close(ours.state_dict(), policy.state_dict(), atol=2e-5, rtol=0)
    state, expected_state = ours_optimizer.state_dict()["state"], optimizer.state_dict()["state"]
    torch.testing.assert_close(state, expected_state, atol=1e-5, rtol=1e-2)
    assert state[0]["step"] == 2 * SETTINGS.epochs * (100 // SETTINGS.batch_size)


def test_a_buffer_below_one_minibatch_is_one():
    policy, optimizer = built(2)
    batch, advantages = batch_of(policy, 2, size=7)
    network.update(policy, optimizer, batch, advantages, SETTINGS, np.random.default_rng(0))
    assert optimizer.state_dict()["state"][0]["step"] == SETTINGS.epochs


def test_heads_by_option_are_left_to_torch():
    policy, given = OptionHeads(), frames(3, 5)
    given[..., -1] = 2
    with torch.inference_mode():
        expected = torch.log_softmax(policy(given)[0], -1).numpy()
    assert Playing(policy)(given.numpy())[0].tolist() == expected.tolist()
