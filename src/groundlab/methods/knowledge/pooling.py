"""What BK-Goal reads of a step, as vectors: whole texts, as the original does, or the mean of their sentences.

    read = reader(embed, MINIGRID_ACTIONS, "sentences")
    read.windows(windows)             Told: the stretch that goals are looked up for, and the latest step

Nearly every text is new, so whole texts must all be encoded. Sentences repeat ("You see a red ball 2 steps left"): the
mean of their vectors needs an encoding for each distinct sentence only, a few hundred in all. It is not the vector of
the whole text, since no sentence is read in the light of another. Called from: `goals.py`.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from groundlab.methods.knowledge.captions import observations, readable, trajectory
from groundlab.methods.knowledge.windows import Windows

Embed = Callable[[Sequence[str]], np.ndarray]
Pooling = Literal["texts", "sentences"]
_ACTION = "You choose the action: {}"
_FRAME = re.compile(r"Agent history:|Step \d+: |Current observation: ")
_BREAK = re.compile(r"\.\s*|, |\n")  # what Crafter lists in one sentence is taken apart as well
_MOST_VIEWS = 200_000  # whose captions are remembered


class Told(NamedTuple):
    """N windows of 4 steps as vectors of length 1."""

    stretches: np.ndarray  # [N, d], the first three steps
    latest: np.ndarray  # [N, d], the last one


class Reader(Protocol):
    """Texts, captions and windows to vectors."""

    def texts(self, texts: Sequence[str]) -> np.ndarray: ...

    def captions(self, told: Sequence[Sequence[str]], actions: Sequence[Sequence[int]]) -> Told: ...

    def windows(self, windows: Windows) -> Told: ...


def reader(embed: Embed, names: Sequence[str], pooling: Pooling) -> Reader:
    """How texts are read. embed: texts to vectors of length 1; names: of actions."""
    return WholeTexts(embed, names) if pooling == "texts" else Sentences(embed, names)


class WholeTexts:
    """Each text as the encoder reads it."""

    def __init__(self, embed: Embed, names: Sequence[str]):
        self._embed, self._names = embed, names

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors [N, d]."""
        return self._embed(texts)

    def captions(self, told: Sequence[Sequence[str]], actions: Sequence[Sequence[int]]) -> Told:
        """Of five observations and four actions each."""
        windows = list(zip(told, actions, strict=True))
        stretches = [trajectory(seen[:-1], done[:-1], self._names).strip() for seen, done in windows]
        latest = [trajectory(seen[-2:], done[-1:], self._names).strip() for seen, done in windows]
        return Told(self._embed(stretches), self._embed(latest))

    def windows(self, windows: Windows) -> Told:
        """Of windows of views or captions."""
        return self.captions(_told(windows), windows.actions.tolist())


def _told(windows: Windows) -> list[list[str]]:
    """The captions [N, 5] of windows."""
    views = windows.views
    if views.dtype.kind in "OU":
        return views.tolist()
    views, width = readable(views), views.shape[1]
    lines = observations(views.reshape(-1, *views.shape[2:]))
    return [lines[start : start + width] for start in range(0, len(lines), width)]


class Sentences:
    """Each text as the mean of its sentences; what an observation adds to it is known by its view."""

    def __init__(self, embed: Embed, names: Sequence[str]):
        self._embed = embed
        self._known: dict[str, np.ndarray] = {}
        self._rows: dict[str | bytes, int] = {}
        self._sums: list[np.ndarray] = []  # of an observation's sentences; the last entry is their number
        self._actions = self._added([_ACTION.format(name) for name in names])

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors [N, d]."""
        return _mean(self._added([_FRAME.sub("", text) for text in texts]))

    def captions(self, told: Sequence[Sequence[str]], actions: Sequence[Sequence[int]]) -> Told:
        """Of five observations and four actions each."""
        lines = [line for seen in told for line in seen]
        return self._windows(lines, lambda new: new, np.array(actions), len(told[0]))

    def windows(self, windows: Windows) -> Told:
        """Of windows of views or captions."""
        views = windows.views
        if views.dtype.kind in "OU":
            return self.captions(views.tolist(), windows.actions.tolist())
        views = readable(views)
        flat = np.ascontiguousarray(views.reshape(-1, *views.shape[2:]))
        size = flat[0].nbytes
        content = flat.tobytes()
        keys = [content[start : start + size] for start in range(0, len(content), size)]
        shape = flat.shape[1:]
        return self._windows(
            keys,
            lambda new: observations(np.frombuffer(b"".join(new), flat.dtype).reshape(-1, *shape)),
            windows.actions,
            views.shape[1],
        )

    def _windows(self, keys: list, caption: Callable[[list], list[str]], actions: np.ndarray, width: int) -> Told:
        """keys: of observations, N x width of them in a row, which `caption` puts into words when they are new."""
        if len(self._rows) > _MOST_VIEWS:
            self._rows, self._sums = {}, []
        new = [key for key in dict.fromkeys(keys) if key not in self._rows]
        if new:
            self._rows.update(zip(new, range(len(self._sums), len(self._sums) + len(new)), strict=True))
            self._sums.extend(self._added(caption(new)))
        rows = np.array([self._rows[key] for key in keys]).reshape(-1, width)
        used, places = np.unique(rows, return_inverse=True)
        seen = np.stack([self._sums[row] for row in used])[places.reshape(rows.shape)]
        done = self._actions[actions]
        return Told(_mean(seen[:, :-1].sum(1) + done[:, :-1].sum(1)), _mean(seen[:, -2:].sum(1) + done[:, -1]))

    def _added(self, texts: Sequence[str]) -> np.ndarray:
        """The sums of the vectors of each text's sentences, and their number [N, d + 1]."""
        parts = [[part for part in _BREAK.split(text) if part.strip()] for text in texts]
        new = list(dict.fromkeys(part for row in parts for part in row if part not in self._known))
        if new:
            self._known.update(zip(new, self._embed(new), strict=True))
        sums = np.stack([np.sum([self._known[part] for part in row], axis=0) for row in parts])
        return np.concatenate([sums, [[len(row)] for row in parts]], axis=1).astype(np.float32)


def _mean(sums: np.ndarray) -> np.ndarray:
    """Means of length 1 [N, d] of sums and numbers [N, d + 1]; the number falls out when the length is made 1."""
    vectors = sums[:, :-1]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
