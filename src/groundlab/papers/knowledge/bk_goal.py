"""BK-Goal: a language model suggests goals for stretches of play; phi is how near a step comes to one of them.

    library = suggest(chat, chat_settings.sampling, dataset, Settings(), seed)
    potential = GoalPotential(library, embedder)
    calibrate(potential, dataset, share=0.1)              a threshold for an encoder that is not the paper's
    phi = potential(windows)

The three captions nearest to the last three steps lend their goals. phi is the similarity of the latest step and the
nearest of these goals, or 0 below a threshold: no string is compared and no goal is ever reached for good
(docs/papers/knowledge-method.md#s5-3 and docs/papers/knowledge-reference.md#q15). `Sentences` makes it fast enough for
a laptop. `EllmBonus` pays the same goals as a reward.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field

from groundlab.assets import read_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict
from groundlab.core.seeding import generator
from groundlab.language.chat import ChatModel, Messages, Sampling, without_thoughts
from groundlab.papers.knowledge.bk_code import Estimate, estimate_conversation, prune, tokens_of
from groundlab.papers.knowledge.captions import MINIGRID_ACTIONS, observations, readable, trajectory
from groundlab.papers.knowledge.dataset import Dataset, windows_of
from groundlab.papers.knowledge.observations import GRID, ObservationAdapter, Windows, distinct
from groundlab.papers.knowledge.potentials import Bonus, Potential
from groundlab.papers.knowledge.settings import Pooling

# --- The labelling

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
    """How replies are read (`parse_goals`)."""


class GoalLibrary(NamedTuple):
    """Captions of stretches of play, and the goals suggested for each."""

    captions: list[str]
    goals: list[list[str]]

    @property
    def numbers(self) -> dict[str, int]:
        """The distinct goals and their numbers, by first showing."""
        distinct = dict.fromkeys(goal for goals in self.goals for goal in goals)
        return {goal: number for number, goal in enumerate(distinct)}


def opening(adapter: ObservationAdapter = GRID) -> Messages:
    """The messages that the conversation begins with."""
    texts = (read_text(f"prompts/knowledge/{name}.txt") for name in ("goals-task", adapter.prompt))
    return [{"role": "system", "content": text} for text in texts]


def sample_captions(data: Dataset, settings: Settings, seed: int) -> list[str]:
    """The stretches of play, in words, that goals are asked for."""
    segments = data.draw(settings.rounds, settings.length, generator(seed, "goal captions"))
    return [trajectory(each.captions, each.actions.tolist(), data.adapter.actions) for each in segments]


def _question(caption: str) -> Messages:
    return [{"role": "user", "content": read_text("prompts/knowledge/goals-request.txt").format(caption=caption)}]


_GOAL = re.compile(r"\s*(?:[-*•]|\d+[.)])\s*(.*\S)")


def parse_goals(reply: str, strict: bool = True) -> list[str] | None:
    """The goals of an unordered list, in order, or None when there is none.

    strict: any bullet or number at the start of a line, without empty and repeated goals. Otherwise lines that begin
    with "- ", as they are.
    """
    reply = without_thoughts(reply)
    if not strict:
        return [line[2:] for line in reply.split("\n") if line.startswith("- ")] or None
    lines = (_GOAL.fullmatch(line.rstrip()) for line in reply.split("\n"))
    return list(dict.fromkeys(match[1] for match in lines if match)) or None


def estimate(data: Dataset, settings: Settings, seed: int) -> Estimate:
    """Calls and tokens of a labelling, to be shown before it."""
    rounds = (tokens_of(_question(caption)) for caption in sample_captions(data, settings, seed))
    return estimate_conversation(opening(data.adapter), rounds, _REPLY_TOKENS, settings.max_prompt_tokens)


def suggest(
    chat: ChatModel, sampling: Callable[[int], Sampling], data: Dataset, settings: Settings, seed: int
) -> GoalLibrary:
    """Goals for `rounds` stretches of play; those that no reply has a list for are left out.

    Raises GroundlabError when the first of them is, and what the chat model raises.
    """
    messages, library = opening(data.adapter), GoalLibrary([], [])
    for caption in sample_captions(data, settings, seed):
        prompt = prune([*messages, *_question(caption)], settings.max_prompt_tokens, _OPENING)
        reply, goals = _first_list(chat, sampling, prompt, settings)
        if goals:
            messages = [*prompt, {"role": "assistant", "content": reply}]
            library.captions.append(caption)
            library.goals.append([goal.strip() for goal in goals])
        elif not library.captions:
            failure = f"{chat.model} gave no list of goals in {settings.attempts} replies"
            raise GroundlabError(f"{failure}; try another model")
    return library


def _first_list(
    chat: ChatModel, sampling: Callable[[int], Sampling], messages: Messages, settings: Settings
) -> tuple[str, list[str]]:
    """The first reply with a list, and the list; an empty one when none of the replies has any."""
    for call in range(settings.attempts):
        reply = without_thoughts(str(chat.reply(messages, sampling(call))))
        goals = parse_goals(reply, settings.strict)
        if goals is not None:
            return reply, goals
    return "", []


def store(folder: Path, library: GoalLibrary) -> None:
    """Write the library as the original does: captions, goals by number of each caption, and the goals' numbers."""
    numbers = library.numbers
    storage.write_json(folder / "trajectory_text.json", library.captions)
    storage.write_json(folder / "goal_library.json", [[numbers[goal] for goal in goals] for goals in library.goals])
    storage.write_json(folder / "goal_index.json", numbers)


