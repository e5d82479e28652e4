"""The final table of the reasoning agents: untuned and tuned, thinking and not, beside what the report prints.

A test is the main world, what finished first there, or another world that a tuned agent was also tested in. The
report's cells are of another model; the rows `thinking minus not` are ours, and carry the verdict with its interval.
Read first: `agents_table`. Called from: exhibits.py. Read next: `reasoning_learning.py`.
"""

from typing import Any, NamedTuple

import pandas as pd

from groundlab.papers.reasoning.arms import (
    FIRST_FINISHED,
    LOOKS,
    SAMPLED,
    UNTUNED,
    Arm,
    arms,
    difference,
    main_arms,
    short,
    signed,
)
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate
from groundlab.report.tables import Table, measured


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
    found = [row[2:] for row in TABLES.get(distractors, ()) if row[:2] == (world, variant)]
    own = slice(0, None, 2) if thinks else slice(1, None, 2)
    return [Cell(round(100 * row[own][0], 6), row[own][1]) for row in found]


def printed(found: list[Cell], metric: str) -> str:
    """`66 %`, or `98 %, 14 %` for two trials; a dash for none."""
    if metric == "success":
        return ", ".join(f"{cell.success:.0f} %" for cell in found) or "–"
    return ", ".join(f"{cell.reward:.2f}" for cell in found) or "–"


METRICS = ("success", "return", "length", "invalid")


@exhibit(
    "reasoning-agents",
    "Thinking or not, before and after training, beside the report's table",
    methods=("direct",),
    beside=("reasoning", "reasoning-zero-shot", "direct-zero-shot", "random"),
)
def agents_table(records: Records) -> Table:
    """Test by test: untuned and trained, thinking and not, beside the report; then what thinking makes of it."""
    every, main = arms(records), main_arms(records)
    counts = sorted({arm.distractors for arm in every if _is_final(arm, main)})
    rows, lines = [], []
    for count in counts:
        mine = [arm for arm in every if _is_final(arm, main) and arm.distractors == count]
        for test in _tests(mine, main):
            played = [arm for arm in mine if _stands_for(arm, test, mine, main)]
            rows += [_row(arm, test, main) for arm in played]
            lines += [line for arm in played for line in _lines(arm, test)]
            for ours, theirs in _pairs(played):
                rows.append(_gap_row(ours, theirs, test, main))
                lines += _gap_lines(ours, theirs, test)
    hidden = ["distractors"] if len(counts) == 1 else []
    return Table(pd.DataFrame(lines), pd.DataFrame(rows).drop(columns=hidden), _NOTES)


_NOTES = (
    "mean [95 % interval] over seeds and layouts, each layout played to its end; success in percent; return: the "
    "world's reward, 0 without success; replies and invalid ones per episode",
    "report's: what it prints for Llama-3.2-3B-Instruct, 50 episodes a cell (a value a trial): another model, trained "
    "in two worlds at once, its episodes counted as they finished. Not the same model, so a comparison of shape only",
    "thinking minus not: the difference, paired by layout; it is told apart from 0 where its interval does not hold 0",
    "held-out: the mission names a red key, a yellow box or a green ball, which no training mission does",
    "first finished: the first 50 episodes that end among environments that restart, as the report counts (among 6; "
    "untuned agents here: among 32). Short episodes come first, the more so the more environments there are",
)


def _is_final(arm: Arm, main: dict[str, Arm]) -> bool:
    """Whether it has the usual settings but for distractors, and was trained as long and where the main arms were."""
    reference = main.get(arm.method)
    same = reference is None or arm.settings.get("iterations") == reference.settings.get("iterations")
    return set(arm.differs) <= {"num_dists"} and (not arm.trained or (same and arm.world == _home(main)))


def _home(main: dict[str, Arm]) -> str:
    return next((arm.world for arm in main.values()), "")


def _tests(mine: list[Arm], main: dict[str, Arm]) -> list[str]:
    """The main world, what finished first there, and the other worlds that a trained agent was tested in."""
    played = [name for arm in mine if arm.world == _home(main) for name in arm.evaluations["policy"].unique()]
    others = [name for name in dict.fromkeys(played) if name.startswith("Reasoning-")]
    return [SAMPLED, *([FIRST_FINISHED] if FIRST_FINISHED in played else []), *others]


def _stands_for(arm: Arm, test: str, mine: list[Arm], main: dict[str, Arm]) -> bool:
    """Whether an arm is shown in a test: one of the main world, or one that was played untuned in the tested world."""
    if arm.estimate(arm.policy(test)) is None:
        return False
    if arm.world == _home(main):
        return True
    at_home = any(
        each.method == arm.method and each.world == _home(main) and each.scores(test) is not None for each in mine
    )
    return arm.world == test and not at_home


