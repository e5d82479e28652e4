"""The commands that run experiments and show what came of them.

groundlab reproduce --only mediator --scale quick
groundlab run mediator --world SimpleDoorKey --out out/mediator
groundlab evaluate mediator --world SimpleDoorKey --checkpoint out/mediator --json test.json
groundlab evaluate random --protocol balrog
groundlab review
"""

import os
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from groundlab.cli import laboratory
from groundlab.cli.options import (
    Deterministic,
    Method,
    Only,
    Portable,
    Results,
    Seed,
    Track,
    Workers,
    World,
    ask_for,
    load_agent,
    takes_method_settings,
)
from groundlab.cli.printing import console, print_text
from groundlab.cli.protocol import play_protocol
from groundlab.core import extras, storage
from groundlab.core.bounds import LAST_SEED, MOST_SEEDS
from groundlab.core.errors import UNFINISHED_EXIT_CODE, GroundlabError, unknown_name
from groundlab.core.numerics import ask_for_portable


def reproduce(
    only: Only = [],  # noqa: B006
    figure: Annotated[str | None, typer.Option("--figure", help="Only what one figure or table needs.")] = None,
    experiment: Annotated[list[str], typer.Option("--experiment", help="Only runs of these, by their names.")] = [],  # noqa: B006
    claim: Annotated[
        list[str], typer.Option("--claim", metavar="ID", help="Only the runs of these claims, then their verdicts.")
    ] = [],  # noqa: B006
    scale: Annotated[str, typer.Option("--scale", help="smoke, quick, full or paper.")] = "quick",
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, max=MOST_SEEDS, help="Seeds a run.")] = None,
    workers: Workers = None,
    results: Results = None,
    executor: Annotated[
        str, typer.Option("--executor", help="Where runs are executed: local, slurm or none.")
    ] = "local",
    slurm: Annotated[Path | None, typer.Option("--slurm", help="Slurm's settings, as in configs/slurm.yaml.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Slurm: watch the tasks, or return at once.")] = True,
    device: Annotated[
        str | None, typer.Option("--device", help="auto, cpu, cuda or cuda:N, in place of the configs' own.")
    ] = None,
    pages: Annotated[bool, typer.Option("--pages/--no-pages", help="Also tables, figures and pages.")] = True,
    hours: Annotated[
        float | None, typer.Option("--hours", min=0, help="Stop after so long, with a version of what is finished.")
    ] = None,
    continue_from: Annotated[
        str | None, typer.Option("--continue", metavar="VERSION", help="Take over the finished runs of a version.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat runs that other sources finished.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the plan with all settings and notes.")] = False,
    deterministic: Deterministic = False,
    portable: Portable = False,
    track: Track = None,
) -> None:
    """Run the experiments of the papers and regenerate their tables, figures and the review page."""
    if executor == "slurm" and not (figure or claim):
        if not extras.can_submit():
            raise GroundlabError('groundlab reproduce --executor slurm needs submitit; pip install "groundlab[slurm]"')
    else:
        laboratory.require("groundlab reproduce")
    from groundlab import lab

    ask_for(track, deterministic, portable)
    if claim:
        if only or figure or experiment or executor != "local" or hours or continue_from:
            raise GroundlabError(
                "--claim names its runs itself; give it with --scale, --workers, --results or --device"
            )
        raise typer.Exit(lab.reproduce_claims(claim, scale, workers, results, dry_run, device))
    methods = None
    if figure is not None:
        paper, methods = _needed_by(figure, scale)
        if only not in ([], [paper]):
            raise GroundlabError(f"--figure {figure} belongs to {paper}; leave out --only")
        only = [paper]
    given = {"experiments": experiment, "executor": executor, "slurm_file": slurm, "wait": wait, "verbose": verbose}
    given |= {"hours": hours, "continue_from": continue_from, "device": device, "pages": pages, "again": again}
    raise typer.Exit(lab.reproduce(only, scale, seeds, methods, workers, results, dry_run, **given))


