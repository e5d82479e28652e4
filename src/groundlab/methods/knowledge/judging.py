"""BK-Pref's labelling: pairs of segments are put before a judge, in an order drawn by chance; what it says is counted.

    judged = judge(chat, chat_settings.sampling, dataset, Settings(pairs=500), seed)
    preference.train(judged.pairs(), ...)
    judge(scripted_judge(error=0.1, seed=0), ...)        a stated rule with a stated share of wrong answers

The original always shows the first draw as A; here a coin decides, so a judge that leans to one place favours nobody.
Replies come through a ledger (language/chat). Source: spec background-knowledge 4.1. Called from: `labelling.py`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field

from groundlab.assets import read_text
from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.hashing import digest_bytes
from groundlab.core.seeding import generator
from groundlab.language.chat import ChatModel, Messages, Sampling, Scripted
from groundlab.methods.knowledge import replies, survival
from groundlab.methods.knowledge.captions import trajectory
from groundlab.methods.knowledge.conversation import Estimate, tokens_of
from groundlab.methods.knowledge.dataset import Dataset, Segment, sample
from groundlab.methods.knowledge.preference import Pairs, Segments
from groundlab.methods.knowledge.senses import CRAFTER, GRID, Senses, senses_of
from groundlab.methods.knowledge.windows import compact
from groundlab.methods.settings import Strict

_ANSWERS = {replies.FIRST: "A > B", replies.SECOND: "B > A", replies.TIE: "A = B"}
_REPLY_TOKENS = 200  # of a reply, for estimates
_STEP = re.compile(r"Step \d+: (.*) You choose the action: (.*)\.$", re.MULTILINE)


class Settings(Strict):
    """Which pairs are judged, and how replies are read."""

    pairs: int = Field(default=5000, ge=1)
    length: int = Field(default=5, ge=2)
    strict: bool = True
    """Quirk Q14: the original reads a reply that echoes the choices as "B > A"."""
    random_order: bool = True
    """Whether a coin decides which segment is shown as A; the original shows the first one."""


class Pair(NamedTuple):
    """Two segments of a dataset, by (episode, start), and whether the second one is shown first."""

    first: tuple[int, int]
    second: tuple[int, int]
    swapped: bool


@dataclass
class Judged:
    """Pairs with a label, and how many replies gave none."""

    first: list[Segment] = field(default_factory=list)
    second: list[Segment] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    """0 the first is preferred, 1 the second, 0.5 a tie."""
    places: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Episode and start of the first, episode and start of the second."""
    unread: int = 0

    def add(self, data: Dataset, place: tuple[int, int, int, int], length: int, label: float) -> None:
        """Enter a pair of segments of `length` steps."""
        self.first.append(data.segment(*place[:2], length))
        self.second.append(data.segment(*place[2:], length))
        self.places.append(place)
        self.labels.append(label)

    def pairs(self) -> Pairs:
        """As the preference transformer reads them. Raises GroundlabError when there are none."""
        if not self.labels:
            raise GroundlabError(f"no reply of {self.unread} names a preference; try another model")
        return Pairs(_segments(self.first), _segments(self.second), torch.tensor(self.labels))


def _segments(parts: list[Segment]) -> Segments:
    states = compact(np.stack([part.views for part in parts]))
    fields = (states, np.stack([part.actions for part in parts]), np.stack([part.times for part in parts]))
    return Segments._make(torch.from_numpy(field) for field in fields)


def question(first: Segment, second: Segment, senses: Senses = GRID) -> Messages:
    """What the judge is asked about two segments, the first shown as A."""
    environment = read_text(f"prompts/knowledge/{senses.prompt}.txt")
    system = read_text("prompts/knowledge/preference-task.txt").format(environment=environment)
    told = [trajectory(part.captions, part.actions.tolist(), senses.actions) for part in (first, second)]
    user = read_text("prompts/knowledge/preference-segments.txt").format(first=told[0], second=told[1])
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def drawn(data: Dataset, settings: Settings, seed: int) -> Iterator[Pair]:
    """The pairs to be judged."""
    rng = generator(seed, "preference pairs")
    for _ in range(settings.pairs):
        first, second = (sample(data.lengths, settings.length, rng) for _ in range(2))
        yield Pair(first, second, bool(rng.random() < 0.5) and settings.random_order)


