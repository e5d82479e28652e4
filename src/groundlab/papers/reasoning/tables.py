"""The reasoning agents' tables: the final one beside the report's, studies of one setting, and transcripts.

A test is the main world, what finished first there, or another world that a tuned agent was also tested in. The
report's cells are of another model; the rows `thinking minus not` are ours, and carry the verdict with its interval.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from groundlab.papers.reasoning.arms import (
    BUDGET,
    DISTRACTORS,
    ESTIMATORS,
    MIXTURE,
    MODELS,
    SAMPLED,
    STYLES,
    UNTUNED,
    WINDOWS,
    ReasoningArm,
    Study,
    difference,
    main_arms,
    mixed_arms,
    reasoning_arms,
    shared_updates,
    single_tasks,
)
from groundlab.report.arms import short
from groundlab.report.claims import load_claims
from groundlab.report.exhibits import exhibit
from groundlab.report.records import FIRST_FINISHED, Records
from groundlab.report.statistics import Estimate
from groundlab.report.tables import DASH, POINTS, Column, Table, number, written

# --- What the report prints


def cells(distractors: int, world: str, trained: bool, thinks: bool) -> dict[str, tuple[float, ...]]:
    """Metric -> the printed values of "GoTo" and the like, one a trial; empty where the report has no such cell."""
    method = "reasoning" if thinks else "direct"
    method = method if trained else UNTUNED[method]
    for claim in load_claims("reasoning"):
        if claim.trials and claim.select and claim.select.method == method:
            played = next(each for each in (claim.select.policy, claim.select.world) if each.startswith("Reasoning-"))
            if (claim.select.settings["num_dists"], short(played)) == (distractors, world):
                return {metric: tuple(map(float, values)) for metric, values in claim.trials.items()}
    return {}


def cells_text(trials: dict[str, tuple[float, ...]], metric: str) -> str:
    """`66 %`, or `98 %, 14 %` for two trials; a dash for none."""
    form = "{:.0f} %" if metric == "success" else "{:.2f}"
    return ", ".join(map(form.format, trials.get(metric, ()))) or DASH


# --- The final table

METRICS = {"success": "success", "return": "return", "length": "replies", "invalid": "invalid"}
"""Metric -> its heading."""
_PRINTED = ("success", "return")


@dataclass(frozen=True)
class _Played:
    """An agent in one test, or what thinking makes of it there: `less` is the one whose values are taken off."""

    arm: ReasoningArm
    test: str
    home: str
    less: ReasoningArm | None = None

    @property
    def agent(self) -> str:
        if self.less is None:
            return self.arm.agent_and_state
        return f"thinking minus not, {'trained' if self.arm.trained else 'untuned'}"

    @property
    def seeds(self) -> int:
        return min(len(each.seeds) for each in (self.arm, self.less or self.arm))

    def value(self, metric: str) -> Estimate | None:
        if self.less is None:
            return self.arm.estimate(self.arm.policy(self.test), metric)
        return difference(self.arm, self.less, self.test, metric)

    def text(self, metric: str) -> str:
        form = metric if self.less is None else POINTS if metric == "success" else "{:+.2f}"
        return written(self.value(metric), form)

    def printed(self, metric: str) -> str:
        if self.less is not None:
            return ""
        world = short(self.test if self.test.startswith("Reasoning-") else self.arm.world)
        known = self.arm.kind != "random" and self.test != FIRST_FINISHED
        return cells_text(
            cells(self.arm.distractors, world, self.arm.trained, self.arm.thinks) if known else {}, metric
        )

    def lines(self) -> list[dict[str, Any]]:
        """What machines read: a line a metric."""
        own = {"method": self.arm.kind, "agent": self.arm.label, "world": self.arm.world, "test": self.test}
        own |= {"seeds": self.seeds}
        if self.less is None:
            own |= {"distractors": self.arm.distractors}
        else:
            own |= {"method": f"{self.arm.kind} - {self.less.kind}", "agent": "thinking minus not"}
        found = {metric: self.value(metric) for metric in METRICS}
        return [
            {**own, "metric": metric, "mean": each.value, "low": each.low, "high": each.high}
            for metric, each in found.items()
            if each
        ]


@exhibit("reasoning-agents", "Thinking or not, before and after training, with the report's table", methods=("direct",))
def agents_table(records: Records) -> Table:
    """Test by test: untuned and trained, thinking and not, beside the report; then what thinking makes of it.

    Agents that were tuned in both tasks at once have a shorter table of their own where there are others.
    """
    every = reasoning_arms(records)
    rows: list[_Played] = []
    for home in single_tasks(records):
        main = main_arms(records, home)
        final = [arm for arm in every if _is_final(arm, main, home)]
        for count in sorted({arm.distractors for arm in final}):
            mine = [arm for arm in final if arm.distractors == count]
            for test in _tests(mine, home):
                played = [arm for arm in mine if _stands_for(arm, test, mine, home)]
                rows += [_Played(arm, test, home) for arm in played]
                rows += [_Played(ours, test, home, theirs) for ours, theirs in _pairs(played)]
    several = len({row.arm.distractors for row in rows}) > 1
    columns: list[Column[_Played]] = [
        *([Column("distractors", lambda row: row.arm.distractors)] if several else []),
        Column("test", lambda row: title(row.test, row.home)),
        Column("agent", lambda row: row.agent),
    ]
    for metric, heading in METRICS.items():
        columns.append(Column(heading, partial(_Played.text, metric=metric)))
        if metric in _PRINTED:
            columns.append(Column(f"report's {heading}", lambda row: "", text=partial(_Played.printed, metric=metric)))
    columns.append(Column("seeds", lambda row: row.seeds))
    return Table.of(rows, columns, _AGENT_NOTES, data=[line for row in rows for line in row.lines()])


_AGENT_NOTES = (
    "mean [95 % interval] over seeds and layouts, each layout played to its end; success in percent; return: the "
    "world's reward, 0 without success; replies and invalid ones per episode",
    "report's: what it prints for Llama-3.2-3B-Instruct, 50 episodes a cell (a value a trial): another model, trained "
    "in two worlds at once, its episodes counted as they finished. Not the same model, so compare orders, not values",
    "thinking minus not: the difference, paired by layout; it differs from 0 where its interval does not hold 0",
    "held-out: the mission names a red key, a yellow box or a green ball, which no training mission does",
    "first finished: the first 50 episodes that end among environments that restart, as the report counts (among 6; "
    "untuned agents here: among 32). Short episodes come first, the more so the more environments there are",
)


def _is_final(arm: ReasoningArm, main: dict[str, ReasoningArm], home: str) -> bool:
    """Whether it has the usual settings but for distractors, and was trained as long and where the main arms were."""
    reference = main.get(arm.kind)
    same = reference is None or arm.settings.get("iterations") == reference.settings.get("iterations")
    return arm.study in ("", "num_dists") and (not arm.trained or (same and arm.world == home))


def _tests(mine: list[ReasoningArm], home: str) -> list[str]:
    """The main world, what finished first there, and the other worlds that a trained agent was tested in."""
    played = [name for arm in mine if arm.world == home for name in arm.evaluations["policy"].unique()]
    others = [name for name in dict.fromkeys(played) if name.startswith("Reasoning-")]
    return [SAMPLED, *([FIRST_FINISHED] if FIRST_FINISHED in played else []), *others]


def _stands_for(arm: ReasoningArm, test: str, mine: list[ReasoningArm], home: str) -> bool:
    """Whether an arm is shown in a test: one of the main world, or one that was played untuned in the tested world."""
    if arm.estimate(arm.policy(test)) is None:
        return False
    if arm.world == home:
        return True
    at_home = (each for each in mine if each.kind == arm.kind and each.world == home)
    return arm.world == test and all(each.scores(test) is None for each in at_home)


def _pairs(played: list[ReasoningArm]) -> list[tuple[ReasoningArm, ReasoningArm]]:
    """(who thinks, who does not) of those that are shown, untuned and trained."""
    by_kind = {arm.kind: arm for arm in played}
    names = (("reasoning-zero-shot", "direct-zero-shot"), ("reasoning", "direct"))
    return [(by_kind[a], by_kind[b]) for a, b in names if a in by_kind and b in by_kind]


def title(test: str, world: str) -> str:
    """A test as tables call it."""
    own = {SAMPLED: short(world), FIRST_FINISHED: f"{short(world)}, first finished"}
    held_out = ", held-out objects" if test.endswith("Test-v0") else ""
    return own.get(test, f"{short(test).removesuffix('Test')}{held_out}")


# --- The report's own setting: both tasks at once


@dataclass(frozen=True)
class _Mixed:
    """One test of the agents that were tuned on both tasks, among so many distractors; arms by method."""

    distractors: int
    test: str
    arms: dict[str, ReasoningArm]

    def success(self, method: str) -> Estimate | None:
        arm = self.arms.get(method)
        return arm.estimate(arm.policy(self.test)) if arm else None

    def thinking(self) -> Estimate | None:
        if "reasoning" not in self.arms or "direct" not in self.arms:
            return None
        return difference(self.arms["reasoning"], self.arms["direct"], self.test)

    def printed(self, method: str) -> str:
        return cells_text(cells(self.distractors, short(self.test), True, method == "reasoning"), "success")


@exhibit(
    "reasoning-mixture",
    "Both tasks at once, as in the report: success test by test, with its table",
    methods=("direct",),
    beside=("reasoning", *UNTUNED.values()),
)
def mixture_table(records: Records) -> Table | None:
    """One row a test and number of distractors: both agents, tuned and not, and what thinking makes of it."""
    rows = [
        _Mixed(count, test, {arm.kind: arm for arm in mine})
        for count, mine in mixed_arms(records).items()
        for test in _tests(mine, MIXTURE)
        if test != FIRST_FINISHED
    ]
    columns: list[Column[_Mixed]] = [
        Column("distractors", lambda row: row.distractors),
        Column("test", lambda row: title(row.test, MIXTURE)),
    ]
    for method in UNTUNED:
        style = STYLES[method].label
        columns.append(Column(method, partial(_Mixed.success, method=method), "success", style))
        columns.append(Column("", partial(_Mixed.printed, method=method), caption=f"report: {style}"))
    columns.append(Column("thinking_minus_not", _Mixed.thinking, POINTS, "thinking minus not"))
    for method in UNTUNED.values():
        columns.append(Column(method, partial(_Mixed.success, method=method), "success", STYLES[method].label))
    columns.append(Column("seeds", lambda row: min(len(arm.seeds) for arm in row.arms.values() if arm.trained)))
    return Table.of(rows, columns, _MIXTURE_NOTES) if rows else None


_MIXTURE_NOTES = (
    "trained on missions of both tasks; success in percent, mean [95 % interval] over seeds and layouts, each layout "
    "played to its end; thinking minus not: points of success, paired by layout",
    "report: what it prints for Llama-3.2-3B-Instruct, 50 episodes a trial, a value a trial, "
    "counted as they finished: another model, so compare orders, not values",
    "held-out: the mission names a red key, a yellow box or a green ball, which no training mission does",
)


# --- Studies: arms that differ in one setting


def study_table(records: Records, *studies: Study) -> Table | None:
    """One row an arm: success untuned, when the shortest arm stops, and at its own end; beside the report's."""
    shown = [
        (study, arm, shared_updates(group) if arm.trained else 0)
        for study in studies
        for group in study.groups(records)
        for arm in group
    ]
    several = len({arm.world for _, arm, _ in shown}) > 1
    columns = _study_columns(any(study.printed for study in studies), several)
    return Table.of(shown, columns, _STUDY_NOTES) if shown else None