def _needed_by(figure: str, scale: str) -> tuple[str, list[str]]:
    """The paper of a table or figure, and the methods of this scale whose runs it shows."""
    from groundlab import report
    from groundlab.lab import config

    exhibits = report.exhibits()
    if figure not in exhibits:
        raise unknown_name("table or figure", figure, exhibits)
    wanted = exhibits[figure]
    if not wanted.methods:
        raise GroundlabError(f"{figure} shows what ships and needs no run: groundlab figures --figure {figure}")
    here = list(dict.fromkeys(entry.method for entry in config.load(wanted.paper, scale).runs))
    if not set(wanted.methods) <= set(here):
        raise GroundlabError(f"{figure} has no runs at scale {scale}; choose another, such as --scale full")
    beside = [method for method in here if method not in wanted.methods]
    return wanted.paper, [*wanted.methods, *(each for each in beside if wanted.beside is None or each in wanted.beside)]


@takes_method_settings
def run(
    method: Method,
    world: World,
    out: Annotated[Path, typer.Option("--out", help="Folder of the run; the same command continues it.")],
    settings: dict[str, Any],
    seed: Seed = 0,
    deterministic: Deterministic = False,
    portable: Portable = False,
    track: Track = None,
) -> None:
    """Train (or play) one method on one world with one seed."""
    from groundlab import lab
    from groundlab.lab.machine import instruction_sets
    from groundlab.papers import registry

    ask_for(track, deterministic, portable)
    spec = registry.resolve(method, world, seed, settings)
    os.environ.update(instruction_sets(spec.settings))  # before the first product
    if lab.run_one(spec, out) is None:
        return  # another process of the same run tells the results
    for result in storage.read_json(out / "evaluation.json"):
        _print_means(spec.label, result)


@takes_method_settings
def evaluate(
    method: Method,
    settings: dict[str, Any],
    world: Annotated[str | None, typer.Option("--world", help="A world; `groundlab worlds` lists all.")] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="Others' test: balrog or balrog-corrected.")
    ] = None,
    layouts: Annotated[
        str | None, typer.Option("--layouts", help="Test layouts (reset seeds), first-last; 0-99 of a world.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option("--checkpoint", help="Run folder of a trained agent.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, max=LAST_SEED, help="Seed of sampled decisions.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where to write means and rows.")] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print what was read and done, or the dialogue with the planner.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Folder for GIFs, transcripts and episodes (for the site's player)."),
    ] = None,
) -> None:
    """Play test layouts and report interactions, steps, success and return."""
    from groundlab.lab.machine import check_devices, instruction_sets
    from groundlab.papers import registry

    if protocol is not None:
        if world is not None or show or record:
            raise GroundlabError(f"--protocol {protocol} has worlds of its own; leave out --world, --show and --record")
        return play_protocol(protocol, method, settings, layouts, checkpoint, seed, json_file)
    if world is None:
        raise GroundlabError("no world is named; give --world NAME (groundlab worlds lists all), or --protocol balrog")
    registry.check_world(method, world)
    for target in [each for each in (json_file, record and record / "0.gif") if each]:
        storage.check_file(target)
    settings = {"layouts": "0-99", **settings, **({} if layouts is None else {"layouts": layouts})}
    if checkpoint and not registry.get(method, world).learns:
        raise GroundlabError(f"{method} follows a rule and has no checkpoint; leave out --checkpoint")
    trained, settings, seed = load_agent(checkpoint, method, settings, seed, world)
    spec = registry.resolve(method, world, seed, settings)
    check_devices([spec])
    os.environ.update(instruction_sets(spec.settings))
    results = _watched(registry.Request(method, world, spec.seed, spec.settings, trained), show, record, checkpoint)
    for row in results[0]["rows"]:
        _print_conversation(row)
    for result in results:
        _print_means(f"{method} on {world}", result)
    if json_file:
        storage.write_json(json_file, {"method": method, "world": world, **results[0], "others": results[1:]})
        print_text(f"wrote {json_file}")


def _watched(request: Any, show: bool, record: Path | None, checkpoint: Path | None) -> list[dict[str, Any]]:
    """The evaluations of a request, its episodes shown and recorded where that is wanted."""
    from groundlab.papers import playback, recording, registry

    if not show and record is None:
        return registry.evaluate(request)
    with recording.recorded() as kept:
        results = registry.evaluate(request)
    episodes = recording.by_policy(kept, results, request.method)
    if show:
        print_text("\n".join(recording.transcript(episodes)))
    if record:
        for gif in recording.write(record, episodes):
            print_text(f"recorded {gif}")
        file = checkpoint / "manifest.json" if checkpoint else None
        run = storage.read_json(file) if file and file.is_file() else {}
        made = {name: getattr(request, name) for name in ("method", "world", "seed", "settings")}
        made |= {"run": run.get("hash"), "commit": run.get("git", {}).get("commit")}  # for whoever opens it later
        data = playback.of(episodes, _player(request, checkpoint), made=made)
        storage.write_json(record / "episodes.json", data)
        print_text(f"recorded {record / 'episodes.json'}: all of them, for the player of the site")
    return results


