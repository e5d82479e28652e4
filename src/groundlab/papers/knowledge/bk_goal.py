"""BK-Goal: goals that a language model gave for stretches of play, found again for stretches like them.

    library = GoalLibrary(captions, [["Go to the ball."], ...])
    phi = GoalPotential(library, embedder)(windows)

The three captions nearest to the last three steps lend their goals; phi is how near the latest step comes to any of
these goals, or 0 below a threshold. No string is compared and no goal is ever reached for good: nearness in the
encoder's space is all there is (spec background-knowledge 5.3 and quirk Q15; `hit_rate` says how often phi is not 0).
The paper's threshold belongs to its encoder; `calibrate` finds one for another encoder, on the labelled dataset.
Called from: `shaped.py`. Read next: `pooling.py`, which makes it fast enough for a laptop.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
import torch
from pydantic import Field

from groundlab.assets import read_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict
from groundlab.core.seeding import generator
from groundlab.language.chat import ChatModel, Messages, Sampling
from groundlab.papers.knowledge import bk_code
from groundlab.papers.knowledge.bk_code import Estimate, growing, pruned, tokens_of
from groundlab.papers.knowledge.captions import MINIGRID_ACTIONS, observations, readable, trajectory
from groundlab.papers.knowledge.dataset import Dataset, sample
from groundlab.papers.knowledge.observations import GRID, ObservationAdapter, Windows, adapter_for, stacked

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
        return self._counted(self.similarity(told, actions))

    def _counted(self, similarity: np.ndarray) -> np.ndarray:
        phi = np.where(similarity > self.threshold, similarity, 0.0)
        self.asked, self.found = self.asked + len(phi), self.found + int((phi > 0).sum())
        return phi

    def similarity(self, told: Sequence[Sequence[str]], actions: Sequence[Sequence[int]]) -> np.ndarray:
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


_OPENING = 2  # system messages, which are never left out
_REPLY_TOKENS = 60  # of a reply, for estimates


class Settings(Strict):
    """How a labelling goes; the original's values."""

    rounds: int = Field(default=500, ge=1)
    """Stretches of play that goals are suggested for."""
    length: int = Field(default=3, ge=2)
    attempts: int = Field(default=15, ge=1)
    """Replies without a list that one round may take."""
    max_prompt_tokens: int = Field(default=6000, ge=1)
    strict: bool = True
    """How replies are read (`replies.goals`)."""


def opening(senses: ObservationAdapter = GRID) -> Messages:
    """The messages that the conversation begins with."""
    texts = (read_text(f"prompts/knowledge/{name}.txt") for name in ("goals-task", senses.prompt))
    return [{"role": "system", "content": text} for text in texts]


def stretches(data: Dataset, settings: Settings, seed: int) -> list[str]:
    """The stretches of play, in words, that goals are asked for."""
    rng, told, names = generator(seed, "goal captions"), [], _senses(data).actions
    for _ in range(settings.rounds):
        segment = data.segment(*sample(data.lengths, settings.length, rng), settings.length)
        told.append(trajectory(segment.captions, segment.actions.tolist(), names))
    return told


def _senses(data: Dataset) -> ObservationAdapter:
    return adapter_for(data.card.get("world"))


def _question(caption: str) -> Messages:
    return [{"role": "user", "content": read_text("prompts/knowledge/goals-request.txt").format(caption=caption)}]


def estimate(data: Dataset, settings: Settings, seed: int) -> Estimate:
    """Calls and tokens of a labelling, to be shown before it."""
    asked = (tokens_of(_question(caption)) for caption in stretches(data, settings, seed))
    return growing(opening(_senses(data)), asked, _REPLY_TOKENS, settings.max_prompt_tokens)


def suggest(
    chat: ChatModel, sampling: Callable[[int], Sampling], data: Dataset, settings: Settings, seed: int
) -> GoalLibrary:
    """Goals for `rounds` stretches of play; those that no reply has a list for are left out.

    Raises GroundlabError when the first of them is, and what the chat model raises.
    """
    messages, library = opening(_senses(data)), GoalLibrary([], [])
    for caption in stretches(data, settings, seed):
        asked = pruned([*messages, *_question(caption)], settings.max_prompt_tokens, _OPENING)
        reply, goals = _ask(chat, sampling, asked, settings)
        if goals:
            messages = [*asked, {"role": "assistant", "content": reply}]
            library.captions.append(caption)
            library.goals.append([goal.strip() for goal in goals])
        elif not library.captions:
            tried = f"{chat.model} gave no list of goals in {settings.attempts} replies"
            raise GroundlabError(f"{tried}; try another model")
    return library


def _ask(
    chat: ChatModel, sampling: Callable[[int], Sampling], messages: Messages, settings: Settings
) -> tuple[str, list[str]]:
    """The first reply with a list, and the list; an empty one when none of the replies has any."""
    for call in range(settings.attempts):
        reply = str(chat.reply(messages, sampling(call)))
        goals = bk_code.goals(reply, settings.strict)
        if goals is not None:
            return reply, goals
    return "", []


def store(folder: Path, library: GoalLibrary) -> None:
    """Write the library as the original does: captions, goals by number of each caption, and the goals' numbers."""
    distinct = dict.fromkeys(goal for goals in library.goals for goal in goals)
    numbers = {goal: number for number, goal in enumerate(distinct)}
    storage.write_json(folder / "trajectory_text.json", library.captions)
    storage.write_json(folder / "goal_library.json", [[numbers[goal] for goal in goals] for goals in library.goals])
    storage.write_json(folder / "goal_index.json", numbers)


def load(folder: Path) -> GoalLibrary:
    """The library that `store` wrote. Raises GroundlabError when a file is missing or broken."""
    names = ("trajectory_text", "goal_library", "goal_index")
    captions, library, numbers = (storage.read_json(folder / f"{name}.json") for name in names)
    goals = {number: goal for goal, number in numbers.items()}
    return GoalLibrary(captions, [[goals[number] for number in row] for row in library])