_STUDY_NOTES = (
    "no verdict: one seed, unless the row has more; an interval of one seed is over its layouts and says nothing "
    "about other seeds",
    "before: success in the test before the first update; by then: the mean of the last two tests before the shortest "
    "arm of the study stops; both on fixed layouts",
    "at its end: the final evaluation, mean [95 % interval], of untuned agents the only one; "
    "arms may have been trained for unequal times, see updates",
)


def _study_columns(printed: bool, several: bool) -> list[Column[tuple[Study, ReasoningArm, int]]]:
    """Columns of (study, arm, the updates by which its study's shortest arm stops); `several`: arms of several worlds,
    which a reader must be told.
    """

    def end(metric: str) -> Callable[[tuple[Study, ReasoningArm, int]], Estimate | None]:
        return lambda row: row[1].estimate(SAMPLED, metric)

    def report(trained: bool) -> Callable[[tuple[Study, ReasoningArm, int]], str]:
        return lambda row: cells_text(cells(row[1].distractors, short(row[1].world), trained, row[1].thinks), "success")

    return [
        Column("study", lambda row: row[0].key, caption=""),
        Column("method", lambda row: row[1].kind, caption=""),
        Column("world", lambda row: row[1].world, caption=""),
        Column("", lambda row: row[1].agent, caption="agent"),
        *([Column("", lambda row: short(row[1].world), caption="world")] if several else []),
        Column("arm", lambda row: row[0].name(row[1])),
        Column("seeds", lambda row: len(row[1].seeds)),
        Column("updates", lambda row: row[1].settings.get("iterations")),
        Column("before", lambda row: level_at(row[1], 0), lambda level: number(round(level), "success")),
        Column(
            "by_then", lambda row: level_at(row[1], row[2]), lambda level: number(round(level), "success"), "by then"
        ),
        Column("updates_by_then", lambda row: row[2], caption=""),
        Column("success", end("success"), "success", "at its end"),
        *(Column("", end(metric), metric, METRICS[metric]) for metric in list(METRICS)[1:]),
        Column("valid_replies", lambda row: row[1].valid_replies, caption=""),
        *([Column("", report(False), caption="report, zero-shot")] if printed else []),
        *([Column("", report(True), caption="report, trained")] if printed else []),
    ]