def _player(request: Any, checkpoint: Path | None) -> Any:
    """The trained agent of a request, to say how likely its choices were; None where a method does not tell."""
    from groundlab.papers import registry

    if checkpoint is None:
        return None
    try:
        return registry.watched(checkpoint, request.seed)[1]
    except GroundlabError:
        return None


def _print_conversation(row: dict[str, Any]) -> None:
    """An episode word by word, where an agent that answers in words was asked for it (`--set transcripts=1`)."""
    if "told" not in row:
        return
    lines = [f"layout {row['layout']}: {row['mission']}"]
    for turn in row["told"]:
        lines += [f"  {line}" for line in turn["seen"].splitlines()]
        lines += [f"    > {line}" for line in turn["said"].splitlines() or [""]]
    lines.append(f"  {'reached' if row['success'] else 'not reached'} after {row['length']} replies")
    print_text("\n".join(lines))


def _print_means(title: str, result: dict[str, Any]) -> None:
    """A policy's means, its success in percent with the 95 % interval over the episodes."""
    from groundlab.report.statistics import success_of
    from groundlab.report.tables import written

    means = {name.replace("_", " "): f"{value:.2f}" for name, value in result["mean"].items()}
    success = success_of(result["rows"]) if "success" in means else None
    if success is not None:
        means["success"] = written(success if success.known else success.value, "success")
    episodes = "1 episode" if len(result["rows"]) == 1 else f"{len(result['rows'])} episodes"
    figures = ", ".join(f"{name} {value}" for name, value in means.items())
    print_text(f"{title}, {result['policy']}: {figures} ({episodes})")


def figures(
    results: Results = None,
    figure: Annotated[str | None, typer.Option("--figure", help="Only this figure or table.")] = None,
    publish: Annotated[bool, typer.Option("--publish", help="Make this the reference that the README shows.")] = False,
) -> None:
    """Redraw every table and figure from stored results, without training."""
    from groundlab import lab, report
    from groundlab.core.paths import repository_root
    from groundlab.core.versions import Version, published_versions
    from groundlab.lab.verify import names_line

    if publish and figure is not None:
        raise GroundlabError("--publish draws all figures; leave out --figure")
    if figure is not None and figure not in report.exhibits():
        raise unknown_name("table or figure", figure, report.exhibits())
    versions = versions_in(results)
    if figure is not None:
        paper = report.exhibits()[figure].paper
        versions = [folder for folder in versions if (folder / paper).is_dir()]
        if not versions:
            raise GroundlabError(f"these results hold nothing of {paper}; run: groundlab reproduce --figure {figure}")
    for folder in versions:
        for drawn in report.draw_all(folder) if figure is None else [report.draw(figure, folder)]:
            print_text(str(drawn))
    if publish:
        newest = versions[-1]
        lab.publish(newest.name, newest.parent)
        root = repository_root()
        for path in report.publish(root):
            print_text(f"published {path}")
        for name in published_versions(newest.parent):
            print_text(names_line(Version(newest.parent / name)))


def compare(
    fresh: Annotated[Path, typer.Argument(help="A results folder, or one version in it.")],
    reference: Annotated[Path, typer.Argument(help="What it is compared with.")],
) -> None:
    """Compare two results folders, runs byte for byte and verdicts; exit code 1 when a run differs."""
    from groundlab.lab.comparison import compare as compare_runs
    from groundlab.report.verdict_changes import verdict_lines
    from groundlab.report.verdicts import read_stored

    found = compare_runs(fresh, reference)
    claims = [read_stored(side) for side in (fresh, reference) if (side / "claims.json").is_file()]
    for line in [*found.lines(), *(verdict_lines(*claims) if len(claims) == 2 else [])]:
        print_text(line)
    raise typer.Exit(1 if found.differing else 0)


