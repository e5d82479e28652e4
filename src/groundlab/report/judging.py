"""Verdicts: each claim held against stored results. Nothing is trained, and no width is chosen by hand.

    verdicts = judge("results/0.1.0-quick-20261121-ab12cd3", paper="mediator")
    verdicts[0].verdict        # one of VERDICTS: "reproduced", "within interval", "ordering holds", ...

`_judge_values` judges the classes exact, numeric and interval, `_judge_order` orderings; claims.py is the schema of
what is judged.
"""

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from groundlab.core import plugins
from groundlab.core.seeding import generator
from groundlab.report.claims import Claim, Comparison, Selector, load_claims
from groundlab.report.records import FIRST_FINISHED, Records, load, select, table, tenth_means, training_means
from groundlab.report.statistics import Estimate, difference_interval, improvement_interval, two_level_interval
from groundlab.report.tables import markdown, measured

REPRODUCED, WITHIN, HOLDS = "reproduced", "within interval", "ordering holds"
MISSED, NOT_RUN = "not reproduced", "not run at this scale"
VERDICTS: tuple[str, ...] = (REPRODUCED, WITHIN, HOLDS, MISSED, NOT_RUN)
# A verdict is a sign and a word; where there is colour, it only helps.
SIGNS: dict[str, str] = dict(zip(VERDICTS, ("✓", "✓", "✓", "✗", "–"), strict=True))
_WORD = {"exact": REPRODUCED, "numeric": REPRODUCED, "interval": WITHIN, "ordering": HOLDS}


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured for it; `by_metric` holds the verdict of each part."""

    claim: Claim
    verdict: str
    reason: str
    fresh: dict[str, Estimate] = field(default_factory=dict)
    by_metric: dict[str, str] = field(default_factory=dict)
    seeds: int = 0
    seconds: float | None = None

    @property
    def judged(self) -> bool:
        """Whether there was anything to judge by."""
        return self.verdict != NOT_RUN

    def as_json(self) -> dict[str, Any]:
        """The record that claims.json holds."""
        claim = self.claim.model_dump(mode="json", include=_COPIED)
        fresh = {key: {"value": each.value, "low": each.low, "high": each.high} for key, each in self.fresh.items()}
        own = {"fresh": fresh, "seeds": self.seeds, "verdicts": self.by_metric, "verdict": self.verdict}
        return {**claim, **own, "reason": self.reason, "seconds": self.seconds}


_RESAMPLES = 20_000  # of a verdict: with 2,000 an end of an interval near its bound falls to either side by luck
_COPIED = {"id", "paper", "locus", "statement", "tolerance", "source", "command", "scales", "published", "reference"}


class Verdicts(list[Verdict]):
    """Verdicts that a notebook shows as a table."""

    @property
    def exact_failed(self) -> list[Verdict]:
        """The claims of class `exact` that do not hold."""
        return [each for each in self if each.claim.tolerance == "exact" and each.verdict == MISSED]

    def counts(self) -> dict[str, int]:
        """How many claims got each verdict, the absent ones left out."""
        numbers = {word: sum(each.verdict == word for each in self) for word in VERDICTS}
        return {word: count for word, count in numbers.items() if count}

    @property
    def readable(self) -> pd.DataFrame:
        """One row a claim, as text."""
        return pd.DataFrame([readable_row(each) for each in self])

    @property
    def markdown(self) -> str:
        """The readable rows as a Markdown table."""
        return markdown(self.readable) + "\n"

    def _repr_html_(self) -> str:
        rows = [(readable_row(each), each.reason) for each in self]
        head = "".join(_cell("th", name) for name in (rows[0][0] if rows else ()))
        body = "".join(
            f'<tr title="{html.escape(reason)}">' + "".join(_cell("td", text) for text in row.values()) + "</tr>"
            for row, reason in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, text: str) -> str:
    """A cell of a notebook's table, one measurement a line (Jupyter would set it flush right)."""
    lines = "<br>".join(html.escape(line) for line in text.split("; "))
    return f'<{tag} style="text-align:left;vertical-align:top">{lines}</{tag}>'


def judge(folder: str | Path | Records, paper: str | None = None, claims: Iterable[Claim] | None = None) -> Verdicts:
    """The verdict on each claim (of one paper, or of all) by the results of its own paper in a folder."""
    records = folder if isinstance(folder, Records) else load(folder)
    chosen = [claim for claim in (load_claims(paper) if claims is None else claims) if paper in (None, claim.paper)]
    by_paper = {name: records.of_paper(name) for name in {claim.paper for claim in chosen}}
    return Verdicts(judge_claim(claim, by_paper[claim.paper]) for claim in chosen)


def judge_claim(claim: Claim, records: Records) -> Verdict:
    """The verdict on one claim by the records of its paper (`Records.of_paper`)."""
    missing = why_not_judged(claim, records)
    if missing:
        return Verdict(claim, NOT_RUN, missing)
    return _judge_order(claim, records) if claim.tolerance == "ordering" else _judge_values(claim, records)


