"""The reasoning agents' figures: how they learn, the length bias of displayed success, and studies of one setting.

True success is that of tests on fixed layouts, all played to their ends; displayed success that of the episodes that
ended in an update, of which short ones end first.
"""

import heapq
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.papers.reasoning.arms import (
    BUDGET,
    DISTRACTORS,
    ESTIMATORS,
    MODELS,
    SAMPLED,
    UNTUNED,
    WINDOWS,
    ReasoningArm,
    Study,
    homes,
    main_arms,
    mixed_arms,
    reasoning_arms,
    shared_updates,
    single_tasks,
)
from groundlab.report.arms import short
from groundlab.report.claims import load_claims
from groundlab.report.curves import draw_seeds, in_thousands, seeds_in_words
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.statistics import SEEDS_FOR_A_VERDICT
from groundlab.report.style import COLOURS, PALETTE, SUCCESS, legend_below, new_figure

REPLIES = "replies of the agent"
WINDOW = 10  # updates in the mean that is displayed; the report has 100 of its longer trainings
TRUE, SHOWN = "true success, fixed layouts [%]", f"success of ended episodes, {WINDOW} updates [%]"


@exhibit(
    "reasoning-curves",
    "True and displayed success while the two agents learn, and their invalid replies",
    methods=("direct",),
)
def curves(records: Records) -> Figure:
    """True success, displayed success and invalid replies over replies, both agents; a row a world of training."""
    worlds = single_tasks(records)
    figure, axes = new_figure(11.4, 0.4 + 3.8 * len(worlds), max(1, len(worlds)), 3)
    for row, world in zip(axes, worlds, strict=False):
        _draw_learning(row, main_arms(records, world))
    for axis, title in zip(axes[0], _TITLES, strict=True):
        axis.set_title(title)
    for row, world in zip(axes, worlds if len(worlds) > 1 else (), strict=False):
        row[0].set_ylabel(f"{short(world)}: {TRUE}")
    legend_below(figure, axes[0, :1], 4)
    return figure


_TITLES = (
    "true success:\nall layouts, to their ends",
    "success as the report displays it:\nepisodes that ended",
    "replies that are no action",
)


def _draw_learning(axes: np.ndarray, main: dict[str, ReasoningArm]) -> None:
    """The three panels of one world: what is true, what the report would display, and invalid replies."""
    learners = [arm for arm in main.values() if arm.trained]
    for arm in learners:
        marks = {"marker": arm.style.marker, "markersize": 4.5}
        draw_series(axes[0], arm, "test_success", arm.style.colour, bounds=(0, 100), **marks)
        if (series := displayed(arm)) is not None:
            draw_seeds(axes[1], *series, arm.style.colour, arm.label, bounds=(0, 100))
        draw_series(axes[2], arm, "test_invalid", arm.style.colour, bounds=(0, np.inf), **marks)
    for axis in axes[:2]:
        _untuned_levels(axis, main)
        axis.set(ylim=(0, 103))
    for arm in learners:
        _published_end(axes[0], arm)
    axes[0].set(ylabel=TRUE)
    axes[1].set(ylabel=SHOWN)
    axes[2].set(ylabel="invalid replies per test episode", ylim=(0, None))
    for axis in axes:
        in_thousands(axis, REPLIES)


def _published_end(axis: Axes, arm: ReasoningArm) -> None:
    """The published success of the trained agent, of another model and more updates: hollow, at the right edge."""
    for claim in load_claims("reasoning"):
        chosen = claim.select
        same = chosen and (chosen.method, chosen.world, chosen.policy) == (arm.kind, arm.world, SAMPLED)
        if same and claim.kind == "paper" and "success" in claim.published:
            marker = {"marker": arm.style.marker, "markersize": 10 if arm.kind == "direct" else 6, "fillstyle": "none"}
            place = {"transform": axis.get_yaxis_transform(), "clip_on": False, "linestyle": "none"}
            label = f"{arm.agent}, published"
            axis.plot(1.0, float(claim.published["success"]), color=arm.style.colour, label=label, **marker, **place)
            return


