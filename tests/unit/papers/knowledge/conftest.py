"""Facts of the background-knowledge paper's code, recorded by running it (tests/golden/README.md)."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from groundlab.papers.knowledge.dataset import Dataset, Episode, write


@pytest.fixture(scope="session")
def golden():
    return json.loads((Path(__file__).parents[3] / "golden" / "background_knowledge.json").read_text())


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
def data(tmp_path, monkeypatch, golden):
    """A dataset of two episodes, of views that a world can show."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    known = np.array([state["image"] for state in golden["minigrid"]["minigrid_synthetic_captions"]], np.uint8)
    rng, episodes = np.random.default_rng(0), []
    for length in (8, 20):
        views, actions = known[rng.integers(0, len(known), length + 1)], rng.integers(0, 7, length).astype(np.uint8)
        episodes.append(Episode(views, actions, np.zeros(length, np.float32), False, True, 0, 0))
    write(tmp_path / "data", episodes, {})
    return Dataset(tmp_path / "data")


class FixedReplies:
    """A chat model that gives prepared replies, the last one for ever, and remembers its prompts."""

    model = "fixed"

    def __init__(self, replies):
        self._replies, self.prompts = list(replies), []

    def reply(self, messages, sampling):
        self.prompts.append([dict(message) for message in messages])
        return self._replies[min(len(self.prompts), len(self._replies)) - 1]


@pytest.fixture(scope="session")
def fixed_replies():
    return FixedReplies
