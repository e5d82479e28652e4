"""The reasoning agents' tables: the final one beside the report's, studies of one setting, and transcripts.

A test is the main world, what finished first there, or another world that a tuned agent was also tested in. The
report's cells are of another model; the rows `thinking minus not` are ours, and carry the verdict with its interval.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from groundlab.papers.reasoning.arms import (
    BUDGET,
    DISTRACTORS,
    ESTIMATORS,
    SAMPLED,
    UNTUNED,
    WINDOWS,
    ReasoningArm,
    Study,
    difference,
    homes,
    main_arms,
    reasoning_arms,
    shared_updates,
    short,
)
from groundlab.report.arms import signed
from groundlab.report.exhibits import exhibit
from groundlab.report.records import FIRST_FINISHED, Records
from groundlab.report.statistics import Estimate
from groundlab.report.tables import Table, measured, number

_UNTUNED = tuple(UNTUNED.values())

# --- What the report prints


class Cell(NamedTuple):
    """One printed cell."""

    success: float  # percent
    reward: float


_Row = tuple[str, str, float, float, float, float]  # world, variant, success R and NR, reward R and NR
TABLES: dict[int, tuple[_Row, ...]] = {
    0: (
        ("GoTo", "zero-shot", 0.66, 0.94, 0.55, 0.69),
        ("GoTo", "trained", 1.00, 1.00, 0.85, 0.91),
        ("GoTo", "trained", 1.00, 1.00, 0.90, 0.92),
        ("Pickup", "zero-shot", 0.64, 0.68, 0.47, 0.47),
        ("Pickup", "trained", 0.88, 1.00, 0.69, 0.85),
        ("Pickup", "trained", 1.00, 1.00, 0.88, 0.86),
        ("GoToTest", "zero-shot", 0.44, 0.96, 0.36, 0.75),
        ("GoToTest", "trained", 0.98, 1.00, 0.82, 0.91),
        ("GoToTest", "trained", 1.00, 1.00, 0.90, 0.92),
        ("PickupTest", "zero-shot", 0.72, 0.82, 0.53, 0.50),
        ("PickupTest", "trained", 0.96, 1.00, 0.80, 0.87),
        ("PickupTest", "trained", 1.00, 1.00, 0.87, 0.87),
    ),
    3: (
        ("GoTo", "zero-shot", 0.46, 0.80, 0.34, 0.53),
        ("GoTo", "trained", 0.98, 0.98, 0.88, 0.86),
        ("GoTo", "trained", 0.14, 1.00, 0.13, 0.89),
        ("Pickup", "zero-shot", 0.18, 0.42, 0.12, 0.30),
        ("Pickup", "trained", 0.96, 0.74, 0.86, 0.63),
        ("Pickup", "trained", 0.22, 0.82, 0.20, 0.68),
        ("GoToTest", "zero-shot", 0.62, 0.86, 0.48, 0.62),
        ("GoToTest", "trained", 1.00, 0.98, 0.91, 0.85),
        ("GoToTest", "trained", 0.20, 1.00, 0.19, 0.90),
        ("PickupTest", "zero-shot", 0.28, 0.38, 0.19, 0.27),
        ("PickupTest", "trained", 0.92, 0.82, 0.80, 0.73),
        ("PickupTest", "trained", 0.10, 0.72, 0.08, 0.60),
    ),
    5: (
        ("GoTo", "zero-shot", 0.46, 0.72, 0.33, 0.52),
        ("GoTo", "trained", 0.86, 1.00, 0.75, 0.88),
        ("Pickup", "zero-shot", 0.20, 0.32, 0.15, 0.21),
        ("Pickup", "trained", 0.86, 0.80, 0.74, 0.68),
        ("GoToTest", "zero-shot", 0.41, 0.90, 0.34, 0.63),
        ("GoToTest", "trained", 0.88, 1.00, 0.79, 0.87),
        ("PickupTest", "zero-shot", 0.22, 0.30, 0.17, 0.22),
        ("PickupTest", "trained", 0.82, 0.80, 0.72, 0.70),
    ),
}
"""Distractors -> the rows of the printed table; a trained row a trial."""


def cells(distractors: int, world: str, variant: str, thinks: bool) -> list[Cell]:
    """The printed cells of "GoTo", "zero-shot" or "trained": one a trial, none where the report has no such row."""
    rows = [row[2:] for row in TABLES.get(distractors, ()) if row[:2] == (world, variant)]
    own = slice(0, None, 2) if thinks else slice(1, None, 2)
    return [Cell(round(100 * row[own][0], 6), row[own][1]) for row in rows]


def cells_text(trials: list[Cell], metric: str) -> str:
    """`66 %`, or `98 %, 14 %` for two trials; a dash for none."""
    if metric == "success":
        return ", ".join(f"{cell.success:.0f} %" for cell in trials) or "–"
    return ", ".join(f"{cell.reward:.2f}" for cell in trials) or "–"


# --- The final table

METRICS = ("success", "return", "length", "invalid")


@exhibit(
    "reasoning-agents",
    "Thinking or not, before and after training, beside the report's table",
    methods=("direct",),
)
def agents_table(records: Records) -> Table:
    """Test by test: untuned and trained, thinking and not, beside the report; then what thinking makes of it."""
    every = reasoning_arms(records)
    rows, lines = [], []
    for main in (main_arms(records, home) for home in homes(records)):
        final = [arm for arm in every if _is_final(arm, main)]
        for count in sorted({arm.distractors for arm in final}):
            mine = [arm for arm in final if arm.distractors == count]
            for test in _tests(mine, main):
                played = [arm for arm in mine if _stands_for(arm, test, mine, main)]
                rows += [_agent_row(arm, test, main) for arm in played]
                lines += [line for arm in played for line in _agent_lines(arm, test)]
                for ours, theirs in _pairs(played):
                    rows.append(_gap_row(ours, theirs, test, main))
                    lines += _gap_lines(ours, theirs, test)
    hidden = ["distractors"] if len({row["distractors"] for row in rows}) == 1 else []
    return Table(pd.DataFrame(lines), pd.DataFrame(rows).drop(columns=hidden), _AGENT_NOTES)


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


def _is_final(arm: ReasoningArm, main: dict[str, ReasoningArm]) -> bool:
    """Whether it has the usual settings but for distractors, and was trained as long and where the main arms were."""
    reference = main.get(arm.kind)
    same = reference is None or arm.settings.get("iterations") == reference.settings.get("iterations")
    return arm.study in ("", "num_dists") and (not arm.trained or (same and arm.world == _home(main)))


def _home(main: dict[str, ReasoningArm]) -> str:
    return next((arm.world for arm in main.values()), "")


def _tests(mine: list[ReasoningArm], main: dict[str, ReasoningArm]) -> list[str]:
    """The main world, what finished first there, and the other worlds that a trained agent was tested in."""
    played = [name for arm in mine if arm.world == _home(main) for name in arm.evaluations["policy"].unique()]
    others = [name for name in dict.fromkeys(played) if name.startswith("Reasoning-")]
    return [SAMPLED, *([FIRST_FINISHED] if FIRST_FINISHED in played else []), *others]


def _stands_for(arm: ReasoningArm, test: str, mine: list[ReasoningArm], main: dict[str, ReasoningArm]) -> bool:
    """Whether an arm is shown in a test: one of the main world, or one that was played untuned in the tested world."""
    if arm.estimate(arm.policy(test)) is None:
        return False
    if arm.world == _home(main):
        return True
    at_home = any(
        each.kind == arm.kind and each.world == _home(main) and each.scores(test) is not None for each in mine
    )
    return arm.world == test and not at_home


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


def _agent_row(arm: ReasoningArm, test: str, main: dict[str, ReasoningArm]) -> dict[str, str]:
    paper = _report_cells(arm, test)
    values = {metric: measured(arm.estimate(arm.policy(test), metric), metric) for metric in METRICS}
    return {
        "distractors": str(arm.distractors),
        "test": title(test, _home(main)),
        "agent": arm.agent_and_state,
        "success": values["success"],
        "report's success": cells_text(paper, "success"),
        "return": values["return"],
        "report's return": cells_text(paper, "return"),
        "replies": values["length"],
        "invalid": values["invalid"],
        "seeds": str(len(arm.seeds)),
    }


def _report_cells(arm: ReasoningArm, test: str) -> list[Cell]:
    if arm.kind == "random" or test == FIRST_FINISHED:
        return []
    world = short(test if test.startswith("Reasoning-") else arm.world)
    return cells(arm.distractors, world, "trained" if arm.trained else "zero-shot", arm.thinks)


def _gap_row(ours: ReasoningArm, theirs: ReasoningArm, test: str, main: dict[str, ReasoningArm]) -> dict[str, str]:
    state = "trained" if ours.trained else "untuned"
    gaps = {metric: signed(difference(ours, theirs, test, metric), metric) for metric in METRICS}
    row = {"distractors": str(ours.distractors), "test": title(test, _home(main))}
    row |= {"agent": f"thinking minus not, {state}", "success": gaps["success"]}
    row |= {"report's success": "", "return": gaps["return"], "report's return": ""}
    return row | {
        "replies": gaps["length"],
        "invalid": gaps["invalid"],
        "seeds": str(_shared_seeds(ours, theirs)),
    }


def _agent_lines(arm: ReasoningArm, test: str) -> list[dict[str, Any]]:
    own = {"method": arm.kind, "agent": arm.label, "world": arm.world, "test": test, "seeds": len(arm.seeds)}
    own |= {"distractors": arm.distractors}
    estimates = {metric: arm.estimate(arm.policy(test), metric) for metric in METRICS}
    return [{**own, "metric": metric, **_numbers(each)} for metric, each in estimates.items() if each]


def _gap_lines(ours: ReasoningArm, theirs: ReasoningArm, test: str) -> list[dict[str, Any]]:
    own = {"method": f"{ours.kind} - {theirs.kind}", "agent": "thinking minus not", "world": ours.world}
    own |= {"test": test, "seeds": _shared_seeds(ours, theirs)}
    gaps = {metric: difference(ours, theirs, test, metric) for metric in METRICS}
    return [{**own, "metric": metric, **_numbers(each)} for metric, each in gaps.items() if each]


def _shared_seeds(ours: ReasoningArm, theirs: ReasoningArm) -> int:
    return min(len(ours.seeds), len(theirs.seeds))


def _numbers(estimate: Estimate) -> dict[str, float]:
    return {"mean": estimate.value, "low": estimate.low, "high": estimate.high}


# --- Studies: arms that differ in one setting


@exhibit(
    "reasoning-distractors-table",
    "Distractors, beside the report's tables",
    methods=("direct",),
    beside=("reasoning", *_UNTUNED),
)
def distractors_table(records: Records) -> Table | None:
    """What is reached, by the number of distractors."""
    return study_table(records, DISTRACTORS)


@exhibit(
    "reasoning-estimators-table",
    "Estimators of credit, all else held fixed: what they reach",
    methods=("direct",),
    beside=("reasoning",),
)
def estimators_table(records: Records) -> Table | None:
    """What is reached, by the estimator of credit."""
    return study_table(records, ESTIMATORS)


@exhibit(
    "reasoning-limits-table",
    "The limit of new tokens and the context window: what is reached with few seeds",
    methods=("direct",),
    beside=("reasoning", *_UNTUNED),
)
def limits_table(records: Records) -> Table | None:
    """What is reached, by the limit of new tokens and by the context window."""
    return study_table(records, BUDGET, WINDOWS)


def study_table(records: Records, *studies: Study) -> Table | None:
    """One row an arm: success untuned, when the shortest arm stops, and at its own end; beside the report's."""
    shown = [
        (study, arm, shared_updates(group) if arm.trained else 0)
        for study in studies
        for group in study.groups(records)
        for arm in group
    ]
    rows, lines = [_study_row(*each) for each in shown], [_study_line(*each) for each in shown]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _STUDY_NOTES) if shown else None


