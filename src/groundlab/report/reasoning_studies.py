"""One setting changed, all else held fixed: distractors, estimators of credit, the token budget, the context window.

The studies are shorter than the main arm and mostly of one seed, so they show a shape and no more. Where the main arm
belongs to a study, it stands there with its first updates: its training does not know how long it will go on.
Read first: `Study`. Called from: exhibits.py. Read next: `reasoning_thoughts.py`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from groundlab.report.reasoning import PHRASES, SAMPLED, Arm, arms, short
from groundlab.report.reasoning_learning import REPLIES, TRUE, draw_series
from groundlab.report.reasoning_published import cells, printed
from groundlab.report.records import Records
from groundlab.report.style import new_figure
from groundlab.report.tables import Table, measured, number

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
        groups = dict[tuple[str, ...], list[Arm]]()
        for arm in arms(records):
            if arm.method != "random":
                along = repr([arm.settings.get(name) for name in self.along])
                groups.setdefault((arm.method, arm.world, self.agent(arm), along), []).append(arm)
        several = [group for group in groups.values() if len({str(self.value(arm)) for arm in group}) > 1]
        return [sorted(group, key=self.place) for group in several]

    def value(self, arm: Arm) -> Any:
        """The value of the setting in an arm."""
        return arm.settings.get(self.key)

    def agent(self, arm: Arm) -> str:
        """Who acts, and what is not usual about all arms of the study: `thinks, then acts, 3 distractors`."""
        held = {key: value for key, value in arm.differs.items() if key not in (self.key, *self.along)}
        return replace(arm, differs=held).label

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
        axis.set(title=study.agent(group[0]), xlabel=REPLIES, ylabel=label, xlim=(0, None), ylim=(0, top))
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
    row = {"agent": study.agent(arm), "arm": study.name(arm), "seeds": str(arm.seeds)}
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
