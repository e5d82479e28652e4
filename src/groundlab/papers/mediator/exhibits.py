"""The exhibits of the mediator paper: Table 1, learning curves, the trade-off, and sampled against argmax evaluation.

The published values come from configs/mediator/claims.yaml, so a number of the paper is written down once. `tradeoff`
is the paper's argument in one figure. The planner of all of our rows is a script; the paper's was a language model.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from groundlab.papers.mediator import WORLDS
from groundlab.papers.mediator.arms import (
    COINS,
    CONSTANT,
    CONTROLS,
    OWN_WORLD,
    RULES,
    STYLES,
    all_selectors,
    of_others,
    others,
    rule,
    trained,
    trained_worlds,
    usual,
)
from groundlab.report.claims import Claim, Selector, load_claims, published_cells
from groundlab.report.curves import draw_seeds
from groundlab.report.exhibits import exhibit
from groundlab.report.judging import estimate, judge_claim, select_rows
from groundlab.report.records import Records, iterations, select, table
from groundlab.report.statistics import Estimate, bounds_of
from groundlab.report.style import COLOURS, PUBLISHED_COLOUR, SUCCESS, PlotStyle, new_figure, plain_log
from groundlab.report.tables import Table, number, written
from groundlab.report.verdicts import Verdict

ARGMAX_COLOUR = COLOURS["violet"]
AXIS_LABELS = {"interactions": "questions per episode", "steps": "steps per episode", "success": SUCCESS}
ITERATIONS = "iteration (released: 1,000)"
_METRICS = ("interactions", "asked", "steps", "success", "return")
_PUBLISHED = ("interactions", "steps", "success")
_POINTS = 250  # at most, of a curve, its last among them: a panel is 250 pixels wide, and a PDF keeps all it is given
_WINDOW = 10  # iterations in a running mean of the training episodes, 100 episodes

# --- Table 1


@exhibit(
    "mediator-table1",
    "Table 1: questions to a scripted planner, steps and success, measured and published",
    methods=("hard-coded", "always", "random"),
)
def table1(records: Records) -> Table:
    """World by method: interactions, steps, success and return with 95 % intervals, beside the published row."""
    rows = [each for world in WORLDS for each in all_selectors(records, world)]
    chosen = [each for each in rows if not select_rows(records, each).empty]
    every = load_claims("mediator")
    claims = [claim for claim in every if claim.locus.startswith("Table 1") and claim.select]
    failing = {layout for claim in every for layout in claim.failed_layouts or ()}  # whatever is asked there
    played = records.evaluations
    there = (played["world"] == _BOXES) & ~played["layout"].isin(list(failing))
    solvable = replace(records, evaluations=played.loc[there])
    parts = [(each, _measurements(records, each, claims)) for each in chosen]
    parts += [
        (each, _measurements(solvable, each, [], note=_SOLVABLE))
        for each in chosen
        if each.world == _BOXES and not select_rows(solvable, each).empty
    ]
    data = pd.DataFrame([row for _, rows in parts for row in rows])
    names = {row.key: style.label for world in WORLDS for row, style in of_others(records, world)}
    return Table(data, pd.DataFrame([_readable(each, rows, names) for each, rows in parts]), _NOTES)


_BOXES = "RandomBoxKey"
_SOLVABLE = "layouts that can be solved"


_NOTES = (
    "no language model was asked: the planner is a script; the paper's planner was Vicuna",
    "mean [95 % interval] over seeds and test layouts; layouts 0-99, for trained methods those of the scale "
    "(smoke: 0-9)",
    "✓, ✗ and ?: the published value is met, is not met, or is inconclusive (fewer than five trainings, or an interval "
    "too wide for its margin), by the rule that configs/mediator/claims.yaml states for it; the paper's layouts are "
    "ours, so only seeds vary there",
    "interactions: every call of the planner, as the released code counts; asked: the asks of the rule or policy "
    "itself, as the first commit counted; which of the two the paper prints is not known",
    "the published hard-coded rows of KeyInBox and RandomBoxKey need the plans of the code's first commit",
    "ours is trained with a learning rate that falls to 0, so that the last policy stands for the run; "
    "constant rate: as the released code trains; iterations: the released default is 1,000",
    f"{_BOXES}, {_SOLVABLE}: without the layouts on which Explore is stuck whatever is asked (claim "
    "mediator-failures-RandomBoxKey-always); a policy that asks when nothing moves asks there to the end",
    "untrained: a network with its first weights, sampled, as the first commit's random was",
    f"{OWN_WORLD} is our own definition: the paper names that world without defining it, so the rows are not compared",
    "return: undiscounted, with questions charged; the paper prints none",
)


def _measurements(records: Records, row: Selector, claims: list[Claim], note: str = "") -> list[dict]:
    """One row of numbers a metric; claims: those of the table; note: which layouts, where not all."""
    stored = select_rows(records, row)
    verdicts = [judge_claim(claim, records) for claim in claims if claim.select and claim.select.key == row.key]
    metrics = [metric for metric in _METRICS if metric in stored and not any(stored[metric].isna())]
    trainings = {settings.get("iterations") for settings in stored["settings"]}
    shared = {"iterations": trainings.pop() if len(trainings) == 1 else None, "layouts_of": note}
    return [_measurement(records, row, metric, verdicts) | shared for metric in metrics]


def _measurement(records: Records, row: Selector, metric: str, verdicts: list[Verdict]) -> dict:
    values = table(select_rows(records, row), metric)
    judged_here = [each for each in verdicts if metric in each.fresh]  # an interval beside a verdict is the one judged
    fresh = judged_here[-1].fresh[metric] if judged_here else estimate(row, metric, records)
    printed = [float(each.claim.published[metric]) for each in verdicts if metric in each.claim.published]
    judged = [each.by_metric[metric] for each in verdicts if metric in each.by_metric]
    return {
        "world": row.world,
        "method": row.method,
        "plans": row.settings.get("plans"),
        "anneal_from": row.settings.get("anneal_from"),
        "probability": row.settings.get("probability"),
        "policy": row.policy,
        "metric": metric,
        "mean": fresh.value,
        "low": fresh.low,
        "high": fresh.high,
        "iqm_of_seeds": float(stats.trim_mean(values.mean(axis=1), 0.25)),
        "published": printed[-1] if printed else None,
        "verdict": judged[-1] if judged else None,
        "seeds": values.shape[0],
        "layouts": values.shape[1],
    }


def _readable(row: Selector, measurements: list[dict], names: dict[str, str]) -> dict[str, str]:
    """A row of text; names: those of the rows of agents that this paper does not know."""
    note = measurements[0]["layouts_of"]
    line = {"world": _title(row.world) + (f", {note}" if note else ""), "method": names.get(row.key) or _name(row)}
    by_metric = {each["metric"]: each for each in measurements}
    for metric in _METRICS:
        line[metric] = _fresh_cell(by_metric.get(metric), metric)
        if metric in _PUBLISHED:
            line[f"paper's {metric}"] = _paper_cell(by_metric.get(metric), metric)
    updates = measurements[0]["iterations"]
    return line | {"iterations": f"{updates:g}" if updates else "–", "seeds": str(measurements[0]["seeds"])}


def _title(world: str) -> str:
    return f"{world}\n(our definition)" if world == OWN_WORLD else world


def _name(row: Selector) -> str:
    label = "ours" if row.method == "mediator" else row.method
    first = "first-commit protocol" if row.method == "mediator" else "first-commit plans"
    plans = f", {first}" if row.settings["plans"] == "first-commit" else ""
    rate = ", constant rate" if row.settings.get("anneal_from") == 1.0 and row.method == "mediator" else ""
    coin = f", p = {row.settings['probability']:g}" if row.settings.get("probability", 0.5) != 0.5 else ""
    return label + plans + rate + coin + ("" if row.policy == "rule" else f", {row.policy}")


def _fresh_cell(measurement: dict | None, metric: str) -> str:
    if measurement is None:
        return "–"
    cell = written(Estimate(measurement["mean"], measurement["low"], measurement["high"]), metric)
    claimed = metric not in _PUBLISHED and measurement["published"] is not None
    return f"{cell} (paper: {_paper_cell(measurement, metric)})" if claimed else cell


def _paper_cell(measurement: dict | None, metric: str) -> str:
    if measurement is None or measurement["published"] is None:
        return "–"
    sign = measurement["verdict"].sign if measurement["verdict"] else ""
    return f"{number(measurement['published'], metric)} {sign}".rstrip()


# --- Learning curves


def _panels(worlds: list[str], metrics: tuple[str, ...], height: float, xlabel: str, sharex: str | bool) -> Any:
    """(figure, axes, [(axis, world, metric)]): a column a world, a row a metric, wide enough for the legend."""
    width = max(7.6, 1.0 + 2.45 * len(worlds))
    figure, axes = new_figure(width, height, len(metrics), len(worlds), sharex=sharex, sharey="row")
    for column, world in enumerate(worlds):
        axes[0, column].set_title(_title(world))
        axes[-1, column].set_xlabel(xlabel)
    return figure, axes, [(axis, *each) for axis, each in zip(axes.T.flat, product(worlds, metrics), strict=True)]


def _legend(figure: Figure, worlds: list[str], handles: list[Line2D]) -> None:
    figure.legend(handles=handles, loc="outside lower center", ncols=3 if len(worlds) > 3 else 2)


@exhibit(
    "mediator-curves",
    "Questions to a scripted planner, steps and success while the asking policy learns",
    methods=("mediator",),
)
def curves(records: Records) -> Figure:
    """Questions, steps and success over training: seeds thin, their mean thick, tests as points."""
    worlds = trained_worlds(records)
    figure, axes, panels = _panels(worlds, ("interactions", "steps", "success"), 7.4, ITERATIONS, sharex="col")
    for panel in panels:
        _reference_lines(records, *panel)
        _training_curve(records, *panel)
        _test_points(records, *panel)
    axes[1, 0].set_ylabel(AXIS_LABELS["steps"])
    _finish_rows(axes)
    _legend(figure, worlds, _curve_legend(records, worlds))
    return figure


def _constant(records: Records, world: str) -> pd.DataFrame:
    """The curves of the constant learning rate in a world; empty where it was not run."""
    return select(records.curves, method="mediator", world=world, settings=CONSTANT)


def _training_curve(records: Records, axis: Axes, world: str, metric: str) -> None:
    rows = select(records.curves, method="mediator", world=world, settings=usual(records))
    smooth = _running_mean(table(rows, metric, columns="iteration"))
    constant = _constant(records, world)
    last = smooth.shape[1] - 1
    step = last // _POINTS + 1
    shown = slice(last % step, None, step)
    if not constant.empty:
        middle = _running_mean(table(constant, metric, columns="iteration")).mean(axis=0)
        axis.plot(iterations(constant)[shown], middle[shown], **_CONSTANT_STYLE)
    draw_seeds(axis, iterations(rows)[shown], smooth[:, shown], STYLES["mediator"].colour, bounds=bounds_of(metric))


_CONSTANT_STYLE = {"color": COLOURS["silver"], "linewidth": 1.2, "zorder": 3}


def _running_mean(seeds: np.ndarray) -> np.ndarray:
    """The mean of the last `_WINDOW` points, or of those there are; [seeds, points] in and out."""
    totals = np.cumsum(seeds, axis=1)
    totals[:, _WINDOW:] -= totals[:, :-_WINDOW].copy()
    return totals / np.minimum(np.arange(1, seeds.shape[1] + 1), _WINDOW)


def _test_points(records: Records, axis: Axes, world: str, metric: str) -> None:
    for policy, points in _TEST_POINTS.items():
        rows = select(records.tests, method="mediator", world=world, policy=policy, settings=usual(records))
        means = table(rows, metric, columns="iteration").mean(axis=0)
        axis.plot(iterations(rows), means, linestyle="none", markersize=5, **points)


_TEST_POINTS = {
    "sampled": {"marker": "o", "color": STYLES["mediator"].colour, "markeredgecolor": "white", "markeredgewidth": 0.6},
    "argmax": {"marker": "D", "color": "none", "markeredgecolor": ARGMAX_COLOUR, "markeredgewidth": 1.2},
}


def _reference_lines(records: Records, axis: Axes, world: str, metric: str) -> None:
    for method in RULES:
        selector = rule(method, world)
        if not select_rows(records, selector).empty:
            level = estimate(selector, metric, records).value
            axis.axhline(level, color=STYLES[method].colour, linewidth=1.1, linestyle=_DASHES[method])
    for selector, style in of_others(records, world):
        level = estimate(selector, metric, records).value
        axis.axhline(level, color=style.colour, linewidth=1.1, linestyle=_OTHERS)
    _published_line(axis, world, metric)


def _published_line(axis: Axes, world: str, metric: str) -> None:
    """The level of the paper's trained policy, in its own worlds."""
    published = published_cells("mediator", "Table 1").get((world, "mediator"), {})
    if metric in published and world != OWN_WORLD:
        axis.axhline(published[metric], color=PUBLISHED_COLOUR, linewidth=1.1, linestyle=":", zorder=3)


