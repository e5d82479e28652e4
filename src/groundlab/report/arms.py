"""Arms: the runs of one kind in one world that share their settings, and what was measured of them.

    arms(records, ReasoningArm)              all arms of a paper
    arm.estimate("sampled", "success")       the mean with its 95 % interval

A paper subclasses `Arm` in its own arms.py. `styles` says how its kinds are called and drawn, `baseline_settings` which
settings are the baseline, `overrides_of` how others differ from it, and `phrase` how a difference reads.
Random streams are keyed by method, world and settings (`Arm.key`), never by a label on the page.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas as pd

from groundlab.core.seeding import generator
from groundlab.report.records import Records, episode_columns, holds_training, table, tables_of_both, training_means
from groundlab.report.statistics import Estimate, bounds_of, difference_interval, mean_interval
from groundlab.report.style import PlotStyle

Settings = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What decides to which arm a run belongs."""

    name: str
    method: str
    kind: str
    world: str
    settings: Settings


@dataclass(frozen=True)
class Arm(ABC):
    """The runs of one kind in one world with one choice of settings."""

    kind: str
    """A key of `styles`: the method, unless the paper tells its arms by something else."""
    world: str
    settings: Settings
    """Those of its first run."""
    overrides: Settings
    """The settings by which it differs from the baseline; empty for the usual arm."""
    evaluations: pd.DataFrame
    curves: pd.DataFrame
    key: str
    """Method, world and the settings that all its runs share, as JSON: what its random streams are named by."""

    paper: ClassVar[str]
    styles: ClassVar[Mapping[str, PlotStyle]]

    @classmethod
    def kind_of(cls, method: str, settings: Settings) -> str:
        """The key of `styles` that a run belongs to."""
        return method

    @classmethod
    @abstractmethod
    def baseline_settings(cls, kind: str, world: str, runs: Sequence[Run]) -> Settings:
        """The usual settings of a kind in a world, chosen among all runs of the paper."""

    @classmethod
    @abstractmethod
    def overrides_of(cls, settings: Settings, baseline: Settings) -> Settings:
        """How settings differ from the baseline; equal for the runs of one arm."""

    @classmethod
    def phrase(cls, name: str, value: Any) -> str:
        """An override in words."""
        return f"{name} {value}"

    @property
    def variant(self) -> str:
        """The overrides in words: `3 distractors`; empty for the usual arm."""
        return ", ".join(self.phrase(name, value) for name, value in self.overrides.items())

    @property
    def style(self) -> PlotStyle:
        """How it is drawn."""
        return self.styles[self.kind]

    @property
    def label(self) -> str:
        """As tables and figures call it, with its variant."""
        return ", ".join([self.style.label, *filter(None, [self.variant])])

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run, ascending."""
        return sorted({*self.evaluations["seed"], *self.curves["seed"]})

    @property
    def trained(self) -> bool:
        """Whether its seeds are trainings; those of a rule or an untuned model repeat one policy."""
        return holds_training(self.curves)

    def generator(self, *purpose: str) -> np.random.Generator:
        """A random stream of this arm."""
        return generator(0, self.key, *purpose)

    def where(self, mask: Any) -> Self:
        """The same arm with some of its training records: a mask over the rows of `curves`."""
        return replace(self, curves=self.curves.loc[mask])

    def shared_end(self, column: str) -> int:
        """The last value of a counter of its training records (`frames`, `iteration`) that every seed has."""
        return min(int(np.max(curve[column].to_numpy())) for _, curve in self.curves.groupby("seed"))

    def episodes(self, policy: str, metric: str = "success") -> pd.DataFrame | None:
        """The rows of the final evaluation; None where it was not played or the metric not recorded."""
        rows = self.evaluations.loc[self.evaluations["policy"] == policy]
        return None if rows.empty or metric not in rows or rows[metric].isna().any() else rows

    def scores(self, policy: str, metric: str = "success") -> np.ndarray | None:
        """[seeds, layouts] of the final evaluation; None where it was not played or the metric not recorded."""
        rows = self.episodes(policy, metric)
        return None if rows is None else table(rows, metric, episode_columns(policy))

    def estimate(self, policy: str, metric: str = "success") -> Estimate | None:
        """The mean with its 95 % interval over seeds and layouts."""
        scores = self.scores(policy, metric)
        return None if scores is None else mean_interval(scores, trained=self.trained, bounds=bounds_of(metric))

    def training_success(self, frames: float = np.inf) -> np.ndarray:
        """[seeds, 1]: the mean success of training episodes over the first frames, in percent.

        This is the area under the learning curve, which the papers call sample efficiency.
        """
        return training_means(self.curves.loc[self.curves["frames"] <= frames])

    def efficiency(self) -> Estimate:
        """`training_success` over all frames with its 95 % interval over seeds."""
        return mean_interval(self.training_success(), bounds=bounds_of("success"))


A = TypeVar("A", bound=Arm)


def arms(records: Records, cls: type[A]) -> list[A]:
    """All arms of a paper: in the order of its styles, then by world, the usual settings before others."""
    stored = records.runs.loc[records.runs["paper"] == cls.paper]
    runs = [
        Run(name, method, cls.kind_of(method, settings), world, settings)
        for name, method, world, settings in stored[["run", "method", "world", "settings"]].itertuples(index=False)
    ]
    groups: dict[tuple[str, str, str], list[Run]] = {}
    overrides: dict[str, Settings] = {}
    baselines: dict[tuple[str, str], Settings] = {}
    for run in runs:
        if run.kind not in cls.styles:
            continue
        if (run.kind, run.world) not in baselines:
            baselines[run.kind, run.world] = cls.baseline_settings(run.kind, run.world, runs)
        differing = cls.overrides_of(run.settings, baselines[run.kind, run.world])
        overrides[repr(differing)] = differing
        groups.setdefault((run.kind, run.world, repr(differing)), []).append(run)
    found = [
        cls(kind, world, members[0].settings, overrides[differing], *_measured(records, members), _key(members))
        for (kind, world, differing), members in groups.items()
    ]
    order = list(cls.styles)
    return sorted(found, key=lambda arm: (order.index(arm.kind), arm.world, arm.variant))


def _measured(records: Records, runs: list[Run]) -> tuple[pd.DataFrame, pd.DataFrame]:
    names = [run.name for run in runs]
    evaluations, curves = (frame.loc[frame["run"].isin(names)] for frame in (records.evaluations, records.curves))
    return evaluations, curves


def _key(runs: list[Run]) -> str:
    first, *others = runs
    shared = {
        name: value
        for name, value in first.settings.items()
        if all(other.settings.get(name) == value for other in others)
    }
    return json.dumps([first.method, first.world, shared], sort_keys=True)


def most_common(settings: Sequence[Settings], tie: Callable[[Settings], tuple]) -> Settings:
    """The settings that most runs have; of several, those for which `tie` is largest, then the first."""
    distinct = [each for place, each in enumerate(settings) if each not in settings[:place]]
    return max(distinct, key=lambda each: (settings.count(each), *tie(each)), default={})


def difference(ours: tuple[Arm, str], theirs: tuple[Arm, str], metric: str = "success") -> Estimate | None:
    """The mean of `ours` minus that of `theirs`, each an arm under a policy; None where one was not played.

    Paired on the layouts that both played.
    """
    (our_arm, our_policy), (their_arm, their_policy) = ours, theirs
    a, b = our_arm.episodes(our_policy, metric), their_arm.episodes(their_policy, metric)
    if a is None or b is None:
        return None
    ours_, theirs_, paired = tables_of_both(a, b, metric)
    return difference_interval(
        ours_, theirs_, paired=paired, trained=(our_arm.trained, their_arm.trained), bounds=bounds_of(metric)
    )


def signed(gap: Estimate | None, metric: str = "success") -> str:
    """A difference with its interval and signs: `-7.3 [-14.0, -0.7]`, in points for success; a dash for none."""
    if gap is None:
        return "–"
    decimals = 1 if metric == "success" else 2
    if not gap.known:
        return f"{gap.value:+.{decimals}f} (one seed)"
    return f"{gap.value:+.{decimals}f} [{gap.low:+.{decimals}f}, {gap.high:+.{decimals}f}]"
