"""The command line: the same engine that the notebooks use.

    groundlab reproduce --only mediator --scale quick
    groundlab evaluate always --world SimpleDoorKey --layouts 0-99 --json always.json

A user's mistake is answered in one line on stderr that names the fix, with exit code 2; 75 means "unfinished, run me
again". Read next: `lab/reproduce.py` (what `reproduce` does), `methods/registry.py` (what can be run).
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.table import Table

from groundlab import __version__
from groundlab.cli import label as cli_knowledge
from groundlab.cli import model as cli_model
from groundlab.core import storage
from groundlab.core.errors import GroundlabError, Unfinished, unknown_name

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
model_app = typer.Typer(no_args_is_help=True, help="Language models: what they take.")
app.add_typer(model_app, name="model")
console = Console()

World = Annotated[str, typer.Option("--world", help="A world; `groundlab worlds` lists all.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random draw.")]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting, e.g. iterations=50.")]
Results = Annotated[Path | None, typer.Option("--results", help="Results folder, or one version in it.")]
Plans = Annotated[str | None, typer.Option("--plans", help="Scripted planner's tables: head or first-commit.")]
Track = Annotated[str | None, typer.Option("--track", help="Also mirror what runs write: wandb.")]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="Error rate of the scripted planner, 0 to 1.")]


def _settings(pairs: list[str], **named: Any) -> dict[str, Any]:
    """`["lr=0.1", "fidelity.explore_avoid=true"]` as nested settings; named options that were given win."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise GroundlabError(f"--set {pair!r} has no value; write --set key=value")
        _put(settings, key, yaml.safe_load(value))
    for key, value in named.items():
        if value is not None:
            _put(settings, key, value)
    return settings


