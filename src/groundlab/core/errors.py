"""Errors that name their fix, and the suggestion of the nearest valid name.

Every error a user can cause is a `GroundlabError`: the command line prints its one line and exits with its code.
"""

import difflib
from collections.abc import Iterable

UNFINISHED_EXIT_CODE = 75  # sysexits' EX_TEMPFAIL: "run me again"
LONGEST_LINE = 480  # characters of an error, at most
_LISTED = 10  # names in one line, at most


class GroundlabError(Exception):
    """A user's mistake or a broken input, in one line that names the fix."""

    exit_code = 2


class Unfinished(Exception):
    """The run was asked to stop and has saved its state; the same command continues it (exit code 75)."""

    exit_code = UNFINISHED_EXIT_CODE


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its kind where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def clip(text: str, most: int = 80) -> str:
    """A text of at most so many characters in one line: its middle is left out, what cannot be printed is escaped."""
    text = text if text.isprintable() else "".join(each if each.isprintable() else _escaped(each) for each in text)
    return text if len(text) <= most else f"{text[: most - most // 3 - 5]} ... {text[len(text) - most // 3 :]}"


def _escaped(character: str) -> str:
    return " " if character.isspace() else character.encode("unicode_escape").decode()


def shown_value(value: object, most: int = 80) -> str:
    """`repr` in one line of at most so many characters; also of what has none (a number of 5,000 digits)."""
    try:
        return clip(repr(value), most)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too long to show"


def names_in_line(names: Iterable[str]) -> str:
    """At most ten names, and how many more there are."""
    every = [clip(name) for name in names]
    more = f" and {len(every) - _LISTED} more" if len(every) > _LISTED else ""
    return ", ".join(every[:_LISTED]) + more


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> GroundlabError:
    """The error for a name that is none of `known`: suggests the nearest one, and `hint` says what lists them all.

    Without a near one at most ten are named, and none of many where there is a hint.
    """
    names = sorted(known)
    lowered = {candidate.lower(): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name[:200].lower(), lowered, n=1, cutoff=0.5)
    listed = "" if hint and len(names) > _LISTED else f"; known: {names_in_line(names)}"
    suggestion = f"; did you mean {lowered[close[0]]!r}?" if close else listed
    return GroundlabError(f"unknown {kind} {shown_value(name)}{suggestion}" + (f" ({hint})" if hint else ""))