def load(folder: Path) -> GoalLibrary:
    """The library that `store` wrote. Raises GroundlabError when a file is missing or broken."""
    names = ("trajectory_text", "goal_library", "goal_index")
    captions, library, numbers = (storage.read_json(folder / f"{name}.json") for name in names)
    goals = {number: goal for goal, number in numbers.items()}
    return GoalLibrary(captions, [[goals[number] for number in row] for row in library])


# --- Texts and windows as vectors

Embed = Callable[[Sequence[str]], np.ndarray]
"""Texts to vectors of length 1 [N, d]."""
_ACTION = "You choose the action: {}"
_FRAME = re.compile(r"Agent history:|Step \d+: |Current observation: ")
_BREAK = re.compile(r"\.\s*|, |\n")  # what Crafter lists in one sentence is taken apart as well
_MOST_VIEWS = 200_000  # whose captions are remembered


class EmbeddedWindow(NamedTuple):
    """N windows of 4 steps as vectors of length 1."""

    history: np.ndarray  # [N, d], the first three steps
    current: np.ndarray  # [N, d], the last one


class WholeTexts:
    """Each text as the encoder reads it."""

    def __init__(self, embed: Embed, action_names: Sequence[str]):
        self._embed, self._names = embed, action_names

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors [N, d]."""
        return self._embed(texts)

    def windows(self, windows: Windows) -> EmbeddedWindow:
        """Windows of 4 steps."""
        views = readable(windows.views)
        captions = observations(views.reshape(-1, *views.shape[2:]))
        lines = np.array(captions, object).reshape(views.shape[:2]).tolist()
        rows = list(zip(lines, windows.actions.tolist(), strict=True))
        history = [trajectory(lines[:-1], actions[:-1], self._names).strip() for lines, actions in rows]
        current = [trajectory(lines[-2:], actions[-1:], self._names).strip() for lines, actions in rows]
        return EmbeddedWindow(self._embed(history), self._embed(current))


class Sentences:
    """Each text as the mean of its sentences; the sum over an observation's sentences is remembered by its view."""

    def __init__(self, embed: Embed, action_names: Sequence[str]):
        self._embed = embed
        self._vectors: dict[str, np.ndarray] = {}  # of sentences
        self._sums: dict[bytes, np.ndarray] = {}  # of a view's sentences; the last entry is their number
        self._actions = self._sum([_ACTION.format(name) for name in action_names])

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors [N, d]."""
        return _unit(self._sum([_FRAME.sub("", text) for text in texts]))

    def windows(self, windows: Windows) -> EmbeddedWindow:
        """Windows of 4 steps."""
        views = readable(windows.views)
        flat = views.reshape(-1, *views.shape[2:])
        first, which = distinct(flat)
        keys = [view.tobytes() for view in flat[first]]
        if len(self._sums) > _MOST_VIEWS:
            self._sums = {}
        new = [number for number, key in enumerate(keys) if key not in self._sums]
        if new:
            sums = self._sum(observations(flat[first[new]]))
            self._sums.update(zip([keys[number] for number in new], sums, strict=True))
        view_sums = np.stack([self._sums[key] for key in keys])[which.reshape(views.shape[:2])]
        action_sums = self._actions[windows.actions]
        history = view_sums[:, :-1].sum(1) + action_sums[:, :-1].sum(1)
        return EmbeddedWindow(_unit(history), _unit(view_sums[:, -2:].sum(1) + action_sums[:, -1]))

    def _sum(self, texts: Sequence[str]) -> np.ndarray:
        """The sums of the vectors of each text's sentences, and their number [N, d + 1]."""
        parts = [[part for part in _BREAK.split(text) if part.strip()] for text in texts]
        new = list(dict.fromkeys(part for row in parts for part in row if part not in self._vectors))
        if new:
            self._vectors.update(zip(new, self._embed(new), strict=True))
        sums = np.stack([np.sum([self._vectors[part] for part in row], axis=0) for row in parts])
        return np.concatenate([sums, [[len(row)] for row in parts]], axis=1).astype(np.float32)


