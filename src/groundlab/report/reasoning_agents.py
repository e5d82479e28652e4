"""The final table of the reasoning agents: untuned and tuned, thinking and not, beside what the report prints.

A test is the main world, what finished first there, or another world that a tuned agent was also tested in. The
report's cells are of another model; the rows `thinking minus not` are ours, and carry the verdict with its interval.
Read first: `agents_table`. Called from: exhibits.py. Read next: `reasoning_learning.py`.
"""

from typing import Any

import pandas as pd

from groundlab.report.reasoning import FIRST_FINISHED, SAMPLED, Arm, arms, difference, main_arms, short, signed
from groundlab.report.reasoning_published import Cell, cells, printed
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate
from groundlab.report.tables import Table, measured

METRICS = ("success", "return", "length", "invalid")


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