def _asked(data: Dataset, pair: Pair, length: int) -> Messages:
    one, other = data.segment(*pair.first, length), data.segment(*pair.second, length)
    shown = (other, one) if pair.swapped else (one, other)
    return question(*shown, senses_of(data.card.get("world")))


def estimate(data: Dataset, settings: Settings, seed: int) -> Estimate:
    """Calls and tokens of a labelling, to be shown before it."""
    prompts = [tokens_of(_asked(data, pair, settings.length)) for pair in drawn(data, settings, seed)]
    return Estimate(len(prompts), sum(prompts), _REPLY_TOKENS * len(prompts))


def judge(chat: ChatModel, sampling: Callable[[int], Sampling], data: Dataset, settings: Settings, seed: int) -> Judged:
    """Judge pairs drawn from the seed. Raises what the chat model raises; replies so far are in its ledger."""
    judged = Judged()
    for number, pair in enumerate(drawn(data, settings, seed)):
        reply = chat.reply(_asked(data, pair, settings.length), sampling(number))
        label = replies.preference(reply, settings.strict)
        if label is None:
            judged.unread += 1
        else:
            place = (*pair.first, *pair.second)
            judged.add(data, place, settings.length, 1.0 - label if pair.swapped else label)
    return judged


def store(file: Path, judged: Judged, data: Dataset, settings: Settings) -> None:
    """Write labels as JSON: where the segments are in which dataset, not what is in them."""
    rows = [[*place, label] for place, label in zip(judged.places, judged.labels, strict=True)]
    facts = {"dataset": data.card["sha256"], "length": settings.length, "unread": judged.unread}
    storage.write_json(file, {**facts, "pairs": rows})


def load(file: Path, data: Dataset) -> Judged:
    """The labels that `store` wrote. Raises GroundlabError when they are broken or those of another dataset."""
    stored = storage.read_json(file)
    try:
        judged, length = Judged(unread=stored["unread"]), stored["length"]
        if stored["dataset"] != data.card["sha256"]:
            raise GroundlabError(
                f"{file} labels another dataset than {data.folder}; give the one that it was made from"
            )
        for *place, label in stored["pairs"]:
            judged.add(data, tuple(place), length, label)  # pyright: ignore[reportArgumentType]
    except (KeyError, TypeError, ValueError):
        raise GroundlabError(f"{file} holds no whole labels; label again") from None
    return judged


def scripted_judge(error: float, seed: int, senses: Senses = GRID) -> Scripted:
    """A judge by rule (`merit`), which gives the opposite answer to a share `error` of the questions, drawn by seed.

    senses: whose descriptions it reads; those of Crafter by `survival.merit`. Raises GroundlabError for a share
    outside 0 .. 1.
    """
    if not 0 <= error <= 1:
        raise GroundlabError(f"error is {error}; give a share from 0 to 1")

    worth = survival.merit if senses is CRAFTER else merit

    def rule(text: str, sampling: Sampling) -> str:
        shown = text.split("Description of Trajectory Segment B:")
        merits = [worth(part) for part in shown]
        label = replies.TIE if merits[0] == merits[1] else float(merits[1] > merits[0])
        wrong = generator(seed, "judge", int(digest_bytes(text.encode())[:8], 16)).random() < error
        return f"[Thoughts]\nmerits {merits[0]} and {merits[1]}\n\n[Rank]\n{_ANSWERS[1 - label if wrong else label]}"

    return Scripted(f"scripted judge, error {error:g}, seed {seed}", rule)


def merit(caption: str) -> int:
    """What a stretch of play is worth by common sense, read from its description.

    +1 for a step forward into a free cell, -1 for one against a wall or an object, -1 for a turn that takes back the
    turn before, -1 for any other action, +2 for an object right ahead at the end.
    """
    steps, total, before = _STEP.findall(caption), 0, ""
    for seen, action in steps:
        blocked = re.search(r"(?<!and )\b1 step forward", seen) is not None
        if action == "forward":
            total += -1 if blocked else 1
        elif action in ("turn left", "turn right"):
            total -= {action, before} == {"turn left", "turn right"}
        else:
            total -= 1
        before = action
    now = caption.rpartition("Current observation: ")[2]
    return total + 2 * bool(re.search(r"You see a \w+ (?:key|ball|box) 1 step forward", now))
