"""Thoughts: their length, whether they only echo the action, what they say of the state, and what they decide.

    thought_stats(steps)                             # thought_words, ..., echo_rate, grounded_rate, hallucination_rate
    probe(policy, chat_policy, prompts, numbers)     # mi_retrieval, swap_empty, swap_other, ...
    reply_with_swap(chat_policy, donors, "empty", prompts, numbers)

Words are counted as published: before the first "final answer", in replies that hold it. The shares are of valid
replies, whose action is known. A thought is grounded when it names a thing (colour and type) or a wall that its goal
or its newest observation names. It hallucinates when it names a thing that no message in its prompt but the agent's
own names. A probe asks how well thoughts tell the states apart in which they were sampled, and how often an action
changes when its thought is left out, or comes from another state. Source: docs/papers/reasoning-method.md#s6.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch

from groundlab.language.token_policy import TokenPolicy
from groundlab.papers.reasoning.policy import ChatPolicy, Reply
from groundlab.papers.reasoning.rollouts import Step
from groundlab.papers.reasoning.text_env import ACTIONS, MARKER, extract_thought, parse_action
from groundlab.worlds.codes import BALL, BOX, COLOURS, DOOR, KEY, TYPES

Tokens = list[int]
Swap = Literal["empty", "other"]
SWAPPED: dict[Swap, str] = {"empty": "thought emptied", "other": "another's thought"}
"""The names of the evaluations."""
_THING = re.compile(rf"\b(?:{'|'.join(COLOURS)}) (?:{'|'.join(TYPES[kind] for kind in (DOOR, KEY, BALL, BOX))})\b")
_WALL = re.compile(r"\bwalls?\b")
_ECHOES = ("{}", "i should {}", "i will {}", "to {}", "")


def thought_stats(steps: Sequence[Step]) -> dict[str, float]:
    """Means over a batch of replies; a measure that no reply of the batch has is left out."""
    words = [count for step in steps if (count := word_count(step.reply.text)) is not None]
    record: dict[str, float] = {}
    if words:
        low, middle, high = np.percentile(words, (10, 50, 90)).tolist()
        record = {"thought_words": float(np.mean(words)), "thought_words_median": middle}
        record |= {"thought_words_p10": low, "thought_words_p90": high}
    rates = [_rates(step) for step in steps if step.valid]
    if rates:
        names = ("echo_rate", "grounded_rate", "hallucination_rate")
        record |= dict(zip(names, np.mean(rates, axis=0).tolist(), strict=True))
    return record


def _rates(step: Step) -> tuple[bool, bool, bool]:
    """(echo, grounded, hallucinates) of a valid reply."""
    action = parse_action(step.reply.text, True, "lenient")
    thought = extract_thought(step.reply.text)
    goal, *observations = (message["content"] for message in step.messages if message["role"] != "assistant")
    in_prompt = set().union(*map(things, (goal, *observations)))
    echo = action is not None and is_echo(thought, ACTIONS[action])
    return echo, is_grounded(thought, goal, observations[-1]), bool(things(thought) - in_prompt)


def word_count(reply: str) -> int | None:
    """Words before the first "final answer"; None for a reply without it."""
    before, marker, _ = reply.partition(MARKER.removesuffix(":"))
    return len(before.split()) if marker else None


def is_echo(thought: str, action: str) -> bool:
    """Whether a thought says its action and nothing else, or nothing at all; case and punctuation do not count."""
    plain = " ".join(re.sub(r"[\W_]+", " ", thought.lower()).split())
    return plain in {echo.format(action) for echo in _ECHOES}


def is_grounded(thought: str, goal: str, observation: str) -> bool:
    """Whether a thought names a thing or a wall that its goal or the newest observation names."""

    def names(text: str) -> set[str]:
        return things(text) | ({"wall"} if _WALL.search(text.lower()) else set())

    return bool(names(thought) & (names(goal) | names(observation)))


def things(text: str) -> set[str]:
    """The things that a text names, as "red ball"."""
    return set(_THING.findall(text.lower()))


class ReplyParts(NamedTuple):
    """The tokens of a reply up to its answer."""

    thought: Tokens
    marker: Tokens  # "final answer:" and the blanks around it


def split_reply(reply: Reply, chat_policy: ChatPolicy) -> ReplyParts | None:
    """A reply's thought and marker; None where it has no marker."""
    at = reply.text.rfind(MARKER)
    if at < 0:
        return None
    lengths = [len(chat_policy.text(reply.tokens[:count])) for count in range(len(reply.tokens) + 1)]
    start = max(count for count, length in enumerate(lengths) if length <= at)
    end = min(count for count, length in enumerate(lengths) if length >= at + len(MARKER))
    return ReplyParts(reply.tokens[:start], reply.tokens[start:end])


