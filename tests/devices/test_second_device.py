"""The stand-in for a GPU refuses what CUDA refuses, and counts what goes between the two sides."""

from contextlib import nullcontext

import pytest
import torch
from second_device import second_device
from torch import nn
from torch.utils._device import _device_constructors

from groundlab.learning.devices import send

REFUSED = {
    "a sum of both sides": lambda x: x + torch.ones(3, 4),
    "an accumulator on the CPU": lambda x: torch.zeros(()).add_(x.sum()),
    "rows of both sides": lambda x: torch.cat([x, torch.ones(1, 4)]),
    "words of the CPU in a table on the device": lambda x: nn.functional.embedding(torch.tensor([0]), x),
    "an optimizer's copy on the CPU": lambda x: torch._foreach_add_([torch.ones(3, 4)], [x]),
    "an array": lambda x: x.numpy(),
    "an index on the device into the CPU's rows": lambda x: torch.ones(3, 4)[x[:, 0].long()],
    "the CPU's generator": lambda x: torch.rand(3, device="cuda", generator=torch.Generator()),
    "a draw by the CPU's generator": lambda x: x.multinomial(1, generator=torch.Generator()),
    "a gradient of both sides": lambda x: (x * torch.ones(3, 4, requires_grad=True)).sum().backward(),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_cuda_and_its_stand_in_refuse(cuda, mistake):
    with pytest.raises((RuntimeError, TypeError), match="device"):
        REFUSED[mistake](torch.rand(3, 4).to("cuda"))


def test_what_is_built_on_meta_is_on_meta_inside_and_ever_after():
    _device_constructors.cache_clear()  # as in a process that has not asked yet
    for context in (second_device(), nullcontext()):
        with context, torch.device("meta"):
            assert torch.arange(3).is_meta and torch.ones(2).is_meta, "transformers builds models there"


def test_what_goes_between_the_sides_is_counted():
    with second_device() as traffic:
        x = send(torch.rand(3, 4), "cuda")
        assert (traffic.waits, traffic.to_device) == (0, 1), "nobody waits for what is sent"
        x[torch.tensor([0])], torch.rand(3).to("cuda"), torch.tensor([1.0], device="cuda")
        assert (traffic.waits, traffic.to_device) == (3, 4)
        float(x.sum()), x.tolist(), x.cpu(), x[x > 0.5], bool(x.sum() > 0)
        assert (traffic.waits, traffic.to_device) == (8, 4)
        send(x, "cpu"), send(x, "cuda")
        assert (traffic.waits, traffic.to_device) == (9, 4)
        assert (x * 2).device == x.new_zeros(3).device == torch.zeros_like(x).device == torch.device("cuda", 0)
    assert x.device.type == "cpu", "afterwards it is where it always was"
