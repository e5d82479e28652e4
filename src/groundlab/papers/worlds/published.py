"""Episodes of language-model agents that others published (BALROG's leaderboard, task BabyAI), as facts.

    episodes = load_episodes()
    episodes.submissions[episodes.submission[0]], episodes.seed[0], episodes.steps(0)

What each array holds, and where it comes from: assets/balrog/README.md.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from pydantic import Field

from groundlab import assets
from groundlab.core.schema import Strict
from groundlab.worlds.text_env.styles import PromptStyle

FILE = Path(assets.__file__).parent / "balrog" / "episodes.npz"
TRAIN = "BabyAI-MixedTrainLocal-v0"
HASH_DIGITS = 4
_STYLE = PromptStyle("balrog", history=1, actions=())


class BalrogSettings(Strict):
    """Settings of the replay."""

    episodes: int = Field(10, ge=1)
    """Episodes of each kind and submission; 10 are published."""


@dataclass(frozen=True)
class Episodes:
    """E episodes of S submissions, T steps in all."""

    submissions: tuple[str, ...]
    """[S] their names on the leaderboard."""
    models: tuple[str, ...]
    """[S]"""
    num_dists: np.ndarray
    """[S] objects besides the mission's own."""
    kinds: tuple[str, ...]
    submission: np.ndarray
    """[E] index into `submissions`."""
    kind: np.ndarray
    """[E] index into `kinds`."""
    seed: np.ndarray
    mission: tuple[str, ...]
    success: np.ndarray
    invalid: np.ndarray
    """[E] replies that were no action."""
    tokens: np.ndarray
    """[E, 2] of prompts and of replies."""
    lengths: np.ndarray
    """[E] steps."""
    actions: np.ndarray
    """[T]"""
    texts: np.ndarray
    """[T] hashes (`text_hash`) of what was read after each step."""

    def steps(self, episode: int) -> slice:
        """Where the steps of an episode are in `actions` and `texts`."""
        end = int(self.lengths[: episode + 1].sum())
        return slice(end - int(self.lengths[episode]), end)

    def of(self, submission: int) -> np.ndarray:
        """The episodes of a submission, as indices."""
        return np.flatnonzero(self.submission == submission)


@cache
def load_episodes() -> Episodes:
    """All published episodes, sorted by submission and kind."""
    with np.load(FILE, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    words = {name: tuple(arrays.pop(name).tolist()) for name in ("submissions", "models", "kinds", "mission")}
    numbers = {name: values if values.dtype == np.bool_ else values.astype(np.int64) for name, values in arrays.items()}
    return Episodes(**words, **numbers)


def observation_text(sentences: Sequence[str]) -> str:
    """BALROG's text of an observation, by its sentences."""
    return _STYLE.view(sentences)


def text_hash(text: str) -> int:
    """The first 16 bits of the SHA-256 of a text."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS], 16)
