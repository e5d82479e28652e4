"""The first command in one piece: a version of all papers is drawn, judged and shown, `quick` as each alone would be.

The plans are the real ones, their records are made up (`made_up.py`): nothing is trained. Figures have fewer dots here;
both sides of a comparison have the same.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import made_up
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure

from groundlab import lab, report
from groundlab.core import storage
from groundlab.core.paths import repository_root
from groundlab.core.versions import Version, versions_below
from groundlab.lab import versions
from groundlab.lab.plan import PlannedRun
from groundlab.report import Review, exhibits, style
from groundlab.report.claims import load_claims
from groundlab.report.exhibits import Drawn
from groundlab.report.verdicts import Word

NOTHING_TO_SHOW = {
    # studies that `full` judges with five seeds; one room only; nothing varied; one number of actions and of objects
    "quick": {
        *("glam-dose-curves", "glam-doses", "glam-pretraining", "glam-sizes", "mediator-variants"),
        *("mediator-planner", "glam-hangs-on"),
        *("glam-fig2", "glam-kinds", "glam-options", "knowledge-worlds", "knowledge-tests"),
        *("knowledge-crafter", "knowledge-achievements"),
        *("reasoning-distractors", "reasoning-distractors-table"),
        *("reasoning-estimators", "reasoning-estimators-table", "reasoning-limits"),
        *("reasoning-models", "reasoning-models-table", "reasoning-mixture", "reasoning-mixture-curves"),
        "reasoning-fitting",
    },
    # experiments that stand alone, the last two until they have run
    "full": {
        *("knowledge-labels", "knowledge-quirks", "reasoning-limits", "reasoning-limits-table"),
        *("glam-hangs-on", "reasoning-fitting"),
    },
    # models of other makers, of whose pretraining nothing is known; later options; labels and chat by one model each
    "paper": {
        *("mediator-planner", "glam-hangs-on"),
        *("glam-dose-curves", "glam-doses", "glam-options", "glam-pretraining", "knowledge-labels"),
        *("reasoning-models", "reasoning-models-table", "reasoning-fitting"),
    },
}


@pytest.fixture(autouse=True)
def _coarse(monkeypatch):
    monkeypatch.setattr(style, "DPI", 40)
    monkeypatch.setitem(style._RC, "pdf.fonttype", 3)  # no subsets of fonts, which take as long as the drawing


def draw_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on figures are PNGs only, and nothing is moved to make room: most of the time of a drawing."""

    def save(figure: Figure, folder: Path, name: str, corner: str = "") -> list[Path]:
        with style.house_style():
            return [style._write(figure, folder / f"{name}.png", "png")]

    monkeypatch.setattr(style, "save", save)
    monkeypatch.setattr(style, "Figure", lambda figsize, layout: Figure(figsize=figsize))


def leave_out_pdfs(monkeypatch: pytest.MonkeyPatch, names: set[str]) -> None:
    """From here on these figures have empty PDFs, as they are drawn elsewhere: as long a work as their PNGs."""
    write = style._write

    def some(figure: Figure, path: Path, kind: str) -> Path:
        if kind == "pdf" and path.stem in names:
            path.touch()
            return path
        return write(figure, path, kind)

    monkeypatch.setattr(style, "_write", some)


# --- The records are those that methods write


def published_runs() -> Iterator[tuple[Version, dict[str, Any]]]:
    """One published run of each method with each choice of settings."""
    found = {}
    for version in versions_below(repository_root() / "results"):
        for run in version.runs():
            spec = [run["method"], run["world"], run["settings"]]
            found.setdefault(json.dumps(spec, sort_keys=True), (version, run))
    return iter(found.values())


def shape(evaluations: list[dict], metrics: list[dict]) -> dict[str, Any]:
    """Policies in their order, the names in their rows, and the names in the records of training and in its tests."""
    tests = {policy: set(means) for record in metrics for policy, means in record.get("test", {}).items()}
    return {
        "rows": [(each["policy"], set().union(*each["rows"])) for each in evaluations],
        "metrics": set().union(*metrics),
        "tests": tests,
    }


def test_made_up_records_have_the_shape_of_published_ones():
    compared = set()
    for version, run in published_runs():
        spec = {key: run[key] for key in ("method", "world", "seed", "settings")}
        metrics = storage.parse_lines(version.read(run, "metrics.jsonl"), run["name"])
        theirs = shape(json.loads(version.read(run, "evaluation.json")), metrics)
        assert shape(*made_up.records_of(spec)) == theirs, run["name"]
        compared.add(spec["method"])
    assert len(compared) > 15


# --- The whole version


def version_name(scale: str) -> str:
    return f"0.1.0-{scale}-20260101-abcdef1"