def why_not_judged(claim: Claim, records: Records) -> str:
    """Why a claim is not judged by these records; empty where it is."""
    if claim.not_run is not None:
        return claim.not_run
    if records.scale not in claim.scales:
        return f"judged at scale {', '.join(claim.scales)}; this is {records.scale}"
    absent = [str(each) for each in claim.selectors if select_rows(records, each).empty]
    return f"no finished run of {absent[0]}" if absent else ""


def select_rows(records: Records, selector: Selector) -> pd.DataFrame:
    """The stored rows that a selector names: episodes of the final evaluation, tests during training, or updates."""
    frame = {"end": records.evaluations, "worst test": records.tests}.get(selector.when, records.curves)
    policy = selector.policy if selector.when in ("end", "worst test") else None
    rows = select(frame, method=selector.method, world=selector.world, policy=policy, settings=selector.settings)
    return rows if selector.kind is None else rows.loc[rows.get("kind", pd.Series(index=rows.index)) == selector.kind]


def _values(records: Records, selector: Selector, metric: str) -> np.ndarray:
    """[seeds, layouts], or [seeds, 1] of a seed's training: its least successful test, its success, its tenths.

    Episodes that were counted as they finished belong to no layout: they are taken in their order.
    """
    rows = select_rows(records, selector)
    if selector.when == "end":
        return table(rows, metric, columns="episode" if selector.policy == FIRST_FINISHED else "layout")
    if selector.when == "training":
        return training_means(rows, metric)
    if selector.when in ("first tenth", "last tenth"):
        return tenth_means(rows, metric, last=selector.when == "last tenth")
    worst = table(rows, "success", columns="iteration").argmin(axis=1)
    return np.take_along_axis(table(rows, metric, columns="iteration"), worst[:, None], 1)


def _judge_values(claim: Claim, records: Records) -> Verdict:
    assert claim.select is not None  # the schema demands it of every class but ordering
    fresh, parts, reasons = {}, {}, []
    for metric in claim.expected or claim.range:
        fresh[metric] = estimate(claim.select, metric, records)
        holds, reason = compare_value(claim, metric, fresh[metric])
        parts[metric] = _WORD[claim.tolerance] if holds else MISSED
        reasons.append(f"{SIGNS[parts[metric]]} {reason}")
    if claim.failed_layouts is not None:
        holds, reason = _compare_failures(claim, select_rows(records, claim.select))
        parts["failed layouts"] = REPRODUCED if holds else MISSED
        reasons.append(reason)
    return _conclude(claim, records, fresh, parts, reasons)


def estimate(selector: Selector, metric: str, records: Records) -> Estimate:
    """The mean of a metric with its two-level interval; each cell owns its generator, so order never matters."""
    rng = generator(0, "interval", selector.key, metric)
    return two_level_interval(_values(records, selector, metric), rng, _RESAMPLES)


def compare_value(claim: Claim, metric: str, fresh: Estimate) -> tuple[bool, str]:
    """(holds, what was compared with what) for one metric of a claim."""
    if metric in claim.range:
        low, high = claim.range[metric]
        return float(low) <= fresh.value <= float(high), f"{metric} {fresh.value:.2f}, accepted {low} to {high}"
    value = claim.expected[metric]
    if claim.tolerance == "interval":
        return fresh.holds(float(value)), f"{metric} {value} against [{fresh.low:.2f}, {fresh.high:.2f}]"
    if claim.tolerance == "numeric" and metric in claim.within:
        width = claim.within[metric]
        distance = abs(Decimal(repr(round(fresh.value, 9))) - value)
        return distance <= width, f"{metric} {fresh.value:.2f} against {value}, at most {width} apart"
    rounded = round_as(fresh.value, value)
    return rounded == value, f"{metric} {rounded} against {value}"


def round_as(value: float, like: Decimal) -> Decimal:
    """A value rounded (half up) to the decimals that `like` was published with."""
    # Nine decimals first: a mean of 100 layouts is exact there, its binary representation is not.
    return Decimal(repr(round(value, 9))).quantize(Decimal(1).scaleb(like.as_tuple().exponent), ROUND_HALF_UP)  # type: ignore[arg-type]


def _compare_failures(claim: Claim, rows: pd.DataFrame) -> tuple[bool, str]:
    expected = sorted(claim.failed_layouts or ())
    failed = {seed: sorted(each.loc[each["success"] == 0, "layout"]) for seed, each in rows.groupby("seed")}
    wrong = [f"seed {seed} fails on {_listed(layouts)}" for seed, layouts in failed.items() if layouts != expected]
    return not wrong, ", and ".join(wrong) or f"every seed fails on {_listed(expected)}"


def _listed(layouts: list[int]) -> str:
    return ", ".join(map(str, layouts)) or "none"


def _judge_order(claim: Claim, records: Records) -> Verdict:
    fresh, parts, reasons = {}, {}, []
    for each in claim.compare:
        name = _comparison_name(each, _short_names(claim.paper))
        fresh[name] = difference(each, records)
        parts[name] = HOLDS if on_side(each, fresh[name]) else MISSED
        reasons.append(f"{name} = {_interval_text(each, fresh[name])}, must be {_requirement(each)}")
    return _conclude(claim, records, fresh, parts, reasons)


