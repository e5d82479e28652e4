"""The rehearsal of a plan on the command line.

groundlab rehearse --scale paper --device cpu --dry-run
groundlab rehearse --scale paper --device cpu --arm glam/model/flan-t5-small
"""

import datetime
from typing import Annotated, Any

import typer

from groundlab.cli.options import Only, Results
from groundlab.cli.printing import print_text
from groundlab.core.errors import GroundlabError
from groundlab.core.storage import check_writable


def rehearse(
    scale: Annotated[str, typer.Option("--scale", help="Whose rows: paper names the published models.")] = "paper",
    only: Only = [],  # noqa: B006
    arm: Annotated[
        list[str], typer.Option("--arm", metavar="ARM", help="Only these arms, as the list names them.")
    ] = [],  # noqa: B006
    device: Annotated[
        str | None, typer.Option("--device", help="auto, cpu or cuda, in place of the configs' own.")
    ] = None,
    prompts: Annotated[
        int, typer.Option("--prompts", min=0, help="Prompts an update; 0: as many, and environments, as the row has.")
    ] = 16,
    toy: Annotated[bool, typer.Option("--toy", help="Tiny networks: tests the way, measures nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the rows and what each needs.")] = False,
    results: Results = None,
) -> None:
    """Run every distinct row of a plan for a few updates, with the true architecture and random weights."""
    from groundlab import lab
    from groundlab.lab.rehearsal import costs, rehearsal
    from groundlab.lab.rehearsal.rows import Size
    from groundlab.lab.reproduce import chosen_device

    plan = lab.plan(*only, scale=scale, device=chosen_device(device, "local", dry_run)[0], results=results)
    check_writable(plan.results)
    size, rows = Size(prompts=prompts, toy=int(toy)), rehearsal.chosen(plan, arm)
    if dry_run:
        return _list(rows, size)
    failed = 0
    for number, row in enumerate(rows, 1):
        try:
            _say(row.name)
            if not rehearsal.is_known(row, plan.results, size):
                costs.add(plan.results, row.key, rehearsal.rehearse(row, plan.results, size, _say))
            print_text(f"{number} of {len(rows)}: {_told(costs.load(plan.results)[row.key])}")
        except GroundlabError as error:
            failed += 1
            print_text(f"{number} of {len(rows)}: {row.name}: {error}", style="red")
    where = costs.home(plan.results) / "costs.json"
    print_text(f"{len(rows) - failed} of {len(rows)} rows in {where}; plans of this results folder read it")
    raise typer.Exit(1 if failed else 0)


def _say(what: str) -> None:
    print_text(f"{datetime.datetime.now():%H:%M:%S} {what}", style="dim")


def _list(rows: list[Any], size: Any) -> None:
    """Every row, and what it needs: as it is planned, and rehearsed here."""
    from groundlab.lab.rehearsal import flops, rehearsal
    from groundlab.lab.rehearsal import rows as needs

    print_text("paper arm world: GB as planned, as rehearsed, FLOP of a whole run, what it reads, what does not fit")
    refused = 0
    for row in rows:
        spec, instead = rehearsal.small_spec(row, size)
        sizes = [needs.needs(each, bool(size.toy)).get("total", 0) for each in (row.run.spec, spec)]
        try:
            rehearsal.check_room(spec, size)
            problem = ""
        except GroundlabError as error:
            problem, refused = str(error), refused + 1
        needed = [" and ".join(f"{each / 1e9:.2f} GB" for each in sizes) if any(sizes) else "small network"]
        counted = flops.count(row.run.spec)
        needed += [f"{counted:.1e} FLOP"] if counted else []
        parts = [*needed, *sorted(needs.models_of(row.settings)), *filter(None, (instead, problem))]
        print_text(f"{row.name}: {', '.join(parts)}")
    print_text(
        f"{len(rows)} rows of {sum(row.seeds for row in rows)} runs; {refused} do not fit this machine as rehearsed"
    )
    print_text(f"GB: weights, masters, gradients, Adam's states, activations with {needs.CONTEXT} tokens a prompt")


def _told(measured: Any) -> str:
    """A rehearsed row in a line."""
    figures, cost = measured.figures, measured.estimate
    parts = [f"peak {figures['peak_gb']:.2f} GB"]
    if figures["expected_gb"]:
        parts[0] += f" (expected {figures['expected_gb']:.2f} and the program's own)"
    if "update_seconds" in figures:
        parts.append(f"an update of {figures['update_units']:g} takes {figures['update_seconds']:.2f} s")
        if figures["flop"]:  # compiled loops are not counted
            parts.append(f"{figures['flop'] / 1e9:,.2f} GFLOP")
        if figures["tokens"]:
            rate = figures["flop"] / figures["tokens"] / 1e6
            parts.append(
                f"{figures['tokens']:,} tokens read, {rate:,.0f} MFLOP and "
                f"{1000 * figures['update_seconds'] / figures['tokens']:.2f} ms each"
            )
    hours = cost.seconds / 3600
    parts.append(f"whole run {hours:.{1 if hours >= 1 else 3}f} h, {cost.megabytes:,.1f} MB")
    note = f"; {measured.instead}" if measured.instead else ""
    return f"{measured.row}: {', '.join(parts)}{note}"
