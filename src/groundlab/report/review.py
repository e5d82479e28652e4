"""The review page: every claim with its verdict, fresh figures beside the reference's, tables, and how it was made.

    page = review("results/0.1.0-quick-20261121-ab12cd3")     # writes review.html and claims.json into the folder
    page.exact_failed                                         # the claims that make `groundlab review` exit with 1

It draws and judges what is stored and trains nothing. The page is one file that needs no other, so it can be sent and
read offline; it points to the executed notebooks in its own folder.
Layout: review.html.j2.
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
from groundlab.core.manifests import find_published, is_clean, values_of
from groundlab.core.yaml_files import parse_yaml
from groundlab.report import tables, verdict_changes
from groundlab.report.claims import KINDS
from groundlab.report.exhibits import Drawn, Gallery, draw_all
from groundlab.report.judging import judge
from groundlab.report.records import Records, load
from groundlab.report.statistics import CONFIDENCE, SEEDS_FOR_A_VERDICT
from groundlab.report.style import data_uri
from groundlab.report.verdicts import Stored, Verdicts, Word, read_stored

CLASSES = {word: {"✓": "good", "✗": "bad", "–": "none"}.get(word.sign, "open") for word in Word}
"""How a verdict is coloured: good, bad, open or none."""
WORDING = {"signs": {word: word.sign for word in Word}, "classes": CLASSES, "kind_names": KINDS}
WORDING["meanings"] = {word: word.meaning for word in Word}
"""Names and signs of verdicts and kinds for page layouts."""


@dataclass(frozen=True, repr=False)
class Review:
    """A review that was written: the page, the verdicts and the exhibits on it."""

    page: Path
    verdicts: Verdicts
    exhibits: Gallery
    left_out: dict[str, int]
    """Papers of the version whose runs are not there any more, with their number."""

    @property
    def exact_failed(self) -> Verdicts:
        """The claims of class `exact` that do not hold."""
        return self.verdicts.exact_failed

    def __repr__(self) -> str:
        return "\n".join([str(self.page), *self.verdicts.summary(), *left_out_lines(self.left_out)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>{self.verdicts._repr_html_()}"


def review(folder: str | Path) -> Review:
    """Draw and judge the records of a folder, and write claims.json, reporting.json and review.html into it.

    Raises GroundlabError for a folder without runs.
    """
    records = load(folder)
    exhibits, judged = draw_all(records), judge(records)
    claims = [each.as_json() for each in judged if each.claim.paper in records.papers]
    storage.write_json(records.folder / "claims.json", claims)
    verdicts = read_stored(records.folder)
    storage.write_json(records.folder / "reporting.json", _reporting(records, verdicts))
    page = records.folder / "review.html"
    storage.write_atomic(page, _render(records, verdicts, exhibits))
    return Review(page, verdicts, exhibits, records.left_out)


def _reporting(records: Records, verdicts: Verdicts) -> dict[str, Any]:
    """What a version declares of its scores, as rollout cards do (arXiv 2605.12131): views, rules and drops.

    The words are in assets/reporting.yaml. Every count is there where it is 0, too.
    """
    declared = parse_yaml(read_text("reporting.yaml"), "reporting.yaml")
    rules = {
        name: rule.format(confidence=CONFIDENCE, seeds=SEEDS_FOR_A_VERDICT) for name, rule in declared["rules"].items()
    }
    listed = records.manifest.get("runs", [])
    dropped = [run for run in listed if run["status"] != "finished"]
    drops = {
        "runs planned": len(listed),
        "runs failed": sum(run["status"] == "failed" for run in dropped),
        "runs missing": sum(run["status"] == "missing" for run in dropped),
        "runs left out with their paper": records.left_out,
        "runs of uncommitted code": _of_uncommitted_code(records),
        "runs dropped": [{key: run[key] for key in ("label", "hash", "status", "error")} for run in dropped],
        "claims not run": sum(each["verdict"] == Word.NOT_TESTED for each in verdicts),
        "judged claims by runs missing": {each["id"]: each["missing"] for each in verdicts if each["missing"]},
    }
    return declared | {"rules": {**rules, "verdicts": WORDING["meanings"]}, "drops": declared["drops"] | drops}


def left_out_lines(papers: dict[str, int]) -> list[str]:
    """What a reader must know of papers whose runs were taken out of a version."""
    return [f"{paper} is not judged: its {count} runs are no longer in this version" for paper, count in papers.items()]


def _render(records: Records, verdicts: Verdicts, exhibits: Gallery) -> str:
    home = Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=True)
    home.filters |= {"linked": linked, "duration": duration}
    home.globals |= WORDING
    template = home.get_template("review.html.j2")
    return template.render(
        version=records.version,
        scale=records.scale,
        summary=verdicts.summary(),
        missed=_missed(verdicts),
        exact_failed=verdicts.exact_failed,
        exact_judged=sum(each["tolerance"] == "exact" and each["verdict"] != Word.NOT_TESTED for each in verdicts),
        kinds=sorted({each["kind"] for each in verdicts}),
        papers=[_paper(records, paper, verdicts, exhibits) for paper in records.papers],
        beside=_beside_published(records, verdicts),
        left_out=left_out_lines(records.left_out),
        origin=_origin(records),
        runs=_runs(records),
    )


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


def _paper(records: Records, paper: str, verdicts: Verdicts, exhibits: Gallery) -> dict[str, Any]:
    reference, note = _reference(records, paper)
    mine = [each for each in exhibits if each.exhibit.paper == paper]
    ours, offered = verdicts.of_paper(paper), plugins.load(plugins.PAPERS)[paper]
    there = sorted(file.name for file in (records.folder / paper / "executed").glob("*.ipynb"))
    notebooks = records.manifest.get("notebooks", {}).get(paper, there)  # a fresh version's are executed after this
    return {
        "name": paper,
        "title": offered.title,
        "url": offered.url,
        "notebooks": notebooks,
        "summary": ours.summary(),
        "claims": [_claim(each) for each in sorted(ours, key=lambda each: each["verdict"] == Word.NOT_TESTED)],
        "drawn": {each.exhibit.id for each in mine if not each.skipped},
        "reference_note": note,
        "figures": [_figure(each, image, reference) for each in mine if (image := each.path("png"))],
        "tables": [_table(each, text) for each in mine if (text := each.path("md"))],
        "skipped": [(each.exhibit.title, each.skipped) for each in mine if each.skipped],
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


def _reference(records: Records, paper: str) -> tuple[Path | None, str]:
    """The folder of the published version of a paper at this scale, and what the page says about it."""
    version = find_published(paper, records.scale, records.folder.parent)
    if version is None:
        return None, f"No reference results of {paper} are published at scale {records.scale}."
    if version.resolve() == records.folder.resolve():
        return None, "This version is the published reference itself."
    return version, f"Beside the reference {version.name}."


def _beside_published(records: Records, claims: Verdicts) -> dict[str, Any] | None:
    """What `reproduce` found of this version's runs beside the published ones, and the verdicts that differ."""
    if not (records.folder / "comparison.json").is_file():
        return None
    there = verdict_changes.published_claims(records.folder, records.papers, records.scale)
    return storage.read_json(records.folder / "comparison.json") | {
        "verdicts": verdict_changes.verdict_lines(claims, there)[:1],
        "changes": verdict_changes.changed_verdicts(claims, there),
    }


