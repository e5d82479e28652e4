"""The pages of claims: one each, and a list of all by papers.

    write(source, evidence)      # writes <source>/claims/index.md and <source>/claims/<claim-id>.md

A page has the sentence of the paper, the verdict at each scale in words, the level of each side with a dot a seed, the
runs behind it, and the command that measures it again. Layouts: assets/site/claim.md.j2 and claims.md.j2.
"""

from pathlib import Path
from typing import Any

from groundlab.core import plugins
from groundlab.papers import registry
from groundlab.report.judging import Level
from groundlab.report.review import duration
from groundlab.report.tables import PERCENT, number, written
from groundlab.report.verdicts import MISSED, VERDICTS, WORST_FIRST
from groundlab.site import pages
from groundlab.site.evidence import Evidence, Judged

SCALES = ("full", "quick", "paper")
KINDS = {
    "paper": "claim of the paper",
    "baseline": "baseline of the paper",
    "own": "our own bar, control or finding",
    "later work": "claim of later work",
}
"""What pages call the kinds of claims."""
_ORDER = (*WORST_FIRST, *(word for word in VERDICTS if word not in WORST_FIRST))


def write(source: Path, evidence: Evidence) -> None:
    """Write the pages of all claims, and their list: of each paper those that missed at some scale first."""
    by_paper: dict[str, list[list[Judged]]] = {paper: [] for paper in sorted(registry.papers())}
    for judged in sorted(
        evidence.claims.values(), key=lambda judged: min(_ORDER.index(each.verdict) for each in judged)
    ):
        by_paper[judged[0].claim.paper].append(judged)
        pages.write(source, f"claims/{judged[0].claim.id}", "claim.md.j2", **_claim(judged, evidence, source))
    pages.write(source, "claims/index", "claims.md.j2", papers=by_paper, scales=SCALES)


def _claim(judged: list[Judged], evidence: Evidence, source: Path) -> dict[str, Any]:
    """What the page of a claim shows of its verdicts, the largest scale first."""
    claim, missed = judged[0].claim, next((each for each in judged if each.verdict == MISSED), None)
    first = next((each for each in judged if each.runs), judged[0])
    methods = {(run["method"], run["world"]) for run in (evidence.runs[name].facts for name in first.runs)}
    table = first.folder / claim.paper / "tables" / f"{claim.exhibit}.md"
    return {
        "claim": claim,
        "paper": plugins.load(plugins.PAPERS)[claim.paper],
        "kind": KINDS[claim.kind],
        "first": first,
        "why": missed.stored["why"] if missed else "",
        "section": missed.stored["page"].replace(".md", ".html") if missed and missed.stored["page"] else "",
        "scales": [_scale(each, evidence) for each in judged if each.runs],
        "not_run": [each for each in judged if not each.runs],
        "figure": claim.exhibit if (source / "figures" / f"{claim.exhibit}.png").is_file() else "",
        "table": table.read_text().rstrip() if claim.exhibit and table.is_file() else "",
        "code": {method: registry.get(method, world).module.replace(".", "/") for method, world in methods},
    }


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
        "strips": [(_caption(name, sides), _strip(sides, evidence)) for name, sides in judged.levels.items()],
        "printed": any(side.published is not None for sides in judged.levels.values() for side in sides),
        "groups": groups,
    }


def _caption(name: str, sides: list[Level]) -> str:
    """What the levels of a comparison are called: `success: French against chance`."""
    against = f": {sides[0].name} against {sides[1].name}" if len(sides) > 1 else ""
    return name.partition(":")[0] + against


def _strip(sides: list[Level], evidence: Evidence) -> dict[str, Any]:
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