@exhibit(
    "reasoning-mixture-curves",
    "Learning both tasks at once, as in the report: true success",
    methods=("direct",),
    beside=("reasoning", *UNTUNED.values()),
)
def mixture_curves(records: Records) -> Figure | None:
    """True success over replies of agents that learn both tasks at once, a panel a number of distractors."""
    panels = mixed_arms(records)
    if not panels:
        return None
    figure, axes = new_figure(max(6.4, 1.4 + 4.2 * len(panels)), 4.4, 1, len(panels), sharey=True)
    for axis, (count, arms) in zip(axes[0], panels.items(), strict=True):
        learners = [arm for arm in arms if arm.trained]
        for arm in learners:
            marks = {"marker": arm.style.marker, "markersize": 4.5}
            draw_series(axis, arm, "test_success", arm.style.colour, arm.agent, bounds=(0, 100), **marks)
        _untuned_levels(axis, {arm.kind: arm for arm in arms})
        axis.set(title=f"{count or 'no'} distractors: {seeds_in_words(learners)}", ylim=(0, 103))
        in_thousands(axis, REPLIES)
    axes[0, 0].set_ylabel(TRUE)
    legend_below(figure, axes[0])
    return figure


def draw_series(
    axis: Axes, arm: ReasoningArm, metric: str, colour: str, label: str = "", factor: float = 1, **style: Any
) -> None:
    """A recorded series of an arm, times a factor; `style` is that of the thick line."""
    series = arm.series(metric)
    if series is not None:
        frames, values = series
        draw_seeds(axis, frames, factor * values, colour, label or arm.label, **style)


def displayed(arm: ReasoningArm) -> tuple[np.ndarray, np.ndarray] | None:
    """(replies [points], success in percent [seeds, points]): the mean over the last `WINDOW` updates.

    Each update counts alike, as in the report's curves; one in which no episode ended is left out of the mean.
    """
    if "success" not in arm.curves:
        return None
    updates = arm.curves.loc[arm.curves["iteration"] > 0]
    wide = updates.pivot(index="iteration", columns="seed", values="success").rolling(WINDOW, min_periods=1).mean()
    frames = updates.pivot(index="iteration", columns="seed", values="frames").mean(axis=1)
    full = wide.iloc[WINDOW - 1 :].dropna()
    return (frames.loc[full.index].to_numpy(dtype=float), full.to_numpy(dtype=float).T) if len(full) else None


def _untuned_levels(axis: Axes, main: dict[str, ReasoningArm]) -> None:
    """What the untuned agents and random actions reach on the layouts of the final evaluation."""
    for arm in main.values():
        if not arm.trained and (level := arm.estimate(arm.main)):
            style = arm.style
            axis.axhline(level.value, color=style.colour, linestyle=(0, (5, 3)), linewidth=1.1, label=style.label)


# --- The length bias

ENVIRONMENTS, REPLIES_COUNTED = 6, 128  # of the original
_UPDATES = 1_000


