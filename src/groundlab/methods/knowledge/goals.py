"""BK-Goal: goals that a language model gave for stretches of play, found again for stretches like them.

    library = GoalLibrary(captions, [["Go to the ball."], ...])
    phi = GoalPotential(library, embedder)(windows)

The three captions nearest to the last three steps lend their goals; phi is how near the latest step comes to any of
these goals, or 0 below a threshold. No string is compared and no goal is ever reached for good: nearness in the
encoder's space is all there is (spec background-knowledge 5.3 and quirk Q15; `hit_rate` says how often phi is not 0).
The paper's threshold belongs to its encoder; `calibrate` finds one for another encoder, on the labelled dataset.
Called from: `shaped.py`. Read next: `pooling.py`, which makes it fast enough for a laptop.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from groundlab.core.errors import GroundlabError
from groundlab.core.seeding import generator
from groundlab.methods.knowledge.captions import MINIGRID_ACTIONS
from groundlab.methods.knowledge.dataset import Dataset, sample
from groundlab.methods.knowledge.pooling import Embed, Pooling, Told, reader
from groundlab.methods.knowledge.windows import Windows, stacked

HORIZON = 4  # steps of a window: three to look up, one to judge
NEAREST = 3
THRESHOLD = 0.85
_CALIBRATED_ON = 1_000  # windows of a dataset


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
        pooling: Pooling = "texts",
    ):
        """embed: texts to vectors of length 1 [N, d]. Raises GroundlabError for a library without goals."""
        if not library.captions or len(library.captions) != len(library.goals) or not any(library.goals):
            raise GroundlabError("the library has no goals; label some captions first")
        self._read, self.threshold = reader(embed, names, pooling), threshold
        self._keys = self._read.texts(library.captions)
        distinct = list(dict.fromkeys(goal for goals in library.goals for goal in goals))
        self._goals = self._read.texts(distinct)
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
        return self._counted(self.likeness_of(windows))

    def of_captions(self, told: Sequence[Sequence[str]], actions: Sequence[Sequence[int]]) -> np.ndarray:
        """phi [N] of five observations and four actions each."""
        return self._counted(self.likeness(told, actions))

    def _counted(self, likeness: np.ndarray) -> np.ndarray:
        phi = np.where(likeness > self.threshold, likeness, 0.0)
        self.asked, self.found = self.asked + len(phi), self.found + int((phi > 0).sum())
        return phi

    def likeness(self, told: Sequence[Sequence[str]], actions: Sequence[Sequence[int]]) -> np.ndarray:
        """How near each latest step comes to the nearest goal on offer, -1 .. 1 [N]."""
        return self._likeness(self._read.captions(told, actions))

    def likeness_of(self, windows: Windows) -> np.ndarray:
        """The same of windows of views or captions."""
        return self._likeness(self._read.windows(windows))

    def nearness(self, windows: Windows) -> np.ndarray:
        """How near each latest step comes to each distinct goal [N, goals]; -1 for goals that are not on offer."""
        return self._nearness(self._read.windows(windows))

    def _likeness(self, told: Told) -> np.ndarray:
        return self._nearness(told).max(1).astype(np.float64)

    def _nearness(self, told: Told) -> np.ndarray:
        candidates = self._offered[self._nearest(told.stretches)].any(1)
        return np.where(candidates, _products(told.latest, self._goals), -1.0)

    def calibrate(self, windows: Windows, share: float) -> float:
        """Set the threshold so that phi is not 0 on a share of these windows, and return it."""
        self.threshold = float(np.quantile(self.likeness_of(windows), 1 - share))
        return self.threshold

    def nearest(self, queries: Sequence[str]) -> np.ndarray:
        """The places [N, 3] of the captions nearest to each query, the nearest last."""
        return self._nearest(self._read.texts(queries))

    def _nearest(self, queries: np.ndarray) -> np.ndarray:
        return np.argsort(_products(queries, self._keys), axis=1, kind="stable")[:, -NEAREST:]


def _products(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """All inner products [N, M] of rows [N, d] and columns [M, d].

    By torch: numpy's BLAS picks a kernel by the kind of CPU and sums in another order on each, which turns last bits.
    """
    return (torch.from_numpy(rows) @ torch.from_numpy(columns).T).numpy()


def calibrate(potential: GoalPotential, data: Dataset, share: float, seed: int = 0) -> float:
    """Set the threshold so that phi is not 0 on a share of a dataset's windows, and return it.

    The paper's 0.85 is for its encoder: with another one it may never be reached, or always. Raises GroundlabError for
    a share outside 0 .. 1.
    """
    if not 0 < share < 1:
        raise GroundlabError(f"share is {share}; give the share of windows on which goals count, between 0 and 1")
    return potential.calibrate(known_windows(data, HORIZON, generator(seed, "goal threshold")), share)


def known_windows(data: Dataset, horizon: int, rng: np.random.Generator) -> Windows:
    """1,000 windows of a dataset, drawn as labellers draw them."""
    segments = [data.segment(*sample(data.lengths, horizon, rng), horizon) for _ in range(_CALIBRATED_ON)]
    return stacked([Windows(each.views[None], each.actions[None], each.times[None]) for each in segments])
