"""Language models on the command line: pretraining, what tuning takes, uploads, and the account of a ledger.

groundlab pretrain smoke-t5 --out out/lm
groundlab model memory quick-llama-chat-s0 --set lora_rank=32
groundlab ledger replies.jsonl
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from groundlab.cli.options import Seed, Set, parse_settings
from groundlab.core.errors import GroundlabError

app = typer.Typer(no_args_is_help=True, help="Language models: the memory that tuning takes, and uploads.")
console = Console()


def pretrain(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe, e.g. quick-t5, or smoke-t5 to try it.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the model; the same command continues it.")],
    seed: Seed = 0,
) -> None:
    """Pretrain a small language model on the corpus of grid-world language that the package draws."""
    from groundlab.lab.worker import stop_on_signals
    from groundlab.language import pretraining

    checked = pretraining.load_recipe(recipe, seed=seed)
    with stop_on_signals() as stop, Progress(console=console, transient=True) as view:
        bar = view.add_task(f"{recipe}, seed {seed}", total=None)
        facts = pretraining.pretrain(
            checked,
            out,
            report=lambda news: view.update(bar, completed=news.step, total=news.total),
            stop=stop.is_set,
        )
    accuracy = ", ".join(f"{topic} {share:.2f}" for topic, share in facts["probes"].items())
    console.print(f"{recipe}, seed {seed}, accuracy by topic: {accuracy}", highlight=False, soft_wrap=True)
    console.print(f"wrote {out}: {facts['parameters']:,} parameters", soft_wrap=True, highlight=False)


def ledger(file: Annotated[Path, typer.Argument(help="A ledger of replies.")]) -> None:
    """What the replies of a ledger took: tokens and cost of each model."""
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


@app.command()
def memory(
    name: Annotated[str, typer.Argument(help="A model that ships, a folder, or a name on this machine.")],
    context: Annotated[int, typer.Option("--context", min=1, help="Tokens of the longest prompt.")] = 512,
    set_: Set = [],  # noqa: B006
) -> None:
    """Estimate the memory of tuning a model, e.g. --set dtype=bfloat16 --set device=cuda --set lora_rank=32."""
    from groundlab.core.schema import parse
    from groundlab.papers.reasoning import memory as tuning
    from groundlab.papers.reasoning.settings import TrainingSettings

    settings = parse(TrainingSettings, {**parse_settings(set_), "model": name}, "settings")
    plan = tuning.estimate(tuning.configuration(name), settings, context)
    table = Table()
    table.add_column("memory")
    table.add_column("GB", justify="right")
    for purpose, size in plan.items():
        if size:
            table.add_row(purpose, f"{size / 1e9:,.3f}", end_section=purpose == list(plan)[-2])
    console.print(table)


@app.command()
def push(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run of `reasoning` or `direct`.")],
    repo: Annotated[str, typer.Argument(help="Its name on the Hugging Face hub, ACCOUNT/NAME.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Upload without asking.")] = False,
) -> None:
    """Upload a trained agent to the Hugging Face hub, with a card that says how it was made and what it does."""
    from groundlab.lab import hub

    files, card = hub.model_files(folder), hub.card(folder)
    console.print(card, markup=False, highlight=False, soft_wrap=True)
    for file in files:
        console.print(f"{file.name}  {file.stat().st_size:,} bytes", highlight=False, soft_wrap=True)
    console.print(f"These files and the card above (README.md) go to {repo}, {'private' if private else 'public'}.")
    if yes or typer.confirm("Upload them?"):
        console.print(f"uploaded: {hub.push(folder, repo, private)}", highlight=False, soft_wrap=True)
