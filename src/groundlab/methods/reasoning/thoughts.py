"""What thoughts are like: how long, whether they only echo their action, whether they speak of what was seen.

    heeded = measures(turns)          # thought_words, ..., echo_rate, grounded_rate, hallucination_rate

Words are counted as published: before the first "final answer", in replies that hold it. The shares are of valid
replies, whose action is known. A thought is grounded when it names a thing (colour and type) or a wall that its goal
or its newest observation names, and it hallucinates when it names a thing that nothing which the model has just read
names. Source: spec reasoning-agents 6. Called from: `learner.py`. Read next: `probing.py`.
"""

import re
from collections.abc import Sequence

import numpy as np

from groundlab.methods.reasoning.parsing import ACTIONS, MARKER, parse, thought
from groundlab.methods.reasoning.rollouts import Turn
from groundlab.worlds.codes import BALL, BOX, COLOURS, DOOR, KEY, TYPES

_THING = re.compile(rf"\b(?:{'|'.join(COLOURS)}) (?:{'|'.join(TYPES[kind] for kind in (DOOR, KEY, BALL, BOX))})\b")
_WALL = re.compile(r"\bwalls?\b")
_ECHOES = ("{}", "i should {}", "i will {}", "to {}", "")


def word_count(reply: str) -> int | None:
    """Words before the first "final answer"; None for a reply without it."""
    before, marker, _ = reply.partition(MARKER.removesuffix(":"))
    return len(before.split()) if marker else None


def is_echo(told: str, action: str) -> bool:
    """Whether a thought says its action and nothing else, or nothing at all; case and punctuation do not count."""
    plain = " ".join(re.sub(r"[\W_]+", " ", told.lower()).split())
    return plain in {echo.format(action) for echo in _ECHOES}


def things(text: str) -> set[str]:
    """The things that a text names, as "red ball"."""
    return set(_THING.findall(text.lower()))


def is_grounded(told: str, goal: str, seen: str) -> bool:
    """Whether a thought names a thing or a wall that its goal or the newest observation names."""
    return bool(_named(told) & (_named(goal) | _named(seen)))


def _named(text: str) -> set[str]:
    return things(text) | ({"wall"} if _WALL.search(text.lower()) else set())


def measures(turns: Sequence[Turn]) -> dict[str, float]:
    """Means over a batch of replies; what a batch has no reply for is left out."""
    words = [count for turn in turns if (count := word_count(turn.reply.text)) is not None]
    record: dict[str, float] = {}
    if words:
        low, middle, high = np.percentile(words, (10, 50, 90)).tolist()
        record = {"thought_words": float(np.mean(words)), "thought_words_median": middle}
        record |= {"thought_words_p10": low, "thought_words_p90": high}
    valid = [turn for turn in turns if turn.valid]
    rates = [_rates(turn) for turn in valid]
    if rates:
        names = ("echo_rate", "grounded_rate", "hallucination_rate")
        record |= dict(zip(names, np.mean(rates, axis=0).tolist(), strict=True))
    return record


def _rates(turn: Turn) -> tuple[bool, bool, bool]:
    """(echo, grounded, hallucinates) of a valid reply."""
    action = parse(turn.reply.text, True, "lenient")
    told = thought(turn.reply.text, True)
    goal, *read = (message["content"] for message in turn.messages if message["role"] != "assistant")
    known = set().union(*map(things, (goal, *read)))
    echo = action is not None and is_echo(told, ACTIONS[action])
    return echo, is_grounded(told, goal, read[-1]), bool(things(told) - known)
