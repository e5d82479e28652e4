"""Language models on the command line: pretraining, labels, the hub, the account of a ledger.

groundlab pretrain smoke-t5 --out out/lm
groundlab model fetch smollm2-135m-instruct
groundlab model fetch --scale paper
groundlab model import-glam glam-mixed/seed_1 --out out/mixed-s1
groundlab model export out/glam
groundlab ledger replies.jsonl
groundlab label goals --maker openai --model NAME --base-url URL --prices 0.15,0.60 --budget cost=1 --out DIR

`label` asks a model once for background knowledge (BK-Code, BK-Pref, BK-Goal). The estimate of calls and cost comes
first; a budget is never exceeded; the same command continues one that was stopped.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.table import Column, Table

from groundlab.cli import laboratory, options
from groundlab.cli.options import BaseUrl, Budget, Model, Only, Prices, Seed, Set
from groundlab.cli.printing import console, print_text
from groundlab.core.errors import GroundlabError

app = typer.Typer(
    no_args_is_help=True,
    help="Language models: downloads, released weights.",
    callback=lambda: laboratory.require("groundlab model"),
)


def pretrain(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe, e.g. quick-t5, or smoke-t5 to try it.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the model; the same command continues it.")],
    seed: Seed = 0,
) -> None:
    """Pretrain a small language model on the corpus of grid-world language that the package draws."""
    from groundlab.lab.stops import stop_on_signals
    from groundlab.language import pretraining

    checked = pretraining.load_recipe(recipe, seed=seed)
    with stop_on_signals() as stop, Progress(console=console, transient=True) as view:
        bar = view.add_task(f"{recipe}, seed {seed}", total=None)
        facts = pretraining.pretrain(
            checked,
            out,
            report=lambda news: view.update(bar, completed=news.step, total=news.total),
            stop=stop,
        )
    accuracy = ", ".join(f"{topic} {share:.2f}" for topic, share in facts["probes"].items())
    print_text(f"{recipe}, seed {seed}, accuracy by topic: {accuracy}")
    print_text(f"wrote {out}: {facts['parameters']:,} parameters")


def ledger(file: Annotated[Path, typer.Argument(help="A ledger of replies.")]) -> None:
    """What the replies of a ledger took: tokens and cost of each model."""
    from groundlab.language.chat import Ledger

    if not file.is_file():
        raise GroundlabError(f"{file} does not exist; give the file that --ledger named")
    numbers = ("replies", "prompt tokens", "completion tokens", "cost")
    table = Table("model", *(Column(heading, justify="right") for heading in numbers))
    for name, took in Ledger(file).accounts.items():
        counts = (took.replies, took.prompt_tokens, took.completion_tokens)
        table.add_row(name, *(f"{count:,}" for count in counts), f"{took.cost:.4f}")
    console.print(table)


@app.command()
def fetch(
    names: Annotated[
        list[str], typer.Argument(help="Public models, e.g. smollm2-135m-instruct; without: those of --scale.")
    ] = [],  # noqa: B006
    scale: Annotated[str, typer.Option("--scale", help="Whose models: paper names the published ones.")] = "paper",
    only: Only = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list files, sizes and digests.")] = False,
) -> None:
    """Fetch public models by name, or those that a scale's configs name, at their pinned versions; runs are offline.

    Public models are converted once, into ~/.cache/groundlab/models or GROUNDLAB_MODELS; others go to the hub's cache.
    """
    from groundlab.lab import hub, public_models

    named = [] if names else hub.named_at(scale, tuple(only))
    public = names or public_models.missing(hub.runs_at(scale, tuple(only)))
    if not named and not public:
        print_text(f"scale {scale} needs no model of the hub: those that ship are enough")
    for line in map(public_models.describe, public):  # first: a slip is found before a download
        print_text(line)
    for name in [] if dry_run else public:
        print_text(f"in {public_models.fetch(name)}")
    for each in named:
        commit, files = hub.listing(each)
        size, pinned = sum(file.size or 0 for file in files), "pinned" if each.revision else "not pinned"
        print_text(f"{each.repo} at {commit} ({pinned}): {len(files)} files, {size / 1e9:,.2f} GB")
        for file in files if dry_run else []:
            digest = file.lfs.sha256 if file.lfs else file.blob_id
            print_text(f"{digest}  {file.size or 0:>14,}  {file.rfilename}")
        if not dry_run:
            print_text(f"in {hub.fetch(each)}")


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run of `glam` or one of its variants.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the model; by default the run's own.")] = None,
) -> None:
    """Write a trained agent as a folder of transformers; runs of `reasoning` and `direct` leave one by themselves."""
    from groundlab.lab import hub

    home, facts = hub.export(folder, out)
    given = "".join(f" --set {name}={value}" for name, value in {"model": home, **facts["settings"]}.items())
    play = f"groundlab evaluate {facts['plays']} --world {facts['world']}{given}"
    print_text(f"wrote {home}, which transformers reads; it plays by: {play}")


@app.command(name="import-glam")
def import_glam(
    folder: Annotated[Path, typer.Argument(help="A released agent of GLAM: the folder of one seed.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the model, for --set model=...")],
    base: Annotated[
        str | None, typer.Option("--base", help="The model that was tuned; by default the Flan-T5 of that size.")
    ] = None,
) -> None:
    """Turn a checkpoint of GLAM's authors into a model that `evaluate glam --set model=...` plays."""
    from groundlab.papers.glam.released_weights import import_weights

    facts = import_weights(folder, out, base)
    heads = " and ".join(facts["heads"]) or "no heads"
    print_text(
        f"{facts['checkpoint']}, sha256 {facts['sha256']}, {facts['bytes']:,} bytes: {facts['base']} with {heads}"
    )
    print_text(f"wrote {out}; play it with --set model={out}")


def label(
    form: Annotated[str, typer.Argument(help="code, preferences or goals.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the labels; the same command continues it.")],
    dataset: Annotated[
        Path | None, typer.Option("--dataset", help="Folder of a dataset, or one that ships, by name.")
    ] = None,
    maker: Annotated[
        str, typer.Option("--maker", help="Who answers: recorded, scripted, openai, local or likelihood.")
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
    free = asked.maker in ("recorded", "scripted")
    print_text(_estimate(asked, data, free))
    report = labelling.label(asked, data)
    print_text(f"{form}: {report.summary}; wrote {asked.out}")
    if not free:
        spent = report.account
        took = f"{spent.replies:,} replies now, {spent.tokens:,} tokens, cost {spent.cost:.4f}"
        print_text(f"{took}; all of them: groundlab ledger {asked.ledger_file}")


def _estimate(asked: Any, data: Any, free: bool) -> str:
    """How much a labelling will ask for, and what that may cost."""
    from groundlab.language.chat import connection
    from groundlab.papers.knowledge import labelling

    calls, prompt, completion = labelling.estimate(asked, data)
    size = f"{asked.form}: about {calls:,} questions, {prompt:,} prompt and {completion:,} completion tokens"
    cost = connection.prices().cost(connection.Tokens(prompt, completion))  # broken prices are an error in any case
    if free:
        return f"{size}, nobody is paid"
    limits = [f"{value:,g} {name}" for name, value in vars(connection.budget()).items() if value is not None]
    stop = f"it stops at {' or '.join(limits)} in the ledger" if limits else "no budget (--budget)"
    return f"{size}, cost {cost:.4f}; {stop}"