_STUDY_NOTES = (
    "no verdict: one seed, unless the row has more; an interval of one seed is over its layouts and says nothing "
    "about other seeds",
    "before: success in the test before the first update; by then: the mean of the last two tests before the shortest "
    "arm of the study stops; both on fixed layouts",
    "at its end: the final evaluation, mean [95 % interval], of untuned agents the only one; "
    "arms may have been trained for unequal times, see updates",
)


def _study_row(study: Study, arm: ReasoningArm, updates: int) -> dict[str, str]:
    row = {"agent": arm.agent, "arm": study.name(arm), "seeds": str(len(arm.seeds))}
    row |= {"updates": str(arm.settings.get("iterations", "–")), "before": _percent(level_at(arm, 0))}
    row |= {"by then": _percent(level_at(arm, updates)), "at its end": measured(arm.estimate(SAMPLED), "success")}
    for title, metric in (("return", "return"), ("replies", "length"), ("invalid", "invalid")):
        row[title] = measured(arm.estimate(SAMPLED, metric), metric)
    if study.printed:
        for state in ("zero-shot", "trained"):
            row[f"report, {state}"] = cells_text(cells(arm.distractors, short(arm.world), state, arm.thinks), "success")
    return row


def _study_line(study: Study, arm: ReasoningArm, updates: int) -> dict[str, Any]:
    line: dict[str, Any] = {"study": study.key, "method": arm.kind, "world": arm.world, "arm": study.name(arm)}
    line |= {"seeds": len(arm.seeds), "updates": arm.settings.get("iterations"), "before": level_at(arm, 0)}
    line |= {"by_then": level_at(arm, updates), "updates_by_then": updates}
    end = arm.estimate(SAMPLED)
    return line | ({"success": end.value, "low": end.low, "high": end.high} if end else {})