def displayed_by_original(success: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> float:
    """The success that the original's counting displays of an agent with these episodes [episodes], in their unit.

    Environments play episodes drawn from them, side by side; an update displays the mean of those that ended by the
    time that the ended ones hold `REPLIES_COUNTED` replies. The mean of many updates.
    """
    return float(np.mean([_displayed_once(success, length, rng) for _ in range(_UPDATES)]))


def _displayed_once(success: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> float:
    first = rng.integers(len(success), size=ENVIRONMENTS)
    ends = [(int(length[episode]), env, int(episode)) for env, episode in enumerate(first)]
    heapq.heapify(ends)
    ended: list[int] = []
    counted, now = 0, 0
    while counted < REPLIES_COUNTED or ends[0][0] == now:  # all environments of the last round are counted
        now, env, episode = heapq.heappop(ends)
        ended.append(episode)
        counted += int(length[episode])
        following = int(rng.integers(len(success)))
        heapq.heappush(ends, (now + int(length[following]), env, following))
    return float(np.mean(success[ended]))


@exhibit(
    "reasoning-length-bias",
    "The length bias: what counting only ended episodes displays, and what is true",
    methods=("direct",),
    beside=("reasoning", "reasoning-zero-shot", "direct-zero-shot"),
)
def length_bias(records: Records) -> Figure:
    """A training that throws unfinished episodes away, beside one that continues them; then every evaluated agent."""
    pairs = biased_pairs(records)
    updates = min((dropped.updates for _, dropped in pairs), default=0)
    columns = [arm.first_tested(updates) for pair in pairs for arm in pair if arm is not None]
    figure, axes = new_figure(1.2 + 3.5 * (len(columns) + 1), 4.0, 1, len(columns) + 1)
    for axis, arm in zip(axes[0], columns, strict=False):
        _draw_training(axis, arm)
    _draw_counting(axes[0, -1], records)
    for axis in axes[0]:
        axis.set_ylim(-3, 103)
    if columns:
        legend_below(figure, axes[0, :1])
    return figure


def _draw_training(axis: Axes, arm: ReasoningArm) -> None:
    """The true curve, and each update's displayed success as a point whose size is the number of its episodes."""
    draw_series(axis, arm, "test_success", "#333333", "true: fixed layouts, played to their ends")
    ended = arm.curves.loc[arm.curves["episodes"] > 0]
    label = "displayed: episodes that ended in an update (size: how many)"
    sizes = 3.0 * np.asarray(ended["episodes"], dtype=float)
    axis.scatter(
        ended["frames"], ended["success"], sizes, color=COLOURS["orange"], alpha=0.5, linewidths=0, label=label
    )
    fate = "thrown away" if arm.study == "drop_unfinished" else "continued"
    axis.set(title=f"{arm.agent}, in training\nunfinished episodes {fate}: {seeds_in_words([arm])}", ylabel=SUCCESS)
    in_thousands(axis, REPLIES)


def _draw_counting(axis: Axes, records: Records) -> None:
    """Displayed over true success of every evaluated arm; without bias, points lie on the diagonal."""
    axis.plot([0, 100], [0, 100], color="#333333", linestyle=":", linewidth=1)
    in_legend: set[str] = set()
    for arm in reasoning_arms(records):
        point = true_and_displayed(arm)
        if point is not None:
            style, label = arm.style, None if arm.kind in in_legend else arm.agent
            axis.plot(*point, style.marker, color=style.colour, markersize=5, alpha=0.8, label=label)
            in_legend.add(arm.kind)
    axis.set(title="every evaluated agent\ncounted as the original trains", xlabel="true success [%]")
    axis.set(ylabel="displayed success [%]", xlim=(-3, 103))
    axis.legend(loc="lower right")


def true_and_displayed(arm: ReasoningArm) -> tuple[float, float] | None:
    """(true, displayed) success in percent of an arm's final evaluation, all seeds together."""
    success, length = arm.scores(SAMPLED), arm.scores(SAMPLED, "length")
    if success is None or length is None:
        return None
    shown = displayed_by_original(success.ravel(), length.ravel(), arm.generator("counting"))
    return float(success.mean()), shown


def biased_pairs(records: Records) -> list[tuple[ReasoningArm | None, ReasoningArm]]:
    """(the same arm with unfinished episodes continued, if there is one; the one with them thrown away)."""
    every = [arm for arm in reasoning_arms(records) if arm.trained]
    usual = {(arm.kind, arm.world): arm for arm in every if arm.usual}
    return [(usual.get((arm.kind, arm.world)), arm) for arm in every if arm.study == "drop_unfinished"]


# --- Studies: arms that differ in one setting

_SUCCESS = ("test_success", TRUE, (0, 100))  # series, what the axis says, what is possible
_INVALID = ("test_invalid", "invalid replies per test episode", (0, np.inf))
_CROWD = 3  # so many arms with bands can share a panel


def study_figure(records: Records, *studies: Study) -> Figure | None:
    """True success over replies, a panel an agent and study, as many updates as the shortest arm has, to the next test.

    Several worlds have a row each. A single panel has the invalid replies of its arms beside it; where bands would
    cover each other, a panel an arm.
    """
    groups = [(study, group) for study in studies for group in study.groups(records) if group[0].trained]
    if not groups:
        return None
    first = groups[0][1]
    crowded = len(first) > _CROWD and any(len(arm.seeds) >= SEEDS_FOR_A_VERDICT for arm in first)
    if len(groups) == 1 and crowded:
        return _one_by_one(*groups[0])
    panels = [(*each, _SUCCESS) for each in groups] + [(*each, _INVALID) for each in groups if len(groups) == 1]
    worlds = dict.fromkeys([*homes(records), *(group[0].world for _, group in groups)])
    rows = [[each for each in panels if each[1][0].world == world] for world in worlds]
    rows = [row for row in rows if row]
    columns = max(map(len, rows))
    figure, axes = new_figure(1.4 + 4.2 * columns, 4.0 * len(rows), len(rows), columns)
    for places, row in zip(axes, rows, strict=True):
        for axis, panel in zip(places, row, strict=False):
            _draw_study(axis, *panel, several=len(rows) > 1)
        for axis in places[len(row) :]:
            axis.set_axis_off()
    return figure


def _draw_study(
    axis: Axes, study: Study, group: list[ReasoningArm], shown: tuple[str, str, tuple[float, float]], several: bool
) -> None:
    """One panel of a study; `several`: whether there are panels of other worlds, so that its title names its own."""
    updates, (metric, label, bounds) = shared_updates(group), shown
    for arm, colour, marker in zip(group, cycle(PALETTE), cycle(_MARKERS), strict=False):
        name = study.name(arm) + ("" if len(arm.seeds) == 1 else f" ({len(arm.seeds)} seeds)")
        marks = {"marker": marker, "markersize": 4.5}
        draw_series(axis, arm.first_tested(updates), metric, colour, name, bounds=bounds, **marks)
    world = f", {short(group[0].world)}" if several else ""
    title = f"{group[0].agent}{world}: {seeds_in_words(group)}"
    title += "" if metric == "test_success" else ", replies that are no action"
    axis.set(title=title, ylabel=label, ylim=(0, 103 if metric == "test_success" else None))
    in_thousands(axis, REPLIES)
    axis.legend(loc="best")


_MARKERS = "osD^vPX*"
_LIMITS = "The limit of new tokens and the context window, with few seeds"
for _id, _title, _beside, _studies in (
    ("reasoning-distractors", "Learning among distractors", ("reasoning", *UNTUNED.values()), (DISTRACTORS,)),
    ("reasoning-estimators", "Estimators of credit, all else held fixed", ("reasoning",), (ESTIMATORS,)),
    ("reasoning-limits", _LIMITS, ("reasoning",), (BUDGET, WINDOWS)),
    ("reasoning-models", "Learning with two chat models", ("reasoning",), (MODELS,)),
):
    _declare = exhibit(_id, _title, methods=("direct",), beside=_beside)
    _declare(lambda records, studies=_studies: study_figure(records, *studies))


def _one_by_one(study: Study, group: list[ReasoningArm]) -> Figure:
    """A column an arm: success above, invalid replies below; the means of the other arms grey behind it."""
    arms = [arm.first_tested(shared_updates(group)) for arm in group]
    figure, axes = new_figure(9.0, 4.6, 2, len(arms), sharex=True, sharey="row")
    for row, (metric, label, bounds) in zip(axes, (_SUCCESS, _INVALID), strict=True):
        for axis, arm, colour, marker in zip(row, arms, cycle(PALETTE), cycle(_MARKERS), strict=False):
            for other in (each.series(metric) for each in arms if each is not arm):
                if other is not None:
                    axis.plot(other[0], other[1].mean(axis=0), color="#bbbbbb", linewidth=0.8, zorder=1)
            draw_series(axis, arm, metric, colour, bounds=bounds, marker=marker, markersize=4)
        row[0].set(ylim=(0, 103 if metric == "test_success" else None))  # last: all of the row share them
        row[0].set_ylabel(label.replace(", ", ",\n").replace(" per ", "\nper "))
    for axis, arm in zip(axes[0], arms, strict=True):
        axis.set_title(f"{study.name(arm)}\n{seeds_in_words([arm])}")
    for axis in axes[1]:
        in_thousands(axis, "")
        axis.set_xlabel("")
    figure.supxlabel(f"{REPLIES} [thousands]; grey: means of the others", fontsize=9)
    return figure
