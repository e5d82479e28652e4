"""Verdicts: each claim held against stored results. Nothing is trained, and no width is chosen by hand.

    verdicts = judge("results/0.1.0-quick-20261121-ab12cd3", paper="mediator")
    verdicts[0].verdict        # one of VERDICTS: "reproduced", "within interval", "ordering holds", ...

`_judge_values` judges the classes exact, numeric and interval, `_judge_order` orderings and equivalences; claims.py is
the schema of what is judged, statistics.py says how wide intervals are. Trained agents of fewer than five seeds show
a shape at best.
"""

import html
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from groundlab.core import plugins
from groundlab.report.claims import Claim, Comparison, Margin, Selector, load_claims
from groundlab.report.records import (
    Records,
    episode_columns,
    holds_training,
    levels_at,
    load,
    select,
    table,
    tables_of_both,
    tenth_means,
    training_means,
)
from groundlab.report.statistics import (
    CONFIDENCE,
    SEEDS_FOR_A_VERDICT,
    Estimate,
    agrees_with_share,
    bounds_of,
    difference_interval,
    mean_interval,
    permutation_p,
)
from groundlab.report.tables import DECIMALS, markdown, measured

REPRODUCED, WITHIN, HOLDS, EQUIVALENT = "reproduced", "within interval", "ordering holds", "equivalent"
SHAPE, NOT_TOLD, MISSED = "shape only", "not told apart", "not reproduced"
NOT_RUN = "not run at this scale"
VERDICTS: tuple[str, ...] = (REPRODUCED, WITHIN, HOLDS, EQUIVALENT, SHAPE, NOT_TOLD, MISSED, NOT_RUN)
# A verdict is a sign and a word; where there is colour, it only helps.
SIGNS: dict[str, str] = dict(zip(VERDICTS, ("✓", "✓", "✓", "✓", "~", "?", "✗", "–"), strict=True))
_WORST_FIRST = (MISSED, NOT_TOLD, SHAPE)
_WORD = {
    "exact": REPRODUCED,
    "numeric": REPRODUCED,
    "interval": WITHIN,
    "ordering": HOLDS,
    "equivalence": EQUIVALENT,
}


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
    confidence: float = CONFIDENCE
    """Of its intervals: higher for one of several comparisons."""

    @property
    def judged(self) -> bool:
        """Whether there was anything to judge by."""
        return self.verdict != NOT_RUN

    def as_json(self) -> dict[str, Any]:
        """The record that claims.json holds."""
        claim = self.claim.model_dump(mode="json", include=_COPIED)
        fresh = {key: each.as_json() for key, each in self.fresh.items()}
        own = {"fresh": fresh, "seeds": self.seeds, "verdicts": self.by_metric, "verdict": self.verdict}
        row = readable_row(self)
        return {**claim, **own, "reason": self.reason, "seconds": self.seconds, "readable": row}


_COPIED = {"id", "paper", "kind", "locus", "statement", "tolerance", "source", "command", "scales", "published"} | {
    "original"
}


class Verdicts(list[Verdict]):
    """Verdicts that a notebook shows as a table."""

    @property
    def exact_failed(self) -> list[Verdict]:
        """The claims of class `exact` that do not hold."""
        return [each for each in self if each.claim.tolerance == "exact" and each.verdict == MISSED]

    def counts(self) -> dict[str, int]:
        """How many claims got each verdict, the absent ones left out."""
        return counted(each.verdict for each in self)

    def of_kind(self, kind: str) -> "Verdicts":
        """Those on the paper's claims (`paper`), on our own bars and controls (`own`), or on `later work`."""
        return Verdicts(each for each in self if each.claim.kind == kind)

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


def counted(words: Iterable[str]) -> dict[str, int]:
    """How often each verdict stands among `words`, in the order of `VERDICTS`, the absent ones left out."""
    numbers = Counter(words)
    return {word: numbers[word] for word in VERDICTS if numbers[word]}


def _cell(tag: str, text: str) -> str:
    """A cell of a notebook's table, one measurement a line (Jupyter would set it flush right)."""
    lines = "<br>".join(html.escape(line) for line in text.split("; "))
    return f'<{tag} style="text-align:left;vertical-align:top">{lines}</{tag}>'


