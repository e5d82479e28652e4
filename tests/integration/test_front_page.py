"""What a visitor of the repository sees first is there, and says what the published results say."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from groundlab import report
from groundlab.core import storage
from groundlab.core.versions import Version
from groundlab.report.claims import load_claims
from groundlab.report.front_page import best_scale, between_markers, claims_page, papers_table, published, results_block
from groundlab.report.verdicts import Word

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = storage.read_json(ROOT / "results" / "reference.json")
PUBLISHED = [(paper, version) for paper, scales in REFERENCE.items() for version in scales.values()]
PUBLISHED.sort(key=lambda each: each[1])  # the papers of one version are read together
fresh_judgement = cache(lambda paper, version: report.judge(ROOT / "results" / version, paper))


def test_every_link_and_picture_of_readme_and_docs_leads_somewhere():
    missing = []
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
            file = (page.parent / target).resolve() if target else page
            if "://" in target or target.startswith("mailto:"):
                continue
            if not file.exists() or (anchor and file.suffix == ".md" and f'id="{anchor}"' not in file.read_text()):
                missing.append(f"{page.name}: {target}#{anchor}")
    assert PAGES and not missing


@pytest.mark.parametrize(("paper", "version"), PUBLISHED)
def test_published_results_hold_every_run_finished_and_every_exact_claim(paper, version):
    folder = ROOT / "results" / version
    published = Version(folder)
    assert not published.facts["git"]["dirty"] and not any(run["status"] == "failed" for run in published.planned)
    assert published.runs(paper) and all(published.read(run, "evaluation.json") for run in published.runs(paper)[::20])
    assert not report.verdicts(folder, paper).exact_failed


def test_the_front_page_and_the_page_of_claims_are_those_of_the_published_results():
    every = list(published(ROOT / "results"))
    claims = (ROOT / "docs" / "claims.md").read_text()
    assert between_markers(ROOT / "README.md", "papers", papers_table(every)) == README
    assert claims_page(every) == claims
    assert all(f"results/{version}/review.html#{paper}-claims" in claims for paper, version in PUBLISHED)


@pytest.mark.parametrize("paper", REFERENCE)
def test_the_reference_of_a_paper_shows_the_tables_of_its_published_results(paper):
    page = ROOT / "docs" / "papers" / f"{paper}-reference.md"
    mine = [each for each in published(ROOT / "results") if each.paper == paper]
    assert between_markers(page, "results", results_block(mine)) == page.read_text()


@pytest.mark.parametrize(("paper", "version"), PUBLISHED)
def test_claims_json_and_review_page_say_what_a_fresh_judgement_says(paper, version):
    fresh = {each.claim.id: each for each in fresh_judgement(paper, version)}
    stored = storage.read_json(ROOT / "results" / version / "claims.json")
    mine = {claim["id"]: claim for claim in stored if claim["paper"] == paper}
    assert {name: json.loads(json.dumps(each.as_json())) for name, each in fresh.items()} == mine

    page = (ROOT / "results" / version / "review.html").read_text()
    rows = dict(re.findall(r'<tr id="([^"]+)"[^>]*>(.*?)</tr>', page, re.DOTALL))
    assert all(f"{each.verdict}</span>" in rows[name] for name, each in fresh.items())


@pytest.mark.parametrize("paper", REFERENCE)
def test_the_figures_of_the_readme_are_those_of_the_scale_with_most_verdicts(paper):
    mine = [each for each in published(ROOT / "results") if each.paper == paper]
    for figure in (best_scale(mine).folder / paper / "figures").iterdir():
        assert (ROOT / "figures" / figure.name).read_bytes() == figure.read_bytes()


def test_no_page_of_ours_names_a_path_of_the_machine_it_was_made_on():
    pages = [*PAGES, *(ROOT / "configs").rglob("*.yaml")]
    assert not [page.name for page in pages if re.search(r"(/home/|/root/|/work/|/tmp/)", page.read_text())]


def test_each_miss_in_the_published_results_says_why_and_names_a_section_that_is_there():
    claims = {claim.id: claim for claim in load_claims()}
    missed = {
        claim["id"]
        for each in published(ROOT / "results")
        for claim in each.claims
        if claim["verdict"] == Word.CONTRADICTED
    }
    assert missed and [name for name in missed if not (claims[name].why and claims[name].page)] == []
    for claim in claims.values():
        file, _, anchor = claim.page.partition("#")
        assert not file or f'<a id="{anchor}"></a>' in (ROOT / "docs" / "papers" / file).read_text(), claim.id


def test_readme_verifies_what_is_published():
    (version,) = re.findall(r"groundlab verify (\S+)", README)
    assert {scales["quick"] for scales in REFERENCE.values()} == {version}


def test_an_executed_notebook_that_is_run_again_trains_nothing():
    pages = [page for _, version in PUBLISHED for page in (ROOT / "results" / version).glob("*/executed/*.ipynb")]
    cells = [cell for page in pages for cell in storage.read_json(page)["cells"] if cell["cell_type"] == "code"]
    given = [line.strip() for cell in cells for line in cell["source"] if line.startswith("source = ")]
    assert given and {line.partition("#")[0].strip() for line in given} == {'source = "published"'}
