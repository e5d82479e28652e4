"""A small dataset of the knowledge paper's kind, what its code was recorded to do, and a model of prepared replies."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixed_replies import FixedReplies  # noqa: F401 - for tests of labelling
from golden_facts import facts

from groundlab.language.chat import Sampling
from groundlab.papers.knowledge.dataset import Dataset, Episode, write
from groundlab.papers.knowledge.sandbox import Limits, Sandbox
from groundlab.papers.knowledge.settings import DATASET


def known_views() -> np.ndarray:
    """Views that a world can show: those of the recording's hand-made states."""
    return np.array(
        [state["image"] for state in facts("background_knowledge")["minigrid"]["minigrid_synthetic_captions"]], np.uint8
    )


def make_episodes(*lengths: int) -> list[Episode]:
    """Episodes of views that a world can show; every other one succeeds."""
    known, rng, made = known_views(), np.random.default_rng(0), []
    for number, length in enumerate(lengths):
        views, actions = known[rng.integers(0, len(known), length + 1)], rng.integers(0, 7, length).astype(np.uint8)
        rewards, won = np.zeros(length, np.float32), number % 2 == 1
        rewards[-1] = 0.5 * won
        made.append(Episode(views, actions, rewards, won, not won, 100 + number, 1024 * (number // 2)))
    return made


def write_data(folder: Path) -> Dataset:
    """A dataset of two episodes that earn nothing."""
    plain = {"terminated": False, "truncated": True, "layout": 0, "snapshot": 0}
    write(folder, [replace(each, rewards=0 * each.rewards, **plain) for each in make_episodes(8, 20)], {})
    return Dataset(folder)


def told(steps: Iterable[tuple[str, str]], now: str = "x") -> str:
    """Steps of (observation, action) and the latest observation, in words."""
    lines = "".join(f"Step {n}: {seen} You choose the action: {action}.\n" for n, (seen, action) in enumerate(steps, 1))
    return f"Agent history:\n{lines}Current observation: {now}. \n"


def warm(draw: int) -> Sampling:
    """How the paper samples replies."""
    return Sampling(0.5, draw)


@pytest.fixture(scope="session")
def golden() -> dict:
    return facts("background_knowledge")


@pytest.fixture(scope="session")
def episodes() -> Dataset:
    """The dataset of grids that ships."""
    return Dataset(DATASET)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Limits(wall_seconds=30.0)) as running:
        yield running


@pytest.fixture
def data(tmp_path, monkeypatch) -> Dataset:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_data(tmp_path / "data")