def _origin(records: Records) -> dict[str, Any]:
    """Commits, hardware and versions: from the manifest, or from the runs' while the folder is being assembled."""
    first = records.runs["manifest"].iloc[0]
    facts = records.manifest or first
    return {
        "command": records.manifest.get("command", ""),
        "created": records.manifest.get("created", ""),
        "whole": bool(records.manifest),
        "facts": facts,
        "commits": Counter(values_of(each, "git", "commit", "no commit") for each in records.runs["manifest"]),
        "dirty": _of_uncommitted_code(records),
        "rules": Counter(_rules_of(each) for each in records.runs["manifest"]),
        "drawn_by": (commit, git.date_of(commit)) if (commit := git.last_change("src/groundlab", "configs")) else None,
        "machines": Counter(values_of(each, "hardware", "cpu", "unknown") for each in records.runs["manifest"]),
    }


def _of_uncommitted_code(records: Records) -> int:
    return sum(not is_clean(each) for each in records.runs["manifest"])


def _rules_of(manifest: dict[str, Any]) -> str:
    """The commit of the claims that stood when a run began, by its own manifest."""
    if "rules" not in manifest:
        return "a commit that they do not name"
    return manifest["rules"]["commit"] or "no commit, since they were being edited"


def _runs(records: Records) -> dict[str, Any]:
    """Every run with its times, failed and missing ones included, and the totals."""
    stored = records.runs.to_dict("records")
    listed = records.manifest.get("runs") or [{**run, "folder": None, "status": "finished"} for run in stored]
    entries = [each for each in listed if not each["folder"] or (records.folder / each["folder"]).is_dir()]
    return {
        "entries": entries,
        "counts": {word: sum(each["status"] == word for each in entries) for word in ("finished", "failed", "missing")},
        "peak": max((entry["peak_memory_mib"] for entry in entries), default=0.0),
    }
