"""The review page: every claim with its verdict, fresh figures beside the reference's, tables, and how it was made.

    page = review("results/0.1.0-quick-20261121-ab12cd3")     # writes review.html and claims.json into the folder
    page.exact_failed                                         # the claims that make `groundlab review` exit with 1

It draws and judges what is stored and trains nothing. The page is one file that needs no other, so it can be sent and
read offline; it points to the executed notebooks in its own folder.
Layout: review.html.j2.
"""

import base64
import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from groundlab.core import storage
from groundlab.core.manifests import find_published
from groundlab.report import tables, verdict_changes
from groundlab.report.exhibits import Drawn, Gallery, draw_all
from groundlab.report.judging import SIGNS, VERDICTS, Verdict, Verdicts, judge, readable_row
from groundlab.report.records import Records, load, select

_CLASSES = dict(zip(VERDICTS, ("good", "good", "good", "good", "open", "open", "bad", "none"), strict=True))


@dataclass(frozen=True)
class Review:
    """A review that was written: the page, the verdicts and the exhibits on it."""

    page: Path
    verdicts: Verdicts
    exhibits: Gallery
    left_out: dict[str, int]
    """Papers of the version whose runs are not there any more, with their number."""

    @property
    def exact_failed(self) -> list[Verdict]:
        """The claims of class `exact` that do not hold."""
        return self.verdicts.exact_failed

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {word}" for word, count in self.verdicts.counts().items())
        return "\n".join([str(self.page), f"claims: {counts}", *left_out_lines(self.left_out)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>{self.verdicts._repr_html_()}"


def review(folder: str | Path) -> Review:
    """Draw, judge and write `<folder>/review.html` and `<folder>/claims.json`. Raises GroundlabError without runs."""
    records = load(folder)
    exhibits, verdicts = draw_all(records), judge(records)
    verdicts = Verdicts(each for each in verdicts if each.claim.paper in records.papers)
    page, claims = records.folder / "review.html", [each.as_json() for each in verdicts]
    storage.write_json(records.folder / "claims.json", claims)
    storage.write_atomic(page, _render(records, verdicts, exhibits, _beside_published(records, claims)))
    return Review(page, verdicts, exhibits, records.left_out)


def left_out_lines(papers: dict[str, int]) -> list[str]:
    """What a reader must know of papers whose runs were taken out of a version."""
    return [f"{paper} is not judged: its {count} runs are no longer in this version" for paper, count in papers.items()]


def _render(records: Records, verdicts: Verdicts, exhibits: Gallery, beside: dict[str, Any] | None) -> str:
    home = Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=True)
    template = home.get_template("review.html.j2")
    references = {paper: _reference(records, paper) for paper in records.papers}
    return template.render(
        version=records.version,
        scale=records.scale,
        counts=[(SIGNS[word], _CLASSES[word], word, count) for word, count in verdicts.counts().items()],
        exact_failed=verdicts.exact_failed,
        exact_judged=sum(each.claim.tolerance == "exact" and each.judged for each in verdicts),
        kinds=sorted({each.claim.kind for each in verdicts}),
        papers=[
            _paper(records, paper, verdicts, exhibits, *references[paper]) | {"pages": _pages(records.folder, paper)}
            for paper in records.papers
        ],
        beside=beside,
        left_out=left_out_lines(records.left_out),
        origin=_origin(records),
        runs=_runs(records),
    )


def _paper(
    records: Records, paper: str, verdicts: Verdicts, exhibits: Gallery, reference: Path | None, note: str
) -> dict[str, Any]:
    mine = [each for each in exhibits if each.exhibit.paper == paper]
    ours = Verdicts(each for each in verdicts if each.claim.paper == paper)
    drawn = {each.exhibit.id for each in mine if not each.skipped}
    own = records.of_paper(paper)
    return {
        "name": paper,
        "counts": ours.counts(),
        "claims": [_claim(each, own, drawn) for each in ours],
        "reference_note": note,
        "figures": [_figure(each, image, reference) for each in mine if (image := each.path("png"))],
        "tables": [_table(each, text) for each in mine if (text := each.path("md"))],
        "skipped": [(each.exhibit.title, each.skipped) for each in mine if each.skipped],
    }


def _pages(folder: Path, paper: str) -> list[tuple[str, str]]:
    """(link, name) of a paper's executed notebooks in their order; early versions have a single `executed.ipynb`."""
    files = [*folder.glob(f"{paper}/executed.ipynb"), *sorted(folder.glob(f"{paper}/executed/*.ipynb"))]
    return [(file.relative_to(folder).as_posix(), file.name) for file in files]


def _claim(verdict: Verdict, records: Records, drawn: set[str]) -> dict[str, Any]:
    seconds = verdict.seconds
    figure = re.search(r"--figure (\S+)", verdict.claim.command or "")
    return {
        **readable_row(verdict),
        "id": verdict.claim.id,
        "kind": verdict.claim.kind,
        "figure": figure.group(1) if figure and figure.group(1) in drawn else None,
        "runs": _run_links(verdict, records) if verdict.judged else [],
        "tolerance": verdict.claim.tolerance,
        "source": verdict.claim.source,
        "command": verdict.claim.command,
        "reason": verdict.reason,
        "word": verdict.verdict,
        "sign": SIGNS[verdict.verdict],
        "class": _CLASSES[verdict.verdict],
        "time": "–" if seconds is None else f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min",
    }


def _run_links(verdict: Verdict, records: Records) -> list[tuple[str, str]]:
    """(link, label) of the run folders whose rows a claim was judged by, in the order of its selectors and seeds."""
    names: dict[str, None] = {}
    for selector in verdict.claim.selectors:
        chosen = select(records.runs, method=selector.method, world=selector.world, settings=selector.settings)
        names |= dict.fromkeys(chosen.sort_values("seed")["run"])
    return [(f"{verdict.claim.paper}/runs/{name}/", name) for name in names]


def _figure(drawn: Drawn, fresh: Path, reference: Path | None) -> dict[str, Any]:
    """A figure, and the reference's of the same name unless that is the same to the last byte."""
    earlier = reference / drawn.exhibit.paper / "figures" / fresh.name if reference else None
    if earlier is not None and not earlier.is_file():
        earlier = None
    same = earlier is not None and earlier.read_bytes() == fresh.read_bytes()
    return {
        "title": drawn.exhibit.title,
        "id": drawn.exhibit.id,
        "fresh": embedded(fresh),
        "earlier": embedded(earlier) if earlier and not same else None,
        "same": same,
    }


def embedded(image: Path) -> str:
    """A PNG as a data URI."""
    return "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()


def _table(drawn: Drawn, path: Path) -> dict[str, Any]:
    """A saved Markdown table as rows of cells and its notes."""
    lines = path.read_text().splitlines()
    rows = [tables.cells(line) for line in lines if line.startswith("|")]
    notes = [tables.plain(line[2:]) for line in lines if line.startswith("- ")]
    return {"id": drawn.exhibit.id, "title": drawn.exhibit.title, "head": rows[0], "rows": rows[2:], "notes": notes}


def _reference(records: Records, paper: str) -> tuple[Path | None, str]:
    """The folder of the published version of a paper at this scale, and what the page says about it."""
    version = find_published(paper, records.scale, records.folder.parent)
    if version is None:
        return None, f"No reference results of {paper} are published at scale {records.scale}."
    if version.resolve() == records.folder.resolve():
        return None, "This version is the published reference itself."
    return version, f"Beside the reference {version.name}."


def _beside_published(records: Records, claims: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What `reproduce` found of this version's runs beside the published ones, and the verdicts that differ."""
    if not (records.folder / "comparison.json").is_file():
        return None
    there = verdict_changes.published_claims(records.folder, records.papers, records.scale)
    return storage.read_json(records.folder / "comparison.json") | {
        "verdicts": verdict_changes.verdict_lines(claims, there)[:1],
        "changes": verdict_changes.changed_verdicts(claims, there),
    }


def _origin(records: Records) -> dict[str, Any]:
    """Commit, hardware and versions: from the manifest, or from the runs' while the folder is being assembled."""
    first = records.runs["manifest"].iloc[0]
    facts = records.manifest or first
    return {
        "command": records.manifest.get("command", ""),
        "created": records.manifest.get("created", ""),
        "whole": bool(records.manifest),
        "git": facts.get("git") or {"commit": None, "dirty": False},
        "python": facts.get("python", ""),
        "platform": facts.get("platform", ""),
        "hardware": facts.get("hardware") or {},
        "packages": facts.get("packages") or {},
    }


def _runs(records: Records) -> dict[str, Any]:
    """Every run with its times, failed ones included, and the totals."""
    stored = records.runs.to_dict("records")
    listed = records.manifest.get("runs") or [{**run, "folder": None, "status": "finished"} for run in stored]
    entries = [each for each in listed if not each["folder"] or (records.folder / each["folder"]).is_dir()]
    seconds = sum(entry["wall_seconds"] for entry in entries)
    return {
        "entries": entries,
        "failed": [entry for entry in entries if entry["status"] == "failed"],
        "seconds": seconds,
        "cpu_seconds": sum(entry["cpu_seconds"] for entry in entries),
        "peak": max((entry["peak_memory_mib"] for entry in entries), default=0.0),
    }
