"""The pages of claims: one each, and a board of all that a reader filters.

    write(source)      # writes <source>/claims/index.md and <source>/claims/<claim-id>.md

A page has the sentence of the paper, the verdict at each scale in words, the level of each side with a dot a seed, the
runs behind it, and the command that measures it again. Layout: assets/site/claim.md.j2 and board.md.j2.
"""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from groundlab.core import plugins, storage
from groundlab.core.paths import repository_root
from groundlab.papers import registry
from groundlab.report.judging import Level
from groundlab.report.review import CLASSES, duration
from groundlab.report.tables import PERCENT, number, written
from groundlab.report.verdicts import MISSED, SIGNS, VERDICTS, WORST_FIRST
from groundlab.site.evidence import Evidence, Judged, collect
from groundlab.site.pages import render

SCALES = ("full", "quick", "paper")
KINDS = {
    "paper": "claim of the paper",
    "baseline": "baseline of the paper",
    "own": "our own bar, control or finding",
    "later work": "claim of later work",
}
"""What pages call the kinds of claims."""
_ORDER = (*WORST_FIRST, *(word for word in VERDICTS if word not in WORST_FIRST))


def badness(judged: list[Judged]) -> int:
    """What claims are sorted by: those that missed at some scale first."""
    return min(_ORDER.index(each.verdict) for each in judged)


def first_judged(judged: list[Judged]) -> Judged:
    """A claim at the largest scale that judged it; at any where none did."""
    return next((each for each in judged if each.runs), judged[0])


def write(source: Path, results: Path | None = None) -> None:
    """Write the pages of all claims below a results folder, or of a sample some, and the board."""
    evidence = collect(results or repository_root() / "results")
    for judged in evidence.claims.values():
        storage.write_atomic(source / "claims" / f"{judged[0].claim.id}.md", claim_page(judged, evidence, source))
    storage.write_atomic(source / "claims" / "index.md", board(evidence))


def board(evidence: Evidence) -> str:
    """The page of all claims: those that missed first, then as a verdict at their largest scale is bad."""
    claims = sorted(evidence.claims.values(), key=badness)
    rows = [
        {
            "claim": judged[0].claim,
            "verdicts": [next((each.verdict for each in judged if each.scale == scale), "") for scale in SCALES],
        }
        for judged in claims
    ]
    words = Counter(word for row in rows for word in set(row["verdicts"]))
    return render(
        "board.md.j2",
        rows=rows,
        scales=SCALES,
        papers=list(dict.fromkeys(sorted(row["claim"].paper for row in rows))),
        kinds=[kind for kind in KINDS if any(row["claim"].kind == kind for row in rows)],
        counts=[(SIGNS[word], CLASSES[word], word, words[word]) for word in _ORDER if words[word]],
    )


def claim_page(judged: list[Judged], evidence: Evidence, source: Path) -> str:
    """The page of a claim by its verdicts, the largest scale first; its figure is copied below `source`."""
    claim, first = judged[0].claim, first_judged(judged)
    missed = next((each for each in judged if each.verdict == MISSED), None)
    paper = plugins.load(plugins.PAPERS)[claim.paper]
    return render(
        "claim.md.j2",
        claim=claim,
        paper=paper,
        kind=KINDS[claim.kind],
        first=first,
        why=missed.stored["why"] if missed else "",
        section=missed.stored["page"].replace(".md", ".html") if missed and missed.stored["page"] else "",
        scales=[_scale(each, evidence) for each in judged if each.runs],
        not_run=[each for each in judged if not each.runs],
        figure=_figure(first, source),
        table=_table(first),
        code=code_behind(first, evidence),
    )


def _scale(judged: Judged, evidence: Evidence) -> dict[str, Any]:
    """What a claim's page shows of one scale."""
    groups: dict[str, list[Any]] = {}
    for name in judged.runs:
        run = evidence.runs[name]
        groups.setdefault(f"{run.facts['arm_label'] or run.facts['arm']}, {run.facts['world']}", []).append(run)
    return {
        "judged": judged,
        "redo": judged.claim.redo(judged.scale),
        "time": duration(judged.stored["seconds"]),
        "strips": [(caption(name, sides), strip(sides, evidence)) for name, sides in judged.levels.items()],
        "printed": any(side.published is not None for sides in judged.levels.values() for side in sides),
        "groups": groups,
    }


def caption(name: str, sides: list[Level]) -> str:
    """What the levels of a comparison are called: `success: French against chance`."""
    against = f": {sides[0].name} against {sides[1].name}" if len(sides) > 1 else ""
    return name.partition(":")[0] + against


def strip(sides: list[Level], evidence: Evidence) -> dict[str, Any]:
    """A row of dots for each side on one axis, as percentages of its width."""
    metric, runs = sides[0].metric, evidence.runs
    printed = [float(side.published) for side in sides if side.published is not None]
    values = [*printed, *(value for side in sides for value in (side.mean.value, *side.by_run.values()))]
    values += [end for side in sides if side.mean.known for end in (side.mean.low, side.mean.high)]
    low, high = min(values), max(values)
    low, high = (0.0, 100.0) if metric in PERCENT and low >= 0 else (low, high) if low < high else (low - 1, high + 1)

    def at(value: float) -> str:
        return f"{2 + 96 * (value - low) / (high - low):.1f}%"

    rows = [
        {
            "name": side.name,
            "text": written(side.mean, metric),
            "mean": at(side.mean.value),
            "ends": (at(side.mean.low), at(side.mean.high)) if side.mean.known else None,
            "paper": None if side.published is None else (at(float(side.published)), f"paper: {side.published}"),
            "dots": [
                (
                    *(at(value), (12, 8, 16)[place % 3], runs[name].page),
                    f"{side.name}, seed {runs[name].facts['seed']}: {number(value, metric)}",
                )
                for place, (name, value) in enumerate(side.by_run.items())
            ],
        }
        for side in sides
    ]
    return {"rows": rows, "low": number(low, metric), "high": number(high, metric)}


def _figure(judged: Judged, source: Path) -> str:
    """The figure of a claim, copied to `_static/figures`; empty where it has none."""
    exhibit = judged.claim.exhibit
    image = judged.folder / judged.claim.paper / "figures" / f"{exhibit}.png"
    if not exhibit or not image.is_file():
        return ""
    copy = source / "_static" / "figures" / judged.scale / image.name
    if not copy.is_file():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, copy)
    return f"../_static/figures/{judged.scale}/{image.name}"


def _table(judged: Judged) -> str:
    """The stored Markdown of the table of a claim; empty where it has none."""
    file = judged.folder / judged.claim.paper / "tables" / f"{judged.claim.exhibit}.md"
    return file.read_text().rstrip() if judged.claim.exhibit and file.is_file() else ""


def code_behind(judged: Judged, evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    """Of the runs behind a claim their methods with the files that implement them, and the commits that they are of."""
    found: dict[tuple[str, str], list[str]] = {}
    for facts in (evidence.runs[name].facts for name in judged.runs):
        module = registry.get(facts["method"], facts["world"]).module
        commits = found.setdefault((facts["method"], f"src/{module.replace('.', '/')}.py"), [])
        commit = (facts["manifest"]["git"]["commit"] or "no commit")[:8]
        commits += [commit] if commit not in commits else []
    return found
