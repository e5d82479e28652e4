"""How the reasoning and the direct agent learn: curves of their tests, and of what the report displays in their place.

True success is that of tests on fixed layouts, all played to their ends; displayed success that of the episodes that
ended in an update, of which short ones end first. Read first: `curves`. Called from: exhibits.py.
Read next: `reasoning_bias.py`, where the two are held against each other.
"""

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core.seeding import generator
from groundlab.papers.reasoning.arms import LOOKS, PHRASES, SAMPLED, Arm, arms, main_arms, short
from groundlab.papers.reasoning.tables import cells, printed
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.statistics import band, mean
from groundlab.report.style import new_figure
from groundlab.report.tables import Table, measured, number

REPLIES = "replies of the environments"
WINDOW = 10  # updates in the mean that is displayed; the report has 100 of its longer trainings
TRUE, SHOWN = "true success, fixed layouts [%]", f"success of ended episodes, {WINDOW} updates [%]"


@exhibit(
    "reasoning-curves",
    "True and displayed success while the two agents learn, and their invalid replies",
    methods=("direct",),
    beside=("reasoning", "reasoning-zero-shot", "direct-zero-shot", "random"),
)
def curves(records: Records) -> Figure:
    """True success, displayed success and invalid replies over the replies of the environments, both agents."""
    found = main_arms(records)
    figure, axes = new_figure(11.4, 4.2, 1, 3)
    for method in ("reasoning", "direct"):
        if method in found:
            colour = LOOKS[method].colour
            draw_series(axes[0, 0], found[method], "test_success", colour)
            draw_displayed(axes[0, 1], found[method], colour)
            draw_series(axes[0, 2], found[method], "test_invalid", colour)
    for axis in axes[0, :2]:
        _levels(axis, found)
        axis.set(ylim=(0, 103))
    axes[0, 0].set(title="true", ylabel=TRUE)
    axes[0, 1].set(title="displayed", ylabel=SHOWN)
    axes[0, 2].set(title="invalid", ylabel="invalid replies per test episode", ylim=(0, None))
    for axis in axes[0]:
        axis.set(xlabel=REPLIES, xlim=(0, None))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def draw_series(axis: Axes, arm: Arm, metric: str, colour: str, label: str = "") -> None:
    """A recorded series of an arm: seeds thin; of several, the mean thick and its 95 % band."""
    found = arm.series(metric)
    if found is not None:
        _draw(axis, *found, (arm.label, metric), colour, label or arm.label)


def draw_displayed(axis: Axes, arm: Arm, colour: str, label: str = "") -> None:
    """Success as the report displays it, from the first update with enough before it."""
    found = displayed(arm)
    if found is not None:
        _draw(axis, *found, (arm.label, "displayed"), colour, label or arm.label)


def displayed(arm: Arm) -> tuple[np.ndarray, np.ndarray] | None:
    """(replies [points], success in percent [seeds, points]): the mean over the last `WINDOW` updates.

    Each update counts alike, as in the report's curves; one in which no episode ended is left out of the mean.
    """
    if "success" not in arm.curves:
        return None
    told = arm.curves.loc[arm.curves["iteration"] > 0]
    wide = told.pivot(index="iteration", columns="seed", values="success").rolling(WINDOW, min_periods=1).mean()
    frames = told.pivot(index="iteration", columns="seed", values="frames").mean(axis=1)
    full = wide.iloc[WINDOW - 1 :].dropna()
    return (frames.loc[full.index].to_numpy(dtype=float), full.to_numpy(dtype=float).T) if len(full) else None


