"""What thoughts are like: how long, whether they only echo their action, whether they speak of what was seen.

    heeded = measures(turns)          # thought_words, ..., echo_rate, grounded_rate, hallucination_rate

Words are counted as published: before the first "final answer", in replies that hold it. The shares are of valid
replies, whose action is known. A thought is grounded when it names a thing (colour and type) or a wall that its goal
or its newest observation names, and it hallucinates when it names a thing that nothing which the model has just read
names. Source: spec reasoning-agents 6. Called from: `learner.py`. Read next: `probing.py`.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from groundlab.core.schema import parse_layouts
from groundlab.core.seeding import generator
from groundlab.language.token_policy import TokenPolicy
from groundlab.papers.reasoning.evaluation import open_talks, play_layouts, told
from groundlab.papers.reasoning.policy import ChatPolicy, Reply
from groundlab.papers.reasoning.replies import ACTIONS, MARKER, parse, thought
from groundlab.papers.reasoning.rollouts import Turn
from groundlab.papers.reasoning.settings import DONOR_LAYOUTS, TalkingSettings
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


Tokens = list[int]
Swap = Literal["empty", "other"]
SWAPPED: dict[Swap, str] = {"empty": "thought emptied", "other": "another's thought"}
"""The names of the evaluations."""


class Divided(NamedTuple):
    """The tokens of a reply up to its answer."""

    thought: Tokens
    marker: Tokens  # "final answer:" and the blanks around it


def divided(reply: Reply, speaker: ChatPolicy) -> Divided | None:
    """A reply's thought and marker; None where it has no marker."""
    at = reply.text.rfind(MARKER)
    if at < 0:
        return None
    lengths = [len(speaker.text(reply.tokens[:count])) for count in range(len(reply.tokens) + 1)]
    start = max(count for count, length in enumerate(lengths) if length <= at)
    end = min(count for count, length in enumerate(lengths) if length >= at + len(MARKER))
    return Divided(reply.tokens[:start], reply.tokens[start:end])


def first_prompts(world: str, layouts: Sequence[int], speaker: ChatPolicy, settings: TalkingSettings) -> list[Tokens]:
    """What the reasoning agent reads at the beginning of these episodes (reset seeds)."""
    talks = open_talks(world, len(layouts), True, settings)
    everyone = list(range(len(layouts)))
    talks.start(everyone, layouts)
    return [speaker.prompt(talks.messages(env)) for env in everyone]


def donated(speaker: ChatPolicy, prompts: Sequence[Tokens], numbers: np.ndarray) -> list[Divided]:
    """A thought in each of these states; those of replies without a marker are missing."""
    parts = [divided(reply, speaker) for reply in speaker.reply(prompts, numbers)]
    return [part for part in parts if part is not None]


def probe(
    policy: TokenPolicy, speaker: ChatPolicy, prompts: Sequence[Tokens], numbers: np.ndarray
) -> dict[str, float | int]:
    """The figures of the module docstring; only `probed` where fewer than two states have a thought."""
    parts = [divided(reply, speaker) for reply in speaker.reply(prompts, numbers)]
    asked = [(prompt, part, row) for prompt, part, row in zip(prompts, parts, numbers, strict=True) if part]
    if len(asked) < 2:
        return {"probed": len(asked)}
    states, thoughts = [prompt for prompt, _, _ in asked], [part for _, part, _ in asked]
    rows = np.stack([row for _, _, row in asked])
    own, empty, other = (_actions(speaker, states, each, rows) for each in _swapped(thoughts))
    return {
        "probed": len(asked),
        **retrieval(policy, states, [[*part.thought, *part.marker] for part in thoughts]),
        "swap_empty": float(np.mean([a != b for a, b in zip(own, empty, strict=True)])),
        "swap_other": float(np.mean([a != b for a, b in zip(own, other, strict=True)])),
    }


