"""16-bit weights learn as float32 ones do."""

import pytest
import torch
from torch import nn

from groundlab.core.errors import GroundlabError
from groundlab.learning import checkpoints
from groundlab.learning.master_weights import make_optimizer, parameters_of

UPDATES, RATE = 200, 1e-6


def moved(dtype: torch.dtype, optimize) -> list[torch.Tensor]:
    """How far each weight of a small network moves in 200 updates, in float32."""
    with checkpoints.seeded_construction(0, "test"):
        network = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1)).to(torch.bfloat16).to(dtype)
        inputs, targets = torch.randn(64, 32), torch.randn(64, 1)
    optimizer = optimize(list(network.parameters()))
    before = [weights.detach().float().clone() for weights in parameters_of(optimizer)]
    for _ in range(UPDATES):
        optimizer.zero_grad()
        (network(inputs.to(dtype)).float() - targets).square().mean().backward()
        optimizer.step()
    rounded = [weights.to(dtype) for weights in parameters_of(optimizer)]
    assert all(torch.equal(own, weights) for own, weights in zip(network.parameters(), rounded, strict=True))
    return [weights.detach().float() - old for weights, old in zip(parameters_of(optimizer), before, strict=True)]


def share(ours: list[torch.Tensor], reference: list[torch.Tensor]) -> tuple[float, float]:
    """The length of ours along the reference, and their cosine."""
    a, b = (torch.cat([each.flatten() for each in side]) for side in (ours, reference))
    return float(a @ b / (b @ b)), float(nn.functional.cosine_similarity(a, b, dim=0))


def test_200_updates_move_bfloat16_weights_as_they_move_float32_ones():
    reference = moved(torch.float32, lambda weights: torch.optim.Adam(weights, lr=RATE))
    length, cosine = share(moved(torch.bfloat16, lambda w: make_optimizer(torch.optim.Adam, w, lr=RATE)), reference)
    assert 0.95 < length < 1.05 and cosine > 0.95
    plain, _ = share(moved(torch.bfloat16, lambda weights: torch.optim.Adam(weights, lr=RATE)), reference)
    assert plain < 0.2, "without masters most steps are rounded away"


def test_float32_weights_are_their_own_masters():
    weights = list(nn.Linear(2, 2).parameters())
    own = parameters_of(make_optimizer(torch.optim.Adam, weights, lr=1))
    assert all(a is b for a, b in zip(own, weights, strict=True))


@pytest.mark.parametrize("name", ["glam", "cloning", "direct"])
def test_float16_weights_are_refused_in_one_line(learner_of, name):
    with pytest.raises(GroundlabError, match="dtype=bfloat16, or lora_rank") as error:
        learner_of(name, dtype="float16")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["glam bfloat16", "direct bfloat16"])
def test_a_checkpoint_holds_the_masters(learner_of, name):
    straight, resumed = (learner_of(name, lr=1e-6) for _ in range(2))
    straight.train_step(1)
    rounded = [weights.bfloat16().float() for weights in parameters_of(straight.optimizer)]
    assert not all(map(torch.equal, rounded, parameters_of(straight.optimizer)))
    resumed.load_state(straight.state())
    assert all(map(torch.equal, parameters_of(resumed.optimizer), parameters_of(straight.optimizer)))
    assert resumed.train_step(2) == straight.train_step(2)
