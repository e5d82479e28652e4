"""Verdicts: each claim held against stored results. Nothing is trained, and no width is chosen by hand.

    verdicts = judge("results/0.1.0-quick-20261121-ab12cd3", paper="mediator")
    verdicts[0].verdict        # a Word: "matches", "supported", "contradicted", ...

`_judge_values` judges the classes exact, numeric and interval, `_judge_order` orderings and equivalences; claims.py is
the schema of what is judged, verdicts.py what comes of it, statistics.py says how wide intervals are. Agents that were
trained with fewer than five seeds show an ordering at best, and only where the seeds of both sides do not mix.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from groundlab.report.claims import Claim, Comparison, Margin, Selector, load_claims
from groundlab.report.records import (
    Records,
    episode_columns,
    falls,
    last_tests,
    levels_at,
    load,
    seeds_differ,
    seeds_without_episodes,
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
    in_two_groups,
    mean_interval,
    permutation_p,
)
from groundlab.report.verdicts import (
    RUNS_FAILED,
    Outcome,
    Verdict,
    Word,
    level_text,
    metric_name,
    short_names,
)


def judge(
    folder: str | Path | Records, paper: str | None = None, claims: Iterable[Claim] | None = None
) -> list[Verdict]:
    """The verdict on each claim (of one paper, or of all) by the results of its own paper in a folder."""
    records = folder if isinstance(folder, Records) else load(folder, paper)
    chosen = [claim for claim in (load_claims(paper) if claims is None else claims) if paper in (None, claim.paper)]
    by_paper = {name: records.of_paper(name) for name in {claim.paper for claim in chosen}}
    every = {claim.id: claim for name in by_paper for claim in load_claims(name)} | {each.id: each for each in chosen}
    families = (claim.family for claim in every.values() if records.scale in claim.scales and not claim.primary)
    others = Counter(family for family in families if family)  # whichever of them are judged now
    return [
        judge_claim(claim, by_paper[claim.paper], 1 if claim.primary else max(1, others[claim.family]))
        for claim in chosen
    ]


def judge_claim(claim: Claim, records: Records, comparisons: int = 1) -> Verdict:
    """The verdict on one claim by the records of its paper (`Records.of_paper`).

    comparisons: of how many in its family it is one; the level is divided by it (Bonferroni).
    """
    missing = why_not_judged(claim, records)
    if missing:
        lost = _lost(claim, records)
        failed = [run["error"] for run in lost if run["status"] == "failed"]
        if failed and claim.not_run is None and records.scale in claim.scales:
            missing += f": {len(failed)} failed ({failed[0]})"
            found = Verdict(claim, Word.NOT_TESTED, missing, RUNS_FAILED, missing=len(lost))
        else:
            found = Verdict(claim, Word.NOT_TESTED, missing, _not_tested(claim, records.scale))
    elif claim.compare:
        found = _judge_order(claim, records, 1 - (1 - CONFIDENCE) / comparisons)
    else:
        found = _judge_values(claim, records)
    return replace(found, reason="; ".join(filter(None, (found.reason, claim.formerly))))


def why_not_judged(claim: Claim, records: Records) -> str:
    """Why a claim is not judged by these records; empty where it is."""
    if claim.not_run is not None:
        return claim.not_run
    if records.scale not in claim.scales:
        return f"judged at scale {', '.join(claim.scales)}; this is {records.scale}"
    absent = [str(each) for each in claim.selectors if select_rows(records, each).empty]
    return f"no finished run of {absent[0]}" if absent else ""


def _not_tested(claim: Claim, scale: str) -> str:
    """Return the requirements of a claim that is not tested, in a few words."""
    if claim.needs:
        return f"needs {claim.needs}"
    return f"judged at scale {', '.join(claim.scales)}" if scale not in claim.scales else "no finished run"


def _agreement(claim: Claim) -> Outcome:
    """Return the outcome of a value that agrees: only a printed one can be matched."""
    if claim.against == "original":
        return Outcome.RERUN
    return Outcome.BAR if claim.kind == "own" else Outcome.INSIDE if claim.tolerance == "interval" else Outcome.EQUAL


def select_rows(records: Records, selector: Selector) -> pd.DataFrame:
    """The stored rows that a selector names: episodes of the final evaluation, tests during training, or updates."""
    return records.once(f"rows {selector.key}", lambda: _select(records, selector))


def _select(records: Records, selector: Selector) -> pd.DataFrame:
    frame = {"end": records.evaluations, "worst test": records.tests}.get(selector.when, records.curves)
    policy = selector.policy if selector.when in ("end", "worst test") else None
    method, world = selector.method, selector.world
    rows = records.once(f"{selector.when} of {method} in {world}", lambda: select(frame, method=method, world=world))
    rows = select(rows, method=method, world=world, policy=policy, settings=selector.settings)
    return rows if selector.kind is None else rows.loc[rows.get("kind", pd.Series(index=rows.index)) == selector.kind]


def _values(records: Records, selector: Selector, metric: str) -> np.ndarray:
    """[seeds, layouts], or [seeds, 1] of a seed's training: its least successful test, its success, tenths, fall.

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
    if selector.when == "last tests":
        return last_tests(rows, metric)
    if selector.when == "fall":
        return falls(rows, metric)
    worst = table(rows, "success", columns="iteration").argmin(axis=1)
    return np.take_along_axis(table(rows, metric, columns="iteration"), worst[:, None], 1)


