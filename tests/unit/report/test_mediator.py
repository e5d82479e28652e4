"""The mediator's exhibits: usual settings, and the signs of Table 1."""

import re
import shutil

import made_up
import yaml

from groundlab.core.paths import repository_root
from groundlab.papers.mediator import arms, exhibits
from groundlab.papers.mediator.settings import Fidelity
from groundlab.report.exhibits import draw
from groundlab.report.records import load

ROOT = repository_root()


def test_the_usual_settings_that_exhibits_name_are_the_defaults():
    assert Fidelity().model_dump(mode="json") == arms.QUIRKS


def test_table_1_says_that_three_trainings_cannot_tell_and_what_each_of_its_signs_means(results):
    for place in results.glob("mediator/runs/mediator-*-s[34]-*"):
        shutil.rmtree(place)
    lines = draw("mediator-table1", results).path("md").read_text().splitlines()
    rows, notes = ([line for line in lines if line.startswith(start)] for start in ("|", "- "))
    assert any("| ours, sampled |" in row and "| 4.24 ? |" in row for row in rows)
    shown = {sign for row in rows for sign in re.findall(r"[0-9%] (\S) \|", row)}
    assert shown == {"✓", "?", "✗"} and shown <= {*next(note for note in notes if "is met" in note)}


def test_an_agent_that_no_figure_knows_has_a_row_a_line_and_a_point_of_its_own(results):
    (always,) = results.glob("mediator/runs/always-SimpleDoorKey-*")
    place = shutil.copytree(always, always.with_name("wise"))
    spec = yaml.safe_load((place / "config.yaml").read_text())
    spec["settings"]["epsilon"] = 0.2
    (place / "config.yaml").write_text(yaml.safe_dump(spec))
    named = {"arm": "wise", "arm_label": "asks wisely"}
    made_up.change_rows(place, lambda row: {"success": row["layout"] % 4 > 0}, **named)
    records = load(results)
    (line,) = [each for each in exhibits.table1(records).readable.to_dict("records") if each["method"] == "asks wisely"]
    assert line["success"].startswith("75 %") and line["world"] == "SimpleDoorKey"
    for figure in (exhibits.curves(records), exhibits.tradeoff(records)):
        shown = {text.get_text(): handle for text, handle in zip(*_legend(figure), strict=True)}
        assert shown["asks wisely"].get_color() not in {style.colour for style in arms.STYLES.values()}
        colours = [line.get_color() for axis in figure.axes for line in axis.get_lines()]
        assert shown["asks wisely"].get_color() in colours


def _legend(figure):
    return figure.legends[0].get_texts(), figure.legends[0].get_lines()
