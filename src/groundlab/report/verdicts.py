"""Verdicts as data and as text: the words, the measured values, and the row that people read.

judging.py makes them from stored results; claims.json, the review page, README and notebooks show them.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

from groundlab.core import plugins, storage
from groundlab.core.errors import GroundlabError
from groundlab.report.claims import KINDS, Claim, Comparison
from groundlab.report.statistics import CONFIDENCE, Estimate
from groundlab.report.tables import DECIMALS, PERCENT, number, written


class Word(StrEnum):
    """The six verdicts: each has a sign and says what it means. Where there is colour, it only helps."""

    sign: str
    meaning: str

    def __new__(cls, word: str, sign: str = "", meaning: str = "") -> "Word":
        """A verdict from its word, sign and meaning."""
        self = str.__new__(cls, word)
        self._value_, self.sign, self.meaning = word, sign, meaning
        return self

    MATCHES = "matches", "✓", "a printed number was found again, by the rule stated for it before"
    SUPPORTED = "supported", "✓", "what was measured agrees with the claim, by the rule stated for it before"
    INCONCLUSIVE = "inconclusive", "?", "what was measured does not decide the claim"
    CONTRADICTED = "contradicted", "✗", "what was measured contradicts the claim, by the rule stated for it before"
    PRELIMINARY = "preliminary", "~", "agents of fewer than five seeds, all on one side of each other: no verdict yet"
    NOT_TESTED = "not tested", "–", "this version has no runs that could decide it"


class Outcome(Enum):
    """Outcomes of a part of a claim, the worst first: a verdict with its reason in brackets."""

    REVERSED = Word.CONTRADICTED, "opposite order"
    SMALLER = Word.CONTRADICTED, "smaller than claimed"
    BEYOND = Word.CONTRADICTED, "beyond {points}"
    DIFFERS = Word.CONTRADICTED, "another value"
    AGAINST = Word.PRELIMINARY, "against, {seeds}"
    EITHER = Word.INCONCLUSIVE, "both signs possible"
    ACROSS = Word.INCONCLUSIVE, "within and beyond {points} possible"
    WIDE = Word.INCONCLUSIVE, "interval too wide"
    FEW = Word.INCONCLUSIVE, "only {seeds}"
    FOR = Word.PRELIMINARY, "for, {seeds}"
    NONE_SEEN = Word.INCONCLUSIVE, "no effect claimed, none seen"
    OPPOSED = Word.SUPPORTED, "no effect claimed, the opposite seen"
    HOLDS = Word.SUPPORTED, "ordering"
    EQUIVALENT = Word.SUPPORTED, "within {points}"
    BAR = Word.SUPPORTED, "our bar"
    RERUN = Word.SUPPORTED, "the original's re-run"
    EQUAL = Word.MATCHES, "printed value"
    INSIDE = Word.MATCHES, "in our interval"

    @property
    def word(self) -> Word:
        """The verdict."""
        return self.value[0]

    def because(self, seeds: int, points: str) -> str:
        """The reason with the least number of seeds, and the margin."""
        return self.value[1].format(seeds=f"{seeds} seed{'s' * (seeds != 1)}", points=points)


RUNS_FAILED = "runs failed"  # why a claim is not tested whose runs were started
UNDECIDED = (Word.PRELIMINARY, Word.INCONCLUSIVE)  # what more seeds, or layouts, may turn into another verdict


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured for it; `by_metric` holds the verdict of each part."""

    claim: Claim
    verdict: Word
    reason: str
    because: str = ""
    """The reason that stands behind the verdict in brackets."""
    fresh: dict[str, Estimate] = field(default_factory=dict)
    by_metric: dict[str, Word] = field(default_factory=dict)
    levels: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of each comparison: the mean of its sides and of what is shown beside them, by what they are called."""
    seeds: int = 0
    runs: int = 0
    missing: int = 0
    """Runs that it rests on, and those that were planned for it and are not there."""
    cpu_seconds: float | None = None
    confidence: float = CONFIDENCE
    """Of its intervals: higher for one of several comparisons."""
    unit: str = ""
    """Unit of its intervals, such as `training seeds of one pretraining and layouts`."""

    @property
    def judged(self) -> bool:
        """Whether there was anything to judge by."""
        return self.verdict != Word.NOT_TESTED

    def as_json(self) -> dict[str, Any]:
        """The record that claims.json holds."""
        claim = self.claim.model_dump(mode="json", include=_COPIED)
        fresh = {key: each.as_json() for key, each in self.fresh.items()}
        own = {"fresh": fresh, "levels": self.levels, "seeds": self.seeds, "runs": self.runs, "missing": self.missing}
        own |= {"verdicts": self.by_metric, "verdict": self.verdict, "because": self.because}
        own |= {"reason": self.reason, "cpu_seconds": self.cpu_seconds, "unit": self.unit}
        return {**claim, **own, "readable": readable_row(self)}


_COPIED = {"id", "paper", "kind", "locus", "statement", "tolerance", "source", "scales", "published", "original"} | {
    *("exhibit", "why", "page", "repeats")
}


Stored = dict[str, Any]
"""A claim as claims.json holds it."""


class Verdicts(list[Stored]):
    """Claims as claims.json holds them; a notebook shows them as a table."""

    @property
    def exact_failed(self) -> "Verdicts":
        """The claims of class `exact` that do not hold, or whose runs failed."""
        failed = [each for each in self if each["verdict"] == Word.CONTRADICTED or each["because"] == RUNS_FAILED]
        return Verdicts(each for each in failed if each["tolerance"] == "exact")

    def of_kind(self, kind: str) -> "Verdicts":
        """Those on the paper's claims (`paper`), its `baseline` rows, our `own` bars, or `later work`."""
        return Verdicts(each for each in self if each["kind"] == kind)

    def of_paper(self, paper: str) -> "Verdicts":
        """Those of one paper."""
        return Verdicts(each for each in self if each["paper"] == paper)

    def summary(self) -> list[str]:
        """The papers' claims in a sentence, then a line for each other kind: kinds are not added together."""
        others = {name: self.of_kind(kind) for kind, name in KINDS.items() if kind != "paper"}
        whose = (OF_ONE,) if len({each["paper"] for each in self.of_kind("paper")}) == 1 else ()
        lines = (count_sentence(self, *whose), *(f"{name}: {counted(each)}" for name, each in others.items() if each))
        return [*filter(None, lines)]

    def __repr__(self) -> str:
        return f"<{len(self)} verdicts: {' '.join(self.summary())}>"

    def _repr_html_(self) -> str:
        head = "".join(_cell("th", name) for name in (self[0]["readable"] if self else ()))
        body = "".join(
            f'<tr title="{html.escape(each["reason"])}">'
            + "".join(_cell("td", text) for text in each["readable"].values())
            + "</tr>"
            for each in self
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def read_stored(version: str | Path) -> Verdicts:
    """Read claims.json of a version. Raises GroundlabError where it has none."""
    return Verdicts(storage.read_json(Path(version) / "claims.json"))


def verdicts(version: str | Path, paper: str) -> Verdicts:
    """Return what claims.json of a version holds of a paper. Raises GroundlabError as `read_stored`."""
    return read_stored(version).of_paper(paper)


def counted(claims: Iterable[Stored]) -> str:
    """`11 supported, 7 inconclusive`: how many of some claims have which verdict; a dash for none."""
    numbers = Counter(each["verdict"] for each in claims)
    return ", ".join(f"{numbers[word]} {word}" for word in Word if numbers[word]) or "–"


def statements(claims: Iterable[Stored]) -> list[Stored]:
    """Return the papers' statements about their methods, each once, though several rows may test it.

    It is judged by its main row or, where that is not tested, by the first of the rows that repeat it (`repeats`).
    """
    rows = dict[str, list[Stored]]()
    for each in claims:
        if each["kind"] == "paper":
            rows.setdefault(each.get("repeats") or each["id"], []).append(each)

    def place(row: Stored) -> tuple[bool, bool]:
        return row["verdict"] == Word.NOT_TESTED, bool(row.get("repeats"))

    return [min(group, key=place) for group in rows.values()]


OF_ONE = "the paper makes about its method"


def count_sentence(claims: Iterable[Stored], whose: str = "the papers make about their methods") -> str:
    """`Of the 46 claims the paper makes about its method, 19 could be tested: ...`; empty where it makes none."""
    found = statements(claims)
    numbers = Counter(each["verdict"] for each in found)
    if not found:
        return ""
    tested, few = len(found) - numbers[Word.NOT_TESTED], numbers[Word.PRELIMINARY]
    parts = [f"{numbers[word]} {word}" for word in (Word.SUPPORTED, Word.INCONCLUSIVE, Word.CONTRADICTED)]
    parts = [f"{numbers[Word.MATCHES]} matching a printed number", *parts, *[f"{few} {Word.PRELIMINARY}"] * bool(few)]
    results = f": {', '.join(parts)}" if tested else ""
    return f"Of the {len(found)} claim{'s' * (len(found) != 1)} {whose}, {tested or 'none'} could be tested{results}."


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
        "verdict": f"{KINDS[claim.kind]}: {verdict.verdict.sign} {verdict.verdict} ({verdict.because})",
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
        if claim["verdict"] == Word.NOT_TESTED:
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
        return ("; ".join(parts) or "–") + level_text(verdict.confidence, verdict.unit)
    parts = [f"{metric} {written(each, metric)}" for metric, each in verdict.fresh.items()]
    if "failed layouts" in verdict.by_metric:
        parts.append(verdict.reason)
    return ("; ".join(parts) or "–") + level_text(verdict.confidence, verdict.unit)


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
    if when == {"last tests"}:
        return f"{comparison.metric} in the last five tests"
    if when == {"fall"}:
        return f"fall of {comparison.metric}"
    return comparison.metric + (" while learning" if when == {"training"} else "")


def level_text(confidence: float, unit: str = "") -> str:
    """`; intervals of 98.33 % over layouts`: the level where several comparisons share one, and the unit."""
    level = f" of {100 * confidence:.4g} %" if confidence > CONFIDENCE else ""
    return f"; intervals{level}{f' over {unit}' if unit else ''}" if level or unit else ""


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