def _judge_values(claim: Claim, records: Records) -> Verdict:
    assert claim.select is not None  # the schema demands it of every class but ordering
    fresh, parts, reasons = {}, {}, []
    few = _few_seeds(records, claim.select)
    for metric in claim.expected or claim.range:
        fresh[metric] = estimate(claim.select, metric, records, drawn=claim.layouts == "drawn")
        holds, reason = compare_value(claim, metric, fresh[metric])
        doubt = f"{_seeds_say(few)} nothing of a value" if few else _too_wide(claim, metric, fresh[metric])
        is_open = bool(few or (doubt and (holds or not fresh[metric].known)))
        outcome = _agreement(claim) if holds else Outcome.DIFFERS
        parts[metric] = outcome if not is_open else Outcome.FEW if few else Outcome.WIDE
        reasons.append(f"{parts[metric].word.sign} {reason}" + (f", but {doubt}" if is_open else ""))
    if claim.failed_layouts is not None:
        holds, reason = _compare_failures(claim, select_rows(records, claim.select))
        parts["failed layouts"] = _agreement(claim) if holds else Outcome.DIFFERS
        reasons.append(reason)
    return _conclude(claim, records, fresh, parts, reasons)


def _too_wide(claim: Claim, metric: str, fresh: Estimate) -> str:
    """Why an interval says nothing of a value in it; empty where it says something, and for other classes of claims."""
    if claim.tolerance != "interval":
        return ""
    if not fresh.known:
        return "one seed has no interval"
    margin = claim.margin.of(metric) if claim.margin else None
    half = (fresh.high - fresh.low) / 2
    if margin is None or half <= float(margin) / 2:
        return ""
    return f"half of the interval, {half:.2f}, is more than half the margin of {margin}"


def estimate(selector: Selector, metric: str, records: Records, drawn: bool = True) -> Estimate:
    """The mean of a metric with its interval; drawn: whether its layouts stand for all layouts of the world.

    Where they do not and nothing was trained, the published value is one more repetition, whose noise counts.
    """
    return _mean_of(records, selector, _values(records, selector, metric), metric, drawn)


def _trained(records: Records, selector: Selector) -> bool:
    """Whether each seed of a selector is a policy of its own."""
    rows, curves = select_rows(records, selector), records.curves
    return records.once(
        f"trained {selector.key}", lambda: seeds_differ(rows, curves.loc[curves["run"].isin(rows["run"].tolist())])
    )


def _few_seeds(records: Records, *selectors: Selector) -> int:
    """The least number of seeds of those that are trainings, where it is less than a verdict needs; else 0."""
    seeds = [len(set(select_rows(records, each)["seed"])) for each in selectors if _trained(records, each)]
    return min(seeds) if seeds and min(seeds) < SEEDS_FOR_A_VERDICT else 0


def _unit(claim: Claim, records: Records, sides: Iterable[Selector]) -> str:
    """Return what an interval is over: seeds of trainings, with their number of pretrained models, and layouts."""
    trained = [select_rows(records, each).drop_duplicates("run") for each in sides if _trained(records, each)]
    models = max((len({each.get("model") for each in rows["settings"]} - {None}) for rows in trained), default=0)
    pretrained = "" if not models else " of one pretraining" if models == 1 else f" of {models} pretrainings"
    tests = [f"{episode_columns(each.policy)}s" for each in sides if each.when == "end" and claim.layouts == "drawn"]
    return " and ".join([f"training seeds{pretrained}"] * bool(trained) + [*dict.fromkeys(tests)]) or "repetitions"


def _seeds_say(seeds: int) -> str:
    return "one seed says" if seeds == 1 else f"{seeds} seeds say"


