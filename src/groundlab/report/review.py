"""The review page: every claim with its verdict, fresh figures beside the reference's, tables, and how it was made.

    page = review("results/0.1.0-quick-20261121-ab12cd3")     # draws and judges; writes claims.json, and review.html
    render("results/0.1.0-quick-20261121-ab12cd3")            # review.html alone, from claims.json and version.json
    page.exact_failed                                         # the claims that make `groundlab review` exit with 1

Nothing is trained. The page is one file that needs no other, so it can be sent and read offline; it points to the
executed notebooks in its own folder. Layout: review.html.j2.
"""

import html
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.filters import do_mark_safe

from groundlab.assets import read_text
from groundlab.core import git, plugins, storage
from groundlab.core.manifests import is_clean, values_of
from groundlab.core.versions import Version, find_published
from groundlab.core.yaml_files import parse_yaml
from groundlab.report import tables, verdict_changes
from groundlab.report.claims import KINDS
from groundlab.report.exhibits import Drawn, Gallery, draw_all, exhibits, show
from groundlab.report.judging import judge
from groundlab.report.records import load
from groundlab.report.statistics import CONFIDENCE, SEEDS_FOR_A_VERDICT
from groundlab.report.style import data_uri
from groundlab.report.verdicts import Stored, Verdicts, Word, read_stored

CLASSES = {word: {"✓": "good", "✗": "bad", "–": "none"}.get(word.sign, "open") for word in Word}
"""How a verdict is coloured: good, bad, open or none."""
WORDING = {"signs": {word: word.sign for word in Word}, "classes": CLASSES, "kind_names": KINDS}
WORDING["meanings"] = {word: word.meaning for word in Word}
"""Names and signs of verdicts and kinds for page layouts."""


@dataclass(frozen=True)
class Review:
    """A review that was written: the page, the verdicts and the exhibits on it."""

    page: Path
    verdicts: Verdicts
    exhibits: Gallery


def review(folder: str | Path) -> Review:
    """Draw and judge the records of a version, and write claims.json, reporting.json and review.html into it.

    Raises GroundlabError for a folder without runs.
    """
    records = load(folder)
    drawn, judged = draw_all(records), judge(records)
    claims = [each.as_json() for each in judged if each.claim.paper in records.papers]
    storage.write_json(records.version.folder / "claims.json", claims)
    return Review(render(folder), read_stored(folder), drawn)


def render(folder: str | Path) -> Path:
    """Write review.html of a version, and reporting.json, from its claims.json, version.json, tables and figures."""
    version, verdicts = Version(folder), read_stored(folder)
    storage.write_json(version.folder / "reporting.json", _reporting(version, verdicts))
    home = Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=True)
    home.filters |= {"linked": linked, "duration": duration}
    home.globals |= WORDING
    papers = dict.fromkeys(each["paper"] for each in version.runs())
    page = home.get_template("review.html.j2").render(
        version=version.name,
        scale=version.scale,
        summary=verdicts.summary(),
        missed=_missed(verdicts),
        exact_failed=verdicts.exact_failed,
        exact_judged=sum(each["tolerance"] == "exact" and each["verdict"] != Word.NOT_TESTED for each in verdicts),
        kinds=sorted({each["kind"] for each in verdicts}),
        papers=[_paper(version, paper, verdicts.of_paper(paper)) for paper in papers],
        beside=_beside_published(version, list(papers), verdicts),
        origin=_origin(version),
        runs=_runs(version),
    )
    storage.write_atomic(file := version.folder / "review.html", page)
    return file


def _reporting(version: Version, verdicts: Verdicts) -> dict[str, Any]:
    """What a version declares of its scores, as rollout cards do (arXiv 2605.12131): views, rules and drops.

    The words are in assets/reporting.yaml. Every count is there where it is 0, too.
    """
    declared = parse_yaml(read_text("reporting.yaml"), "reporting.yaml")
    rules = {
        name: rule.format(confidence=CONFIDENCE, seeds=SEEDS_FOR_A_VERDICT) for name, rule in declared["rules"].items()
    }
    dropped = [run for run in version.planned if run["status"] != "finished"]
    drops = {
        "runs planned": len(version.planned),
        "runs failed": sum(run["status"] == "failed" for run in dropped),
        "runs missing": sum(run["status"] == "missing" for run in dropped),
        "runs of uncommitted code": sum(not is_clean(run) for run in version.runs()),
        "runs dropped": [{key: run[key] for key in ("label", "hash", "status", "error")} for run in dropped],
        "claims not run": sum(each["verdict"] == Word.NOT_TESTED for each in verdicts),
        "judged claims by runs missing": {each["id"]: each["missing"] for each in verdicts if each["missing"]},
    }
    return declared | {"rules": {**rules, "verdicts": WORDING["meanings"]}, "drops": declared["drops"] | drops}


