"""What a visitor of the repository sees first is there, and says what the published results say."""

import re
from pathlib import Path

import pytest

from groundlab import report
from groundlab.core import storage
from groundlab.report.readme import claims_section, with_claims

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
REFERENCE = storage.read_json(ROOT / "results" / "reference.json")
PUBLISHED = [(paper, version) for paper, scales in REFERENCE.items() for version in scales.values()]


def test_every_link_and_picture_of_the_readme_leads_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    missing = [target for target in targets if "://" not in target and not (ROOT / target).exists()]
    assert not missing


@pytest.mark.parametrize(("paper", "version"), PUBLISHED)
def test_published_results_hold_every_run_finished_and_every_exact_claim(paper, version):
    folder = ROOT / "results" / version
    manifest = storage.read_json(folder / "manifest.json")
    assert not manifest["git"]["dirty"] and manifest["totals"]["failed"] == 0
    assert all((folder / run["folder"] / "evaluation.json").is_file() for run in manifest["runs"])
    assert not report.judge(folder, paper).exact_failed


def test_the_claims_of_the_readme_are_those_of_the_published_results():
    assert with_claims(README, claims_section(ROOT / "results")) == README
    assert all(f"Results `{version}`" in README for _, version in PUBLISHED)


@pytest.mark.parametrize(("paper", "version"), PUBLISHED)
def test_the_figures_of_the_readme_are_those_of_the_published_results(paper, version):
    for figure in (ROOT / "results" / version / paper / "figures").iterdir():
        assert (ROOT / "figures" / figure.name).read_bytes() == figure.read_bytes()


def test_no_page_of_ours_names_a_path_of_the_machine_it_was_made_on():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "configs").glob("*.yaml")]
    assert not [page.name for page in pages if re.search(r"(/home/|/root/|/work/|/tmp/)", page.read_text())]
