"""Errors that name their fix, and the suggestion of the nearest valid name.

Every error a user can cause is a `GroundlabError`: the command line prints its one line and exits with its code.
"""

import difflib
from collections.abc import Iterable

UNFINISHED_EXIT_CODE = 75  # sysexits' EX_TEMPFAIL: "run me again"
_LISTED = 30  # names in one line, at most


class GroundlabError(Exception):
    """A user's mistake or a broken input, told in one line that names the fix."""

    exit_code = 2


class Unfinished(Exception):
    """The run was asked to stop and has saved its state; the same command continues it (exit code 75)."""

    exit_code = UNFINISHED_EXIT_CODE


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its kind where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> GroundlabError:
    """The error for a name that is none of `known`: suggests the nearest one, and `hint` says what lists them all.

    Without a near one all are named, unless they are many and there is a hint.
    """
    names = sorted(known)
    lowered = {candidate.lower(): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    listed = "" if hint and len(names) > _LISTED else f"; known: {', '.join(names)}"
    suggestion = f"; did you mean {lowered[close[0]]!r}?" if close else listed
    return GroundlabError(f"unknown {kind} {name!r}{suggestion}" + (f" ({hint})" if hint else ""))