def compare_value(claim: Claim, metric: str, fresh: Estimate) -> tuple[bool, str]:
    """(holds, what was compared with what) for one metric of a claim."""
    if metric in claim.range:
        low, high = claim.range[metric]
        return float(low) <= fresh.value <= float(high), f"{metric} {fresh.value:.2f}, accepted {low} to {high}"
    value = claim.expected[metric]
    if claim.tolerance == "interval":
        ends = f"[{fresh.low:.2f}, {fresh.high:.2f}]" if fresh.known else f"{fresh.value:.2f}, one seed"
        measured = f"{metric} here {ends}, {claim.against} {value}"
        if claim.episodes and metric == "success":
            agrees = agrees_with_share(fresh, float(value), claim.episodes)
            return agrees, f"{measured}, the printed share being of {claim.episodes} episodes"
        return fresh.holds(float(value), float(_last_digit(value)) / 2), measured
    if claim.tolerance == "numeric" and metric in claim.within:
        width = claim.within[metric]
        distance = abs(Decimal(repr(round(fresh.value, 9))) - value)
        return distance <= width, f"{metric} here {fresh.value:.2f}, {claim.against} {value}, at most {width} apart"
    rounded = round_as(fresh.value, value)
    return rounded == value, f"{metric} here {rounded}, {claim.against} {value}"


def round_as(value: float, like: Decimal) -> Decimal:
    """A value rounded (half up) to the decimals that `like` was published with."""
    # Nine decimals first: a mean of 100 layouts is exact there, its binary representation is not.
    return Decimal(repr(round(value, 9))).quantize(_last_digit(like), ROUND_HALF_UP)


def _last_digit(value: Decimal) -> Decimal:
    """What one in the last digit of a published value is worth: 0.1 for 3.4."""
    return Decimal(1).scaleb(value.as_tuple().exponent)  # type: ignore[arg-type]


def _compare_failures(claim: Claim, rows: pd.DataFrame) -> tuple[bool, str]:
    expected = sorted(claim.failed_layouts or ())
    failed = {seed: sorted(each.loc[each["success"] == 0, "layout"]) for seed, each in rows.groupby("seed")}
    wrong = [f"seed {seed} fails on {_listed(layouts)}" for seed, layouts in failed.items() if layouts != expected]
    return not wrong, ", and ".join(wrong) or f"every seed fails on {_listed(expected)}"


def _listed(layouts: list[int]) -> str:
    return ", ".join(map(str, layouts)) or "none"


def _name(claim: Claim, comparison: Comparison) -> str:
    """What a comparison is called where its numbers are kept."""
    sides = (side.short(short_names(claim.paper)) for side in (comparison.of, comparison.than))
    return f"{metric_name(comparison)}{claim.where(comparison)}: {' - '.join(sides)}"


def _judge_order(claim: Claim, records: Records, confidence: float) -> Verdict:
    fresh, parts, reasons, levels = {}, {}, [], {}
    names = short_names(claim.paper)
    for each in claim.compare:
        name = _name(claim, each)
        ours, theirs, paired = _sides(each, records)
        if each.measure == "permutation":
            fresh[name], word = _permuted(each, ours, theirs, 1 - confidence)
        else:
            trained = _trained(records, each.of), _trained(records, each.than)
            runs, others = (set(select_rows(records, side)["run"]) for side in (each.of, each.than))
            fresh[name] = difference_interval(
                ours,
                theirs,
                paired=paired,
                trained=trained,
                same_seeds=all(trained) and runs == others,
                bounds=bounds_of(each.metric),
                confidence=confidence,
            )
            word = outcome(each, fresh[name], claim.margin_of(each))
        sides = zip(each.sides, (ours, theirs, *_beside(each, records)), strict=True)
        levels[name] = {side.short(names): float(values.mean()) for side, values in sides}
        few = _few_seeds(records, each.of, each.than)
        found = Outcome.HOLDS if word == Outcome.EQUIVALENT and claim.tolerance == "ordering" else word
        parts[name] = _by_few_seeds(each, word, ours, theirs) if few else found
        doubt = f"; {_seeds_say(few)} nothing here" if parts[name] == Outcome.FEW else ""
        reasons.append(f"{name} must {_requirement(each, claim.margin_of(each))}{doubt}")
    if confidence > CONFIDENCE:
        reasons.append(f"{level_text(confidence).removeprefix('; ')}, one of several comparisons ({claim.family})")
    found = _conclude(claim, records, fresh, parts, reasons)
    return replace(found, confidence=confidence, levels=levels)


