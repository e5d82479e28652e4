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
from groundlab.report.tables import PERCENT
from groundlab.report.verdicts import UNDECIDED, Word
from groundlab.site import pages
from groundlab.site.evidence import Evidence, Judged, StoredRun


def write(source: Path, evidence: Evidence) -> None:
    """Write the pages of all claims, and their list: of each paper those that missed at some scale first."""
    order = [Word.CONTRADICTED, *UNDECIDED, *Word]
    by_paper: dict[str, list[list[Judged]]] = {paper: [] for paper in sorted(registry.papers())}
    for judged in sorted(
        evidence.claims.values(), key=lambda judged: min(order.index(each.verdict) for each in judged)
    ):
        by_paper[judged[0].claim.paper].append(judged)
        pages.write(source, f"claims/{judged[0].claim.id}", "claim.md.j2", **_claim(judged, evidence, source))
    pages.write(source, "claims/index", "claims.md.j2", papers=by_paper)


def _claim(judged: list[Judged], evidence: Evidence, source: Path) -> dict[str, Any]:
    """Return the verdicts on the page of a claim, the largest scale first."""
    claim, missed = judged[0].claim, next((each for each in judged if each.verdict == Word.CONTRADICTED), None)
    first = next((each for each in judged if each.runs), judged[0])
    methods = {(run["method"], run["world"]) for run in (evidence.runs[name].facts for name in first.runs)}
    table = first.folder / claim.paper / "tables" / f"{claim.exhibit}.md"
    return {
        "claim": claim,
        "paper": plugins.load(plugins.PAPERS)[claim.paper],
        "first": first,
        "why": missed.stored["why"] if missed else "",
        "section": missed.stored["page"].replace(".md", ".html") if missed and missed.stored["page"] else "",
        "runs": evidence.runs,
        "scales": [_scale(each, evidence) for each in judged if each.runs],
        "not_run": [each for each in judged if not each.runs],
        "figure": claim.exhibit if (source / "figures" / f"{claim.exhibit}.png").is_file() else "",
        "table": table.read_text(encoding="utf-8").rstrip() if claim.exhibit and table.is_file() else "",
        "code": {method: registry.get(method, world).module.replace(".", "/") for method, world in methods},
    }


def _scale(judged: Judged, evidence: Evidence) -> dict[str, Any]:
    """Return one scale of a claim's page: levels with the ends of their axes, and runs by arm and world."""
    groups: dict[str, list[StoredRun]] = {}
    for run in (evidence.runs[name] for name in judged.runs):
        groups.setdefault(f"{run.facts['arm_label'] or run.facts['arm']}, {run.facts['world']}", []).append(run)
    levels = [(name, sides, _axis(sides)) for name, sides in judged.levels.items()]
    return {"judged": judged, "levels": levels, "groups": groups}


def _axis(sides: list[Level]) -> tuple[float, float]:
    """The ends of an axis that shows every value of some levels; percentages have the whole."""
    values = [float(side.published) for side in sides if side.published is not None]
    values += [value for side in sides for value in (side.mean.value, *side.by_run.values())]
    values += [end for side in sides if side.mean.known for end in (side.mean.low, side.mean.high)]
    low, high = min(values), max(values)
    if sides[0].metric in PERCENT and low >= 0:
        return 0.0, 100.0
    return (low, high) if low < high else (low - 1, high + 1)