_OTHERS = (0, (1, 1))
_DASHES = {
    "hard-coded": (0, (6, 2)),
    "always": (0, (4, 1.5)),
    "random": (0, (2, 1.5)),
    "on-change": (0, (6, 1.5, 1, 1.5)),
}


def _finish_rows(axes: np.ndarray) -> None:
    """Questions on a logarithmic axis above, success in percent below."""
    axes[0, 0].set_ylabel(AXIS_LABELS["interactions"])
    axes[-1, 0].set_ylabel(AXIS_LABELS["success"])
    plain_log(axes[0, 0], "y")
    axes[-1, 0].set_ylim(25, 103)


def _curve_legend(records: Records, worlds: list[str]) -> list[Line2D]:
    colour, (protocol, same) = STYLES["mediator"].colour, _protocols(records)
    episodes = f"training episodes, fresh layouts (mean of {_WINDOW} iterations){protocol}"
    constant = any(not _constant(records, world).empty for world in worlds)
    rules = [name for name in RULES if any(len(select_rows(records, rule(name, world))) for world in worlds)]
    learned = [
        Line2D([], [], color=colour, label=episodes),
        Line2D([], [], color=colour, alpha=0.4, linewidth=0.8, label="its single seeds; band: 95 % interval"),
        *([Line2D([], [], **_CONSTANT_STYLE, label=f"{same}, constant learning rate")] if constant else []),
        Line2D([], [], linestyle="none", **_TEST_POINTS["sampled"], label="test (layouts 0-99), sampled"),
        Line2D([], [], linestyle="none", **_TEST_POINTS["argmax"], label="test, argmax"),
        _published_handle(),
    ]
    unknown = others(records).values()
    more = [Line2D([], [], color=style.colour, linestyle=_OTHERS, label=style.label) for style in unknown]
    return [*learned, *map(_rule_handle, rules), *more]