def of_paper_alone(whole: Path, paper: str, home: Path) -> Path:
    """A version that holds the runs of one paper of a whole one, and nothing else."""
    folder, version = home / f"{paper}-alone" / whole.name, Version(whole)
    runs = [(run, {name: version.read(run, name) for name in run["records"]}) for run in version.runs(paper)]
    Version.begin(folder, {**version.facts, "papers": [paper]}).add(runs)
    return folder


def contents(drawn: Sequence[Drawn], *kinds: str) -> dict[str, bytes]:
    """File name -> content, of the exhibits' files with these endings."""
    return {path.name: path.read_bytes() for each in drawn for path in each.paths if path.suffix in kinds}


def check_review(review: Review, scale: str, runs: Sequence[PlannedRun]) -> None:
    """Every exhibit is drawn, every claim of the scale is judged, and all of it is on the page."""
    assert {each.exhibit.id for each in review.exhibits} == set(exhibits())
    assert {each.exhibit.id for each in review.exhibits if each.skipped} == NOTHING_TO_SHOW[scale]
    assert [each["id"] for each in review.verdicts] == [claim.id for claim in load_claims()]
    due = {
        claim.id
        for claim in load_claims()
        if scale in claim.scales and claim.not_run is None
        if all(
            any(each.fits(run.spec.method, run.spec.world, run.spec.settings) for run in runs)
            for each in claim.selectors
        )
    }
    assert {each["id"] for each in review.verdicts if each["verdict"] != Word.NOT_TESTED} == due
    page = review.page.read_text()
    assert all(claim.id in page for claim in load_claims())
    assert page.count("data:image/png;base64,") >= sum(each.path("png") is not None for each in review.exhibits)


def check_against_papers_alone(review: Review, home: Path) -> None:
    """Tables and figures to the byte, verdicts to the last digit."""
    kinds, whole = ("csv", "md", "png"), review.page.parent
    for paper in {each.exhibit.paper for each in review.exhibits}:
        records = report.load(of_paper_alone(whole, paper, home))
        mine = [each for each in review.exhibits if each.exhibit.paper == paper]
        wanted = [each.exhibit.id for each in mine if any(each.path(kind) for kind in kinds)]
        theirs = contents([report.draw(id, records) for id in wanted], *(f".{kind}" for kind in kinds))
        assert contents(mine, *(f".{kind}" for kind in kinds)) == theirs and theirs
        alone = [json.loads(json.dumps(each.as_json())) for each in report.judge(records, paper)]
        assert review.verdicts.of_paper(paper) == alone and alone


@pytest.mark.parametrize("scale", ["full", "paper"])
def test_a_version_of_all_papers_shows_and_judges_all_that_it_can(scale, tmp_path, monkeypatch):
    if scale == "paper":
        draw_plainly(monkeypatch)  # each exhibit has been drawn as it will be at `quick` or at `full`
    else:
        leave_out_pdfs(monkeypatch, set(exhibits()) - NOTHING_TO_SHOW["quick"])
    plan = lab.plan(scale=scale, results=tmp_path / "results")
    review = report.review(made_up.write_version(plan, tmp_path / version_name(scale)))
    check_review(review, scale, plan.runs)


# --- Its pages


def run_cells(page: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Execute a notebook's cells here, where figures are drawn coarsely, and show each result; returns its names."""
    shell = InteractiveShell()
    for cell in nbformat.read(repository_root() / "notebooks" / page, as_version=4).cells:
        if cell.cell_type == "code":
            done = shell.run_cell(cell.source)
            done.raise_error()
            show = getattr(done.result, "_repr_mimebundle_", None) or getattr(done.result, "_repr_html_", None)
            assert show is None or show()
            assert len(repr(done.result)) < 20_000, cell.source  # a notebook keeps it with what it shows
        if "parameters" in cell.metadata.get("tags", ()):
            assert parameters.keys() <= shell.user_ns.keys()
            shell.push(parameters)
    return shell.user_ns


def test_the_first_command_makes_the_pages_of_all_papers_of_one_version(tmp_path, monkeypatch):
    monkeypatch.setenv("GROUNDLAB_RESULTS", str(tmp_path / "results"))
    draw_plainly(monkeypatch)
    plan = lab.plan(scale="quick")
    made_up.write_store(plan)
    whole = versions.make_version(plan, tmp_path / version_name("quick"), {}, "groundlab reproduce").folder
    made = sorted(lab.published("knowledge", "quick", repository_root() / "results").glob("knowledge/runs/*/knowledge"))
    for knowledge in made:
        shutil.copytree(knowledge, whole / knowledge.relative_to(knowledge.parents[3]))  # which the notebook prints
    review = report.review(whole)
    check_review(review, "quick", plan.runs)
    check_against_papers_alone(review, tmp_path)
    for experiment in plan.experiments:
        for page in experiment.notebooks:
            run_cells(page, {"scale": "quick", "folder": str(whole)})
