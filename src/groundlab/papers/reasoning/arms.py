"""The reasoning agents' runs as arms: who thinks and who does not, untuned and tuned, and with which settings.

The final evaluation plays fixed layouts to their ends; "first-finished" counts as the report did, the first episodes
that end. A `Study` is the arms that differ in one setting.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from groundlab.report import arms
from groundlab.report.arms import Arm, Run, Settings, most_common
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
EMPTIED, ANOTHERS = "thought emptied", "another's thought"
PHRASES = {
    "num_dists": "{} distractors",
    "estimator": "{}",
    "episodes": "{} episodes",
    "max_new_tokens": "{} new tokens",
    "context_window": "window {}",
    "model": "{}",
    "parser": "{} parser",
    "lr": "lr {:g}",
    "kl": "KL {}",
    "kl_coefficient": "KL coefficient {:g}",
    "num_envs": "{} environments",
    "steps": "{} replies an update",
    "lora_rank": "LoRA rank {}",
    "temperature": "temperature {:g}",
    "drop_unfinished": "unfinished episodes dropped",
    "untempered": "untempered",
    "dropout": "dropout",
    "masked_separators": "separators masked",
    "shown_in_evaluation": "invalid replies shown",
}
"""The settings by which arms may differ, and how a difference reads."""


class ReasoningArm(Arm):
    """The runs of one method in one world that share their settings."""

    paper = "reasoning"
    styles: ClassVar = STYLES

    @classmethod
    def baseline_settings(cls, kind: str, world: str, runs: Sequence[Run]) -> Settings:
        """The named settings that most tuned runs have, whatever their method; in a tie, the fewest distractors."""
        tuned = [run for run in runs if run.method in UNTUNED]
        named = [_named(run.settings) for run in tuned or runs]
        return most_common(named, lambda each: (-(each.get("num_dists") or 0),))

    @classmethod
    def overrides_of(cls, settings: Settings, baseline: Settings) -> Settings:
        """The named settings that are not those of the baseline; what either does not have is no difference."""
        return {key: value for key, value in _named(settings).items() if value != baseline.get(key, value)}

    @classmethod
    def phrase(cls, name: str, value: Any) -> str:
        """`3 distractors`, `lr 1e-05`."""
        return PHRASES[name].format(value)

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
    def trained(self) -> bool:
        """Whether it was tuned."""
        return self.kind in UNTUNED

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


def _named(settings: Settings) -> Settings:
    """Settings by which arms may differ, quirks of the original beside the others."""
    whole = {**settings, **settings.get("fidelity", {})}
    # How many environments are played at once matters to who learns in them.
    return {key: whole[key] for key in PHRASES if key in whole and (key != "num_envs" or "iterations" in whole)}


def reasoning_arms(records: Records) -> list[ReasoningArm]:
    """All arms of this paper."""
    return arms.arms(records, ReasoningArm)


def homes(records: Records) -> list[str]:
    """The worlds where agents with the usual settings were trained, the one of most methods first; else all played."""
    usual = [each for each in reasoning_arms(records) if not each.overrides]
    worlds = [each.world for each in usual if each.trained] or [each.world for each in usual]
    return sorted(dict.fromkeys(worlds), key=worlds.count, reverse=True)


def main_arms(records: Records, home: str | None = None) -> dict[str, ReasoningArm]:
    """method -> its arm with the usual settings, in the world `home`; None is the first of `homes`."""
    home = home or next(iter(homes(records)), "")
    return {each.kind: each for each in reasoning_arms(records) if not each.overrides and each.world == home}


def short(world: str) -> str:
    """`GoTo` for `Reasoning-GoTo-v0`."""
    return world.removeprefix("Reasoning-").removesuffix("-v0")


def difference(ours: ReasoningArm, theirs: ReasoningArm, test: str, metric: str = "success") -> Estimate | None:
    """`ours` minus `theirs` in one test, with its interval; paired, where the layouts are the same."""
    return arms.difference((ours, ours.policy(test)), (theirs, theirs.policy(test)), metric)


@dataclass(frozen=True)
class Study:
    """What is changed (`key`), and what may change with it because the method asks for it (`along`)."""

    key: str
    along: tuple[str, ...] = ()
    printed: bool = False
    """Whether the report's tables have a column for it: the distractors."""

    def groups(self, records: Records) -> list[list[ReasoningArm]]:
        """Arms that differ in nothing but the key: of one agent, in one world; trained ones first, ordered by value."""
        groups = dict[tuple[str, ...], list[ReasoningArm]]()
        for arm in sorted(reasoning_arms(records), key=lambda arm: (list(STYLES).index(arm.kind), len(arm.overrides))):
            if arm.kind != "random":
                along = repr([arm.settings.get(name) for name in self.along])
                groups.setdefault((arm.kind, arm.world, self.agent(arm), along), []).append(arm)
        several = [group for group in groups.values() if len({str(self.value(arm)) for arm in group}) > 1]
        return [sorted(group, key=self._rank) for group in several]

    def value(self, arm: ReasoningArm) -> Any:
        """The value of the setting in an arm."""
        return arm.settings.get(self.key)

    def agent(self, arm: ReasoningArm) -> str:
        """Who acts, and what is not usual about all arms of the study: `thinks, then acts, 3 distractors`."""
        fixed = {key: value for key, value in arm.overrides.items() if key not in (self.key, *self.along)}
        return replace(arm, overrides=fixed).label

    def _rank(self, arm: ReasoningArm) -> tuple[int, str]:
        """Numbers are ordered by size, names with the nested estimator first."""
        value = self.value(arm)
        return (value, "") if isinstance(value, int) else (int(value != "nested"), str(value))

    def name(self, arm: ReasoningArm) -> str:
        """The arm by what the study changes: `3 distractors`, `bandit`."""
        return PHRASES[self.key].format(self.value(arm))


DISTRACTORS = Study("num_dists", printed=True)
ESTIMATORS = Study("estimator", along=("episodes", "num_envs", "steps"))
BUDGET = Study("max_new_tokens")
WINDOWS = Study("context_window")


def shared_updates(group: list[ReasoningArm]) -> int:
    """The updates after which the first of these trained arms stops."""
    return min(arm.updates for arm in group)