def _put(settings: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        settings = settings.setdefault(part, {})
    settings[last] = value


@app.command()
def reproduce(
    only: Annotated[list[str], typer.Option("--only", metavar="PAPER", help="Only these papers.")] = [],  # noqa: B006
    figure: Annotated[str | None, typer.Option("--figure", help="Only what one figure or table needs.")] = None,
    experiment: Annotated[list[str], typer.Option("--experiment", help="Only runs of these, by their names.")] = [],  # noqa: B006
    scale: Annotated[str, typer.Option("--scale", help="smoke, quick, full or paper.")] = "quick",
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Seeds a run, instead of the scale's.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; one a core by default.")] = None,
    results: Results = None,
    executor: Annotated[str, typer.Option("--executor", help="Where runs are executed: local or slurm.")] = "local",
    slurm: Annotated[Path | None, typer.Option("--slurm", help="Slurm's settings, as in configs/slurm.yaml.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Slurm: watch the tasks, or return at once.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    track: Track = None,
) -> None:
    """Run the experiments of the papers and regenerate their tables, figures and the review page."""
    from groundlab import lab, report
    from groundlab.lab import tracking

    tracking.ask_for(track)
    methods = None
    if figure is not None:
        if figure not in report.exhibits():
            raise unknown_name("table or figure", figure, report.exhibits())
        if not report.exhibits()[figure].methods:
            raise GroundlabError(f"{figure} shows what ships and needs no run; it is redrawn by: groundlab figures")
        only, methods = (
            [report.exhibits()[figure].paper],
            [*report.exhibits()[figure].methods, *report.exhibits()[figure].beside],
        )
    cluster = {"executor": executor, "slurm_file": slurm, "wait": wait}
    raise typer.Exit(
        lab.reproduce(only, scale, seeds, methods, workers, results, dry_run, experiments=experiment, **cluster)
    )


@app.command()
def run(
    method: Annotated[str, typer.Argument(help="mediator, never, hard-coded, always, random or on-change.")],
    world: World,
    out: Annotated[Path, typer.Option("--out", help="Folder of the run; the same command continues it.")],
    seed: Seed = 0,
    set_: Set = [],  # noqa: B006
    track: Track = None,
    plans: Plans = None,
    epsilon: Epsilon = None,
    planner: cli_model.Planner = None,
    model: cli_model.Model = None,
    ledger: cli_model.LedgerFile = None,
    base_url: cli_model.BaseUrl = None,
    prices: cli_model.Prices = None,
    budget: cli_model.Budget = None,
) -> None:
    """Train (or play) one method on one world with one seed."""
    from groundlab import lab
    from groundlab.lab import run_hash, tracking

    tracking.ask_for(track)
    asked = cli_model.settings(planner, model, ledger, base_url, prices, budget)
    spec = run_hash.resolve(method, world, seed, _settings(set_, plans=plans, epsilon=epsilon, **asked))
    if lab.run_one(spec, out) is None:
        return  # another process of the same run tells the results
    for result in storage.read_json(out / "evaluation.json"):
        _print_means(f"{spec.label}, {result['policy']}", result["mean"])


@app.command()
def evaluate(
    method: Annotated[str, typer.Argument(help="A method, as for `run`.")],
    world: World,
    layouts: Annotated[str, typer.Option("--layouts", help="Test layouts (reset seeds), first-last.")] = "0-99",
    checkpoint: Annotated[Path | None, typer.Option("--checkpoint", help="Run folder of a trained agent.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of sampled decisions.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where to write means and rows.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the dialogue with the planner.")] = False,
    record: Annotated[Path | None, typer.Option("--record", help="Folder for GIFs and dialogues.")] = None,
    set_: Set = [],  # noqa: B006
    plans: Plans = None,
    epsilon: Epsilon = None,
    planner: cli_model.Planner = None,
    model: cli_model.Model = None,
    ledger: cli_model.LedgerFile = None,
    base_url: cli_model.BaseUrl = None,
    prices: cli_model.Prices = None,
    budget: cli_model.Budget = None,
) -> None:
    """Play test layouts and report interactions, steps, success and return."""
    from groundlab.papers import registry
    from groundlab.papers.mediator.recording import Dialogue, Recorder

    registry.check_world(method, world)
    asked = cli_model.settings(planner, model, ledger, base_url, prices, budget)
    given = _settings(set_, plans=plans, epsilon=epsilon, layouts=layouts, **asked)
    trained = _trained(method, world, checkpoint)
    if trained is not None:
        given = {**trained.spec.settings, **given}
    dialogue, recorder = Dialogue() if show else None, Recorder(record) if record else None
    watchers = [watcher.watch for watcher in (dialogue, recorder) if watcher]
    request = registry.Request(
        method=method,
        world=world,
        seed=seed if seed is not None else trained.spec.seed if trained else 0,
        settings=registry.resolve_settings(method, world, given),
        checkpoint=trained,
        watch=(lambda policy, episodes: [watch(policy, episodes) for watch in watchers]) if watchers else None,
    )
    results = registry.evaluate(request)
    if dialogue:
        console.print("\n".join(dialogue.lines()), markup=False, highlight=False, soft_wrap=True)
    if recorder:
        for gif in recorder.write():
            console.print(f"recorded {gif}", soft_wrap=True)
    for row in results[0]["rows"]:
        _print_conversation(row)
    for result in results:
        _print_means(f"{method} on {world}, {result['policy']}", result["mean"])
    if json_file:
        storage.write_json(json_file, {"method": method, "world": world, **results[0], "others": results[1:]})
        console.print(f"wrote {json_file}", soft_wrap=True, highlight=False)


def _print_conversation(row: dict[str, Any]) -> None:
    """An episode word by word, where an agent that answers in words was asked for it (`--set transcripts=1`)."""
    if "told" not in row:
        return
    lines = [f"layout {row['layout']}: {row['mission']}"]
    for turn in row["told"]:
        lines += [f"  {line}" for line in turn["seen"].splitlines()]
        lines += [f"    > {line}" for line in turn["said"].splitlines() or [""]]
    lines.append(f"  {'reached' if row['success'] else 'not reached'} after {row['length']} replies")
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _trained(method: str, world: str, folder: Path | None):
    """The checkpoint that a learning method needs; None for a method that follows a rule."""
    from groundlab.core.run import load_checkpoint
    from groundlab.papers import registry

    if not registry.get(method, world).learns:
        if folder is not None:
            raise GroundlabError(f"{method} follows a rule and has no checkpoint; leave out --checkpoint")
        return None
    if folder is None:
        raise GroundlabError(f"{method} needs a trained agent; give --checkpoint FOLDER of `groundlab run {method}`")
    trained = load_checkpoint(folder)
    for name, wanted in (("method", method), ("world", world)):
        found = getattr(trained.spec, name)
        if found != wanted:
            raise GroundlabError(
                f"{folder} is a checkpoint of {name} {found}, not {wanted}; give --{name} {found} or another"
            )
    return trained


def _print_means(title: str, mean: dict[str, float]) -> None:
    figures = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in mean.items())
    console.print(f"{title}: {figures}", highlight=False, soft_wrap=True)


@app.command()
def figures(
    results: Results = None,
    publish: Annotated[bool, typer.Option("--publish", help="Make this the reference that the README shows.")] = False,
) -> None:
    """Redraw every table and figure from stored results, without training."""
    from groundlab import lab, report
    from groundlab.core.paths import repository_root

    versions = _versions(results)
    for folder in versions:
        for drawn in report.draw_all(folder):
            console.print(str(drawn), highlight=False, soft_wrap=True)
    if publish:
        newest = versions[-1]
        lab.publish(newest.name, newest.parent)
        for path in report.publish(newest, repository_root()):
            console.print(f"published {path}", highlight=False, soft_wrap=True)


@app.command()
def compare(
    fresh: Annotated[Path, typer.Argument(help="A results folder, or one version in it.")],
    reference: Annotated[Path, typer.Argument(help="What it is compared with.")],
) -> None:
    """Compare the runs of two results folders byte for byte; exit code 1 when any pair differs."""
    from groundlab.lab.compare import compare as compare_runs

    found = compare_runs(fresh, reference)
    for line in found.lines():
        console.print(line, highlight=False, soft_wrap=True)
    raise typer.Exit(1 if found.differing else 0)


@app.command()
def review(results: Results = None) -> None:
    """Judge every claim from stored results and write the review page; exit code 1 if an exact claim fails."""
    from groundlab import report

    folder = _versions(results)[-1]
    judged = report.review(folder)
    console.print(f"review page: {folder / 'review.html'}", soft_wrap=True, highlight=False)
    raise typer.Exit(1 if judged.exact_failed else 0)


def _versions(results: Path | None) -> list[Path]:
    """The versions in a results folder, oldest first; or the one version that was given.

    Experiments that stand alone are left out: they are no version of their paper.
    """
    from groundlab.core.paths import repository_root

    base = results or repository_root() / "results"
    if (base / "manifest.json").is_file():
        return [base]
    found = [file.parent for file in base.glob("*/manifest.json") if not file.parent.name.startswith(".")]
    if not found:
        raise GroundlabError(
            f"no results in {base}; run `groundlab reproduce` first, or give --results FOLDER "
            "(smoke results and single figures lie in results/.scratch)"
        )
    manifests = {folder: storage.read_json(folder / "manifest.json") for folder in found}
    whole = [folder for folder in found if not manifests[folder].get("alone")]
    return sorted(whole or found, key=lambda folder: manifests[folder]["created"])


@app.command()
def bench(
    subject: Annotated[str, typer.Argument(help="worlds, scoring, training or all.")] = "all",
    only: Annotated[str | None, typer.Option("--only", metavar="PAPER", help="Only one paper's training.")] = None,
    first_use: Annotated[
        bool, typer.Option("--first-use", help="Also compile all worlds afresh, half a minute.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where to write the figures.")] = None,
) -> None:
    """Measure the speed of the hot paths on this machine."""
    from groundlab import bench as benchmark
    from groundlab.lab import machine

    measured = benchmark.bench(subject, only, first_use)
    hardware = machine.hardware()
    table = Table(title=f"{hardware['cpu']}, {hardware['cores']} cores")
    for heading, side in (("what", "left"), ("value", "right"), ("unit", "left")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for each in measured:
        table.add_row(each.name, f"{each.value:,.2f}" if each.value < 100 else f"{each.value:,.0f}", each.unit)
    console.print(table)
    if json_file:
        content = {"hardware": hardware, "figures": [each._asdict() for each in measured]}
        storage.write_json(json_file, content)


@app.command()
def worlds(
    package: Annotated[bool, typer.Option("--all", help="Also the ids that run through minigrid, slower.")] = False,
) -> None:
    """List the worlds: grid, time limit, missions."""
    from groundlab.cli import play as terminal

    terminal.list_worlds(console, package)


@app.command()
def play(world: Annotated[str, typer.Argument(help="A world, e.g. BabyAI-GoToLocal-v0.")], seed: Seed = 0) -> None:
    """Play one episode in the terminal, beside what an agent would read of it."""
    from groundlab.cli import play as terminal

    terminal.play(console, world, seed)


@app.command()
def pretrain(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe, e.g. quick-t5, or smoke-t5 to try it.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the model; the same command continues it.")],
    seed: Seed = 0,
) -> None:
    """Pretrain a small language model on the corpus of grid-world language that the package draws."""
    from groundlab.lab.worker import stop_on_signals
    from groundlab.language import pretraining

    checked = pretraining.load_recipe(recipe, seed=seed)
    with stop_on_signals() as asked, RichProgress(console=console, transient=True) as view:
        bar = view.add_task(f"{recipe}, seed {seed}", total=None)
        facts = pretraining.pretrain(
            checked,
            out,
            report=lambda news: view.update(bar, completed=news.step, total=news.total),
            stop=asked.is_set,
        )
    _print_means(f"{recipe}, seed {seed}, accuracy by topic", facts["probes"])
    console.print(f"wrote {out}: {facts['parameters']:,} parameters", soft_wrap=True, highlight=False)


@app.command()
def label(
    form: cli_knowledge.Form,
    out: cli_knowledge.Out,
    dataset: cli_knowledge.Data = None,
    maker: cli_knowledge.Maker = "recorded",
    model: cli_knowledge.Model = None,
    ledger: cli_knowledge.LedgerFile = None,
    error: cli_knowledge.Error = None,
    seed: Seed = 0,
    set_: Set = [],  # noqa: B006
    base_url: cli_model.BaseUrl = None,
    prices: cli_model.Prices = None,
    budget: cli_model.Budget = None,
) -> None:
    """Ask a language model for background knowledge, once: programs, preferences or goals."""
    given = {"out": out, "dataset": dataset, "maker": maker, "model": model, "ledger": ledger, "seed": seed}
    reached = {"base_url": base_url, "prices": prices, "budget": budget}
    cli_knowledge.label(console, form, _settings(set_, error=error), **given, **reached)


@app.command()
def ledger(file: Annotated[Path, typer.Argument(help="A ledger of replies.")]) -> None:
    """What the replies of a ledger took: tokens and cost of each model."""
    cli_model.print_accounts(console, file)


@model_app.command("memory")
def model_memory(
    name: Annotated[str, typer.Argument(help="A model that ships, a folder, or a name on this machine.")],
    context: Annotated[int, typer.Option("--context", min=1, help="Tokens of the longest prompt.")] = 512,
    set_: Set = [],  # noqa: B006
) -> None:
    """Estimate the memory of tuning a model, e.g. --set dtype=bfloat16 --set device=cuda --set lora_rank=32."""
    cli_model.print_memory(console, name, _settings(set_), context)


@model_app.command("push")
def model_push(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run of `reasoning` or `direct`.")],
    repo: Annotated[str, typer.Argument(help="Its name on the Hugging Face hub, ACCOUNT/NAME.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Upload without asking.")] = False,
) -> None:
    """Upload a trained agent to the Hugging Face hub, with a card that says how it was made and what it does."""
    cli_model.push(console, folder, repo, private, yes)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(__version__, highlight=False)
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
    """Entry point: turns GroundlabError and Unfinished into one line and an exit code."""
    try:
        app()
    except (GroundlabError, Unfinished) as error:
        print(f"groundlab: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("groundlab: interrupted; the same command continues", file=sys.stderr)
        sys.exit(75)


if __name__ == "__main__":
    main()