def judge(folder: str | Path | Records, paper: str | None = None, claims: Iterable[Claim] | None = None) -> Verdicts:
    """The verdict on each claim (of one paper, or of all) by the results of its own paper in a folder."""
    records = folder if isinstance(folder, Records) else load(folder)
    chosen = [claim for claim in (load_claims(paper) if claims is None else claims) if paper in (None, claim.paper)]
    by_paper = {name: records.of_paper(name) for name in {claim.paper for claim in chosen}}
    at_this_scale = [claim for claim in chosen if records.scale in claim.scales]
    others = Counter(claim.family for claim in at_this_scale if claim.family and not claim.primary)
    return Verdicts(
        judge_claim(claim, by_paper[claim.paper], 1 if claim.primary else max(1, others[claim.family]))
        for claim in chosen
    )


def judge_claim(claim: Claim, records: Records, comparisons: int = 1) -> Verdict:
    """The verdict on one claim by the records of its paper (`Records.of_paper`).

    comparisons: of how many in its family it is one; the level is divided by it (Bonferroni).
    """
    missing = why_not_judged(claim, records)
    if missing:
        return Verdict(claim, NOT_RUN, missing)
    if claim.compare:
        return _judge_order(claim, records, 1 - (1 - CONFIDENCE) / comparisons)
    return _judge_values(claim, records)


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
    return records.once(f"rows {selector.key}", lambda: _select(records, selector))


def _select(records: Records, selector: Selector) -> pd.DataFrame:
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
        return table(rows, metric, episode_columns(selector.policy))
    if selector.frames is not None:
        return levels_at(rows, selector.frames)
    if selector.when == "training":
        return training_means(rows, metric)
    if selector.when in ("first tenth", "last tenth"):
        return tenth_means(rows, metric, last=selector.when == "last tenth")
    worst = table(rows, "success", columns="iteration").argmin(axis=1)
    return np.take_along_axis(table(rows, metric, columns="iteration"), worst[:, None], 1)


def _judge_values(claim: Claim, records: Records) -> Verdict:
    assert claim.select is not None  # the schema demands it of every class but ordering
    fresh, parts, reasons = {}, {}, []
    few = _few_seeds(records, claim.select)
    for metric in claim.expected or claim.range:
        fresh[metric] = estimate_for(claim, metric, records)
        holds, reason = compare_value(claim, metric, fresh[metric])
        unknown = claim.tolerance == "interval" and not fresh[metric].known
        parts[metric] = SHAPE if unknown or (few and holds) else _word(claim, holds)
        reasons.append(f"{SIGNS[parts[metric]]} {reason}")
    if claim.failed_layouts is not None:
        holds, reason = _compare_failures(claim, select_rows(records, claim.select))
        parts["failed layouts"] = REPRODUCED if holds else MISSED
        reasons.append(reason)
    return _conclude(claim, records, fresh, parts, reasons)


def _word(claim: Claim, holds: bool) -> str:
    return _WORD[claim.tolerance] if holds else MISSED


def estimate(selector: Selector, metric: str, records: Records, drawn: bool = True) -> Estimate:
    """The mean of a metric with its interval; drawn: whether its layouts stand for all layouts of the world."""
    values, trained = _values(records, selector, metric), _trained(records, selector)
    return mean_interval(values, trained=trained, drawn=drawn, bounds=bounds_of(metric))


def estimate_for(claim: Claim, metric: str, records: Records) -> Estimate:
    """What a claim's published value of a metric is held against: its layouts as the claim says.

    Where layouts are fixed and nothing was trained, the published value is one more repetition, whose noise counts.
    """
    assert claim.select is not None
    drawn = claim.layouts == "drawn"
    values, trained = _values(records, claim.select, metric), _trained(records, claim.select)
    extra = 0 if drawn or trained else 1
    return mean_interval(values, trained=trained, drawn=drawn, bounds=bounds_of(metric), repetitions=extra)


