"""`groundlab label`: background knowledge from a language model, asked once (BK-Code, BK-Pref, BK-Goal).

    groundlab label goals --maker openai --model NAME --base-url URL --prices 0.15,0.60 --budget cost=1 --out DIR

The estimate of calls and cost comes first; a budget is never exceeded; the same command continues one that was stopped.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from groundlab.cli import options
from groundlab.cli.options import BaseUrl, Budget, Model, Prices, Seed, Set

console = Console()


def label(
    form: Annotated[str, typer.Argument(help="code, preferences or goals.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the labels; the same command continues it.")],
    dataset: Annotated[
        Path | None, typer.Option("--dataset", help="Folder of a dataset, or one that ships, by name.")
    ] = None,
    maker: Annotated[
        str, typer.Option("--maker", help="Who answers: recorded, scripted, openai or local.")
    ] = "recorded",
    model: Model = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="File where its replies are kept.")] = None,
    error: Annotated[
        float | None, typer.Option("--error", help="Preferences: wrong answers of the scripted judge.")
    ] = None,
    seed: Seed = 0,
    set_: Set = [],  # noqa: B006
    base_url: BaseUrl = None,
    prices: Prices = None,
    budget: Budget = None,
) -> None:
    """Ask a language model for background knowledge, once: programs, preferences or goals."""
    from groundlab.language.chat import connection
    from groundlab.papers.knowledge import labelling

    options.connect(base_url, prices, budget)
    asked = labelling.Labelling(
        form=form,
        out=out,
        maker=maker,  # type: ignore[arg-type] - checked there
        model=model,
        ledger=ledger,
        dataset=dataset,
        seed=seed,
        overrides=options.parse_settings(set_, error=error),
    )
    data = labelling.dataset(asked.dataset)
    calls, prompt, completion = labelling.estimate(asked, data)
    size = f"{form}: about {calls:,} questions, {prompt:,} prompt and {completion:,} completion tokens"
    free = asked.maker in ("recorded", "scripted")
    cost = connection.prices().cost(connection.Tokens(prompt, completion))
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    say(f"{size}, nobody is paid" if free else f"{size}, cost {cost:.4f}; {_limits(connection.budget())}")
    report = labelling.label(asked, data)
    say(f"{form}: {report.summary}; wrote {asked.out}")
    if not free:
        spent = report.account
        took = f"{spent.replies:,} replies now, {spent.tokens:,} tokens, cost {spent.cost:.4f}"
        say(f"{took}; all of them: groundlab ledger {asked.ledger_file}")


def _limits(budget: Any) -> str:
    limits = [f"{value:,g} {name}" for name, value in vars(budget).items() if value is not None]
    return f"it stops at {' or '.join(limits)} in the ledger" if limits else "no budget (--budget)"