def _percent(level: float | None) -> str:
    return "–" if level is None else number(round(level), "success")


def level_at(arm: ReasoningArm, updates: int) -> float | None:
    """Success in percent, the mean of the last two tests in the first so many updates and of all seeds.

    None where no test came by then, but for the one before training.
    """
    series = arm.first(updates).series("test_success")
    if series is None or (updates > 0 and series[0][-1] == 0):
        return None
    return float(np.mean(series[1][:, -2:]))


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
    row = {"episode": "", "reply": str(number), "reads": _one_line(line["seen"]), "says": _quoted(line["said"])}
    if not line["valid"]:
        row["says"] += " ✗"
    if number == 1:
        row["episode"] = f"{line['agent']}, layout {line['layout']}: {line['mission']}"
    ending = f"{'success' if line['success'] else 'no success'} after {last} replies"
    return [row, {"episode": ending, "reply": "", "reads": "", "says": ""}] if number == last else [row]


def _one_line(text: str) -> str:
    """Lines as sentences of one line, which a table's cell is."""
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip()) or "(nothing)"


def _quoted(reply: str) -> str:
    """A reply in quotes, its line breaks shown."""
    plain = " ⏎ ".join(" ".join(line.split()) for line in reply.splitlines() if line.strip())
    return f"“{plain}”"
