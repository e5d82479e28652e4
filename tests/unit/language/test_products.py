"""oneDNN's products are the default ones up to rounding, with their gradients, and only where they are asked for."""

import pytest
import torch
from torch import nn

from groundlab.language.cpu_inference import onednn_linears, pack


def layer(bias: bool) -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(300, 200, bias=bias)


def states(rows: int) -> torch.Tensor:
    return torch.randn(2, rows, 300, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 40])
def test_products_and_gradients_are_those_of_the_default(bias, rows):
    results = []
    for quick in (False, True):
        net, given = nn.Sequential(layer(bias)), states(rows).requires_grad_()
        if quick:
            with onednn_linears(net):
                made = net(given)
                made.sin().sum().backward()
        else:
            made = net(given)
            made.sin().sum().backward()
        results.append([made.detach(), given.grad, *(p.grad for p in net.parameters())])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 40])
def test_packed_weights_give_the_same_products(rows):
    net = nn.Sequential(layer(True), nn.Linear(200, 10))
    expected = net(states(rows))
    with onednn_linears(net, pack(net)):
        torch.testing.assert_close(net(states(rows)), expected, rtol=1e-4, atol=1e-5)