_TUNED, _ALL = ("reasoning",), ("reasoning", *UNTUNED.values())
_LIMITS = "The limit of new tokens and the context window: what is reached with few seeds"
for _id, _title, _beside, _studies in (
    ("reasoning-distractors-table", "Distractors, with the report's tables", _ALL, (DISTRACTORS,)),
    ("reasoning-estimators-table", "Estimators of credit, all else held fixed: what they reach", _TUNED, (ESTIMATORS,)),
    ("reasoning-limits-table", _LIMITS, _ALL, (BUDGET, WINDOWS)),
    ("reasoning-models-table", "Chat models, all else held fixed: what they reach", _ALL, (MODELS,)),
):
    _declare = exhibit(_id, _title, methods=("direct",), beside=_beside)
    _declare(lambda records, studies=_studies: study_table(records, *studies))


def level_at(arm: ReasoningArm, updates: int) -> float | None:
    """Success in percent, the mean of the last two tests in the first so many updates and of all seeds.

    None where no test came by then, but for the one before training.
    """
    series = arm.first(updates).series("test_success")
    if series is None or (updates > 0 and series[0][-1] == 0):
        return None
    return float(np.mean(series[1][:, -2:]))


_Fitted = tuple[tuple[float, int], dict[str, ReasoningArm]]  # (share, pretraining), arms by method
_FITTING_NOTES = (
    "fitting: share of the dialogue samples in the pretraining corpus whose action fits the thought before it, 0.2 in "
    "models that ship; success in percent, mean [95 % interval]; over training: tests on the same layouts, over seeds",
)


