"""Verdicts as data and as text: the words, the measured values, and the row that people read.

judging.py makes them from stored results; claims.json, the review page, README and notebooks show them.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from groundlab.core import plugins
from groundlab.core.errors import GroundlabError
from groundlab.report.claims import Claim, Comparison
from groundlab.report.statistics import CONFIDENCE, Estimate
from groundlab.report.tables import DECIMALS, PERCENT, number, written

REPRODUCED, WITHIN, HOLDS, EQUIVALENT = "reproduced", "within interval", "ordering holds", "equivalent"
NONE_FOUND = "no difference found"
SEEN, OPPOSITE = "seen with few seeds", "opposite seen with few seeds"
CANNOT_TELL, NOT_TOLD, MISSED = "cannot tell", "not told apart", "not reproduced"
NOT_RUN, FAILED = "not run at this scale", "runs failed"
UNJUDGED = (NOT_RUN, FAILED)
FEW_SEEDS = (SEEN, OPPOSITE, CANNOT_TELL)
"""What more seeds, or layouts, may turn into a verdict."""
MEANINGS: dict[str, str] = {
    REPRODUCED: "equal after rounding to the published decimals, or within the stated tolerance or range",
    WITHIN: "the published value, as it was rounded, lies inside our 95 % interval, which is narrow enough to say so",
    HOLDS: "the 95 % interval of the difference lies on the stated side of 0, or p of a permutation is at most 0.05",
    EQUIVALENT: "the 95 % interval of the difference lies within the stated margin",
    NONE_FOUND: "no significant difference was claimed, and none is found here; that proves no equality",
    SEEN: "agents of fewer than five seeds, all on the stated side of each other, interval beyond 0: no verdict",
    OPPOSITE: "the same on the other side: no verdict either",
    CANNOT_TELL: "too few seeds for a value, or an interval too wide for the stated margin",
    NOT_TOLD: "the interval of the difference holds the stated and the opposite, or p is above 0.05 for both",
    MISSED: "what was measured contradicts the claim, by the rule stated for it before",
    NOT_RUN: "the runs that it needs are not in this version",
    FAILED: "the runs that it needs were started and failed",
}
"""What each verdict means."""
VERDICTS: tuple[str, ...] = tuple(MEANINGS)
# A verdict is a sign and a word; where there is colour, it only helps.
SIGNS: dict[str, str] = dict(zip(VERDICTS, "✓✓✓✓?~~??✗–!", strict=True))
WORST_FIRST = (MISSED, OPPOSITE, NOT_TOLD, CANNOT_TELL, SEEN)


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured for it; `by_metric` holds the verdict of each part."""

    claim: Claim
    verdict: str
    reason: str
    fresh: dict[str, Estimate] = field(default_factory=dict)
    by_metric: dict[str, str] = field(default_factory=dict)
    levels: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of each comparison: the mean of its sides and of what is shown beside them, by what they are called."""
    seeds: int = 0
    runs: int = 0
    missing: int = 0
    """Runs that it rests on, and those that were planned for it and are not there."""
    seconds: float | None = None
    confidence: float = CONFIDENCE
    """Of its intervals: higher for one of several comparisons."""

    @property
    def judged(self) -> bool:
        """Whether there was anything to judge by."""
        return self.verdict not in UNJUDGED

    def as_json(self) -> dict[str, Any]:
        """The record that claims.json holds."""
        claim = self.claim.model_dump(mode="json", include=_COPIED)
        fresh = {key: each.as_json() for key, each in self.fresh.items()}
        own = {"fresh": fresh, "levels": self.levels, "seeds": self.seeds, "runs": self.runs, "missing": self.missing}
        own |= {"verdicts": self.by_metric, "verdict": self.verdict, "reason": self.reason, "seconds": self.seconds}
        return {**claim, **own, "readable": readable_row(self)}


_COPIED = {"id", "paper", "kind", "locus", "statement", "tolerance", "source", "scales", "published", "original"} | {
    *("exhibit", "why", "page")
}


class Verdicts(list[Verdict]):
    """Verdicts that a notebook shows as a table."""

    @property
    def exact_failed(self) -> list[Verdict]:
        """The claims of class `exact` that do not hold, or whose runs failed."""
        return [each for each in self if each.claim.tolerance == "exact" and each.verdict in (MISSED, FAILED)]

    def counts(self) -> dict[str, int]:
        """How many claims got each verdict, the absent ones left out."""
        return counted(each.verdict for each in self)

    def of_kind(self, kind: str) -> "Verdicts":
        """Those on the paper's claims (`paper`), its `baseline` rows, our `own` bars, or `later work`."""
        return Verdicts(each for each in self if each.claim.kind == kind)

    def __repr__(self) -> str:
        return f"<{len(self)} verdicts: {', '.join(f'{count} {word}' for word, count in self.counts().items())}>"

    def _repr_html_(self) -> str:
        rows = [(readable_row(each), each.reason) for each in self]
        head = "".join(_cell("th", name) for name in (rows[0][0] if rows else ()))
        body = "".join(
            f'<tr title="{html.escape(reason)}">' + "".join(_cell("td", text) for text in row.values()) + "</tr>"
            for row, reason in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def counted(words: Iterable[str]) -> dict[str, int]:
    """How often each verdict stands among `words`, in the order of `VERDICTS`, the absent ones left out."""
    numbers = Counter(words)
    return {word: numbers[word] for word in VERDICTS if numbers[word]}


def _cell(tag: str, text: str) -> str:
    """A cell of a notebook's table, one measurement a line (Jupyter would set it flush right)."""
    lines = "<br>".join(html.escape(line) for line in text.split("; "))
    return f'<{tag} style="text-align:left;vertical-align:top">{lines}</{tag}>'


def readable_row(verdict: Verdict) -> dict[str, str]:
    """A claim as people read it: what the paper prints, the original code's re-run, here with interval, verdict."""
    claim = verdict.claim
    failed = "" if claim.failed_layouts is None else f"fails on {', '.join(map(str, claim.failed_layouts))}"
    return {
        "claim": claim.locus,
        "statement": claim.statement,
        "paper": _published(claim),
        "original re-run": failed or _numbers(claim.original) or "–",
        "here": _fresh(verdict),
        "seeds": str(verdict.seeds) if verdict.judged else "–",
        "verdict": f"{SIGNS[verdict.verdict]} {verdict.verdict} ({claim.tolerance})",
    }


def filled(text: str, claims: Mapping[str, Mapping[str, Any]]) -> str:
    """A text with its numbers: `{claim-id:side}` becomes what was measured there, a dash where nothing was.

    claims: by id, as claims.json holds them. side: `of`, `than`, `beside`, `difference` of a claim's first comparison,
    or a metric. Raises GroundlabError for a claim or side that there is none of.
    """

    def number_of(match: re.Match[str]) -> str:
        claim, side = claims.get(match[1]), match[2]
        if claim is None:
            raise GroundlabError(f"{match[0]} names no claim; configs/<paper>/claims.yaml lists all")
        if claim["verdict"] in UNJUDGED:
            return "–"
        name = next(iter(claim["fresh"]), "")
        metric, levels = name.partition(" ")[0].rstrip(":"), list(claim["levels"].get(name, {}).values())
        values: dict[str, float] = dict(zip(("of", "than", "beside"), levels, strict=False))
        values |= {key: each["value"] for key, each in claim["fresh"].items() if key != name or not levels}
        values |= {"difference": claim["fresh"][name]["value"]} if levels else {}
        if side not in values:
            raise GroundlabError(f"{match[0]} names no side of that claim; it has {', '.join(values)}")
        return number(values[side], metric if levels else side)

    return re.sub(r"\{([\w.-]+):([\w ]+)\}", number_of, text)


def _published(claim: Claim) -> str:
    """What the paper prints: values by metric, or the two sides of its comparisons."""
    names, sides = short_names(claim.paper), list[str]()
    for each in claim.compare:
        shown = [side for side in each.sides if side.published is not None]
        texts = [f"{side.short(names)} {side.published}{_unit(each.metric)}" for side in shown]
        sides += [f"{each.metric}: {', '.join(texts)}"] if texts else []
    return "; ".join(part for part in (_numbers(claim.published, claim.error_bar), *sides) if part) or "–"


def _unit(metric: str) -> str:
    return " %" if metric in PERCENT else ""


def _numbers(values: dict[Any, Decimal], errors: dict[Any, Decimal] | None = None) -> str:
    bars = {metric: f" ± {error}" for metric, error in (errors or {}).items()}
    return "; ".join(f"{metric} {value}{bars.get(metric, '')}{_unit(metric)}" for metric, value in values.items())


def _fresh(verdict: Verdict) -> str:
    if verdict.claim.compare:
        pairs = zip(verdict.claim.compare, verdict.fresh.items(), strict=False)
        parts = [_compared(verdict.claim, each, verdict.levels.get(name, {}), gap) for each, (name, gap) in pairs]
        return ("; ".join(parts) or "–") + level_text(verdict.confidence)
    parts = [f"{metric} {written(each, metric)}" for metric, each in verdict.fresh.items()]
    if "failed layouts" in verdict.by_metric:
        parts.append(verdict.reason)
    return "; ".join(parts) or "–"


def _compared(claim: Claim, comparison: Comparison, levels: Mapping[str, float], gap: Estimate) -> str:
    """`success: other words 62.9 %, usual words 96.9 % (difference -34.00 [-42.60, -25.40])`."""
    levels = {f"{name}:" if name[-1].isdigit() else name: value for name, value in levels.items()}
    sides = ", ".join(f"{name} {number(value, comparison.metric)}" for name, value in levels.items())
    word = "" if comparison.measure == "permutation" else "difference "
    name = f"{metric_name(comparison)}{claim.where(comparison)}"
    return f"{name}: {sides} ({word}{interval_text(comparison, gap)})"


def metric_name(comparison: Comparison) -> str:
    """`success`, or where both sides are of trainings `success while learning`, `fall of success`."""
    when = {side.when for side in (comparison.of, comparison.than)}
    if when == {"fall"}:
        return f"fall of {comparison.metric}"
    return comparison.metric + (" while learning" if when == {"training"} else "")


def level_text(confidence: float) -> str:
    """`; intervals of 98.33 %`, where several comparisons share a level; else nothing."""
    return f"; intervals of {100 * confidence:.4g} %" if confidence > CONFIDENCE else ""


def interval_text(comparison: Comparison, gap: Estimate) -> str:
    """A difference with its signs, or a p."""
    if comparison.measure == "permutation":
        return f"permutation of seeds, p = {gap.value:.3f}"
    if not gap.known:
        return f"{gap.value:+.2f}, one seed"
    digits = 2 if comparison.metric != "return" else DECIMALS["return"]
    ends = (round(each, digits) + 0.0 for each in (gap.value, gap.low, gap.high))  # + 0.0: no -0.00 is printed
    value, low, high = (f"{each:+.{digits}f}" for each in ends)
    return f"{value} [{low}, {high}]"


def short_names(paper: str) -> Mapping[str, str]:
    """What a paper's comparisons call their sides."""
    return plugins.load(plugins.PAPERS)[paper].short_names
