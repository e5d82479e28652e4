"""The reasoning agents' stored runs as arms: who thinks and who does not, untuned and tuned, and with which settings.

An `Arm` is the runs of one method in one world with one choice of settings. Its final evaluation plays fixed layouts
to their ends; "first-finished" counts as the report did, the first episodes that end. Read first: `Arm`, `arms`.
Read next: `reasoning_agents.py` (the final table), `reasoning_learning.py` (curves), `reasoning_studies.py` (one
setting changed), `reasoning_thoughts.py` (what becomes of the thoughts), `reasoning_transcripts.py`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from groundlab.core.seeding import generator
from groundlab.report.records import Records, table
from groundlab.report.statistics import Estimate, difference_interval, two_level_interval
from groundlab.report.style import Look

LOOKS = {
    "reasoning": Look("thinks, then acts", "#D55E00", "o"),
    "direct": Look("answers at once", "#0072B2", "s"),
    "reasoning-zero-shot": Look("thinks, untuned", "#E69F00", "^"),
    "direct-zero-shot": Look("answers at once, untuned", "#56B4E9", "v"),
    "random": Look("random actions", "#8c8c8c", "d"),
}
UNTUNED = {"reasoning": "reasoning-zero-shot", "direct": "direct-zero-shot"}
SAMPLED, FIRST_FINISHED = "sampled", "first-finished"
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
"""The settings by which arms may differ, and how a difference is told."""


@dataclass(frozen=True)
class Arm:
    """The runs of one method in one world that share their settings; `differs` tells how these are not the usual."""

    method: str
    world: str
    settings: dict[str, Any]
    differs: dict[str, Any]
    evaluations: pd.DataFrame
    curves: pd.DataFrame

    @property
    def varied(self) -> str:
        """`3 distractors`; empty for the usual settings."""
        return ", ".join(PHRASES[key].format(value) for key, value in self.differs.items())

    @property
    def agent(self) -> str:
        """Who acts: `thinks, then acts`."""
        return LOOKS[self.method].label

    @property
    def label(self) -> str:
        """As tables and figures call it, with what is not usual about it."""
        return self.agent + (f", {self.varied}" if self.differs else "")

    @property
    def thinks(self) -> bool:
        """Whether its replies hold a thought."""
        return self.method.startswith("reasoning")

    @property
    def trained(self) -> bool:
        """Whether it was tuned."""
        return self.method in UNTUNED

    @property
    def seeds(self) -> int:
        """How many runs there are."""
        return max(len(set(frame["seed"])) for frame in (self.evaluations, self.curves))

    @property
    def updates(self) -> int:
        """How many updates the shortest of its runs has."""
        return min(int(np.max(curve["iteration"].to_numpy())) for _, curve in self.curves.groupby("seed"))

    def first(self, updates: int) -> "Arm":
        """The same arm with its first so many updates."""
        return replace(self, curves=self.curves.loc[self.curves["iteration"] <= updates])

    @property
    def distractors(self) -> int:
        """Objects besides the mission's own; where it is not said, the world's 8."""
        count = self.settings.get("num_dists")
        return 8 if count is None else count

    @property
    def main(self) -> str:
        """The policy that stands for it in its own world."""
        return "random" if self.method == "random" else SAMPLED

    def policy(self, test: str) -> str:
        """The policy under which it was played in a test: `SAMPLED` in its own world, `FIRST_FINISHED`, or a world."""
        return self.main if test in (SAMPLED, self.world) else test

    def scores(self, policy: str, metric: str = "success") -> np.ndarray | None:
        """[seeds, layouts] of the final evaluation; None where it was not played or the metric not recorded."""
        rows = self.evaluations.loc[self.evaluations["policy"] == policy]
        if rows.empty or metric not in rows or rows[metric].isna().any():
            return None
        return table(rows, metric, "episode" if policy == FIRST_FINISHED else "layout")

    def estimate(self, policy: str, metric: str = "success") -> Estimate | None:
        """The mean with its 95 % interval over seeds and layouts."""
        scores, owner = self.scores(policy, metric), (self.label, self.world, policy, metric)
        return None if scores is None else two_level_interval(scores, generator(0, "interval", *owner))

    def series(self, metric: str) -> tuple[np.ndarray, np.ndarray] | None:
        """(replies of the environments [points], values [seeds, points]) of what training recorded.

        Points are the updates at which every seed has the metric; their replies are the mean over the seeds.
        """
        if self.curves.empty or metric not in self.curves:
            return None
        told = self.curves.loc[self.curves[metric].notna(), ["seed", "iteration", "frames", metric]]
        wide = told.pivot(index="iteration", columns="seed", values=metric).dropna()
        if wide.empty or wide.shape[1] < self.curves["seed"].nunique():
            return None
        frames = told.pivot(index="iteration", columns="seed", values="frames").loc[wide.index].mean(axis=1)
        return frames.to_numpy(dtype=float), wide.to_numpy(dtype=float).T


def arms(records: Records) -> list[Arm]:
    """All arms of this paper, in the order of `LOOKS`, the usual settings first."""
    runs = records.runs.loc[(records.runs["paper"] == "reasoning") & records.runs["method"].isin(list(LOOKS))]
    plain = [_plain(settings) for settings in runs["settings"]]
    usual = _usual([each for each, method in zip(plain, runs["method"], strict=True) if method in UNTUNED] or plain)
    found: dict[tuple[str, str, str], Arm] = {}
    for method in LOOKS:
        for world, settings in runs.loc[runs["method"] == method, ["world", "settings"]].itertuples(index=False):
            differs = _difference(settings, usual)
            key = method, world, repr(differs)
            if key not in found:
                frames = [_of_arm(each, *key, usual) for each in (records.evaluations, records.curves)]
                found[key] = Arm(method, world, settings, differs, *frames)
    order = list(LOOKS)
    return sorted(
        found.values(), key=lambda arm: (order.index(arm.method), len(arm.differs), arm.world, arm.distractors)
    )


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by which arms may differ, quirks of the original beside the others."""
    whole = {**settings, **settings.get("fidelity", {})}
    # How many environments are played at once matters to who learns in them.
    return {key: whole[key] for key in PHRASES if key in whole and (key != "num_envs" or "iterations" in whole)}