def _draw(axis: Axes, frames: np.ndarray, values: np.ndarray, owner: tuple[str, str], colour: str, label: str) -> None:
    """values: [seeds, points]."""
    if len(values) == 1:
        axis.plot(frames, values[0], color=colour, linewidth=1.2, label=label)
        return
    for seed in values:
        axis.plot(frames, seed, color=colour, linewidth=0.5, alpha=0.45)
    middle, low, high = band(values, mean, generator(0, "band", *owner))
    axis.fill_between(frames, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(frames, middle, color=colour, label=label)


def _levels(axis: Axes, found: dict[str, Arm]) -> None:
    """What the untuned agents and random actions reach on the layouts of the final evaluation."""
    for method in ("reasoning-zero-shot", "direct-zero-shot", "random"):
        level = found[method].estimate(found[method].main) if method in found else None
        if level:
            look = LOOKS[method]
            axis.axhline(level.value, color=look.colour, linestyle=(0, (5, 3)), linewidth=1.1, label=look.label)


ENVIRONMENTS, REPLIES_COUNTED = 6, 128  # of the original
_UPDATES = 1_000


def displayed_by_original(success: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> float:
    """The success that the original's counting displays of an agent with these episodes [episodes], in their unit.

    Environments play episodes drawn from them, side by side; an update displays the mean of those that ended by the
    time that the ended ones hold `REPLIES_COUNTED` replies. The mean of many updates.
    """
    return float(np.mean([_displayed_once(success, length, rng) for _ in range(_UPDATES)]))


def _displayed_once(success: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> float:
    drawn = rng.integers(len(success), size=ENVIRONMENTS)
    ends = [(int(length[episode]), env, int(episode)) for env, episode in enumerate(drawn)]
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
    columns = [arm.first(updates) for pair in pairs for arm in pair if arm is not None]
    figure, axes = new_figure(1.2 + 3.5 * (len(columns) + 1), 4.0, 1, len(columns) + 1)
    for axis, arm in zip(axes[0], columns, strict=False):
        _draw_training(axis, arm)
    _draw_counting(axes[0, -1], records)
    for axis in axes[0]:
        axis.set_ylim(0, 103)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if columns:
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _draw_training(axis: Axes, arm: Arm) -> None:
    """The true curve, and each update's displayed success as a point whose size is the number of its episodes."""
    draw_series(axis, arm, "test_success", "#333333", "true: fixed layouts, played to their ends")
    told = arm.curves.loc[arm.curves["episodes"].fillna(0) > 0] if "episodes" in arm.curves else arm.curves[:0]
    label = "displayed: episodes that ended in an update (size: how many)"
    sizes = 3.0 * np.asarray(told["episodes"], dtype=float)
    axis.scatter(told["frames"], told["success"], sizes, color="#D55E00", alpha=0.5, linewidths=0, label=label)
    kept = "thrown away" if "drop_unfinished" in arm.differs else "continued"
    axis.set(title=f"{arm.agent}, in training\nunfinished episodes {kept}", xlabel=REPLIES, ylabel="success [%]")
    axis.set_xlim(0, None)


def _draw_counting(axis: Axes, records: Records) -> None:
    """Displayed over true success of every evaluated arm; without bias, points lie on the diagonal."""
    axis.plot([0, 100], [0, 100], color="#333333", linestyle=":", linewidth=1)
    named: set[str] = set()
    for arm in arms(records):
        found = counted(arm)
        if found is not None:
            look = LOOKS[arm.method]
            label = None if arm.method in named else look.label
            axis.plot(*found, look.marker, color=look.colour, markersize=5, alpha=0.8, label=label)
            named.add(arm.method)
    axis.set(title="every evaluated agent\nits episodes, counted as published", xlabel="true success [%]")
    axis.set(ylabel="displayed success [%]", xlim=(0, 103))
    axis.legend(loc="lower right")


def counted(arm: Arm) -> tuple[float, float] | None:
    """(true, displayed) success in percent of an arm's final evaluation, all seeds together."""
    success, length = arm.scores(SAMPLED), arm.scores(SAMPLED, "length")
    if success is None or length is None:
        return None
    rng = generator(0, "counting", arm.label, arm.world)
    return float(success.mean()), displayed_by_original(success.ravel(), length.ravel(), rng)


def biased_pairs(records: Records) -> list[tuple[Arm | None, Arm]]:
    """(the same arm with unfinished episodes continued, if there is one; the one with them thrown away)."""
    every = [arm for arm in arms(records) if arm.trained]
    pairs = []
    for dropped in [arm for arm in every if "drop_unfinished" in arm.differs]:
        others = {key: value for key, value in dropped.differs.items() if key != "drop_unfinished"}
        same = [arm for arm in every if (arm.method, arm.world, arm.differs) == (dropped.method, dropped.world, others)]
        pairs.append((next(iter(same), None), dropped))
    return pairs


_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A4B9A", "#8C6D31")


_SUCCESS = ("test_success", TRUE, 103)  # series, what the axis says, where it ends
_INVALID = ("test_invalid", "invalid replies per test episode", None)


@dataclass(frozen=True)
class Study:
    """What is changed (`key`), and what may change with it because the method asks for it (`along`)."""

    key: str
    along: tuple[str, ...] = ()
    printed: bool = False
    """Whether the report's tables have a column for it: the distractors."""

    def groups(self, records: Records) -> list[list[Arm]]:
        """Arms that differ in nothing but the key: of one agent, in one world; trained ones first, ordered by value."""
        allowed, groups = {self.key, *self.along}, dict[tuple[str, ...], list[Arm]]()
        for arm in arms(records):
            if set(arm.differs) <= allowed and arm.method != "random":
                along = repr([arm.settings.get(name) for name in self.along])
                groups.setdefault((arm.method, arm.world, along), []).append(arm)
        several = [group for group in groups.values() if len({str(self.value(arm)) for arm in group}) > 1]
        return [sorted(group, key=self.place) for group in several]

    def value(self, arm: Arm) -> Any:
        """The value of the setting in an arm."""
        return arm.settings.get(self.key)

    def place(self, arm: Arm) -> tuple[int, str]:
        """How arms are ordered: numbers by size, names with the nested estimator first."""
        value = self.value(arm)
        return (value, "") if isinstance(value, int) else (int(value != "nested"), str(value))

    def name(self, arm: Arm) -> str:
        """The arm by what the study changes: `3 distractors`, `bandit`."""
        return PHRASES[self.key].format(self.value(arm))


DISTRACTORS = Study("num_dists", printed=True)
ESTIMATORS = Study("estimator", along=("episodes", "num_envs", "steps"))
BUDGET = Study("max_new_tokens")
WINDOWS = Study("context_window")


def figure(records: Records, *studies: Study) -> Figure | None:
    """True success over replies, a panel an agent and study, as many updates as the shortest arm has.

    A single panel has the invalid replies of its arms beside it.
    """
    groups = [(study, group) for study in studies for group in study.groups(records) if group[0].trained]
    panels = [(*each, _SUCCESS) for each in groups] + [(*each, _INVALID) for each in groups if len(groups) == 1]
    if not panels:
        return None
    drawn, axes = new_figure(1.4 + 4.2 * len(panels), 4.0, 1, len(panels))
    for axis, (study, group, (metric, label, top)) in zip(axes[0], panels, strict=True):
        updates = shared_updates(group)
        for place, arm in enumerate(group):
            name = study.name(arm) + ("" if arm.seeds == 1 else f" ({arm.seeds} seeds)")
            draw_series(axis, arm.first(updates), metric, _COLOURS[place % len(_COLOURS)], name)
        axis.set(title=group[0].agent, xlabel=REPLIES, ylabel=label, xlim=(0, None), ylim=(0, top))
        axis.legend(loc="best")
    return drawn


def shared_updates(group: list[Arm]) -> int:
    """The updates after which the first of these trained arms stops."""
    return min(arm.updates for arm in group)


def table(records: Records, *studies: Study) -> Table | None:
    """One row an arm: success untuned, when the shortest arm stops, and at its own end; beside the report's."""
    found = [(study, group, arm) for study in studies for group in study.groups(records) for arm in group]
    if not found:
        return None
    rows = [_row(study, arm, shared_updates(group) if arm.trained else 0) for study, group, arm in found]
    lines = [_line(study, arm, shared_updates(group) if arm.trained else 0) for study, group, arm in found]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _NOTES)


_NOTES = (
    "shape only: one seed, unless the row has more; an interval of one seed is over its layouts and says nothing "
    "about other seeds",
    "before: success in the test before the first update; by then: the mean of the last two tests before the shortest "
    "arm of the study stops; both on fixed layouts",
    "at its end: the final evaluation, mean [95 % interval], of untuned agents the only one; "
    "arms may have been trained for unequal times, see updates",
)


def _row(study: Study, arm: Arm, updates: int) -> dict[str, str]:
    row = {"agent": arm.agent, "arm": study.name(arm), "seeds": str(arm.seeds)}
    row |= {"updates": str(arm.settings.get("iterations", "–")), "before": _percent(level_at(arm, 0))}
    row |= {"by then": _percent(level_at(arm, updates)), "at its end": measured(arm.estimate(SAMPLED), "success")}
    for title, metric in (("return", "return"), ("replies", "length"), ("invalid", "invalid")):
        row[title] = measured(arm.estimate(SAMPLED, metric), metric)
    if study.printed:
        for state in ("zero-shot", "trained"):
            row[f"report, {state}"] = printed(cells(arm.distractors, short(arm.world), state, arm.thinks), "success")
    return row


def _line(study: Study, arm: Arm, updates: int) -> dict[str, Any]:
    line: dict[str, Any] = {"study": study.key, "method": arm.method, "world": arm.world, "arm": study.name(arm)}
    line |= {"seeds": arm.seeds, "updates": arm.settings.get("iterations"), "before": level_at(arm, 0)}
    line |= {"by_then": level_at(arm, updates), "updates_by_then": updates}
    end = arm.estimate(SAMPLED)
    return line | ({"success": end.value, "low": end.low, "high": end.high} if end else {})


def _percent(level: float | None) -> str:
    return "–" if level is None else number(round(level), "success")


def level_at(arm: Arm, updates: int) -> float | None:
    """Success in percent, the mean of the last two tests in the first so many updates and of all seeds."""
    found = arm.first(updates).series("test_success")
    return None if found is None else float(np.mean(found[1][:, -2:]))


_UNTUNED = ("reasoning-zero-shot", "direct-zero-shot")


@exhibit(
    "reasoning-distractors",
    "Learning among distractors (shape only)",
    methods=("direct",),
    beside=("reasoning", *_UNTUNED),
)
def distractors_figure(records: Records) -> Figure | None:
    """Success while learning, by the number of distractors."""
    return figure(records, DISTRACTORS)


@exhibit(
    "reasoning-distractors-table",
    "Distractors, beside the report's tables (shape only)",
    methods=("direct",),
    beside=("reasoning", *_UNTUNED),
)
def distractors_table(records: Records) -> Table | None:
    """What is reached, by the number of distractors."""
    return table(records, DISTRACTORS)


@exhibit(
    "reasoning-estimators",
    "Estimators of credit, all else held fixed (shape only)",
    methods=("direct",),
    beside=("reasoning",),
)
def estimators_figure(records: Records) -> Figure | None:
    """Success while learning, by the estimator of credit."""
    return figure(records, ESTIMATORS)


@exhibit(
    "reasoning-estimators-table",
    "Estimators of credit, all else held fixed: what they reach (shape only)",
    methods=("direct",),
    beside=("reasoning",),
)
def estimators_table(records: Records) -> Table | None:
    """What is reached, by the estimator of credit."""
    return table(records, ESTIMATORS)


@exhibit(
    "reasoning-limits",
    "The limit of new tokens and the context window (shape only)",
    methods=("direct",),
    beside=("reasoning",),
)
def limits_figure(records: Records) -> Figure | None:
    """Success while learning, by the limit of new tokens and by the context window."""
    return figure(records, BUDGET, WINDOWS)


@exhibit(
    "reasoning-limits-table",
    "The limit of new tokens and the context window: what is reached (shape only)",
    methods=("direct",),
    beside=("reasoning", *_UNTUNED),
)
def limits_table(records: Records) -> Table | None:
    """What is reached, by the limit of new tokens and by the context window."""
    return table(records, BUDGET, WINDOWS)
