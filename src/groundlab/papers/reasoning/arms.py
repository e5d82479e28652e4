"""The reasoning agents' runs as arms: who thinks and who does not, untuned and tuned, and with which settings.

The final evaluation plays fixed layouts to their ends; "first-finished" counts as the report did, the first episodes
that end. A `Study` is the arms that differ in one setting.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from groundlab.report import arms
from groundlab.report.arms import Arm
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate
from groundlab.report.style import COLOURS, PlotStyle

STYLES = {
    "reasoning": PlotStyle("thinks, then acts", COLOURS["orange"], "o"),
    "direct": PlotStyle("answers at once", COLOURS["blue"], "s"),
    "reasoning-zero-shot": PlotStyle("thinks, untuned", COLOURS["yellow"], "^"),
    "direct-zero-shot": PlotStyle("answers at once, untuned", COLOURS["sky"], "v"),
    "random": PlotStyle("random actions", "#8c8c8c", "d"),
}
UNTUNED = {"reasoning": "reasoning-zero-shot", "direct": "direct-zero-shot"}
SAMPLED = "sampled"
MIXTURE = "Reasoning-GoToPickup-v0"
"""The world in which the report's agents learn: missions of both tasks."""
EMPTIED, ANOTHERS = "thought emptied", "another's thought"