def _unit(sums: np.ndarray) -> np.ndarray:
    """Means of length 1 [N, d] of sums and numbers [N, d + 1]; the number cancels when the length is made 1."""
    vectors = sums[:, :-1]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


# --- The potential, and the same goals as a reward

HORIZON = 4  # steps of a window: three to look up, one to judge
NEAREST = 3
THRESHOLD = 0.85
_CALIBRATION_WINDOWS = 1_000


class GoalPotential(Potential):
    """phi of windows of 4 steps; values lie in 0 .. 1."""

    horizon = HORIZON

    def __init__(
        self,
        library: GoalLibrary,
        embed: Embed,
        threshold: float = THRESHOLD,
        action_names: Sequence[str] = MINIGRID_ACTIONS,
        pooling: Pooling = "texts",
    ):
        """Raises GroundlabError for a library without goals."""
        if not library.captions or len(library.captions) != len(library.goals) or not any(library.goals):
            raise GroundlabError("the library has no goals; label some captions first")
        self._encoder = WholeTexts(embed, action_names) if pooling == "texts" else Sentences(embed, action_names)
        self.threshold = threshold
        self._captions = self._encoder.texts(library.captions)
        numbers = library.numbers
        self._goals = self._encoder.texts(list(numbers))
        self._offers = np.zeros((len(library.captions), len(numbers)), bool)
        for row, goals in enumerate(library.goals):
            self._offers[row, [numbers[goal] for goal in goals]] = True
        self.windows = 0
        """How many it has been asked about."""

    def __call__(self, windows: Windows) -> np.ndarray:
        """phi [N] of windows of views uint8 [N, 5, ...]."""
        similarity = self.similarity(windows)
        self.windows += len(similarity)
        return np.where(similarity > self.threshold, similarity, 0.0)

    def similarity(self, windows: Windows) -> np.ndarray:
        """That of each latest step and the nearest goal on offer, -1 .. 1 [N]."""
        return self.similarities(windows).max(1).astype(np.float64)

    def similarities(self, windows: Windows) -> np.ndarray:
        """Those of each latest step and each distinct goal [N, goals]; -1 for goals that are not on offer."""
        embedded = self._encoder.windows(windows)
        candidates = self._offers[self.nearest(embedded.history)].any(1)
        return np.where(candidates, _products(embedded.current, self._goals), -1.0)

    def nearest(self, queries: np.ndarray) -> np.ndarray:
        """The numbers [N, 3] of the captions nearest to each vector of queries [N, d], the nearest last."""
        return np.argsort(_products(queries, self._captions), axis=1, kind="stable")[:, -NEAREST:]


def _products(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """All inner products [N, M] of rows [N, d] and columns [M, d].

    By torch: numpy's BLAS picks a kernel by the kind of CPU and sums in another order on each, which turns last bits.
    """
    return (torch.from_numpy(rows) @ torch.from_numpy(columns).T).numpy()


def calibrate(potential: GoalPotential, data: Dataset, share: float) -> None:
    """Set the threshold so that phi is not 0 on a share, between 0 and 1, of a dataset's windows.

    The paper's 0.85 is for its encoder: with another one it may never be reached, or always.
    """
    windows = sample_windows(data, HORIZON, generator(0, "goal threshold"))
    potential.threshold = float(np.quantile(potential.similarity(windows), 1 - share))


def sample_windows(data: Dataset, horizon: int, rng: np.random.Generator) -> Windows:
    """1,000 windows of a dataset, drawn as labellers draw them."""
    return windows_of(data.draw(_CALIBRATION_WINDOWS, horizon, rng))


class EllmBonus(Bonus):
    """The similarity of a step and the nearest goal on offer, beyond BK-Goal's threshold; a goal pays once an episode.

    After ELLM (Du et al. 2023).
    """

    def __init__(self, goals: GoalPotential):
        self._goals, self.horizon = goals, goals.horizon
        self._achieved = np.zeros((0, 0), bool)  # [B, goals]

    def __call__(self, windows: Windows, ends: np.ndarray) -> np.ndarray:
        similarities = self._goals.similarities(windows).reshape(*ends.shape, -1)
        if not self._achieved.size:
            self._achieved = np.zeros(similarities.shape[1:], bool)
        bonuses = np.zeros(ends.shape)
        for step, ended in enumerate(ends):
            near = similarities[step]
            payable = np.where(self._achieved | (near <= self._goals.threshold), 0.0, near)
            bonuses[step] = payable.max(1)
            self._achieved = (self._achieved | (payable > 0)) & ~ended[:, None]
        return bonuses

    def state(self) -> list[list[bool]]:
        return self._achieved.tolist()

    def load_state(self, state: list[list[bool]]) -> None:
        self._achieved = np.array(state, bool)