def _trained(records: Records, selector: Selector) -> bool:
    """Whether the seeds of a selector are trainings."""
    runs = select_rows(records, selector)["run"].tolist()
    curves = records.curves
    return records.once(f"trained {selector.key}", lambda: holds_training(curves.loc[curves["run"].isin(runs)]))


def _few_seeds(records: Records, selector: Selector) -> bool:
    """Whether these are trainings of fewer seeds than a verdict on an ordering needs."""
    return _trained(records, selector) and len(set(select_rows(records, selector)["seed"])) < SEEDS_FOR_A_VERDICT


def compare_value(claim: Claim, metric: str, fresh: Estimate) -> tuple[bool, str]:
    """(holds, what was compared with what) for one metric of a claim."""
    if metric in claim.range:
        low, high = claim.range[metric]
        return float(low) <= fresh.value <= float(high), f"{metric} {fresh.value:.2f}, accepted {low} to {high}"
    value = claim.expected[metric]
    if claim.tolerance == "interval":
        ends = f"[{fresh.low:.2f}, {fresh.high:.2f}]" if fresh.known else f"{fresh.value:.2f}, one seed"
        told = f"{metric} {value} against {ends}"
        if claim.episodes and metric == "success":
            agrees = agrees_with_share(fresh, float(value), claim.episodes)
            return agrees, f"{told}, the printed share being of {claim.episodes} episodes"
        return fresh.holds(float(value)), told
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


def _judge_order(claim: Claim, records: Records, confidence: float) -> Verdict:
    fresh, parts, reasons = {}, {}, []
    for each in claim.compare:
        name = _comparison_name(each, _short_names(claim.paper))
        if each.measure == "permutation":
            fresh[name], word = _permuted(each, records, 1 - confidence)
        else:
            fresh[name] = difference(each, records, confidence)
            word = outcome(each, fresh[name], claim.margin)
        few = any(_few_seeds(records, side) for side in (each.of, each.than))
        parts[name] = SHAPE if few and word in (HOLDS, EQUIVALENT) else word
        reasons.append(f"{name} {_interval_text(each, fresh[name])}, must be {_requirement(each, claim.margin)}")
    if confidence > CONFIDENCE:
        reasons.append(f"at {_percent(confidence)}, one of several comparisons ({claim.family})")
    return replace(_conclude(claim, records, fresh, parts, reasons), confidence=confidence)


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.4g} %"


def _permuted(comparison: Comparison, records: Records, level: float) -> tuple[Estimate, str]:
    """The p of a permutation of seeds, and what it says; the opposite has a p of its own."""
    ours, theirs = (_values(records, side, comparison.metric).mean(axis=1) for side in (comparison.of, comparison.than))
    if comparison.direction.endswith("lower"):
        ours, theirs = theirs, ours
    p, opposite = permutation_p(ours, theirs), permutation_p(theirs, ours)
    shown, reverse = (MISSED, HOLDS) if comparison.direction.startswith("not") else (HOLDS, MISSED)
    return Estimate(p, np.nan, np.nan), shown if p <= level else reverse if opposite <= level else NOT_TOLD


def _short_names(paper: str) -> Mapping[str, str]:
    return plugins.load(plugins.PAPERS)[paper].short_names


def _comparison_name(comparison: Comparison, names: Mapping[str, str]) -> str:
    """`success: mediator - random`, or `success: knowledge above phi = 0, permutation of seeds`."""
    of, than = comparison.of.short(names), comparison.than.short(names)
    if comparison.measure == "permutation":
        side = "below" if comparison.direction.endswith("lower") else "above"
        return f"{comparison.metric}: {of} {side} {than}, permutation of seeds"
    return f"{comparison.metric}: {of} - {than}"


def difference(comparison: Comparison, records: Records, confidence: float = CONFIDENCE) -> Estimate:
    """`of` minus `than` with its interval, paired on the layouts that both played."""
    sides = comparison.of, comparison.than
    if all(side.when == "end" for side in sides):
        rows = select_rows(records, comparison.of), select_rows(records, comparison.than)
        ours, theirs, paired = tables_of_both(*rows, comparison.metric)
    else:
        ours, theirs = (_values(records, side, comparison.metric) for side in sides)
        paired = False
    return difference_interval(
        ours,
        theirs,
        paired=paired,
        trained=(_trained(records, comparison.of), _trained(records, comparison.than)),
        bounds=bounds_of(comparison.metric),
        confidence=confidence,
    )


