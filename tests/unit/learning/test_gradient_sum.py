"""Gradients of several processes leave bucket by bucket, during the backward pass."""

import pytest
import torch
from torch import nn

from groundlab.core.errors import GroundlabError
from groundlab.learning import distributed
from groundlab.learning.distributed import GradientSum, Group
from groundlab.learning.master_weights import make_optimizer

LAYERS, WIDTH = 4, 3


class Wires:
    """Another process that has twice our gradients; `log` has when a bucket left, and when a layer was reached."""

    def __init__(self, patch):
        self.log, self.unread = [], []
        patch.setattr(distributed, "_added", lambda tensor: 3 * tensor)
        patch.setattr(torch.distributed, "all_reduce", self.all_reduce)

    def all_reduce(self, flat, async_op):
        assert async_op
        self.log.append(len(flat))
        self.unread.append(flat)
        return self

    def wait(self):  # only now is the sum there
        self.unread.pop(0).mul_(3)


@pytest.fixture
def wires(monkeypatch) -> Wires:
    monkeypatch.setattr(distributed, "_BUCKET", WIDTH * WIDTH)
    return Wires(monkeypatch)


def network(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))).to(dtype)


def gradients(net: nn.Sequential, group: Group, parts: int, skip: int = 0) -> list:
    optimizer = make_optimizer(torch.optim.SGD, list(net.parameters()), lr=1.0)
    total, inputs = GradientSum(group, optimizer), torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(1))
    rows = inputs.to(net[0].weight.dtype).split(6 // parts)
    for number, part in enumerate(rows):
        if number + 1 == len(rows):
            total.begin()
        net[skip:](part).square().sum().backward()
    assert total.finish(torch.ones(2)).tolist() == [1.0 if group.size == 1 else 3.0] * 2
    return [weights.grad for weights in optimizer.param_groups[0]["params"]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("parts", [1, 3])
def test_the_sum_of_all_processes_becomes_the_gradient(wires, parts, dtype):
    alone = gradients(network(dtype), Group(), parts)
    together = gradients(network(dtype), Group(0, 2), parts)
    assert all(torch.equal(3 * own, both) for own, both in zip(alone, together, strict=True))
    assert wires.log == [WIDTH * WIDTH + 1] * LAYERS and not wires.unread


def test_a_weight_that_no_process_reached_keeps_no_gradient(wires):
    first, *others = gradients(network(), Group(0, 2), parts=1, skip=1)
    assert first is None and all(each is not None for each in others)


def test_a_process_that_reads_nothing_sends_as_many_buckets(wires):
    net = network()
    optimizer = make_optimizer(torch.optim.SGD, list(net.parameters()), lr=1.0)
    GradientSum(Group(0, 2), optimizer).finish(torch.ones(2))
    assert len(wires.log) == LAYERS


def test_a_gradient_that_comes_after_its_bucket_left_is_refused(wires):
    net = network()
    total = GradientSum(Group(0, 2), make_optimizer(torch.optim.SGD, list(net.parameters()), lr=1.0))
    total.begin()
    for _ in range(2):
        outputs = net(torch.ones(1, WIDTH)).sum()
        if wires.log:
            with pytest.raises(GroundlabError, match="gradient_checkpointing=false"):
                outputs.backward()
        else:
            outputs.backward()
