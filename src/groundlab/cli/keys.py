"""Key presses of a person at a terminal, or the characters of a pipe.

    with Keys() as keys:
        keys.read()        # "w", "up", "left", ..., "" at the end

A terminal shows nothing of what is typed meanwhile, and is put back as it was; Ctrl-C still stops.
"""

import os
import select
import sys
import termios
import tty
from typing import Any, Self

ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_ESCAPE, _ESCAPE_SECONDS = "\x1b", 0.05  # within which the rest of an arrow key follows


class Keys:
    """Where keys come from: the terminal or the pipe that standard input is."""

    def __init__(self) -> None:
        self.typed = sys.stdin.isatty()
        self._before: Any = None

    def __enter__(self) -> Self:
        if self.typed:
            self._before = termios.tcgetattr(sys.stdin.fileno())
            tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)  # what was typed before is read too
        return self

    def __exit__(self, *_: object) -> None:
        if self.typed:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)

    def read(self) -> str:
        """Return the next key: a character, the name of an arrow, "." for a space or Enter; empty at the end.

        In a pipe, blanks and ends of lines separate keys.
        """
        character = self._character()
        while not self.typed and character.isspace():
            character = self._character()
        if character == _ESCAPE:  # of its own, or the beginning of an arrow, `ESC [ A` or `ESC O A`
            follows = not self.typed or select.select([sys.stdin], [], [], _ESCAPE_SECONDS)[0]
            return ARROWS.get(self._character(), _ESCAPE) if follows and self._character() in ("[", "O") else _ESCAPE
        return "." if character in (" ", "\r", "\n") else character

    def _character(self) -> str:
        return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") if self.typed else sys.stdin.read(1)
