"""Pages of claims and runs on the site: their numbers are the store's, and every link between them leads somewhere."""

import json
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from groundlab.cli.options import parse_settings
from groundlab.core import storage
from groundlab.papers import registry
from groundlab.report.exhibits import draw
from groundlab.report.tables import number
from groundlab.report.verdicts import Word
from groundlab.site import claims, evidence, runs


@pytest.fixture(scope="module")
def everything(published_results) -> evidence.Evidence:
    return evidence.collect(published_results)


@pytest.fixture(scope="module")
def site(everything, tmp_path_factory) -> Path:
    source = tmp_path_factory.mktemp("source")
    claims.write(source, everything)
    runs.write(source, everything)
    return source


@pytest.fixture(scope="module")
def judged(everything, site) -> list[tuple[evidence.Judged, str]]:
    """The claims that were judged, each with its page."""
    every = [each for one in everything.claims.values() for each in one if each.runs]
    return [(each, (site / "claims" / f"{each.claim.id}.md").read_text()) for each in every]


def test_drawing_writes_what_it_draws_alone(published_results, tmp_path):
    home = shutil.copytree(published_results, tmp_path / "results")
    there = {each: each.read_bytes() for each in home.rglob("*") if each.is_file()}
    draw("mediator-table1", next(home.glob("*/claims.json")).parent)
    new = {each.name for each in home.rglob("*") if each.is_file() and there.get(each) != each.read_bytes()}
    assert new == {"mediator-table1.csv", "mediator-table1.md"}


def test_the_levels_of_a_claim_are_those_of_the_store_and_the_mean_of_its_dots(judged):
    seen = 0
    for each, page in judged:
        for name, sides in each.levels.items():
            stored = each.stored["levels"].get(name) or {sides[0].name: each.stored["fresh"][name]["value"]}
            assert {side.name: side.mean.value for side in sides} == pytest.approx(stored)
            for side in sides:
                assert np.mean(list(side.by_run.values())) == pytest.approx(side.mean.value)
                assert number(side.mean.value, name.partition(" ")[0].rstrip(":")) in page
                seen += 1
    assert seen > 40


def test_a_claim_says_its_verdict_why_it_missed_and_how_to_measure_it_again(judged):
    for each, page in judged:
        assert f"## Scale quick: {each.verdict}" in page
        assert f'<code class="command">{each.claim.redo("quick")}<' in page
        assert ("<strong>Why:" in page) == bool(each.verdict == Word.CONTRADICTED and each.claim.why)
    assert any(each.verdict == Word.CONTRADICTED and each.claim.why for each, _ in judged)


def test_every_dot_and_run_of_a_claim_leads_to_the_page_of_that_run_and_back(everything, judged, site):
    for each, page in judged:
        linked = set(re.findall(r'href="\.\./runs/([^"]+)\.html"', page))
        assert linked == {everything.runs[run].page for run in each.runs}
        for run in linked:
            assert f"../claims/{each.claim.id}.html" in (site / "runs" / f"{run}.md").read_text()
    listed = re.findall(r'href="([^"]+)\.html"', (site / "runs" / "index.md").read_text())
    assert sorted(listed) == sorted(run.page for run in everything.runs.values())


def test_the_list_has_every_claim_once_and_of_a_paper_those_that_missed_first(everything, site):
    page = (site / "claims" / "index.md").read_text()
    assert sorted(re.findall(r'<tr><td><a href="([^"]+)\.html">', page)) == sorted(everything.claims)
    for section in re.split("^## ", page, flags=re.MULTILINE)[1:]:
        rows = re.findall(r'<tr><td><a href="([^"]+)\.html">', section)
        missed = [Word.CONTRADICTED in {each.verdict for each in everything.claims[name]} for name in rows]
        assert missed == sorted(missed, reverse=True)


def test_no_block_of_html_is_cut_by_an_empty_line(site):
    """Markdown would take the rest for text or code."""
    for page in [*(site / "claims").glob("*.md"), *(site / "runs").glob("*.md")]:
        for block in page.read_text().split("\n\n"):
            if block.lstrip().startswith("<"):
                for tag in ("div", "table", "figure", "ul"):
                    assert len(re.findall(f"<{tag}[ >]", block)) == block.count(f"</{tag}>"), (page.name, block[:200])


def test_the_points_of_a_curve_are_the_metrics_of_its_run(everything, site):
    run = next(each for each in everything.runs.values() if each.curves)
    records = storage.parse_lines(run.version.read(run.facts["manifest"], "metrics.jsonl"), "metrics")
    script = (site / "_static" / "runs" / f"{run.group}.js").read_text()
    data = json.loads(script.removeprefix("const groundlabRuns = ").removesuffix(";\n"))
    assert [each["seed"] for each in data["runs"]] == list(range(5))
    drawn = next(each for each in data["runs"] if each["name"] == run.name)
    counts, values = drawn["curves"]["interactions"]
    assert (counts, drawn["counts"]) == (None, [record["timesteps"] for record in records])
    assert values == pytest.approx([record["interactions"] for record in records], rel=1e-3)
    rows = run.evaluations["sampled"]
    assert drawn["policies"]["sampled"]["steps"] == [row["steps"] for row in rows]
    assert drawn["policies"]["argmax"]["success"] == "".join(str(int(layout % 3 > 0)) for layout in range(100))


def test_a_long_curve_is_thinned_to_means_and_keeps_its_ends():
    curve = pd.DataFrame(
        {"iteration": range(1, 1001), "timesteps": range(300, 300300, 300), "return": np.arange(1000.0)}
    )
    counter, each, found = evidence.thinned(curve, ["return", "success"])
    counts, values = found["return"]
    assert (counter, each, len(counts), list(found)) == ("timesteps", 5, evidence.POINTS, ["return"])
    assert counts[-1] == 300_000 and values[0] == 2.0 and values[-1] == 997.0


def test_the_command_of_a_run_gives_its_settings(everything):
    for run in everything.runs.values():
        words = shlex.split(runs.command(run))
        settings = parse_settings([word for before, word in pairwise(words) if before == "--set"])
        given = registry.resolve_settings(run.facts["method"], run.facts["world"], settings)
        assert given | run.facts["settings"] == given