def _protocols(records: Records) -> tuple[str, str]:
    """What legends add to the trainings that figures show, and call those of the released protocol, constant rate."""
    first = usual(records)["plans"] == "first-commit"  # at scale `paper`
    return (", first commit's protocol", "released protocol") if first else ("", "the same")


def _rule_handle(method: str) -> Line2D:
    return Line2D([], [], color=STYLES[method].colour, linestyle=_DASHES[method], label=STYLES[method].label)


def _published_handle() -> Line2D:
    return Line2D([], [], color=PUBLISHED_COLOUR, linestyle=":", label="published, trained (layouts 0-99)")


# --- The trade-off


@exhibit(
    "mediator-tradeoff",
    "Success and steps against questions to a scripted planner",
    methods=("mediator", "hard-coded", "always"),
)
def tradeoff(records: Records) -> Figure:
    """Success (above) and steps (below) against questions, a column a world; published values hollow.

    Where all succeed always, only the steps tell methods apart. Only the worlds that the paper's values belong to; the
    others are in Table 1 and in the learning curves.
    """
    worlds = [world for world in trained_worlds(records) if world != OWN_WORLD]
    figure, axes, panels = _panels(worlds, ("success", "steps"), 5.6, AXIS_LABELS["interactions"], sharex=True)
    asking = {method: style for method, style in STYLES.items() if method != "never"}
    for axis, world, metric in panels:
        _coin_line(records, axis, world, metric)
        rows = [(_as_published(records, world, method), style) for method, style in asking.items()]
        for selector, style in (*rows, *of_others(records, world)):
            _tradeoff_point(axis, records, selector, metric, style)
    plain_log(axes[0, 0], "x")
    axes[0, 0].set(ylabel=AXIS_LABELS["success"], ylim=(20, 104), xlim=(1, 100))
    axes[1, 0].set(ylabel=AXIS_LABELS["steps"], ylim=(20, 90))
    absent = set(CONTROLS) - records.methods("mediator")
    known = {method: style for method, style in asking.items() if method not in absent}
    _legend(figure, worlds, _tradeoff_legend(known | others(records)))
    return figure


