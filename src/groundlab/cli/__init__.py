"""The command line: the same engine that the notebooks use.

    groundlab reproduce --only mediator --scale quick
    groundlab evaluate always --world SimpleDoorKey --layouts 0-99 --json always.json

A user's mistake is answered in one line on stderr that names the fix, with exit code 2; 75 means "unfinished, run me
again". A module here holds a command or a few that belong together; they share options.py and printing.py.
What a command needs is imported when it runs, so that `--help` and the lists come at once, and so that `worlds` and
`play` work where only the worlds are installed; the other commands then say what to install.
"""

import sys
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from groundlab import __version__
from groundlab.cli import claims, methods, model, play, runs
from groundlab.cli.laboratory import with_laboratory
from groundlab.core.errors import LONGEST_LINE, GroundlabError, Unfinished, clip, first_line


class _Commands(TyperGroup):
    """The commands; Ctrl-C in one of them is no error, and typer does not see it."""

    def invoke(self, ctx: typer.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Unfinished("interrupted; the same command continues") from None


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for command in (
    *(
        runs.run,
        runs.evaluate,
        runs.figures,
        runs.compare,
        runs.verify,
        runs.review,
        runs.bench,
    ),
    *(methods.methods, claims.claims, model.pretrain, model.label, model.ledger),
):
    app.command()(with_laboratory(command))
for command in (runs.reproduce, play.worlds, play.play):  # each asks for what its options need
    app.command()(command)
app.add_typer(model.app, name="model")


def _version(wanted: bool) -> None:
    if wanted:
        Console().print(__version__, highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and stop.")
    ] = False,
) -> None:
    """A laboratory for four ways in which a language model helps an agent learn to act.

    Start with: groundlab reproduce --scale smoke
    """


def main() -> None:
    """Entry point: turns what a user or the machine causes into one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may know ASCII only
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (GroundlabError, Unfinished) as error:
        _end(str(error), error.exit_code)
    except OSError as error:
        problem = error.strerror or first_line(error)
        if error.filename is None:  # a full disk behind standard output, no more processes, no network
            _end(f"the system says: {problem}; repair that and run the same command again", 2)
        _end(f"{problem}: {error.filename}; repair that file or name another", 2)
    except MemoryError:
        _end("the memory of this machine is not enough; ask for less at once (num_envs, layouts, batch_size)", 2)
    except KeyboardInterrupt:
        _end("interrupted; the same command continues", Unfinished.exit_code)


def _end(message: str, code: int) -> NoReturn:
    print(clip(f"groundlab: {message}", LONGEST_LINE), file=sys.stderr)
    sys.exit(code)