def _swapped(parts: list[Divided]) -> tuple[list[Tokens], list[Tokens], list[Tokens]]:
    """What the replies begin with: their own thoughts, none, those of the next states."""
    nexts = [*parts[1:], parts[0]]
    return (
        [[*part.thought, *part.marker] for part in parts],
        [part.marker for part in parts],
        [[*following.thought, *part.marker] for part, following in zip(parts, nexts, strict=True)],
    )


def _actions(
    speaker: ChatPolicy, prompts: Sequence[Tokens], begun: Sequence[Tokens], numbers: np.ndarray
) -> list[int | None]:
    """The actions that replies come to which begin like this."""
    replies = speaker.reply([[*prompt, *start] for prompt, start in zip(prompts, begun, strict=True)], numbers)
    return [parse(MARKER + reply.text, True) for reply in replies]


def retrieval(policy: TokenPolicy, prompts: Sequence[Tokens], thoughts: Sequence[Tokens]) -> dict[str, float]:
    """How well the K thoughts tell the K states, in which they were drawn, apart."""
    count = len(prompts)
    pairs = [(prompt, told) for told in thoughts for prompt in prompts]
    reading = policy.read([prompt for prompt, _ in pairs], [told for _, told in pairs])
    parts = reading.log_probs.double().cpu().split([len(told) for _, told in pairs])
    likelihood = torch.stack([part.sum() for part in parts]).view(count, count)  # [thought, state]
    own = likelihood.diagonal()
    return {
        "mi_retrieval": float((own - likelihood.logsumexp(1)).mean() + np.log(count)),
        "mi_bound": float(np.log(count)),
        "retrieval_accuracy": float((likelihood.argmax(1) == torch.arange(count)).double().mean()),
        "thought_entropy": float(-own.mean()),
    }


class Swapping:
    """Thinks as a speaker does, and then decides after no thought at all, or after a donor's; to be played with."""

    def __init__(self, speaker: ChatPolicy, donors: Sequence[Divided], swap: Swap):
        """donors: thoughts from other states; "other" takes the one that a reply's last random number points at."""
        self._speaker, self._donors, self._swap = speaker, donors, swap
        self.prompt, self.forget = speaker.prompt, speaker.forget

    def reply(self, prompts: Sequence[Sequence[int]], numbers: np.ndarray) -> list[Reply]:
        """Replies as the swapped thought has them; those without a marker stay as they are."""
        replies = self._speaker.reply(prompts, numbers)
        begun = [self._beginning(reply, row) for reply, row in zip(replies, numbers, strict=True)]
        chosen = [place for place, start in enumerate(begun) if start]
        if not chosen:
            return replies
        again = self._speaker.reply([[*prompts[place], *begun[place]] for place in chosen], numbers[chosen])
        for place, reply in zip(chosen, again, strict=True):
            text = self._speaker.text(begun[place]) + reply.text
            replies[place] = reply._replace(tokens=[*begun[place], *reply.tokens], text=text)
        return replies

    def _beginning(self, reply: Reply, numbers: np.ndarray) -> Tokens:
        part = divided(reply, self._speaker)
        if part is None:
            return []
        if self._swap == "empty" or not self._donors:
            return part.marker
        return [*self._donors[int(numbers[-1] * len(self._donors))].thought, *part.marker]


def play_swapped(speaker: ChatPolicy, world: str, settings: TalkingSettings, seed: int) -> list[dict[str, Any]]:
    """The layouts of the settings, played with every thought left out, and with thoughts from other states."""
    settings = settings.model_copy(update={"transcripts": 0})
    prompts = first_prompts(world, parse_layouts(DONOR_LAYOUTS), speaker, settings)
    donors = donated(speaker, prompts, probe_numbers(len(prompts), settings, seed))
    results = []
    for swap, policy in SWAPPED.items():
        player = Swapping(speaker, donors, swap)
        player.forget()
        rows = play_layouts(player, world, parse_layouts(settings.layouts), True, settings, seed)
        results.append(told(policy, rows))
    return results


def probe_numbers(states: int, settings: TalkingSettings, seed: int) -> np.ndarray:
    """The random numbers with which states are asked: the same at every update."""
    return generator(seed, "probe").random((states, settings.max_new_tokens))
