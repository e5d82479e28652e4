"""A table as data: written as CSV in full precision, for machines, and as Markdown, for people.

    success = Column("success", lambda arm: arm.estimate("sampled"), "success")
    Table.of(arms, [Column("agent", lambda arm: arm.label), success], notes)    # a row an arm

A metric is added to a table by one `Column`. `Table.data` is what the CSV holds, `Table.readable` the same as text.
"""

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from groundlab.core import storage
from groundlab.report.statistics import Estimate

KINDS = ("csv", "md")
_COUNTS = ("mismatches", "episodes", "successes", "replayed_episodes", "replayed_steps", "in_hand", "tried_occupied")
DECIMALS = dict.fromkeys((*_COUNTS, "drops_occupied", "success", "test_success"), 0) | {"return": 3}  # others two
PERCENT = ("success", "test_success")
DASH, POINTS = "–", "{:+.1f}"
Row = TypeVar("Row")
Form = str | Callable[[Any], str]


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column of a table: what a row has there, and how people and machines read it."""

    name: str
    """Its name in the CSV; empty for what only people read. An estimate has `<name>_low` and `<name>_high` besides."""
    of: Callable[[Row], Any]
    """A row's text, number or `Estimate`; None for nothing: a dash, and no number."""
    form: Form = "{}"
    """How it is written: the metric whose precision it has, a format such as `{:.1f} %`, or a function of the value."""
    caption: str | None = None
    """Its heading for people where that is not its name; empty for what only machines read."""
    text: Callable[[Row], str] | None = None
    """What people read instead, where the value alone does not say it."""

    def cell(self, row: Row, value: Any) -> dict[str, str]:
        """What people read, by heading."""
        heading = self.name if self.caption is None else self.caption
        return {heading: self.text(row) if self.text else written(value, self.form)} if heading else {}

    def numbers(self, value: Any) -> dict[str, Any]:
        """What machines read, by name."""
        if not self.name:
            return {}
        if isinstance(value, Estimate):
            return {self.name: value.value, f"{self.name}_low": value.low, f"{self.name}_high": value.high}
        return {self.name: value}


@dataclass(frozen=True)
class Table:
    """Numbers (`data`), their readable form, and what a reader must know to read it (`note`, one line an item)."""

    data: pd.DataFrame
    readable: pd.DataFrame
    note: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        rows: Iterable[Row],
        columns: Sequence[Column[Row]],
        note: tuple[str, ...] = (),
        data: Sequence[dict[str, Any]] | None = None,
    ) -> "Table":
        """A table with these rows; data: what the CSV holds where its rows are others, such as one a metric."""
        values = [(row, [(column, column.of(row)) for column in columns]) for row in rows]
        lines = [[column.numbers(value) for column, value in each] for _, each in values]
        names = _joined(part for parts in zip(*lines, strict=True) for part in parts)  # in the order of the columns
        numbers = pd.DataFrame(
            list(map(_joined, lines)) if data is None else data, columns=None if data else list(names)
        )
        readable = [_joined(column.cell(row, value) for column, value in each) for row, each in values]
        return cls(numbers, pd.DataFrame(readable), note)

    @property
    def markdown(self) -> str:
        """The readable form with its notes."""
        return "\n".join([markdown(self.readable), "", *(f"- {_escaped(line)}" for line in self.note)]).rstrip() + "\n"


def _joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def number(value: float, metric: str) -> str:
    """A value in the precision of its metric, percent with its sign: `25.78`, `59 %`."""
    decimals = DECIMALS.get(metric, 2)
    if metric in PERCENT and f"{value:.1f}" != f"{value:.0f}.0":
        decimals = 1
    return f"{round(value, decimals) + 0.0:.{decimals}f}" + (" %" if metric in PERCENT else "")  # + 0.0: no -0.00


def written(value: Any, form: Form) -> str:
    """A value in a `Column.form`; a dash for nothing and for what is not finite.

    An estimate comes with its interval: `25.78 [23.90, 27.71]`; one seed has none: `25.78 (one seed)`.
    """
    if isinstance(value, Estimate):
        if not value.known:
            return f"{written(value.value, form)} (one seed)"
        low, high = (written(end, form).removesuffix(" %") for end in (value.low, value.high))
        return f"{written(value.value, form)} [{low}, {high}]"
    if value is None or value == "" or (isinstance(value, float) and not np.isfinite(value)):
        return DASH
    if callable(form):
        return form(value)
    return form.format(value) if "{" in form else number(value, form)


def markdown(frame: pd.DataFrame) -> str:
    """A frame of text as a Markdown table; columns named in capitals or words, pipes and HTML escaped."""
    lines = [list(map(str, frame.columns)), ["---"] * len(frame.columns), *frame.astype(str).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(_escaped(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def cells(line: str) -> list[str]:
    """The cells of a line that `markdown` wrote, as they were."""
    parts = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    return [html.unescape(part.strip().replace("\\|", "|")) for part in parts]


def _escaped(text: str) -> str:
    """Text in one line in which no reader of Markdown finds HTML."""
    return html.escape(text, quote=False).replace("\n", " ")


def save(table: Table, folder: Path, name: str) -> list[Path]:
    """Write `<name>.csv` and `<name>.md`; returns the two paths."""
    paths = [folder / f"{name}.{kind}" for kind in KINDS]
    storage.write_atomic(paths[0], table.data.to_csv(index=False, lineterminator="\n"))
    storage.write_atomic(paths[1], table.markdown)
    return paths
