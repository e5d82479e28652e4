"""What commands print on standard output: tables through a console, all other text through `print_text`.

Nothing is read as rich's markup: a path or an error may hold brackets. What cannot be printed is escaped: a server's
reply or a package's mission may hold codes that command a terminal.
"""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text


class PlainConsole(Console):
    """A console to which texts are only texts."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text, escaped where it commands."""
        return super().render_str(text if text.isprintable() else "".join(map(_shown, text)), **options)


def _shown(character: str) -> str:
    plain = character.isprintable() or character in "\n\t"
    return character if plain else character.encode("unicode_escape").decode()


_PIPE_WIDTH = 100  # columns, where there is no terminal to ask
console = PlainConsole(markup=False)


def wide_console() -> Console:
    """The terminal, or a page of 100 columns where there is none: for tables that need the room."""
    return console if console.is_terminal else PlainConsole(width=_PIPE_WIDTH, markup=False)


def listing(*headings: str, whole: Sequence[str], overflow: Any = "fold") -> Table:
    """An empty table for a list; whole: the headings whose cells are not broken over lines; overflow: as rich's."""
    columns = (Column(heading, no_wrap=heading in whole, overflow=overflow) for heading in headings)
    return Table(*columns, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def print_text(text: str, style: str = "") -> None:
    """Print text as it is: numbers get no colours, and long lines are not broken."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
