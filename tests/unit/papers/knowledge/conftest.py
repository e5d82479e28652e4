"""Facts of the background-knowledge paper's code, recorded by running it (tests/golden/README.md)."""

import math

import knowledge_data
import pytest
import torch


@pytest.fixture(scope="session")
def golden():
    return knowledge_data.golden()


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


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A dataset of two episodes, of views that a world can show."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return knowledge_data.write_data(tmp_path / "data")


@pytest.fixture(scope="session")
def fixed_replies():
    return knowledge_data.FixedReplies