def _by_few_seeds(comparison: Comparison, found: Outcome, ours: np.ndarray, theirs: np.ndarray) -> Outcome:
    """What trainings of few seeds show: an ordering, where every seed of one side is beyond every seed of the other."""
    if comparison.direction not in ("lower", "higher"):
        return Outcome.FEW
    above, below = sorted((ours.mean(axis=1), theirs.mean(axis=1)), key=np.mean, reverse=True)
    apart = above.min() > below.max()
    against = dict.fromkeys((Outcome.REVERSED, Outcome.SMALLER, Outcome.BEYOND), Outcome.AGAINST)
    return {Outcome.HOLDS: Outcome.FOR, **against}.get(found, Outcome.FEW) if apart else Outcome.FEW


def _permuted(comparison: Comparison, ours: np.ndarray, theirs: np.ndarray, level: float) -> tuple[Estimate, Outcome]:
    """The p of a permutation of seeds, and what it says; the opposite has a p of its own."""
    first, second = ours.mean(axis=1), theirs.mean(axis=1)
    if comparison.direction == "lower":
        first, second = second, first
    p, opposite = permutation_p(first, second), permutation_p(second, first)
    found = Outcome.HOLDS if p <= level else Outcome.REVERSED if opposite <= level else Outcome.EITHER
    return Estimate(p, np.nan, np.nan), found


def _sides(comparison: Comparison, records: Records) -> tuple[np.ndarray, np.ndarray, bool]:
    """(`of` [seeds, layouts], `than`, whether they are paired on the layouts that both played)."""
    sides = comparison.of, comparison.than
    if all(side.when == "end" for side in sides):
        return tables_of_both(select_rows(records, sides[0]), select_rows(records, sides[1]), comparison.metric)
    ours, theirs = (_values(records, side, comparison.metric) for side in sides)
    return ours, theirs, False


def _beside(comparison: Comparison, records: Records) -> list[np.ndarray]:
    return [_values(records, side, comparison.metric) for side in comparison.beside]


def _requirement(comparison: Comparison, margin: Margin | None) -> str:
    if margin is not None:
        worse = {"not lower": "not be lower by", "not higher": "not be higher by"}
        verb = worse.get(comparison.direction, "not differ by")
        return f"{verb} {margin.of(comparison.metric)} or more ({' '.join(margin.source.split())})"
    return f"be {comparison.direction}" + (f" by {comparison.by} at least" if comparison.by else "")


def outcome(comparison: Comparison, gap: Estimate, margin: Margin | None = None) -> Outcome:
    """What a difference with its interval says about a comparison.

    `lower` and `higher` need all of the interval on their side, beyond `by` where it is set. With a margin it must lie
    within that, for `not lower` and `not higher` on the stated side only. `not significantly higher` finds none where
    no difference is shown, and holds as an ordering where the opposite is.
    """
    if not gap.known:
        return Outcome.EITHER
    # Nine decimals: an end that is 0 in the data may lie 1e-14 beside it in binary numbers.
    low, high = round(gap.low, 9), round(gap.high, 9)
    if comparison.direction == "not significantly higher":
        return Outcome.OPPOSED if high < 0 else Outcome.REVERSED if low > 0 else Outcome.NONE_SEEN
    if comparison.direction not in ("higher", "not lower"):
        low, high = -high, -low
    if margin is not None:
        points, both = float(margin.of(comparison.metric) or 0), not comparison.direction.startswith("not")
        if low > -points and (high < points or not both):
            return Outcome.EQUIVALENT
        return Outcome.BEYOND if high < -points or (both and low > points) else Outcome.ACROSS
    by = float(comparison.by)
    if high < 0 or high < by:
        return Outcome.REVERSED if high < 0 else Outcome.SMALLER
    return Outcome.HOLDS if low > 0 and low >= by else Outcome.EITHER


@dataclass(frozen=True)
class Level:
    """One side of what a claim is judged by: the mean of each run, and that of all with its interval."""

    name: str
    metric: str
    by_run: dict[str, float]
    mean: Estimate
    published: Decimal | None


