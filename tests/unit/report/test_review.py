"""The review page and the README block: offline, honest about misses, and the same when made twice."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import made_up
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.report import review
from groundlab.report.front_page import (
    Published,
    best_scale,
    between_markers,
    misses_block,
    publish,
    results_block,
)
from groundlab.report.records import load
from groundlab.report.review import linked, render
from groundlab.report.tables import cells


def test_the_page_needs_nothing_from_outside(reviewed):
    page = reviewed.page.read_text()
    assert not re.findall(r"""src\s*=\s*["'](?!data:)""", page)
    links = set(re.findall(r"""href\s*=\s*["'](?!#)([^"']*)""", page))
    assert all(link.startswith(("../../docs/papers/", "https://arxiv.org/")) for link in links)
    assert "url(" not in page and "@import" not in page
    assert re.findall(r"<script[^>]*>", page) == ["<script>"], "one script, our own, in the page"


def test_the_page_links_to_every_executed_notebook_in_their_order(results):
    names = ["02_mediator.ipynb", "04_more.ipynb", "05_most.ipynb"]
    made_up.rewrite(results, notebooks={"mediator": names})
    links = re.findall(r"""href="([^"#]*\.ipynb)">([^<]*)<""", review(results).page.read_text())
    assert links == [(f"mediator/executed/{name}", name) for name in names]


def test_a_claim_leads_to_its_figure_and_itself(reviewed):
    page = reviewed.page.read_text()
    row = re.search(r'<tr id="mediator-table1-SimpleDoorKey-always".*?</tr>', page, re.DOTALL)
    assert row and 'href="#mediator-table1-SimpleDoorKey-always"' in row.group()
    targets, ids = set(re.findall(r'href="#([^"]+)"', page)), set(re.findall(r'id="([^"]+)"', page))
    assert targets <= ids, "a link of the page leads nowhere"


def test_every_row_can_be_filtered_by_what_the_page_offers(reviewed):
    page = reviewed.page.read_text()
    for name in ("paper", "verdict", "kind"):
        offered = re.search(rf'<select name="{name}".*?</select>', page, re.DOTALL)
        assert offered
        values = set(re.findall(rf'<tr id=[^>]*data-{name}="([^"]+)"', page))
        choices = re.findall(r'<option(?: value="([^"]+)")?>([^<]+)</option>', offered.group())
        assert values <= {value or words for value, words in choices}


def test_failed_exact_claims_are_reported_and_stored(reviewed):
    assert "mediator-table1-SimpleDoorKey-always" in [each["id"] for each in reviewed.verdicts.exact_failed]
    stored = {each["id"]: each for each in json.loads((reviewed.page.parent / "claims.json").read_text())}
    missed = stored["mediator-table1-SimpleDoorKey-always"]
    assert (missed["tolerance"], missed["verdict"]) == ("exact", "contradicted")
    assert missed["published"]["steps"] == "25.78" and missed["fresh"]["steps"]["value"] == 30.0
    assert stored["mediator-failures-RandomBoxKey-always"]["verdict"] == "supported"
    assert stored["mediator-table2-habitat"]["verdict"] == "not tested"


def test_the_page_is_made_of_claims_json_and_without_records(reviewed, tmp_path):
    first = reviewed.page.read_bytes()
    home = shutil.copytree(reviewed.page.parent, tmp_path / reviewed.page.parent.name)
    shutil.rmtree(home / "mediator" / "runs")
    assert render(home).read_bytes() == first


def test_failed_runs_stand_on_the_page_and_their_text_is_no_markup(results):
    entry = {"world": "<script>alert(1)</script>", "status": "failed", "error": "<img src=x onerror=alert(1)>"}
    made_up.rewrite(results, more=[made_up.lost(load(results).version.runs()[0], **entry)])
    page = review(results).page.read_text()
    assert "&lt;img src=x onerror=alert(1)&gt;" in page and "&lt;script&gt;alert(1)" in page
    assert "<img src=x" not in page and "<script>alert" not in page


def test_names_of_code_and_sections_of_pages_are_markup_and_nothing_else_is():
    link = '<a href="../../docs/papers/glam-reference.md#released">glam-reference.md#released</a>'
    shown = linked("as `glam-<words>`, docs/papers/glam-reference.md#released; <b>")
    assert shown == f"as <code>glam-&lt;words&gt;</code>, {link}; &lt;b&gt;"


def front_pages(root: Path) -> tuple[Path, Path]:
    """README.md and the mediator's reference, with the markers between which `publish` writes."""
    readme, page = root / "README.md", root / "docs" / "papers" / "mediator-reference.md"
    readme.write_text("# Title\n\n<!-- papers:begin -->\nold\n<!-- papers:end -->\n\nafter\n")
    page.parent.mkdir(parents=True)
    page.write_text("<!-- results:begin -->\n<!-- results:end -->\n")
    return readme, page


