"""BK-Goal: goals that a language model gave for stretches of play, found again for stretches like them.

    library = GoalLibrary(captions, [["Go to the ball."], ...])
    phi = GoalPotential(library, embedder)(windows)

The three captions nearest to the last three steps lend their goals; phi is how near the latest step comes to any of
these goals, or 0 below a threshold. No string is compared and no goal is ever reached for good: nearness in the
encoder's space is all there is (spec background-knowledge 5.3 and quirk Q15; `hit_rate` says how often phi is not 0).
Called from: `potentials.py`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from groundlab.core.errors import GroundlabError
from groundlab.methods.knowledge.captions import MINIGRID_ACTIONS, observations, trajectory
from groundlab.methods.knowledge.windows import Windows

HORIZON = 4  # steps of a window: three to look up, one to judge
NEAREST = 3
THRESHOLD = 0.85
Embed = Callable[[Sequence[str]], np.ndarray]


class GoalLibrary(NamedTuple):
    """Captions of stretches, and the goals suggested for each."""

    captions: list[str]
    goals: list[list[str]]


class GoalPotential:
    """phi of windows of 4 steps; values lie in 0 .. 1."""

    horizon = HORIZON

    def __init__(
        self,
        library: GoalLibrary,
        embed: Embed,
        threshold: float = THRESHOLD,
        names: Sequence[str] = MINIGRID_ACTIONS,
    ):
        """embed: texts to vectors of length 1 [N, d]. Raises GroundlabError for a library without goals."""
        if not library.captions or len(library.captions) != len(library.goals) or not any(library.goals):
            raise GroundlabError("the library has no goals; label some captions first")
        self._embed, self._threshold, self._names = embed, threshold, names
        self._keys = embed(library.captions)
        distinct = list(dict.fromkeys(goal for goals in library.goals for goal in goals))
        self._goals = embed(distinct)
        places = {goal: place for place, goal in enumerate(distinct)}
        self._offered = np.zeros((len(library.captions), len(distinct)), bool)
        for row, goals in enumerate(library.goals):
            self._offered[row, [places[goal] for goal in goals]] = True
        self.asked, self.found = 0, 0

    @property
    def hit_rate(self) -> float:
        """The share of windows so far whose phi was not 0."""
        return self.found / max(1, self.asked)

    def __call__(self, windows: Windows) -> np.ndarray:
        """phi [N] of windows of views uint8 [N, 5, 7, 7, 3], or of captions (strings [N, 5])."""
        return self.of_captions(*_told(windows))

    def of_captions(self, told: Sequence[Sequence[str]], actions: Sequence[Sequence[int]]) -> np.ndarray:
        """phi [N] of five observations and four actions each."""
        likeness = self.likeness(told, actions)
        phi = np.where(likeness > self._threshold, likeness, 0.0)
        self.asked, self.found = self.asked + len(phi), self.found + int((phi > 0).sum())
        return phi

    def likeness(self, told: Sequence[Sequence[str]], actions: Sequence[Sequence[int]]) -> np.ndarray:
        """How near each latest step comes to the nearest goal on offer, -1 .. 1 [N]."""
        stretches = list(zip(told, actions, strict=True))
        queries = [trajectory(seen[:-1], done[:-1], self._names).strip() for seen, done in stretches]
        latest = [trajectory(seen[-2:], done[-1:], self._names).strip() for seen, done in stretches]
        candidates = self._offered[self.nearest(queries)].any(1)
        return np.where(candidates, self._embed(latest) @ self._goals.T, -1.0).max(1)

    def calibrate(self, windows: Windows, share: float) -> float:
        """Set the threshold so that phi is not 0 on a share of these windows, and return it.

        The paper's 0.85 belongs to its encoder: with another one it may never be reached, or always.
        """
        self._threshold = float(np.quantile(self.likeness(*_told(windows)), 1 - share))
        return self._threshold

    def nearest(self, queries: Sequence[str]) -> np.ndarray:
        """The places [N, 3] of the captions nearest to each query, the nearest last."""
        return np.argsort(self._embed(queries) @ self._keys.T, axis=1, kind="stable")[:, -NEAREST:]


def _told(windows: Windows) -> tuple[list[list[str]], list[list[int]]]:
    """The captions [N, 5] and actions [N, 4] of windows."""
    views, actions = windows.views, windows.actions.tolist()
    if views.dtype.kind in "OU":
        return views.tolist(), actions
    lines, width = observations(views.reshape(-1, *views.shape[2:])), views.shape[1]
    return [lines[start : start + width] for start in range(0, len(lines), width)], actions
