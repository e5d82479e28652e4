"""The exhibits of the worlds: how often chance succeeds, level by level, and the bot at the other end of the scale.

A success rate carries its interval over layouts, seeds being repetitions; published values come from
configs/worlds/claims.yaml. `rows_of` lists what is shown; `chance` sets the two ways of counting side by side.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from groundlab.report.arms import short
from groundlab.report.claims import Claim, Selector, load_claims
from groundlab.report.exhibits import exhibit
from groundlab.report.judging import select_rows
from groundlab.report.records import FIRST_FINISHED, Records, episode_columns, table
from groundlab.report.statistics import Estimate, bounds_of, mean_interval
from groundlab.report.style import COLOURS, PUBLISHED_COLOUR, SUCCESS, new_figure
from groundlab.report.tables import Column, Table

KINDS = ("goto", "pickup", "open", "putnext", "pick_up_seq_go_to")
TRAIN, TEST = "BabyAI-MixedTrainLocal-v0", "BabyAI-MixedTestLocal-v0"
_LEVELS = (
    "GoToLocal",
    "GoToLocalS8N4",
    "GoToLocalS8N16",
    "GoToFrench",
    "PickUpSeqPickUpLocal",
    "PickUpSeqGoToLocal",
    "PickUpThenGoToLocal",
    "GoToAfterPickUpLocal",
)
_COUNTED = {"": "every kind alike", FIRST_FINISHED: "as episodes finish"}
_LAYOUTS_COLOUR, _FINISHED_COLOUR = COLOURS["yellow"], COLOURS["orange"]


@dataclass(frozen=True)
class Row:
    """One level, or one kind of a mixed level, played by one agent: its episodes, and what others report of it."""

    selector: Selector
    name: str
    episodes: pd.DataFrame
    claim: Claim | None

    @property
    def success(self) -> Estimate:
        """Percent of all episodes, with its 95 % Clopper-Pearson interval."""
        values = table(self.episodes, "success", episode_columns(self.selector.policy))
        return mean_interval(values, trained=False, bounds=bounds_of("success"))

    @property
    def by_seed(self) -> np.ndarray:
        """Percent in each seed."""
        return np.array([each["success"].mean() for _, each in self.episodes.groupby("seed")])

    def mean(self, metric: str) -> float:
        """The mean of a metric over all episodes."""
        return float(self.episodes[metric].to_numpy(dtype=float).mean())


def _selectors(agent: str, world: str, kinds: bool, ways: tuple[str, ...]) -> list[Selector]:
    by_kind = [Selector(method=agent, world=world, policy=agent, kind=kind) for kind in KINDS if kinds]
    return by_kind + [Selector(method=agent, world=world, policy=way or agent) for way in ways]


def rows_of(records: Records, agent: str) -> list[Row]:
    """What was played by an agent: the training world by kind and in all, the test world so, then single levels."""
    chosen = _selectors(agent, TRAIN, True, ("", FIRST_FINISHED)) + _selectors(agent, TEST, True, ("",))
    chosen += [each for level in _LEVELS for each in _selectors(agent, f"BabyAI-{level}-v0", False, ("",))]
    claims = {claim.select.key: claim for claim in load_claims("worlds") if claim.select}
    rows = [Row(each, _name(each), select_rows(records, each), claims.get(each.key)) for each in chosen]
    return [row for row in rows if not row.episodes.empty]


def _name(selector: Selector) -> str:
    level = short(selector.world)
    if selector.kind:
        return f"{level}, {selector.kind.replace('_', ' ')}"
    if selector.world not in (TRAIN, TEST):
        return level
    way = FIRST_FINISHED if selector.policy == FIRST_FINISHED else ""
    return f"{level}, {_COUNTED[way]}"


# --- The table


@exhibit(
    "worlds-agents",
    "What chance and a perfect planner reach on each level",
    methods=("random",),
    beside=("bot", "facts"),
)
def agents(records: Records) -> Table:
    """Random and bot, level by level: success, steps and return, beside what was published."""
    rows = [row for agent in ("random", "bot") for row in rows_of(records, agent)]
    return Table.of(rows, _COLUMNS, _notes(records))


def _claimed(claim: Claim | None, source: str, metric: str) -> float | None:
    value = getattr(claim, source).get(metric) if claim else None
    return None if value is None else float(value)


def _quoted(claim: Claim | None, source: str, metric: str, error: bool = False) -> str:
    """A value of a claim with the decimals that it was published with."""
    value = getattr(claim, source).get(metric) if claim else None
    if claim is None or value is None:
        return "–"
    bar = f" ± {claim.error_bar[metric]}" if error and metric in claim.error_bar else ""
    return f"{value}{bar}" + (" %" if metric == "success" else "")


_COLUMNS: list[Column[Row]] = [
    Column("agent", lambda row: row.selector.method),
    Column("world", lambda row: row.selector.world, caption=""),
    Column("kind", lambda row: row.selector.kind, caption=""),
    Column(
        "counted", lambda row: "finished first" if row.selector.policy == FIRST_FINISHED else "every layout", caption=""
    ),
    Column("", lambda row: row.name, caption="level"),
    Column("success", lambda row: row.success, "{:.1f} %"),
    Column("", lambda row: _quoted(row.claim, "published", "success", error=True), caption="paper's success"),
    Column("", lambda row: _quoted(row.claim, "original", "success"), caption="re-run's success"),
    Column("steps", lambda row: row.mean("steps"), "steps"),
    Column("", lambda row: _quoted(row.claim, "original", "steps"), caption="re-run's steps"),
    Column("return", lambda row: row.mean("return"), "return"),
    Column("episodes", lambda row: len(row.episodes), "{:,}"),
    Column("seeds", lambda row: row.episodes["seed"].nunique()),
    Column("published_success", lambda row: _claimed(row.claim, "published", "success"), caption=""),
    Column("original_success", lambda row: _claimed(row.claim, "original", "success"), caption=""),
    Column("published_error_bar", lambda row: _claimed(row.claim, "error_bar", "success"), caption=""),
    Column("original_steps", lambda row: _claimed(row.claim, "original", "steps"), caption=""),
]


def _notes(records: Records) -> tuple[str, ...]:
    parity = ()
    rows = records.evaluations.loc[records.evaluations["method"] == "facts"]
    if not rows.empty:
        levels = ", ".join(map(short, rows["world"]))
        states, wrong = int(rows["states"].sum()), int(rows["mismatches"].sum())
        parity = (f"beside the minigrid package ({levels}): {states:,} states compared, {wrong:,} differ",)
    return (
        "success: percent of the episodes of all seeds [95 % interval over layouts]; steps and return: means over them",
        "every kind alike: a fixed list of layouts, as many of each kind; "
        "as episodes finish: the first to end in restarting environments, as the paper counted",
        "paper: read off its generalization figure, ± its error bar; "
        "re-run: the released environment played again (600 or 1000 episodes; bot 300)",
        "return: undiscounted, 1 - 0.9 of the share of the time limit that was used; 0 for a failure",
        *parity,
    )


# --- The figure


@exhibit(
    "worlds-random", "Success of random actions, and how the way of counting changes it", methods=("random",), beside=()
)
def chance(records: Records) -> Figure:
    """Success of the random agent: seeds hollow, all episodes filled with intervals, published values grey."""
    rows = rows_of(records, "random")
    panels = [
        ("MixedTrainLocal, the training world", [row for row in rows if row.selector.world == TRAIN]),
        ("MixedTestLocal, held-out objects", [row for row in rows if row.selector.world == TEST]),
        ("One task, or two", [row for row in rows if row.selector.world not in (TRAIN, TEST)]),
    ]
    panels = [(title, shown) for title, shown in panels if shown]
    figure, axes = new_figure(1.2 + 3.3 * len(panels), 3.9, 1, len(panels), sharex=True)
    for axis, (title, shown) in zip(axes[0], panels, strict=True):
        for height, row in enumerate(shown):
            _chance_row(axis, height, row)
        names = [row.name.removeprefix("MixedTrainLocal, ").removeprefix("MixedTestLocal, ") for row in shown]
        axis.set(title=title, xlabel=SUCCESS, ylim=(len(shown) - 0.4, -0.6))
        axis.set_yticks(range(len(shown)), names)
    axes[0, 0].set_xlim(-1.5, 42)
    figure.legend(handles=_chance_legend(), loc="outside lower center", ncols=3)
    return figure


def _chance_row(axis: Axes, height: int, row: Row) -> None:
    colour = _FINISHED_COLOUR if row.selector.policy == FIRST_FINISHED else _LAYOUTS_COLOUR
    published, bar = (_claimed(row.claim, source, "success") for source in ("published", "error_bar"))
    if published is not None:
        axis.errorbar(published, height + 0.26, xerr=bar, **_PUBLISHED)
    if (again := _claimed(row.claim, "original", "success")) is not None:
        axis.plot(again, height + 0.26, **_AGAIN)
    axis.plot(row.by_seed, np.full(len(row.by_seed), height - 0.24), color=colour, **_SEED)
    success = row.success
    axis.errorbar(success.value, height, xerr=success.bars, color=colour, **_MEASURED)


_MEASURED = {"marker": "D", "markersize": 5, "elinewidth": 1.6, "capsize": 2.5, "linestyle": "none"}
_SEED = {"marker": "o", "markersize": 3.5, "markerfacecolor": "none", "linestyle": "none"}
_AGAIN = {"marker": "x", "markersize": 5, "color": PUBLISHED_COLOUR, "linestyle": "none"}
_PUBLISHED = {
    "marker": "s",
    "markersize": 5.5,
    "markerfacecolor": "none",
    "color": PUBLISHED_COLOUR,
    "elinewidth": 1.0,
    "linestyle": "none",
}


def _chance_legend() -> list[Line2D]:
    colour, line = _LAYOUTS_COLOUR, {"color": _FINISHED_COLOUR, "marker": "D", "markersize": 5}
    return [
        Line2D([], [], color=colour, marker="D", markersize=5, label="measured, every layout once (95 % interval)"),
        Line2D([], [], **line, label="measured, as episodes finish (95 % interval)"),
        Line2D([], [], color=colour, **_SEED, label="single seeds"),
        Line2D(
            [], [], **{k: v for k, v in _PUBLISHED.items() if k != "elinewidth"}, label="published, ± its error bar"
        ),
        Line2D([], [], **_AGAIN, label="released environment, played again"),
    ]
