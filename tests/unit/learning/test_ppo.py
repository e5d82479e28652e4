"""The clipped update against its formula written out, and the draw of actions: one number a row."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import nn

from groundlab.learning import checkpoints, ppo

SETTINGS = SimpleNamespace(
    batch_size=32, epochs=3, clip=0.2, entropy_coefficient=0.01, value_coefficient=0.5, max_grad_norm=0.5
)


class Linear(nn.Module):
    """Logits and value, linear in four inputs."""

    def __init__(self):
        super().__init__()
        self.actor, self.critic = nn.Linear(4, 3), nn.Linear(4, 1)

    def forward(self, inputs):
        return self.actor(inputs), self.critic(inputs)[:, 0]


def example(size=100, seed=0):
    g = torch.Generator().manual_seed(seed)
    inputs = torch.randn(size, 4, generator=g)
    actions = torch.randint(0, 3, (size,), generator=g)
    log_probs = torch.log_softmax(torch.randn(size, 3, generator=g), -1).gather(1, actions[:, None])[:, 0]
    return ppo.Batch(inputs, actions, log_probs, torch.randn(size, generator=g), torch.randn(size, generator=g))


def build(seed=0):
    with checkpoints.seeded_construction(seed, "test"):
        return Linear()


def test_the_loss_is_the_formula_written_out_for_every_sample():
    batch, policy = example(20), build()
    advantages = batch.returns - batch.values
    logits, values = policy(batch.inputs)
    total, *_ = ppo.losses_of(logits, values, batch, advantages, SETTINGS)
    terms = []
    for i in range(20):
        p = torch.softmax(logits[i], -1)
        ratio = (p[batch.actions[i]].log() - batch.log_probs[i]).exp()
        surrogate = min(ratio * advantages[i], ratio.clamp(0.8, 1.2) * advantages[i])
        near = batch.values[i] + (values[i] - batch.values[i]).clamp(-0.2, 0.2)
        error = max((values[i] - batch.returns[i]) ** 2, (near - batch.returns[i]) ** 2)
        terms.append(-surrogate - 0.01 * -(p * p.log()).sum() + 0.5 * error)
    assert total.item() == pytest.approx(torch.stack(terms).mean().item(), rel=1e-5)


def test_minibatches_cover_a_buffer_without_replacement_and_drop_the_rest():
    parts = list(ppo.minibatches(100, 32, np.random.default_rng(0)))
    assert [len(part) for part in parts] == [32, 32, 32]
    assert len(set(torch.cat(parts).tolist())) == 96
    assert [len(part) for part in ppo.minibatches(10, 32, np.random.default_rng(0))] == [10]


def test_advantages_are_normalised_with_the_unbiased_deviation():
    scaled = ppo.normalised(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert scaled.mean().item() == pytest.approx(0, abs=1e-6)
    assert scaled.std().item() == pytest.approx(1, abs=1e-4)


def update_times(policy, optimizer, first: int, last: int) -> list[ppo.Losses]:
    results = []
    for step in range(first, last):
        batch = example(seed=step)
        rng = np.random.default_rng(step)
        results.append(ppo.update(policy, optimizer, batch, batch.returns - batch.values, SETTINGS, rng))
    return results


@pytest.mark.parametrize("limit", [1e-3, 1e3])
def test_a_step_goes_down_the_clipped_gradient_of_the_whole_loss(limit):
    policy, batch = build(), example(32)
    advantages, weights = batch.returns - batch.values, list(policy.parameters())
    total, *_ = ppo.losses_of(*policy(batch.inputs), batch, ppo.normalised(advantages), SETTINGS)
    slope = nn.utils.parameters_to_vector(torch.autograd.grad(total, weights))
    before = nn.utils.parameters_to_vector(weights).detach()
    settings = SimpleNamespace(**{**vars(SETTINGS), "epochs": 1, "max_grad_norm": limit})
    optimizer = torch.optim.SGD(weights, lr=1.0)
    losses = ppo.update(policy, optimizer, batch, advantages, settings, np.random.default_rng(0))
    moved = nn.utils.parameters_to_vector(weights) - before
    torch.testing.assert_close(moved, -slope * min(1.0, limit / slope.norm().item()), rtol=1e-3, atol=1e-7)
    assert losses.total == pytest.approx(total.item(), rel=1e-5)


def test_a_packed_learner_continues_bit_for_bit():
    policy, other = build(1), build(2)
    optimizer = torch.optim.Adam(list(policy.parameters()), lr=1e-3)
    update_times(policy, optimizer, 0, 5)
    files = checkpoints.pack(policy, optimizer, {"iteration": 5})
    expected = update_times(policy, optimizer, 5, 9)
    resumed = torch.optim.Adam(list(other.parameters()), lr=1e-3)
    assert checkpoints.unpack(files, other, resumed) == {"iteration": 5}
    assert update_times(other, resumed, 5, 9) == expected


def test_a_file_of_tensors_is_what_safetensors_itself_writes():
    tensors = {"layer.b": torch.randn(3), "layer.a": torch.arange(5), "flag": torch.tensor([True])}
    tensors |= {"half": torch.ones(3, 1, dtype=torch.bfloat16), "empty": torch.zeros(0, 2), "step": torch.tensor(3.0)}
    turned = torch.rand(2, 3).t()
    for length in range(1, 9):  # the header is filled up to eight bytes
        named = {**tensors, "w" * length: torch.ones(2)}
        assert bytes(checkpoints.TensorFile({**named, "t": turned})) == save({**named, "t": turned.contiguous()})


def test_building_networks_leaves_torchs_own_generator_alone():
    torch.manual_seed(5)
    before = torch.rand(3)
    torch.manual_seed(5)
    first, second = build(0), build(0)
    assert torch.equal(torch.rand(3), before)
    assert torch.equal(first.actor.weight, second.actor.weight)
    assert not torch.equal(first.actor.weight, build(1).actor.weight)


def test_actions_are_drawn_with_their_probabilities():
    probabilities = torch.tensor([0.2, 0.5, 0.3])
    actions = ppo.sample_actions(probabilities.log().expand(20_000, -1), np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(actions, minlength=3) / 20_000, probabilities, atol=0.01)


def test_a_constant_added_to_the_logits_changes_no_action():
    logits = torch.randn(500, 6, generator=torch.Generator().manual_seed(0))
    assert np.array_equal(
        ppo.sample_actions(logits, np.random.default_rng(1)), ppo.sample_actions(logits + 3, np.random.default_rng(1))
    )


def test_a_row_takes_one_number_whatever_the_other_rows_are():
    logits, rng = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), np.random.default_rng(2)
    numbers = np.random.default_rng(2).random(9)
    whole = ppo.sample_actions(logits, rng)
    assert rng.random() == numbers[8]
    again = np.random.default_rng(2)
    assert [ppo.sample_actions(row[None], again)[0] for row in logits] == whole.tolist()


def test_an_impossible_action_is_never_drawn():
    class Extremes:
        """Both ends of what a generator gives."""

        def random(self, count):
            return np.resize([0.0, np.nextafter(1.0, 0.0)], count)

    logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]]).expand(4, -1)
    assert ppo.sample_actions(logits, Extremes()).tolist() == [1, 2, 1, 2]  # pyright: ignore[reportArgumentType]