def _usual(of_runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that most runs have; in a tie, with the fewest distractors."""
    return max(of_runs, key=lambda each: (of_runs.count(each), -(each.get("num_dists") or 0)), default={})


def _difference(settings: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """How settings differ from the usual ones; what either does not have is no difference."""
    return {key: value for key, value in _plain(settings).items() if value != usual.get(key, value)}


def _of_arm(frame: pd.DataFrame, method: str, world: str, differs: str, usual: dict[str, Any]) -> pd.DataFrame:
    rows = frame.loc[(frame["paper"] == "reasoning") & (frame["method"] == method) & (frame["world"] == world)]
    return rows.loc[[repr(_difference(settings, usual)) == differs for settings in rows["settings"]]]


def main_arms(records: Records) -> dict[str, Arm]:
    """method -> its arm with the usual settings, in the world where most agents were trained."""
    usual = [each for each in arms(records) if not each.differs]
    trained = [each.world for each in usual if each.trained] or [each.world for each in usual]
    home = max(trained, key=trained.count, default="")
    return {each.method: each for each in usual if each.world == home}


def short(world: str) -> str:
    """`GoTo` for `Reasoning-GoTo-v0`."""
    return world.removeprefix("Reasoning-").removesuffix("-v0")


def difference(ours: Arm, theirs: Arm, test: str, metric: str = "success") -> Estimate | None:
    """`ours` minus `theirs` in one test, with its interval; paired, where the layouts are the same."""
    a, b = ours.scores(ours.policy(test), metric), theirs.scores(theirs.policy(test), metric)
    if a is None or b is None:
        return None
    rng = generator(0, "difference", ours.label, theirs.label, ours.world, test, metric)
    return difference_interval(a, b, test != FIRST_FINISHED and a.shape[1] == b.shape[1], rng)


def signed(gap: Estimate | None, metric: str) -> str:
    """`-7.3 [-14.0, -0.7]`, in points for success."""
    if gap is None:
        return "–"
    decimals = 1 if metric == "success" else 2
    return f"{gap.value:+.{decimals}f} [{gap.low:+.{decimals}f}, {gap.high:+.{decimals}f}]"