@exhibit("reasoning-fitting", "Success by how often actions fit thoughts in the pretraining corpus", ("direct",), _ALL)
def fitting_table(records: Records) -> Table | None:
    """One row a share and a pretraining: success of both agents untuned, over training and at its end."""
    rows = dict[tuple[float, int], dict[str, ReasoningArm]]()
    for arm in reasoning_arms(records):
        found = re.fullmatch(r"quick-llama-chat(?:-fitting-([0-9.]+))?-s([0-9]+)", arm.settings.get("model", ""))
        if found and arm.world == "Reasoning-GoTo-v0" and arm.study in ("", "model", "fitting"):
            rows.setdefault((float(found[1] or 0.2), int(found[2])), {})[arm.kind] = arm
    columns = [Column[_Fitted]("fitting", lambda row: row[0][0]), Column[_Fitted]("pretraining", lambda row: row[0][1])]
    for method, untuned in UNTUNED.items():
        for kind, when in ((untuned, "untuned"), (method, "over training"), (method, "at its end")):
            caption = f"{STYLES[method].label}, {when}"
            columns.append(Column(f"{method} {when}", partial(_level, kind=kind, when=when), "success", caption))
    columns.append(Column("seeds", lambda row: max(len(arm.seeds) for arm in row[1].values())))
    return Table.of(sorted(rows.items()), columns, _FITTING_NOTES) if len({share for share, _ in rows}) > 1 else None


