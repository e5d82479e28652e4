"""The worlds in a terminal: the list of all, the page of one, and an episode played by hand or by an agent.

    groundlab worlds --all
    groundlab worlds BabyAI-GoToLocal-v0
    groundlab play BabyAI-MixedTrainLocal-v0 --seed 3
    groundlab play --agent out/glam --seed 3              # its probabilities; act in its place where you like

Left is the whole level, with floor dotted where the agent sees it; right is what a language model would read of it.
The loop and the screen are in session.py; each family of worlds draws its own map (worlds/family.py).
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.columns import Columns
from rich.table import Column, Table
from rich.text import Text

from groundlab.cli import laboratory
from groundlab.cli.options import Seed
from groundlab.cli.printing import PlainConsole, listing, print_text, wide_console
from groundlab.core.errors import GroundlabError


def worlds(
    world: Annotated[str | None, typer.Argument(help="Everything that is known of this one.")] = None,
    package: Annotated[bool, typer.Option("--all", help="Also the ids that run through minigrid, slower.")] = False,
    compile_: Annotated[
        bool, typer.Option("--compile", help="Compile them all now, so that no first use has to wait; then stop.")
    ] = False,
) -> None:
    """List the worlds: grid, time limit, missions; or say of one what it asks, tells and pays, and who succeeds."""
    from groundlab.worlds import families
    from groundlab.worlds.facts import GROUPS, group_of

    if world is not None:
        return _show_world(world)
    if compile_:
        from groundlab.worlds.first_use import compile_worlds

        return print_text(f"compiled: {', '.join(compile_worlds())}, and all worlds of their families")

    wide = wide_console()
    short = ("world", "grid", "limit")
    table = listing(*short, "missions (C a colour, T a type; X, Y objects)", whole=short, overflow="ellipsis")
    groups: dict[str, list[Any]] = {group: [] for group in GROUPS}
    for family in families().values():
        for row in family.worlds.values():
            group = group_of(row) if family.name in ("grid", "door-key") else family.title
            groups.setdefault(group, []).append(row)
    for group, members in groups.items():
        if members:
            table.add_row(Text(f"{group}: {len(members)}", "bold"))
        for row in members:
            words = f"{row.mission} ({row.summary})" if row.mission else row.summary
            table.add_row(row.name, f"{row.width}x{row.height}", str(row.max_steps), words)
        table.add_section()
    wide.print(table)
    if package:
        others = _package_only()
        wide.print(f"through the minigrid package, slower: {len(others)}", style="bold", highlight=False)
        wide.print(Columns(others), highlight=False)


def _show_world(name: str) -> None:
    from groundlab.worlds import facts

    _check_world(name)
    world = facts.of(name)
    print_text(world.name, "bold")
    if world.level:
        print_text(f"layout 0 (what its letters mean: groundlab play {world.name})\n{world.level}")
    table = Table(Column(no_wrap=True), Column(), box=None, show_header=False, padding=(0, 2, 0, 0))
    for heading, texts in facts.lines(world):
        table.add_row(heading, "\n".join(texts))
    wide_console().print(table, highlight=False)


def _package_only() -> list[str]:
    from groundlab.worlds import WORLDS
    from groundlab.worlds.adapters.minigrid_package import package_ids  # here: minigrid's levels import in a second

    return [name for name in package_ids() if name not in WORLDS]


def play(
    world: Annotated[str | None, typer.Argument(help="A world, e.g. BabyAI-GoToLocal-v0.")] = None,
    seed: Seed = 0,
    agent: Annotated[
        Path | None, typer.Option("--agent", help="Run folder of a trained agent: watch it, or act in its place.")
    ] = None,
) -> None:
    """Play one episode in the terminal, beside what an agent would read of it, or watch one."""
    from groundlab.cli import session
    from groundlab.cli.keys import Keys
    from groundlab.papers.stage import Stage

    spec = watched = None
    if agent is not None:
        laboratory.require("groundlab play --agent")
        from groundlab.papers import registry

        spec, watched = registry.watched(agent, seed)
    name = world or (spec.world if spec else None)
    if name is None:
        raise GroundlabError("no world is named; give one (groundlab worlds lists all), or --agent")
    _check_world(name)
    if spec and name not in registry.worlds_of(registry.get(spec.method, spec.world)):
        raise GroundlabError(f"{spec.method} does not play {name}; leave out the world to see it in {spec.world}")
    stage = Stage(name, seed, spec.settings.get("num_dists") if spec and name == spec.world else None)
    with Keys() as keys:  # a new console looks at the terminal as it is now
        session.play(stage, keys, PlainConsole(), watched)


def _check_world(world: str) -> None:
    """Raises GroundlabError for an unknown world, and for one that is not played here."""
    from groundlab.worlds import find, names

    if world not in names() and world in _package_only():
        raise GroundlabError(
            f"{world} runs through the minigrid package; play one of those that `groundlab worlds` lists"
        )
    find(world)