@pytest.mark.slow
def test_the_front_page_is_renewed_in_place_and_only_once(results, tmp_path):
    published = tmp_path / "results" / "quick-v1"
    shutil.copytree(results, published)
    first, *others = load(published).version.runs()
    made_up.rewrite(
        published, lambda run, _: run.update(hardware={"cpu": "Z80"} if run["name"] == first["name"] else {})
    )
    (tmp_path / "results" / "reference.json").write_text(json.dumps({"mediator": {"quick": "quick-v1"}}))
    readme, page = front_pages(tmp_path)
    publish(tmp_path)
    once = readme.read_text()
    publish(tmp_path)
    assert readme.read_text() == once
    assert once.startswith("# Title\n") and once.endswith("\n\nafter\n") and "\nold\n" not in once
    assert "[mediator](docs/papers/mediator.md)" in once
    claims = (tmp_path / "docs" / "claims.md").read_text()
    assert "[`quick`](../results/quick-v1/review.html#mediator-claims)" in claims
    assert '<h2 id="mediator-claims">' in (published / "review.html").read_text()
    assert (tmp_path / "figures" / "mediator-tradeoff.png").is_file()
    assert (published / "mediator" / "tables" / "mediator-table1.md").read_text().rstrip() in page.read_text()
    assert f"CPU-seconds, CPU not named ({len(others)}), Z80 (1)." in page.read_text()


@pytest.mark.slow
def test_figures_are_those_of_the_version_with_most_verdicts(stored, tmp_path):
    versions = {scale: tmp_path / "results" / f"{scale}-v1" for scale in ("quick", "full")}
    for version in versions.values():
        shutil.copytree(stored, version)
    made_up.rewrite(
        versions["full"], lambda run, _: (run["method"], run["world"]) != ("mediator", "RandomBoxKey"), scale="full"
    )
    (tmp_path / "results" / "reference.json").write_text(
        json.dumps({"mediator": {scale: version.name for scale, version in versions.items()}})
    )
    front_pages(tmp_path)
    publish(tmp_path)
    drawn = {
        scale: {path.name: path.read_bytes() for path in version.glob("mediator/figures/*.png")}
        for scale, version in versions.items()
    }
    assert drawn["quick"] and drawn["quick"] != drawn["full"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "figures").glob("*.png")} == drawn["quick"]


@pytest.mark.parametrize("undecided", ["not tested", "inconclusive", "preliminary"])
def test_the_scale_of_a_paper_is_that_which_decides_most_of_its_claims_whichever_comes_first(undecided):
    fewer, more = (
        Published("mediator", scale, Path(), tuple({"kind": "paper", "verdict": each} for each in verdicts))
        for scale, verdicts in (("quick", ("matches", undecided, undecided)), ("full", ("matches", "matches")))
    )
    assert best_scale([fewer, more]) is best_scale([more, fewer]) is more
    assert best_scale([more, same := replace(more, scale="paper")]) is same


def test_the_page_of_claims_begins_with_every_miss_and_nothing_else(reviewed):
    """A claim that misses at two scales is one row below its reason, which says what was measured at both."""
    stored = json.loads((reviewed.page.parent / "claims.json").read_text())
    missed = [claim["id"] for claim in stored if claim["verdict"] == "contradicted"]
    told = tuple(claim | {"why": "Too small.", "page": "mediator.md#results"} for claim in stored)
    mine = [Published("mediator", scale, reviewed.page.parent, told) for scale in ("quick", "full")]
    heading, count, why, table = misses_block(mine)
    assert missed and heading == "## Contradicted"
    assert sum(map(int, re.findall(r"(\d+) of kind", count))) == len(missed)
    rows = [cells(line) for line in table.splitlines()[2:]]
    links = [re.findall(r"\[`(.*)`\]\(\.\./results/[\w.-]+/review\.html#(.*?)\)", row[0])[0] for row in rows]
    assert sorted(links) == sorted((name, name) for name in missed)
    assert why == "**Why**: Too small. ([more](papers/mediator.md#results))"
    held = tuple(claim for claim in told if claim["id"] not in missed)
    assert misses_block([Published("mediator", "quick", reviewed.page.parent, held)]) == []


def test_a_page_without_markers_is_left_alone(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("# Title\n")
    with pytest.raises(GroundlabError, match=r"README\.md has lost its markers; put <!-- papers:begin -->"):
        between_markers(page, "papers", "| row |")


def test_a_version_declares_what_it_counts_and_what_is_left_out(results):
    """Runs that failed or are missing are counted and named; a whole version says 0."""
    stored = load(results).version.runs()
    review(results)
    drops = json.loads((results / "reporting.json").read_text())["drops"]
    assert (drops["runs planned"], drops["runs failed"], drops["runs missing"]) == (len(stored), 0, 0)
    assert drops["runs of uncommitted code"] == 0
    dirty = [run["name"] for run in stored if run["method"] == "mediator"][:3]

    def change(run, records):
        if run["name"] in dirty:
            run["git"] = {"commit": "a" * 40, "dirty": True}
        if run["name"] in dirty[1:]:
            run["rules"] = {"claims": {}, "commit": "b" * 40}

    gone = [made_up.lost(stored[0], seed=7, status=each, error=None) for each in ("failed", "missing")]
    made_up.rewrite(results, change, more=gone)
    page = review(results).page.read_text()
    drops = json.loads((results / "reporting.json").read_text())["drops"]
    assert (drops["runs planned"], drops["runs failed"], drops["runs missing"]) == (len(stored) + 2, 1, 1)
    assert drops["runs of uncommitted code"] == 3 and "3 of these runs with uncommitted changes" in page
    assert f"{'b' * 40} (2 runs)" in page and f"a commit that they do not name ({len(stored) - 2} runs)" in page
    block = results_block([Published("mediator", "quick", results, ())])
    assert f"{len(stored)} runs (1 failed, 1 missing)" in block
    assert [run["label"] for run in drops["runs dropped"]] == [f"{stored[0]['method']}-{stored[0]['world']}-s7"] * 2