def _level(row: _Fitted, kind: str, when: str) -> Estimate | None:
    arm = row[1].get(kind)
    return arm and (arm.efficiency("test_success") if when == "over training" else arm.estimate(SAMPLED))


# --- Transcripts

FIRST, LAST = 6, 3  # replies of an episode that are shown
EPISODES = 1  # of each agent


@exhibit(
    "reasoning-transcripts",
    "What is read and said, before and after training",
    methods=("direct",),
    beside=("reasoning", "reasoning-zero-shot", "direct-zero-shot"),
)
def transcripts(records: Records) -> Table | None:
    """One row a reply: agent by agent, untuned before trained, an episode from its beginning."""
    main = main_arms(records)
    order = [name for pair in ((UNTUNED[name], name) for name in UNTUNED) for name in pair]
    lines = [line for name in order if name in main for line in _reply_lines(main[name])]
    rows = [row for line in lines for row in _reply_rows(line)]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _TRANSCRIPT_NOTES) if lines else None


_TRANSCRIPT_NOTES = (
    f"the first layout of the test list, first seed: not picked; its first {FIRST} replies and its last {LAST}",
    "✗: an invalid reply, after which the world stands still and an error text is read",
)


def _reply_lines(arm: ReasoningArm) -> list[dict[str, Any]]:
    """One line a reply of the first stored episodes of the first seed."""
    rows = arm.evaluations.loc[arm.evaluations["policy"] == SAMPLED]
    if "told" not in rows or rows["told"].dropna().empty:
        return []
    rows = rows.loc[rows["told"].notna()]
    rows = rows.loc[rows["seed"] == rows["seed"].min()].sort_values("layout").head(EPISODES)
    return [
        {
            "agent": arm.agent_and_state,
            "layout": int(row["layout"]),
            "mission": row["mission"],
            "success": row["success"] > 0,
        }
        | {"reply": number, "replies": len(row["told"]), **each}
        for row in rows.to_dict("records")
        for number, each in enumerate(row["told"], start=1)
    ]


def _reply_rows(line: dict[str, Any]) -> list[dict[str, str]]:
    """A reply as a row; an episode's first row names it, its last is followed by how it went."""
    number, last = line["reply"], line["replies"]
    hidden = range(FIRST + 1, last - LAST + 1)
    if number in hidden:
        return (
            [{"episode": "", "reply": "…", "reads": f"({len(hidden)} more)", "says": ""}] if number == hidden[0] else []
        )
    reads, says = _in_one_line(line["seen"], "; ") or "(nothing)", f"“{_in_one_line(line['said'], ' ⏎ ')}”"
    row = {"episode": "", "reply": str(number), "reads": reads, "says": says}
    if not line["valid"]:
        row["says"] += " ✗"
    if number == 1:
        row["episode"] = f"{line['agent']}, layout {line['layout']}: {line['mission']}"
    ending = f"{'success' if line['success'] else 'no success'} after {last} replies"
    return [row, {"episode": ending, "reply": "", "reads": "", "says": ""}] if number == last else [row]


def _in_one_line(text: str, between: str) -> str:
    """The lines of a text as one, which a table's cell is."""
    return between.join(" ".join(line.split()) for line in text.splitlines() if line.strip())