def levels_of(claim: Claim, records: Records) -> dict[str, list[Level]]:
    """What a claim that was judged rests on: the sides of its comparisons by their names, or its values by metric.

    Two sides are of the layouts that both played, as they are judged.
    """
    names, found = short_names(claim.paper), dict[str, list[Level]]()

    def level(selector: Selector, metric: str, values: np.ndarray, mean: Estimate, published: Decimal | None) -> Level:
        rows = select_rows(records, selector).drop_duplicates("seed").sort_values("seed")
        by_run = dict(zip(rows["run"], map(float, values.mean(axis=1)), strict=True))
        return Level(selector.short(names), metric, by_run, mean, published)

    if claim.select is not None:
        for metric in claim.expected or claim.range:
            values = _values(records, claim.select, metric)
            mean = _mean_of(records, claim.select, values, metric, drawn=claim.layouts == "drawn")
            found[metric] = [level(claim.select, metric, values, mean, claim.published.get(metric))]
    for each in claim.compare:
        played = zip(each.sides, (*_sides(each, records)[:2], *_beside(each, records)), strict=True)
        found[_name(claim, each)] = [
            level(side, each.metric, values, _mean_of(records, side, values, each.metric), side.published)
            for side, values in played
        ]
    return found


def _mean_of(records: Records, selector: Selector, values: np.ndarray, metric: str, drawn: bool = True) -> Estimate:
    trained = _trained(records, selector)
    extra = 0 if drawn or trained else 1
    return mean_interval(values, trained=trained, drawn=drawn, bounds=bounds_of(metric), repetitions=extra)


def _conclude(
    claim: Claim, records: Records, fresh: dict[str, Estimate], parts: dict[str, Outcome], reasons: list[str]
) -> Verdict:
    found = min(parts.values(), key=list(Outcome).index)
    judged = [side for each in claim.compare for side in (each.of, each.than)] or claim.selectors
    word, because = found.word, found.because(_few_seeds(records, *judged), _points(claim))
    if claim.no_support and word in (Word.MATCHES, Word.SUPPORTED):
        word, because = Word.INCONCLUSIVE, claim.no_support
    if split := [each.short(short_names(claim.paper)) for each in claim.selectors if _splits(claim, records, each)]:
        reasons.append(
            f"seeds of {', '.join(dict.fromkeys(split))} fall into two groups, far apart: intervals are too narrow"
        )
    if silent := _silent(claim, records):
        reasons.append(f"no training episode of {', '.join(silent)} ever ended: its mean is taken as 0")
    runs = runs_behind(claim, records)
    compared = [(each.of, each.than) for each in claim.compare if fresh[_name(claim, each)].known]
    estimated = [claim.selectors] if claim.select and any(each.known for each in fresh.values()) else []
    return Verdict(
        claim,
        word,
        "; ".join(reasons),
        because,
        fresh,
        {name: each.word for name, each in parts.items()},
        seeds=len(set(select_rows(records, claim.selectors[0])["seed"])),
        runs=len(runs),
        missing=len(_lost(claim, records)),
        cpu_seconds=round(sum(runs.values()), 2),
        unit="; ".join(dict.fromkeys(_unit(claim, records, each) for each in (*compared, *estimated))),
    )


def _lost(claim: Claim, records: Records) -> list[dict[str, Any]]:
    """The runs that were planned for a claim and have not finished."""
    return [
        run
        for run in records.version.planned
        if run["paper"] == claim.paper
        and run["status"] != "finished"
        and any(each.fits(run["method"], run["world"], run["settings"]) for each in claim.selectors)
    ]


def _points(claim: Claim) -> str:
    """`5 points`, where a claim has one margin of success; else `the margin`."""
    margins = {margin.of(each.metric) for each in claim.compare if (margin := claim.margin_of(each))}
    return f"{margins.pop()} points" if len(margins) == 1 and claim.compare[0].metric == "success" else "the margin"


def _splits(claim: Claim, records: Records, selector: Selector) -> bool:
    """Whether the seeds of trained agents either learn or do not."""
    metrics = {each.metric for each in claim.compare} | set(claim.expected) | set(claim.range)
    if "success" not in metrics or not _trained(records, selector):
        return False
    return in_two_groups(_values(records, selector, "success").mean(axis=1))


def _silent(claim: Claim, records: Records) -> dict[str, None]:
    """The seeds, by agent, whose mean over training is 0 because no episode ended."""
    names, trainings = short_names(claim.paper), [side for side in claim.selectors if side.when == "training"]
    seeds = ((each, seed) for each in trainings for seed in seeds_without_episodes(select_rows(records, each)))
    return dict.fromkeys(f"seed {seed} of {each.short(names)}" for each, seed in seeds)


def runs_behind(claim: Claim, records: Records) -> dict[str, float]:
    """The finished runs that a claim is judged by, by selectors and seeds, with their CPU time in seconds."""
    chosen: dict[str, float] = {}
    for each in claim.selectors:
        runs = select(records.runs, method=each.method, world=each.world, settings=each.settings).sort_values("seed")
        chosen.update(zip(runs["run"], runs["cpu_seconds"], strict=True))
    return chosen
