"""The mediator's exhibits and claims: usual settings, the signs of Table 1, and a reason for each miss."""

import json
import re
import shutil

from groundlab.core.manifests import read_reference
from groundlab.core.paths import repository_root
from groundlab.papers.mediator import arms
from groundlab.papers.mediator.settings import Fidelity
from groundlab.report.claims import load_claims
from groundlab.report.exhibits import draw
from groundlab.report.verdicts import MISSED

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


def test_each_miss_in_the_published_results_says_why_and_names_a_section_that_is_there():
    claims = {claim.id: claim for claim in load_claims("mediator")}
    published = read_reference(ROOT / "results")["mediator"].values()
    stored = [
        each for folder in published for each in json.loads((ROOT / "results" / folder / "claims.json").read_text())
    ]
    missed = {each["id"] for each in stored if each["verdict"] == MISSED} & set(claims)
    assert missed and [name for name in missed if not (claims[name].why and claims[name].page)] == []
    for claim in claims.values():
        file, _, anchor = claim.page.partition("#")
        assert not file or f'<a id="{anchor}"></a>' in (ROOT / "docs" / "papers" / file).read_text(), claim.id