def _pairs(played: list[Arm]) -> list[tuple[Arm, Arm]]:
    """(who thinks, who does not) of those that are shown, untuned and trained."""
    by_method = {arm.method: arm for arm in played}
    names = (("reasoning-zero-shot", "direct-zero-shot"), ("reasoning", "direct"))
    return [(by_method[a], by_method[b]) for a, b in names if a in by_method and b in by_method]


def title(test: str, world: str) -> str:
    """A test as tables call it."""
    own = {SAMPLED: short(world), FIRST_FINISHED: f"{short(world)}, first finished"}
    held_out = ", held-out objects" if test.endswith("Test-v0") else ""
    return own.get(test, f"{short(test).removesuffix('Test')}{held_out}")


def _row(arm: Arm, test: str, main: dict[str, Arm]) -> dict[str, str]:
    paper = _printed(arm, test)
    values = {metric: measured(arm.estimate(arm.policy(test), metric), metric) for metric in METRICS}
    return {
        "distractors": str(arm.distractors),
        "test": title(test, _home(main)),
        "agent": arm.agent if not arm.trained else f"{arm.agent}, trained",
        "success": values["success"],
        "report's success": printed(paper, "success"),
        "return": values["return"],
        "report's return": printed(paper, "return"),
        "replies": values["length"],
        "invalid": values["invalid"],
        "seeds": str(arm.seeds),
    }


def _printed(arm: Arm, test: str) -> list[Cell]:
    if arm.method == "random" or test == FIRST_FINISHED:
        return []
    world = short(test if test.startswith("Reasoning-") else arm.world)
    return cells(arm.distractors, world, "trained" if arm.trained else "zero-shot", arm.thinks)


def _gap_row(ours: Arm, theirs: Arm, test: str, main: dict[str, Arm]) -> dict[str, str]:
    state = "trained" if ours.trained else "untuned"
    cells_ = {metric: signed(difference(ours, theirs, test, metric), metric) for metric in METRICS}
    row = {"distractors": str(ours.distractors), "test": title(test, _home(main))}
    row |= {"agent": f"thinking minus not, {state}", "success": cells_["success"]}
    row |= {"report's success": "", "return": cells_["return"], "report's return": ""}
    return row | {
        "replies": cells_["length"],
        "invalid": cells_["invalid"],
        "seeds": str(min(ours.seeds, theirs.seeds)),
    }


def _lines(arm: Arm, test: str) -> list[dict[str, Any]]:
    own = {"method": arm.method, "agent": arm.label, "world": arm.world, "test": test, "seeds": arm.seeds}
    own |= {"distractors": arm.distractors}
    found = {metric: arm.estimate(arm.policy(test), metric) for metric in METRICS}
    return [{**own, "metric": metric, **_numbers(each)} for metric, each in found.items() if each]


def _gap_lines(ours: Arm, theirs: Arm, test: str) -> list[dict[str, Any]]:
    own = {"method": f"{ours.method} - {theirs.method}", "agent": "thinking minus not", "world": ours.world}
    own |= {"test": test, "seeds": min(ours.seeds, theirs.seeds)}
    found = {metric: difference(ours, theirs, test, metric) for metric in METRICS}
    return [{**own, "metric": metric, **_numbers(each)} for metric, each in found.items() if each]


def _numbers(estimate: Estimate) -> dict[str, float]:
    return {"mean": estimate.value, "low": estimate.low, "high": estimate.high}


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
    found = main_arms(records)
    order = [name for pair in ((UNTUNED[name], name) for name in UNTUNED) for name in pair]
    lines = [line for name in order if name in found for line in _episodes(found[name])]
    if not lines:
        return None
    return Table(
        pd.DataFrame(lines), pd.DataFrame([row for line in lines for row in _readable(line)]), _TRANSCRIPT_NOTES
    )


_TRANSCRIPT_NOTES = (
    f"the first layout of the test list, first seed: not picked; its first {FIRST} replies and its last {LAST}",
    "✗: an invalid reply, after which the world stands still and an error text is read",
)


def _episodes(arm: Arm) -> list[dict[str, Any]]:
    """One line a reply of the first told episodes of the first seed."""
    rows = arm.evaluations.loc[arm.evaluations["policy"] == SAMPLED]
    if "told" not in rows or rows["told"].dropna().empty:
        return []
    rows = rows.loc[rows["told"].notna()]
    rows = rows.loc[rows["seed"] == rows["seed"].min()].sort_values("layout").head(EPISODES)
    return [
        {"agent": _name(arm), "layout": int(row["layout"]), "mission": row["mission"], "success": row["success"] > 0}
        | {"reply": number, "replies": len(row["told"]), **each}
        for row in rows.to_dict("records")
        for number, each in enumerate(row["told"], start=1)
    ]


def _name(arm: Arm) -> str:
    return f"{LOOKS[arm.method].label}, trained" if arm.trained else LOOKS[arm.method].label


def _readable(line: dict[str, Any]) -> list[dict[str, str]]:
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