def review(results: Results = None) -> None:
    """Judge every claim from stored results and write the review page; exit code 1 only if an exact claim fails."""
    from groundlab import report

    folder = versions_in(results)[-1]
    try:
        reviewed = report.review(folder)
    except (GroundlabError, KeyboardInterrupt):
        raise
    except Exception as error:  # Python's own exit code would be 1
        traceback.print_exc()
        raise GroundlabError(f"{folder} could not be judged ({type(error).__name__}); report the lines above") from None
    print_text(f"review page: {folder / 'review.html'}")
    raise typer.Exit(1 if reviewed.verdicts.exact_failed else 0)


def verify(
    version: Annotated[str, typer.Argument(help="A version of the results: its folder, or its name in results/.")],
    sample: Annotated[int, typer.Option("--sample", min=1, max=10_000, help="How many runs are run again.")] = 10,
    draw: Annotated[int, typer.Option("--draw", min=0, help="Your own number; it decides which runs are drawn.")] = 0,
    at_most: Annotated[float, typer.Option("--at-most", min=0.1, help="Leave out runs of more CPU seconds.")] = 120.0,
    workers: Workers = None,
    results: Results = None,
    portable: Portable = False,
) -> None:
    """Run a sample of stored runs again and compare them byte for byte; exit code 1 if one differs or fails."""
    from groundlab.core.paths import results_folder
    from groundlab.lab import verify as verification
    from groundlab.lab.versions import find_by_name

    ask_for_portable(portable)
    home = results_folder(results)
    chosen = find_by_name(home, version)
    drawn, candidates = verification.draw(chosen, sample, draw, at_most)
    seconds, left_out = sum(run["cpu_seconds"] for run in drawn), len(chosen.runs()) - candidates
    print_text(f"{len(drawn)} of {candidates} runs drawn by {draw}, {seconds:,.0f} CPU-s when stored")
    print_text(f"{left_out} runs are longer than {at_most:g} CPU-s")
    print_text(verification.names_line(chosen))
    scratch = home / ".scratch" / f"verify-{chosen.name}-{draw}-{sample}"
    found, unfinished = verification.verify(chosen, drawn, scratch, workers)
    for line in found.lines():
        print_text(line)
    if unfinished:
        print_text("unfinished: the same command continues here")
        raise typer.Exit(UNFINISHED_EXIT_CODE)
    if found.equal and not found.failed:
        most = verification.bound(found, candidates)
        print_text(f"so at most {most} of the {candidates} runs differ here, at 95 % confidence")
    raise typer.Exit(1 if found.failed or found.count("name", "") else 0)


def versions_in(results: Path | None) -> list[Path]:
    """The versions in a results folder, oldest first; or the one version that `results` is.

    Experiments that stand alone are left out: they are no version of their paper.
    """
    from groundlab.core.paths import results_folder
    from groundlab.core.versions import Version, is_version, versions_below

    base = results or results_folder()
    if is_version(base):
        return [Version(base).folder]
    found = versions_below(base)
    if not found:
        raise GroundlabError(
            f"no results in {base}; run `groundlab reproduce` first, or give --results FOLDER "
            "(smoke results and single figures lie in results/.scratch)"
        )
    whole = [each for each in found if not each.facts["alone"]]
    return [each.folder for each in sorted(whole or found, key=lambda each: each.facts["created"])]


def bench(
    subject: Annotated[str, typer.Argument(help="worlds, scoring, training, models or all.")] = "all",
    save: Annotated[bool, typer.Option("--save", help="Keep the figures in benchmarks/.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if a ratio kept there is lost.")] = False,
) -> None:
    """Measure the speed of the hot paths on this machine."""
    from groundlab.bench import bench as measure
    from groundlab.bench import history
    from groundlab.lab import machine

    hardware = machine.hardware()
    kept = history.kept_ratios(hardware) if check else {}  # before minutes of measuring
    measured = measure(subject)
    title = f"{hardware['cpu']}, {hardware['cores']} cores"
    table = Table("what", Column("value", justify="right"), "unit", title=title)
    for each in measured:
        table.add_row(each.name, f"{each.value:,.2f}" if each.value < 100 else f"{each.value:,.0f}", each.unit)
    console.print(table)
    if save:
        print_text(f"kept in {history.save(measured, hardware)}")
    lost = history.lost(measured, kept) if check else []
    for line in lost:
        print_text(f"lost: {line}", style="red")
    if lost:
        raise typer.Exit(1)
    if check:
        print_text("no ratio is lost")
