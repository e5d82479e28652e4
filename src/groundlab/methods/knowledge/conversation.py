"""Conversations that stay short enough: what a growing list of messages costs, and what is left out of it.

Called from: `programs.py`, `suggesting.py`, `judging.py`, `labelling.py`.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from groundlab.language.chat import Messages

_LETTERS_A_TOKEN = 4
_TOKENS_A_MESSAGE = 4  # roles and separators


class Estimate(NamedTuple):
    """What a labelling takes, if no reply has to be asked for again."""

    calls: int
    prompt_tokens: int
    completion_tokens: int


def tokens_of(messages: Messages) -> int:
    """About how many tokens a model reads: a quarter of the letters. No tokenizer is assumed."""
    return sum(_TOKENS_A_MESSAGE + -(-len(message["content"]) // _LETTERS_A_TOKEN) for message in messages)


def pruned(messages: Messages, limit: int, first: int, count: Callable[[Messages], int] = tokens_of) -> Messages:
    """The messages without the oldest pairs from place `first` on, so that at most `limit` tokens are left.

    The original begins at 2 and so forgets its own request first (spec background-knowledge, quirk Q6); beginning at 3
    keeps it. The latest message always stays.
    """
    kept = list(messages)
    while count(kept) > limit and len(kept) > first + 2:
        del kept[first : first + 2]
    return kept


def growing(first: Messages, asked: Iterable[int], reply_tokens: int, limit: int) -> Estimate:
    """The estimate of one conversation that begins with `first`; round n adds asked[n] tokens and a reply."""
    length, prompt, calls = tokens_of(first), 0, 0
    for added in asked:
        length += added
        prompt, calls = prompt + min(length, limit), calls + 1
        length += reply_tokens
    return Estimate(calls, prompt, reply_tokens * calls)
