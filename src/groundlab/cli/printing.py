"""What commands print on standard output: tables through a console, all other text through `print_text`.

Nothing is read as rich's markup: a path or an error may hold brackets.
"""

from rich.console import Console

_PIPE_WIDTH = 100  # columns, where there is no terminal to ask
console = Console(markup=False)


def wide_console() -> Console:
    """The terminal, or a page of 100 columns where there is none: for tables that need the room."""
    return console if console.is_terminal else Console(width=_PIPE_WIDTH, markup=False)


def print_text(text: str, style: str = "") -> None:
    """Print text as it is: numbers get no colours, and long lines are not broken."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
