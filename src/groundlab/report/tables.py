"""A table as data: written as CSV in full precision, for machines, and as Markdown, for people.

`Table.data` has one row a measurement (value, low, high, published); `Table.readable` is the same as text, one row a
method, with intervals and the published value beside ours.
"""

import html
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from groundlab.core import storage
from groundlab.report.statistics import Estimate

KINDS = ("csv", "md")
_COUNTS = ("mismatches", "episodes", "successes", "replayed_episodes", "replayed_steps", "in_hand", "tried_occupied")
DECIMALS = dict.fromkeys((*_COUNTS, "drops_occupied", "success", "test_success"), 0) | {"return": 3}  # others two
PERCENT = ("success", "test_success")


@dataclass(frozen=True)
class Table:
    """Numbers (`data`), their readable form, and what a reader must know to read it (`note`, one line an item)."""

    data: pd.DataFrame
    readable: pd.DataFrame
    note: tuple[str, ...] = ()

    @property
    def markdown(self) -> str:
        """The readable form with its notes."""
        return "\n".join([markdown(self.readable), "", *(f"- {_escaped(line)}" for line in self.note)]).rstrip() + "\n"


def number(value: float, metric: str) -> str:
    """A value in the precision of its metric, percent with its sign: `25.78`, `59 %`."""
    decimals = DECIMALS.get(metric, 2)
    if metric in PERCENT and f"{value:.1f}" != f"{value:.0f}.0":
        decimals = 1
    return f"{round(value, decimals) + 0.0:.{decimals}f}" + (" %" if metric in PERCENT else "")  # + 0.0: no -0.00


def measured(estimate: Estimate | None, metric: str) -> str:
    """A value with its interval: `25.78 [23.90, 27.71]`; one seed has none: `25.78 (one seed)`."""
    if estimate is None:
        return "–"
    if not estimate.known:
        return f"{number(estimate.value, metric)} (one seed)"
    low, high = (number(end, metric).removesuffix(" %") for end in (estimate.low, estimate.high))
    return f"{number(estimate.value, metric)} [{low}, {high}]"


def markdown(frame: pd.DataFrame) -> str:
    """A frame of text as a Markdown table; columns named in capitals or words, pipes and HTML escaped."""
    lines = [list(map(str, frame.columns)), ["---"] * len(frame.columns), *frame.astype(str).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(_escaped(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def cells(line: str) -> list[str]:
    """The cells of a line that `markdown` wrote, as they were."""
    parts = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    return [plain(part.strip().replace("\\|", "|")) for part in parts]


def plain(text: str) -> str:
    """A line of a saved table as it was before its HTML was escaped."""
    return html.unescape(text)


def _escaped(text: str) -> str:
    """Text in one line in which no reader of Markdown finds HTML."""
    return html.escape(text, quote=False).replace("\n", " ")


def save(table: Table, folder: Path, name: str) -> list[Path]:
    """Write `<name>.csv` and `<name>.md`; returns the two paths."""
    paths = [folder / f"{name}.{kind}" for kind in KINDS]
    storage.write_atomic(paths[0], table.data.to_csv(index=False, lineterminator="\n"))
    storage.write_atomic(paths[1], table.markdown)
    return paths