def _coin_line(records: Records, axis: Axes, world: str, metric: str) -> None:
    """What asking at random buys, from rare coins to the paper's coin of one half."""
    coins = [rule("random", world, probability=probability) for probability in (*COINS, 0.5)]
    played = [each for each in coins if not select_rows(records, each).empty]
    questions, level = ([estimate(each, name, records).value for each in played] for name in ("interactions", metric))
    axis.plot(questions, level, **_COIN_STYLE)


_COIN_STYLE = {"color": STYLES["random"].colour, "linewidth": 1.0, "marker": ".", "markersize": 4}


def _tradeoff_point(axis: Axes, records: Records, selector: Selector, metric: str, style: PlotStyle) -> None:
    rows = select_rows(records, selector)
    if rows.empty or "interactions" not in rows or any(rows["interactions"].isna()):
        return
    x, y = (estimate(selector, name, records) for name in ("interactions", metric))
    axis.errorbar(x.value, y.value, y.bars, x.bars, color=style.colour, marker=style.marker, markersize=6, elinewidth=1)
    published = published_cells("mediator", "Table 1").get((selector.world, selector.method), {})
    if published:
        hollow = {"marker": style.marker, "markersize": 10, "markerfacecolor": "none", "markeredgecolor": style.colour}
        axis.plot(published["interactions"], published[metric], linestyle="none", markeredgewidth=1.2, **hollow)


