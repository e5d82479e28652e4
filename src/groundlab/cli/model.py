"""The command line's options for a language model that is really asked: which one, where it is, what it may cost.

`run` and `evaluate` (cli.py) share them. Also what `groundlab ledger`, `groundlab model memory` and `push` print.
Read next: `language/chat/reach.py`, the same by environment variables.
"""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from groundlab.core.errors import GroundlabError

Planner = Annotated[str | None, typer.Option("--planner", help="Who plans: scripted, recorded, openai or local.")]
Model = Annotated[str | None, typer.Option("--model", help="The language model that plans.")]
LedgerFile = Annotated[str | None, typer.Option("--ledger", help="File where its replies are kept.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Its OpenAI-compatible server, http://HOST:PORT/v1.")]
Prices = Annotated[str | None, typer.Option("--prices", help="Per million tokens: PROMPT,COMPLETION.")]
Budget = Annotated[str | None, typer.Option("--budget", help="What the ledger may come to hold: tokens=N,cost=X.")]


def settings(
    planner: str | None,
    model: str | None,
    ledger: str | None,
    base_url: str | None,
    prices: str | None,
    budget: str | None,
) -> dict[str, Any]:
    """What of the options belongs to a run, as settings; the rest goes to the environment, also of workers."""
    from groundlab.language.chat import connection

    reached = {connection.ADDRESS: base_url, connection.PRICES: prices, connection.BUDGET: budget}
    os.environ.update({name: value for name, value in reached.items() if value is not None})
    return {"planner": planner, "ledger": ledger, "chat.model": model}


def print_accounts(console: Console, file: Path) -> None:
    """What the replies of a ledger took, by model. Raises GroundlabError when there is no such file."""
    from groundlab.language.chat import Ledger

    if not file.is_file():
        raise GroundlabError(f"{file} does not exist; give the file that --ledger named")
    table = Table()
    for heading in ("model", "replies", "prompt tokens", "completion tokens", "cost"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for name, took in Ledger(file).accounts.items():
        counts = (took.replies, took.prompt_tokens, took.completion_tokens)
        table.add_row(name, *(f"{count:,}" for count in counts), f"{took.cost:.4f}")
    console.print(table)


def print_memory(console: Console, model: str, given: dict[str, Any], context: int) -> None:
    """What tuning a model takes, by purpose. Raises GroundlabError for a model or settings that are unknown."""
    from groundlab.core.schema import parse
    from groundlab.papers.reasoning import memory
    from groundlab.papers.reasoning.settings import TrainingSettings

    settings = parse(TrainingSettings, {**given, "model": model}, "settings")
    plan = memory.estimate(memory.configuration(model), settings, context)
    table = Table()
    table.add_column("memory")
    table.add_column("GB", justify="right")
    for name, size in plan.items():
        if size:
            table.add_row(name, f"{size / 1e9:,.3f}", end_section=name == list(plan)[-2])
    console.print(table)


def push(console: Console, folder: Path, repo: str, private: bool, agreed: bool) -> None:
    """Tell what would be uploaded of a run, ask unless it is agreed, upload. Raises GroundlabError where refused."""
    from groundlab.lab import hub

    files, card = hub.model_files(folder), hub.card(folder)
    console.print(card, markup=False, highlight=False, soft_wrap=True)
    for file in files:
        console.print(f"{file.name}  {file.stat().st_size:,} bytes", highlight=False, soft_wrap=True)
    console.print(f"These files and the card above (README.md) go to {repo}, {'private' if private else 'public'}.")
    if agreed or typer.confirm("Upload them?"):
        console.print(f"uploaded: {hub.push(folder, repo, private)}", highlight=False, soft_wrap=True)