def _short_names(paper: str) -> Mapping[str, str]:
    return plugins.load(plugins.PAPERS)[paper].short_names


def _comparison_name(comparison: Comparison, names: Mapping[str, str]) -> str:
    """`success: mediator - random`, or `chance of more success: knowledge over phi = 0`."""
    of, than = comparison.of.short(names), comparison.than.short(names)
    if comparison.measure == "chance":
        return f"chance of more {comparison.metric}: {of} over {than}"
    return f"{comparison.metric}: {of} - {than}"


def difference(comparison: Comparison, records: Records) -> Estimate:
    """`of` minus `than` with its interval, paired by layout when both were evaluated on the same ones; or the chance
    that a seed's mean is higher (`Comparison.measure`)."""
    of, than = comparison.of, comparison.than
    paired = of.when == than.when == "end" and _layouts(records, of) == _layouts(records, than)
    rng = generator(0, comparison.measure, of.key, than.key, comparison.metric)
    ours, theirs = (_values(records, side, comparison.metric) for side in (of, than))
    if comparison.measure == "chance":
        ours, theirs = (table.mean(axis=1, keepdims=True) for table in (ours, theirs))
        return improvement_interval(ours, theirs, rng, _RESAMPLES)
    return difference_interval(ours, theirs, paired, rng, _RESAMPLES)


def _layouts(records: Records, selector: Selector) -> list[int]:
    return sorted(select_rows(records, selector)["layout"].unique())


def _requirement(comparison: Comparison) -> str:
    than = " than one half" if comparison.measure == "chance" else ""
    return comparison.direction + than + (f" by {comparison.by} at least" if comparison.by else "")


def on_side(comparison: Comparison, gap: Estimate) -> bool:
    """`lower` and `higher` need the even value outside the interval; the `not` forms that the opposite is not shown."""
    even, margin = comparison.even, float(comparison.by)
    # Nine decimals: an end that is 0 in the data may lie 1e-14 beside it in binary numbers.
    low, high = round(gap.low, 9), round(gap.high, 9)
    return {
        "lower": high < even and gap.value <= even - margin,
        "higher": low > even and gap.value >= even + margin,
        "not lower": high >= even,
        "not higher": low <= even,
    }[comparison.direction]


def _interval_text(comparison: Comparison, gap: Estimate) -> str:
    """A difference with its signs, or a chance."""
    sign = "" if comparison.measure == "chance" else "+"
    value, low, high = (round(each, 9) + 0.0 for each in (gap.value, gap.low, gap.high))  # so that no -0.00 is printed
    return f"{value:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def _conclude(
    claim: Claim, records: Records, fresh: dict[str, Estimate], parts: dict[str, str], reasons: list[str]
) -> Verdict:
    verdict = MISSED if MISSED in parts.values() else _WORD[claim.tolerance]
    seeds = len(set(select_rows(records, claim.selectors[0])["seed"]))
    return Verdict(claim, verdict, "; ".join(reasons), fresh, parts, seeds, _seconds(claim, records))


def _seconds(claim: Claim, records: Records) -> float:
    """Wall time of the runs behind a claim, summed."""
    chosen: dict[str, float] = {}
    for each in claim.selectors:
        runs = select(records.runs, method=each.method, world=each.world, settings=each.settings)
        chosen.update(zip(runs["run"], runs["wall_seconds"], strict=True))
    return round(sum(chosen.values()), 2)


def readable_row(verdict: Verdict) -> dict[str, str]:
    """A claim as people read it: paper, original re-run, fresh with interval, verdict."""
    claim = verdict.claim
    failed = "" if claim.failed_layouts is None else f"fails on {', '.join(map(str, claim.failed_layouts))}"
    return {
        "claim": claim.locus,
        "statement": claim.statement,
        "paper": _numbers(claim.published, claim.error_bar),
        "original re-run": failed or _numbers(claim.reference),
        "here": _fresh(verdict),
        "seeds": str(verdict.seeds) if verdict.judged else "–",
        "verdict": f"{SIGNS[verdict.verdict]} {verdict.verdict} ({claim.tolerance})",
    }


def _numbers(values: dict[Any, Decimal], errors: dict[Any, Decimal] | None = None) -> str:
    bars = {metric: f" ± {error}" for metric, error in (errors or {}).items()}
    parts = [(metric, f"{value}{bars.get(metric, '')}") for metric, value in values.items()]
    return "; ".join(f"{metric} {text}{' %' if metric == 'success' else ''}" for metric, text in parts) or "–"


def _fresh(verdict: Verdict) -> str:
    if verdict.claim.tolerance == "ordering":
        pairs = zip(verdict.claim.compare, verdict.fresh.items(), strict=False)
        return "; ".join(f"{name} {_interval_text(each, gap)}" for each, (name, gap) in pairs) or "–"
    parts = [f"{metric} {measured(each, metric)}" for metric, each in verdict.fresh.items()]
    if "failed layouts" in verdict.by_metric:
        parts.append(verdict.reason)
    return "; ".join(parts) or "–"
