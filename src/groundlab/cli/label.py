"""`groundlab label`: background knowledge from a language model, asked once (BK-Code, BK-Pref, BK-Goal).

    groundlab label goals --maker openai --model NAME --base-url URL --prices 0.15,0.60 --budget cost=1 --out DIR

What it will take is told first; a budget is kept; the same command continues one that was stopped. Read next:
`methods/knowledge/labelling.py`.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from groundlab.cli import model

Form = Annotated[str, typer.Argument(help="code, preferences or goals.")]
Data = Annotated[Path | None, typer.Option("--dataset", help="Folder of a dataset, or one that ships, by name.")]
Maker = Annotated[str, typer.Option("--maker", help="Who answers: recorded, scripted, openai or local.")]
Model = Annotated[str | None, typer.Option("--model", help="The language model that is asked.")]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="File where its replies are kept.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for what is said; the same command continues it.")]
Error = Annotated[float | None, typer.Option("--error", help="Preferences: wrong answers of the scripted judge.")]


def label(console: Console, form: str, given: dict[str, Any], **options: Any) -> None:
    """Tell what a labelling takes, do it, and tell what it took."""
    from groundlab.language.chat import connection
    from groundlab.papers.knowledge import labelling

    reached = (options.pop(name) for name in ("base_url", "prices", "budget"))
    model.settings(None, None, None, *reached)
    asked = labelling.Labelling(form, overrides=given, **options)
    data = labelling.dataset(asked.dataset)
    calls, prompt, completion = labelling.estimate(asked, data)
    told = f"{form}: about {calls:,} questions, {prompt:,} prompt and {completion:,} completion tokens"
    free = asked.maker in ("recorded", "scripted")
    cost = connection.prices().cost(connection.Tokens(prompt, completion))
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    say(f"{told}, nobody is paid" if free else f"{told}, cost {cost:.4f}; {_bound(connection.budget())}")
    report = labelling.label(asked, data)
    say(f"{form}: {report.summary}; wrote {asked.out}")
    if not free:
        spent = report.account
        took = f"{spent.replies:,} replies now, {spent.tokens:,} tokens, cost {spent.cost:.4f}"
        say(f"{took}; all of them: groundlab ledger {asked.ledger_file}")


def _bound(budget: Any) -> str:
    limits = [f"{value:,g} {name}" for name, value in vars(budget).items() if value is not None]
    return f"it stops at {' or '.join(limits)} in the ledger" if limits else "no budget (--budget)"
