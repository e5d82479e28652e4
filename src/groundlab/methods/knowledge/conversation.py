"""Conversations that stay short enough: what a growing list of messages costs, and what is left out of it.

Called from: `programs.py`, and whatever else talks with a language model round after round.
"""

from collections.abc import Callable

from groundlab.language.chat import Messages

_LETTERS_A_TOKEN = 4
_TOKENS_A_MESSAGE = 4  # roles and separators


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