def _as_published(records: Records, world: str, method: str) -> Selector:
    """The rows that the published row is compared with: first-commit plans where they were run."""
    if method in ("mediator", "never"):
        return trained(world, method=method, settings=usual(records))
    first_commit = rule(method, world, "first-commit")
    return rule(method, world) if select_rows(records, first_commit).empty else first_commit


def _tradeoff_legend(shown: dict[str, PlotStyle]) -> list[Line2D]:
    labels = {"hard-coded": "hard-coded (box worlds: first-commit plans)"}
    filled = [
        Line2D([], [], color=style.colour, marker=style.marker, label=labels.get(method, style.label))
        for method, style in shown.items()
    ]
    hollow = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "markeredgecolor": PUBLISHED_COLOUR}
    bars = Line2D([], [], color=PUBLISHED_COLOUR, marker="|", markersize=9, label="95 % interval (planner: a script)")
    coins = Line2D([], [], **_COIN_STYLE, label=f"random, p = {min(COINS):g} to 0.5 (our control)")
    return [*filled, coins, Line2D([], [], linestyle="none", **hollow, label="hollow: published, Vicuna planned"), bars]


# --- Sampled against argmax


@exhibit(
    "mediator-argmax",
    "Sampled against argmax evaluation during training",
    methods=("mediator", "hard-coded"),
    beside=(),
)
def argmax(records: Records) -> Figure:
    """Tests during training on layouts 0-99: the argmax of the policy drifts towards the hard-coded rule."""
    worlds = trained_worlds(records)
    figure, axes, panels = _panels(worlds, ("interactions", "success"), 5.0, ITERATIONS, sharex="col")
    for axis, world, metric in panels:
        level = estimate(rule("hard-coded", world), metric, records).value
        axis.axhline(level, color=STYLES["hard-coded"].colour, linewidth=1.1, linestyle=_DASHES["hard-coded"])
        _published_line(axis, world, metric)
        for policy, style in _POLICY_STYLES.items():
            _test_curve(axis, records, world, metric, policy, style)
    _finish_rows(axes)
    _legend(figure, worlds, _argmax_legend(records))
    return figure


_POLICY_STYLES = {
    "sampled": {"colour": STYLES["mediator"].colour, "marker": "o"},
    "argmax": {"colour": ARGMAX_COLOUR, "marker": "D"},
}


def _test_curve(axis: Axes, records: Records, world: str, metric: str, policy: str, style: dict) -> None:
    rows = select(records.tests, method="mediator", world=world, policy=policy, settings=usual(records))
    values = table(rows, metric, columns="iteration")
    constant = select(records.tests, method="mediator", world=world, policy=policy, settings=CONSTANT)
    if policy == "argmax" and not constant.empty:
        middle = table(constant, metric, columns="iteration").mean(axis=0)
        axis.plot(iterations(constant), middle, marker=style["marker"], markersize=4, **_CONSTANT_STYLE)
    line = {"marker": style["marker"], "markersize": 4}
    draw_seeds(axis, iterations(rows), values, style["colour"], bounds=bounds_of(metric), **line)


def _argmax_legend(records: Records) -> list[Line2D]:
    protocol, same = _protocols(records)
    tests = [
        Line2D([], [], color=style["colour"], marker=style["marker"], label=f"test, {policy}{protocol}")
        for policy, style in _POLICY_STYLES.items()
    ]
    constant = Line2D([], [], marker="D", **_CONSTANT_STYLE, label=f"argmax, {same}, constant rate (where run)")
    return [*tests, constant, _rule_handle("hard-coded"), _published_handle()]