def _requirement(comparison: Comparison, margin: Margin | None) -> str:
    if margin is not None:
        worse = "lose less than" if comparison.direction == "not lower" else "differ by less than"
        return f"{worse} {margin.points} ({' '.join(margin.source.split())})"
    return comparison.direction + (f" by {comparison.by} at least" if comparison.by else "")


def outcome(comparison: Comparison, gap: Estimate, margin: Margin | None = None) -> str:
    """What a difference with its interval says about a comparison.

    `lower` and `higher` need all of the interval on their side, beyond `by` where it is set; without a margin the `not`
    forms are only told apart where the difference itself is shown.
    """
    if not gap.known:
        return NOT_TOLD
    # Nine decimals: an end that is 0 in the data may lie 1e-14 beside it in binary numbers.
    low, high = round(gap.low, 9), round(gap.high, 9)
    if comparison.direction not in ("higher", "not lower"):
        low, high = -high, -low
    if margin is not None:
        points, both = float(margin.points), not comparison.direction.startswith("not")
        if low > -points and (high < points or not both):
            return EQUIVALENT
        return MISSED if high < -points or (both and low > points) else NOT_TOLD
    by = float(comparison.by)
    if high < 0 or high < by:
        return MISSED
    return HOLDS if low > 0 and low >= by else NOT_TOLD


def _interval_text(comparison: Comparison, gap: Estimate) -> str:
    """A difference with its signs, or a p."""
    if comparison.measure == "permutation":
        return f"p = {gap.value:.3f}"
    if not gap.known:
        return f"{gap.value:+.2f} (one seed)"
    digits = 2 if comparison.metric != "return" else DECIMALS["return"]
    ends = (round(each, digits) + 0.0 for each in (gap.value, gap.low, gap.high))  # + 0.0: no -0.00 is printed
    value, low, high = (f"{each:+.{digits}f}" for each in ends)
    return f"{value} [{low}, {high}]"


def _conclude(
    claim: Claim, records: Records, fresh: dict[str, Estimate], parts: dict[str, str], reasons: list[str]
) -> Verdict:
    verdict = next((word for word in _WORST_FIRST if word in parts.values()), _WORD[claim.tolerance])
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
    """A claim as people read it: what the paper prints, the original code's re-run, here with interval, verdict."""
    claim = verdict.claim
    failed = "" if claim.failed_layouts is None else f"fails on {', '.join(map(str, claim.failed_layouts))}"
    return {
        "claim": claim.locus,
        "statement": claim.statement,
        "paper": _numbers(claim.published, claim.error_bar),
        "original re-run": failed or _numbers(claim.original),
        "here": _fresh(verdict),
        "seeds": str(verdict.seeds) if verdict.judged else "–",
        "verdict": f"{SIGNS[verdict.verdict]} {verdict.verdict} ({claim.tolerance})",
    }


def _numbers(values: dict[Any, Decimal], errors: dict[Any, Decimal] | None = None) -> str:
    bars = {metric: f" ± {error}" for metric, error in (errors or {}).items()}
    parts = [(metric, f"{value}{bars.get(metric, '')}") for metric, value in values.items()]
    return "; ".join(f"{metric} {text}{' %' if metric == 'success' else ''}" for metric, text in parts) or "–"


def _fresh(verdict: Verdict) -> str:
    if verdict.claim.compare:
        pairs = zip(verdict.claim.compare, verdict.fresh.items(), strict=False)
        told = "; ".join(f"{name} {_interval_text(each, gap)}" for each, (name, gap) in pairs) or "–"
        return told + (f"; at {_percent(verdict.confidence)}" if verdict.confidence > CONFIDENCE else "")
    parts = [f"{metric} {measured(each, metric)}" for metric, each in verdict.fresh.items()]
    if "failed layouts" in verdict.by_metric:
        parts.append(verdict.reason)
    return "; ".join(parts) or "–"
