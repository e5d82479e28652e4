"""Tables as Markdown: no HTML comes through, and the review page reads back what was written."""

import html

import numpy as np
import pandas as pd
import pytest

from groundlab.report import tables
from groundlab.report.statistics import Estimate

HOSTILE = "<script>alert(1)</script> | a & b\nnew line"


def test_html_in_a_cell_or_a_note_is_text_and_is_read_back_as_it_was():
    frame = pd.DataFrame([{"what": HOSTILE, "x|y": "< 5 %"}])
    text = tables.Table(frame, frame, (HOSTILE,)).markdown
    assert "<" not in text
    lines = text.splitlines()
    assert len(lines) == 5, "a line break stays inside its cell"
    assert tables.cells(lines[0]) == ["what", "x|y"]
    assert tables.cells(lines[2]) == [HOSTILE.replace("\n", " "), "< 5 %"]
    assert html.unescape(lines[4]) == "- " + HOSTILE.replace("\n", " ")


def test_a_column_is_read_by_people_and_by_machines():
    rows = [("a", None, None), ("b", Estimate(97.5, 95.1, 98.9), 3), ("c", Estimate(50.0, np.nan, np.nan), 12_000)]
    columns = [
        tables.Column("agent", lambda row: row[0]),
        tables.Column("success", lambda row: row[1], "success", "after training"),
        tables.Column("gap", lambda row: row[1], tables.POINTS, ""),
        tables.Column("steps", lambda row: row[2], "{:,}"),
        tables.Column("", lambda row: row[0], lambda name: name.upper(), "called"),
        tables.Column("half", lambda row: row[2] and row[2] / 2, text=lambda row: f"half of {row[2]}"),
    ]
    table = tables.Table.of(rows, columns, ("a note",))
    assert table.readable.to_dict("list") == {
        "agent": ["a", "b", "c"],
        "after training": ["–", "97.5 % [95.1, 98.9]", "50 % (one seed)"],
        "steps": ["–", "3", "12,000"],
        "called": ["A", "B", "C"],
        "half": ["half of None", "half of 3", "half of 12000"],
    }
    ends = [f"{name}{end}" for name in ("success", "gap") for end in ("", "_low", "_high")]
    assert list(table.data) == ["agent", *ends, "steps", "half"], "as the columns stand, whatever the first row has"
    assert table.data.loc[1, ["success", "success_low", "success_high", "steps"]].tolist() == [97.5, 95.1, 98.9, 3]
    assert table.data["steps"].isna().tolist() == [True, False, False]
    assert table.note == ("a note",)


def test_a_csv_may_have_other_rows_than_people_read():
    table = tables.Table.of([1, 2], [tables.Column("n", lambda row: row)], data=[{"metric": "steps", "mean": 1.5}])
    assert table.readable["n"].tolist() == ["1", "2"] and table.data.to_dict("list") == {
        "metric": ["steps"],
        "mean": [1.5],
    }


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (-0.001, "return", "-0.001"),
        (Estimate(-4.4, -15.5, 6.7), tables.POINTS, "-4.4 [-15.5, +6.7]"),
        (Estimate(57.0, 40.2, 73.9), "{:.0f} %", "57 % [40, 74]"),
        (float("nan"), "{:.1f}", "–"),
        (float("nan"), str.upper, "–"),
        (None, "success", "–"),
        ("", "{}", "–"),
    ],
)
def test_values_are_written_in_their_form(value, form, text):
    assert tables.written(value, form) == text
