"""Facts of the background-knowledge paper's code, recorded by running it (tests/golden/README.md)."""

import math

import pytest
import torch
from knowledge_data import data, golden  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def filled():
    """Load a network with the recording's weights: value i of entry k is sin(0.37 i + k) / sqrt(fan)."""

    def fill(network, layout, skip="\0"):
        entries = [(k, shape) for k, (name, shape) in enumerate(layout) if not name.startswith(skip)]
        state = network.state_dict()
        assert [list(weights.shape) for weights in state.values()] == [shape for _, shape in entries]
        for weights, (k, shape) in zip(state.values(), entries, strict=True):
            fan = math.prod(shape[1:]) if len(shape) > 1 else 1
            values = torch.sin(0.37 * torch.arange(math.prod(shape), dtype=torch.float64) + k) / math.sqrt(fan)
            weights.copy_(values.reshape(shape))
        return network.eval()

    return fill


@pytest.fixture(scope="session")
def pattern():
    """The recording's inputs: 0.5 + 0.5 sin(0.13 i + k)."""

    def make(shape, k=0):
        flat = torch.arange(math.prod(shape), dtype=torch.float64)
        return (0.5 + 0.5 * torch.sin(0.13 * flat + k)).float().reshape(shape)

    return make