class ReasoningArm(Arm):
    """The runs of one arm in one world."""

    paper = "reasoning"
    styles: ClassVar = STYLES

    @property
    def agent(self) -> str:
        """Who acts: `thinks, then acts`."""
        return self.style.label

    @property
    def agent_and_state(self) -> str:
        """Who acts, and that it was trained: `thinks, then acts, trained`."""
        return f"{self.agent}, trained" if self.trained else self.agent

    @property
    def thinks(self) -> bool:
        """Whether its replies hold a thought."""
        return self.kind.startswith("reasoning")

    @property
    def updates(self) -> int:
        """How many updates the shortest of its runs has."""
        return self.shared_end("iteration")

    def first(self, updates: int) -> "ReasoningArm":
        """The same arm with its first so many updates."""
        return self.where(self.curves["iteration"] <= updates)

    def first_tested(self, updates: int) -> "ReasoningArm":
        """The same arm up to its first test after so many updates, so that arms that are tested less often show one."""
        if "test_success" not in self.curves:
            return self.first(updates)
        tested = self.curves.loc[self.curves["test_success"].notna(), "iteration"]
        later = tested[tested >= updates]
        return self.first(int(later.min()) if len(later) else updates)

    @property
    def distractors(self) -> int:
        """Objects besides the mission's own; where the settings do not say, the world's 8."""
        count = self.settings.get("num_dists")
        return 8 if count is None else count

    @property
    def main(self) -> str:
        """The policy that stands for it in its own world."""
        return "random" if self.kind == "random" else SAMPLED

    def policy(self, test: str) -> str:
        """The policy under which it was played in a test: `SAMPLED` in its own world, `FIRST_FINISHED`, or a world."""
        return self.main if test in (SAMPLED, self.world) else test

    @property
    def valid_replies(self) -> float | None:
        """The share of its replies in its own world that are an action; None where they were not counted."""
        counts = [self.estimate(self.main, metric) for metric in ("invalid", "length")]
        return 1 - counts[0].value / counts[1].value if counts[0] and counts[1] else None

    def series(self, metric: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(replies of the environments [points], values [seeds, points]) of what training recorded.

        Points are the updates at which every seed has the metric; their replies are the mean over the seeds.
        """
        if self.curves.empty or metric not in self.curves:
            return None
        recorded = self.curves.loc[self.curves[metric].notna(), ["seed", "iteration", "frames", metric]]
        wide = recorded.pivot(index="iteration", columns="seed", values=metric).dropna()
        if wide.empty or wide.shape[1] < self.curves["seed"].nunique():
            return None
        frames = recorded.pivot(index="iteration", columns="seed", values="frames").loc[wide.index].mean(axis=1)
        return frames.to_numpy(dtype=float), wide.to_numpy(dtype=float).T


def reasoning_arms(records: Records) -> list[ReasoningArm]:
    """All arms of this paper."""
    return arms.arms(records, ReasoningArm)


def homes(records: Records) -> list[str]:
    """The worlds where agents with the usual settings were trained, the one of most methods first; else all played."""
    usual = [each for each in reasoning_arms(records) if each.usual]
    worlds = [each.world for each in usual if each.trained] or [each.world for each in usual]
    return sorted(dict.fromkeys(worlds), key=worlds.count, reverse=True)


def single_tasks(records: Records) -> list[str]:
    """The `homes` of one task; where agents learnt in both tasks at once alone, that world."""
    return [each for each in homes(records) if each != MIXTURE] or homes(records)


def mixed_arms(records: Records) -> dict[int, list[ReasoningArm]]:
    """Number of distractors -> the arms that played there, of agents of both tasks at once with the usual settings."""
    mine = [arm for arm in reasoning_arms(records) if arm.world == MIXTURE and arm.study in ("", "num_dists")]
    counts = sorted({arm.distractors for arm in mine if arm.trained})
    return {count: [arm for arm in mine if arm.distractors == count] for count in counts}


def main_arms(records: Records, home: str | None = None) -> dict[str, ReasoningArm]:
    """method -> its arm with the usual settings, in the world `home`; None is the first of `homes`."""
    home = home or next(iter(homes(records)), "")
    return {each.kind: each for each in reasoning_arms(records) if each.usual and each.world == home}


def difference(ours: ReasoningArm, theirs: ReasoningArm, test: str, metric: str = "success") -> Estimate | None:
    """`ours` minus `theirs` in one test, with its interval; paired, where the layouts are the same."""
    return arms.difference((ours, ours.policy(test)), (theirs, theirs.policy(test)), metric)


@dataclass(frozen=True)
class Study:
    """Arms in which one setting is varied, `key`, and the usual arm, if it has the settings `along` as they have."""

    key: str
    phrase: str
    """How a value reads: `{} distractors`."""
    along: tuple[str, ...] = ()
    printed: bool = False
    """Whether the report's tables have a column for it: the distractors."""

    def groups(self, records: Records) -> list[list[ReasoningArm]]:
        """Arms of one agent in one world; trained ones first, ordered by value."""
        groups = dict[tuple[str, ...], list[ReasoningArm]]()
        for arm in reasoning_arms(records):
            if arm.study in ("", self.key):
                along = repr([arm.settings.get(name) for name in self.along])
                groups.setdefault((arm.kind, arm.world, along), []).append(arm)
        several = [group for group in groups.values() if len({str(self.value(arm)) for arm in group}) > 1]
        return [sorted(group, key=self._rank) for group in several]

    def value(self, arm: ReasoningArm) -> Any:
        """The value of the setting in an arm."""
        return arm.settings.get(self.key)

    def _rank(self, arm: ReasoningArm) -> tuple[int, str]:
        """Numbers are ordered by size, names with the nested estimator first."""
        value = self.value(arm)
        return (value, "") if isinstance(value, int) else (int(value != "nested"), str(value))

    def name(self, arm: ReasoningArm) -> str:
        """The arm by what the study changes: `3 distractors`, `bandit`; and whether its replies are read leniently."""
        return self.phrase.format(self.value(arm)) + ", read leniently" * (arm.settings.get("parser") == "lenient")


DISTRACTORS = Study("num_dists", "{} distractors", printed=True)
ESTIMATORS = Study("estimator", "{}", along=("episodes", "num_envs", "steps"))
BUDGET = Study("max_new_tokens", "{} new tokens")
WINDOWS = Study("context_window", "window {}")
MODELS = Study("model", "{}")


def shared_updates(group: list[ReasoningArm]) -> int:
    """The updates after which the first of these trained arms stops."""
    return min(arm.updates for arm in group)