def _missed(verdicts: Verdicts) -> list[tuple[tuple[str, str], list[dict[str, Any]]]]:
    """The claims that missed, by why and where the page explains it; what holds of several is said once."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in verdicts:
        if each["verdict"] == Word.CONTRADICTED:
            claim = _claim(each)
            found.setdefault((claim["why"], claim["section"]), []).append(claim)
    return list(found.items())


def linked(text: str, papers: str = "../../docs/papers", kind: str = "md") -> str:
    """HTML of a text in which `names` stand as code, and sections of docs/papers are links, as pages of a kind."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
    link = rf'<a href="{papers}/\1.{kind}\2">\1.md\2</a>'
    return do_mark_safe(re.sub(r"docs/papers/([\w-]+)\.md((?:#[\w-]+)?)", link, marked))


def duration(seconds: float | None) -> str:
    """`31.4 min`; a dash for none."""
    return "–" if seconds is None else f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def _paper(version: Version, paper: str, verdicts: Verdicts) -> dict[str, Any]:
    reference, note = _reference(version, paper)
    offered = plugins.load(plugins.PAPERS)[paper]
    mine = [drawn for id, each in exhibits().items() if each.paper == paper and (drawn := show(id, version.folder))]
    return {
        "name": paper,
        "title": offered.title,
        "url": offered.url,
        "notebooks": version.facts["notebooks"].get(paper, []),
        "summary": verdicts.summary(),
        "claims": [_claim(each) for each in sorted(verdicts, key=lambda each: each["verdict"] == Word.NOT_TESTED)],
        "drawn": {each.exhibit.id for each in mine},
        "reference_note": note,
        "figures": [_figure(each, image, reference) for each in mine if (image := each.path("png"))],
        "tables": [_table(each, text) for each in mine if (text := each.path("md"))],
    }


def _claim(stored: Stored) -> dict[str, Any]:
    """An entry of claims.json for the page: its readable form, and the links."""
    return {
        **stored,
        **stored["readable"],
        "word": stored["verdict"],
        "why": stored["why"] if stored["verdict"] == Word.CONTRADICTED else "",
        "section": f"../../docs/papers/{stored['page']}" if stored["page"] else "",
    }


def _figure(drawn: Drawn, fresh: Path, reference: Path | None) -> dict[str, Any]:
    """A figure, and the reference's of the same name unless that is the same to the last byte."""
    earlier = reference / drawn.exhibit.paper / "figures" / fresh.name if reference else None
    if earlier is not None and not earlier.is_file():
        earlier = None
    same = earlier is not None and earlier.read_bytes() == fresh.read_bytes()
    return {
        "title": drawn.exhibit.title,
        "id": drawn.exhibit.id,
        "fresh": data_uri(fresh.read_bytes()),
        "earlier": data_uri(earlier.read_bytes()) if earlier and not same else None,
        "same": same,
    }


def _table(drawn: Drawn, path: Path) -> dict[str, Any]:
    """A saved Markdown table as rows of cells and its notes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [tables.cells(line) for line in lines if line.startswith("|")]
    notes = [html.unescape(line[2:]) for line in lines if line.startswith("- ")]
    return {"id": drawn.exhibit.id, "title": drawn.exhibit.title, "head": rows[0], "rows": rows[2:], "notes": notes}


def _reference(version: Version, paper: str) -> tuple[Path | None, str]:
    """The folder of the published version of a paper at this scale, and what the page says about it."""
    published = find_published(paper, version.scale, version.folder.parent)
    if published is None:
        return None, f"No reference results of {paper} are published at scale {version.scale}."
    if published.resolve() == version.folder.resolve():
        return None, "This version is the published reference itself."
    return published, f"Compared with the reference {published.name}."


def _beside_published(version: Version, papers: list[str], claims: Verdicts) -> dict[str, Any] | None:
    """What `reproduce` found of this version's runs beside the published ones, and the verdicts that differ."""
    if not (version.folder / "comparison.json").is_file():
        return None
    there = verdict_changes.published_claims(version.folder, papers, version.scale)
    return storage.read_json(version.folder / "comparison.json") | {
        "verdicts": verdict_changes.verdict_lines(claims, there)[:1],
        "changes": verdict_changes.changed_verdicts(claims, there),
    }


def _origin(version: Version) -> dict[str, Any]:
    """Commits, hardware and rules of the runs, and where the version was put together."""
    runs = version.runs()
    return {
        "facts": version.facts,
        "commits": Counter(values_of(each, "git", "commit", "no commit") for each in runs),
        "dirty": sum(not is_clean(each) for each in runs),
        "rules": Counter(_rules_of(each) for each in runs),
        "drawn_by": (commit, git.date_of(commit)) if (commit := git.last_change("src/groundlab", "configs")) else None,
        "machines": Counter(values_of(each, "hardware", "cpu", "unknown") for each in runs),
    }


def _rules_of(manifest: dict[str, Any]) -> str:
    """The commit of the claims that stood when a run began, by its own manifest."""
    if "rules" not in manifest:
        return "a commit that they do not name"
    return manifest["rules"]["commit"] or "no commit, since they were being edited"


def _runs(version: Version) -> dict[str, Any]:
    """Every run with its times, failed and missing ones included, and the totals."""
    counts = Counter(run["status"] for run in version.planned)
    return {
        "entries": version.planned,
        "counts": {word: counts[word] for word in ("finished", "failed", "missing")},
        "peak": max((run["peak_memory_mib"] for run in version.planned), default=0.0),
    }
