"""The mediator's exhibits: usual settings, and the signs of Table 1."""

import re
import shutil

from groundlab.core.paths import repository_root
from groundlab.papers.mediator import arms
from groundlab.papers.mediator.settings import Fidelity
from groundlab.report.exhibits import draw

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