def split_replies(chat_policy: ChatPolicy, prompts: Sequence[Tokens], numbers: np.ndarray) -> list[ReplyParts | None]:
    """A thought in each of these states; None for a reply without a marker."""
    return [split_reply(reply, chat_policy) for reply in chat_policy.reply(prompts, numbers)]


def probe(
    policy: TokenPolicy, chat_policy: ChatPolicy, prompts: Sequence[Tokens], numbers: np.ndarray
) -> dict[str, float | int]:
    """What thoughts in these states tell and decide; only `probed` where fewer than two states have a thought.

    policy: whose likelihoods count. chat_policy: who thinks. numbers: [states, max_new_tokens].
    """
    parts = split_replies(chat_policy, prompts, numbers)
    rows = [row for row, part in enumerate(parts) if part]
    if len(rows) < 2:
        return {"probed": len(rows)}
    states, thoughts = [prompts[row] for row in rows], [part for part in parts if part]
    own = [[*part.thought, *part.marker] for part in thoughts]
    empty = [part.marker for part in thoughts]
    others = [*thoughts[1:], thoughts[0]]
    other = [[*donor.thought, *part.marker] for part, donor in zip(thoughts, others, strict=True)]

    def actions(beginnings: list[Tokens]) -> list[int | None]:
        """The actions of replies that begin like this."""
        begun = [[*state, *beginning] for state, beginning in zip(states, beginnings, strict=True)]
        return [parse_action(MARKER + reply.text, True) for reply in chat_policy.reply(begun, numbers[rows])]

    acts, acts_empty, acts_other = actions(own), actions(empty), actions(other)
    return {
        "probed": len(rows),
        **retrieval(policy, states, own),
        "swap_empty": float(np.mean([a != b for a, b in zip(acts, acts_empty, strict=True)])),
        "swap_other": float(np.mean([a != b for a, b in zip(acts, acts_other, strict=True)])),
    }


def retrieval(policy: TokenPolicy, prompts: Sequence[Tokens], thoughts: Sequence[Tokens]) -> dict[str, float]:
    """How well K thoughts tell the K states apart in which they were sampled: information in nats, accuracy."""
    count = len(prompts)
    pairs = [(prompt, thought) for thought in thoughts for prompt in prompts]
    reading = policy.read([prompt for prompt, _ in pairs], [thought for _, thought in pairs])
    parts = reading.log_probs.double().cpu().split([len(thought) for _, thought in pairs])
    likelihood = torch.stack([part.sum() for part in parts]).view(count, count)  # [thought, state]
    own = likelihood.diagonal()
    return {
        "mi_retrieval": float((own - likelihood.logsumexp(1)).mean() + np.log(count)),
        "mi_bound": float(np.log(count)),
        "retrieval_accuracy": float((likelihood.argmax(1) == torch.arange(count)).double().mean()),
        "thought_entropy": float(-own.mean()),
    }


def reply_with_swap(
    chat_policy: ChatPolicy,
    donors: Sequence[ReplyParts],
    swap: Swap,
    prompts: Sequence[Sequence[int]],
    numbers: np.ndarray,
) -> list[Reply]:
    """Replies that think as the policy does, and then decide after no thought at all, or after a donor's.

    donors: thoughts from other states; "other" takes the one that a reply's last random number points at. Replies
    without a marker stay as they are.
    """
    replies = chat_policy.reply(prompts, numbers)
    beginnings: dict[int, Tokens] = {}
    for row, reply in enumerate(replies):
        if parts := split_reply(reply, chat_policy):
            other = swap == "other" and donors
            thought = donors[int(numbers[row, -1] * len(donors))].thought if other else []
            beginnings[row] = [*thought, *parts.marker]
    if not beginnings:
        return replies
    rows = list(beginnings)
    endings = chat_policy.reply([[*prompts[row], *beginnings[row]] for row in rows], numbers[rows])
    for row, ending in zip(rows, endings, strict=True):
        text = chat_policy.text(beginnings[row]) + ending.text
        replies[row] = ending._replace(tokens=[*beginnings[row], *ending.tokens], text=text)
    return replies
