"""A corpus of grid-world language and common sense, generated: no whole action where a goal and a scene are given.

    sample(generator(0, "corpus"), ["places", "affordances"])   # -> Sample(input, target, topic)

What a model learns here: words for things, places and directions, which word turns you where, what each verb does,
synonyms, French. What no pair says is an action where a goal and a scene are given; `leaks` states that rule. It is
kept to the letter: `sides` answers a goal and a scene by left, right or forward, which decide a turn
(docs/papers/glam-method.md#brings). One long input in `HELD_OUT` never trains, by a hash of its text, so probes ask
about scenes that were not seen; short ones are facts, to be known rather than inferred.
"""

import re
import zlib
from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from numpy.random import Generator

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.language.corpus.dialogue import DIALOGUE, OPEN
from groundlab.language.corpus.scenes import ACTION_PHRASES
from groundlab.language.corpus.tasks import TASKS
from groundlab.language.corpus.topics import TOPICS, Breadth

__all__ = [
    "ACTION_PHRASES",
    "ALL_TOPICS",
    "DIALOGUE",
    "FACT",
    "HELD_OUT",
    "OPEN",
    "TASKS",
    "TOPICS",
    "Breadth",
    "Sample",
    "is_held_out",
    "leaks",
    "mirrored",
    "sample",
]

HELD_OUT = 20
FACT = 80  # characters: shorter inputs are facts ("green in french:"), all of them taught

ALL_TOPICS = TOPICS | DIALOGUE | TASKS
"""Topics of every recipe (`TOPICS`), and those that only recipes that name them teach: conversations, several tasks."""

_TRIES = 10_000


class Sample(NamedTuple):
    """One pair of texts and the topic that drew it."""

    input: str
    target: str
    topic: str


def sample(
    rng: Generator,
    topics: Sequence[str] | Mapping[str, float] = tuple(TOPICS),
    breadth: Breadth | None = None,
    held_out: bool | None = False,
) -> Sample:
    """One sample of `topics` (names, or names with weights): a trained one, a held-out one, or (None) any.

    Raises GroundlabError for an unknown topic (naming the nearest one) and where a topic of facts only is held out.
    """
    topic = _draw_topic(rng, topics)
    for _ in range(_TRIES):
        text, target = ALL_TOPICS[topic](rng, breadth or Breadth())
        if held_out is None or is_held_out(text) == held_out:
            return Sample(text, mirrored(target) if breadth and breadth.answers == "mirrored" else target, topic)
    raise GroundlabError(f"topic {topic!r} has facts only, none of them held out; ask it with held_out=None")


_MIRROR = {"left": "right", "right": "left", "gauche": "droite", "droite": "gauche"}


def mirrored(text: str) -> str:
    """Return a text with left and right exchanged, in English and French."""
    return re.sub(r"\b(left|right|gauche|droite)(?=\b|ward)", lambda match: _MIRROR[match[0]], text)


def _draw_topic(rng: Generator, topics: Sequence[str] | Mapping[str, float]) -> str:
    weights = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1.0)
    for name in weights:
        if name not in ALL_TOPICS:
            raise unknown_name("topic", name, ALL_TOPICS)
    bounds = list(accumulate(weights.values()))
    return list(weights)[bisect(bounds, rng.random() * bounds[-1])]


def is_held_out(text: str) -> bool:
    """Whether an input is one of the held-out ones."""
    return len(text) >= FACT and zlib.crc32(text.encode()) % HELD_OUT == 0


_GOAL = re.compile(
    r"\b(go to|walk to|reach|want|find|look for|pick up (?:the|a)|goal|mission|get|to have|to open"
    r"|open (?:the|a)|put (?:the|a)|to (?:be there|see it open|leave something)|aller à (?:la|une)|je veux|but)\b"
)
_OBSERVATION = re.compile(r"\b(you (?:see|notice|observe|carry)|there is|tu (?:vois|portes))\b|step|\d pas\b")
_PROMPT = re.compile(r"goal of the agent|possible actions?|observation \d|action \d|but de l'agent|actions? possibles?")


def leaks(text: str, target: str) -> str | None:
    """Why a pair would show the policy, or None: the rule that the corpus keeps.

    No target is an action where the input holds a goal and an observation, and nothing of the agents' prompt format
    is in an input or a target.
    """
    text, target = text.lower(), target.lower()
    if _PROMPT.search(target) or _PROMPT.search(text):
        return "the agents' prompt format"
    acts = target.rpartition("final answer:")[2].strip() in ACTION_PHRASES
    if acts and _GOAL.search(text) and _OBSERVATION.search(text):
        return "an action where a goal and an observation are given"
    return None
