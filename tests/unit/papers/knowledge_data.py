"""A small dataset of the knowledge paper's kind, what its code was recorded to do, and a model of prepared replies."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from groundlab.core import storage
from groundlab.papers.knowledge.dataset import Dataset, Episode, write


@cache
def recorded() -> dict:
    """Facts of the background-knowledge paper's code, recorded by running it (tests/golden/README.md)."""
    return storage.read_json(Path(__file__).parents[2] / "golden" / "background_knowledge.json")


def write_data(folder: Path) -> Dataset:
    """A dataset of two episodes, of views that a world can show."""
    known = np.array([state["image"] for state in recorded()["minigrid"]["minigrid_synthetic_captions"]], np.uint8)
    rng, episodes = np.random.default_rng(0), []
    for length in (8, 20):
        views, actions = known[rng.integers(0, len(known), length + 1)], rng.integers(0, 7, length).astype(np.uint8)
        episodes.append(Episode(views, actions, np.zeros(length, np.float32), False, True, 0, 0))
    write(folder, episodes, {})
    return Dataset(folder)


@pytest.fixture(scope="session")
def golden() -> dict:
    return recorded()


@pytest.fixture
def data(tmp_path, monkeypatch) -> Dataset:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_data(tmp_path / "data")


class FixedReplies:
    """A chat model that gives prepared replies, the last one for ever, and remembers its prompts."""

    model = "fixed"

    def __init__(self, replies):
        self._replies, self.prompts = list(replies), []

    def reply(self, messages, sampling):
        self.prompts.append([dict(message) for message in messages])
        return self._replies[min(len(self.prompts), len(self._replies)) - 1]
