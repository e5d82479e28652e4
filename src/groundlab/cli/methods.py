"""`groundlab methods`: the list of all methods of all papers, or every setting of one.

groundlab methods
groundlab methods mediator        its worlds; its settings with type, default, the value at scale `paper`, meaning
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from groundlab.cli.printing import listing, wide_console
from groundlab.core.errors import GroundlabError

if TYPE_CHECKING:
    from groundlab.papers.method import Method

_NAMED = 8  # worlds that are named one by one


def methods(
    name: Annotated[str | None, typer.Argument(metavar="[METHOD]", help="Only this one, with its settings.")] = None,
) -> None:
    """List the methods of all papers; of one, its worlds and its settings with defaults and meaning."""
    from groundlab.papers import registry

    wide = wide_console()
    if name is None:
        table = listing("method", "paper", "worlds", "what it is", whole=("method",))
        for paper, method in registry.methods():
            worlds = f"{len(registry.worlds_of(method))} {', '.join(method.families)}"
            table.add_row(method.name, paper, worlds, method.summary)
        wide.print(table)
        return wide.print("groundlab methods METHOD shows its settings", highlight=False)
    for paper, method in registry.named(name):
        _describe(wide, paper, method)


def _describe(wide: Console, paper: str, method: "Method") -> None:
    from groundlab.core.schema import describe
    from groundlab.papers import registry

    worlds = registry.worlds_of(method)
    families = f"{len(worlds)} worlds ({', '.join(method.families)}): groundlab worlds"
    wide.print(Text.assemble((method.name, "bold"), f" ({paper}): {method.summary}"))
    wide.print(f"worlds: {', '.join(worlds) if len(worlds) <= _NAMED else families}", highlight=False)
    published = _paper_values(paper, method.name)
    table = listing("setting", "type", "default", "paper", "meaning", whole=("setting",))
    for row in describe(registry.schema_of(method)):
        table.add_row(row.name, row.type, row.default, published.get(row.name, ""), row.meaning)
    wide.print(table)


def _paper_values(paper: str, method: str) -> dict[str, str]:
    """The settings of the method's first runs at scale `paper`; none where the paper has no such config."""
    from groundlab.lab import config

    with suppress(GroundlabError):
        for entry in config.load(paper, "paper").runs:
            if entry.method == method:
                return dict(_flat(entry.settings))
    return {}


def _flat(settings: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """`{"fidelity": {"dropout": True}}` as `[("fidelity.dropout", "true")]`."""
    from groundlab.core.schema import shown

    pairs = []
    for key, value in settings.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, shown(value))]
    return pairs
