"""Arms: the runs of one name in one world, and what was measured of them.

    arms(records, ReasoningArm)              all arms of a paper
    arm.estimate("sampled", "success")       the mean with its 95 % interval

A config's entry names the arm of its runs (lab/config.py): an agent, `code`, or a variant of it, `code/quirks/late`. A
paper subclasses `Arm` in its own arms.py; `styles` says how its agents are called and drawn. One that it does not know
is called by its label and drawn in a colour of its own.
Random streams are keyed by method, world and settings (`Arm.key`), never by a label on the page.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas as pd

from groundlab.core.seeding import generator
from groundlab.report.records import (
    Records,
    Remembering,
    episode_columns,
    holds_training,
    seeds_differ,
    table,
    tables_of_both,
    training_means,
)
from groundlab.report.statistics import Estimate, bounds_of, difference_interval, mean_interval
from groundlab.report.style import PlotStyle, with_styles

Settings = dict[str, Any]


@dataclass(frozen=True)
class Arm(Remembering):
    """The runs of one name in one world."""

    name: str
    """As their config's entry says: `glam`, `glam/action_space/3`."""
    words: str
    """Its label there: of a variant how it differs from the usual arm."""
    world: str
    settings: Settings
    """Those of its first run."""
    evaluations: pd.DataFrame
    curves: pd.DataFrame
    key: str
    """Method, world and the settings that all its runs share, as JSON: what its random streams are named by."""
    style: PlotStyle
    """How its agent is called and drawn."""

    paper: ClassVar[str]
    styles: ClassVar[Mapping[str, PlotStyle]]

    @property
    def kind(self) -> str:
        """Which agent it is: a key of `styles`, or one that they do not know."""
        return self.name.split("/")[0]

    @property
    def study(self) -> str:
        """What is varied in it; empty for the usual arm."""
        return self.name.split("/")[1] if "/" in self.name else ""

    @property
    def usual(self) -> bool:
        """Whether it is its agent's usual arm."""
        return not self.study

    @property
    def variant(self) -> str:
        """How it differs from the usual arm: `3 distractors`; empty for that itself."""
        return self.words if self.study else ""

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
        """Whether its seeds are trainings."""
        return holds_training(self.curves)

    @property
    def seeds_differ(self) -> bool:
        """Whether each seed is a policy of its own; those of a rule or an untuned model repeat one."""
        return self.once("differ", lambda: seeds_differ(self.evaluations, self.curves))

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
        rows = self.once(policy, lambda: self.evaluations.loc[self.evaluations["policy"] == policy])
        return None if rows.empty or metric not in rows or rows[metric].isna().any() else rows

    def scores(self, policy: str, metric: str = "success") -> np.ndarray | None:
        """[seeds, layouts] of the final evaluation; None where it was not played or the metric not recorded."""

        def make() -> np.ndarray | None:
            rows = self.episodes(policy, metric)
            return None if rows is None else table(rows, metric, episode_columns(policy))

        return self.once((policy, metric), make)

    def estimate(self, policy: str, metric: str = "success") -> Estimate | None:
        """The mean with its 95 % interval over seeds and layouts."""

        def make() -> Estimate | None:
            scores, trained = self.scores(policy, metric), self.seeds_differ
            return None if scores is None else mean_interval(scores, trained=trained, bounds=bounds_of(metric))

        return self.once((policy, metric, "mean"), make)

    def training_success(self, frames: float = np.inf) -> np.ndarray:
        """[seeds, 1]: the mean success of training episodes over the first frames, in percent.

        This is the area under the learning curve, which the papers call sample efficiency.
        """
        return training_means(self.curves.loc[self.curves["frames"] <= frames])

    def efficiency(self, metric: str = "success") -> Estimate:
        """A metric of training averaged over all frames, as `training_success`, with its 95 % interval over seeds."""
        return mean_interval(training_means(self.curves, metric), bounds=bounds_of(metric))


A = TypeVar("A", bound=Arm)


def short(world: str) -> str:
    """`GoToLocal` for `BabyAI-GoToLocal-v0`, `GoTo` for `Reasoning-GoTo-v0`."""
    return world.removeprefix("BabyAI-").removeprefix("Reasoning-").removesuffix("-v0")


def arms(records: Records, cls: type[A]) -> list[A]:
    """All arms of a paper: in the order of its styles, then by world, the usual ones before variants."""
    return [*records.once(f"arms of {cls.paper}", lambda: _arms(records, cls))]


def _arms(records: Records, cls: type[A]) -> list[A]:
    runs = records.runs.loc[records.runs["paper"] == cls.paper].to_dict("records")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["arm"], run["world"]), []).append(run)
    words = {arm: members[0]["arm_label"] for (arm, _), members in groups.items()}
    styles = with_styles(cls.styles, {arm.split("/")[0]: words.get(arm.split("/")[0], "") for arm in words})
    found = []
    for (arm, world), members in groups.items():
        names = [run["run"] for run in members]
        rows, curves = (frame.loc[frame["run"].isin(names)] for frame in (records.evaluations, records.curves))
        style, settings = styles[arm.split("/")[0]], members[0]["settings"]
        found.append(cls(arm, words[arm], world, settings, rows, curves, _key(members), style))
    order = list(styles)
    return sorted(found, key=lambda arm: (order.index(arm.kind), arm.world, arm.variant))


def _key(runs: list[dict[str, Any]]) -> str:
    first, *others = runs
    shared = {
        name: value
        for name, value in first["settings"].items()
        if all(other["settings"].get(name) == value for other in others)
    }
    return json.dumps([first["method"], first["world"], shared], sort_keys=True)


def difference(ours: tuple[Arm, str], theirs: tuple[Arm, str], metric: str = "success") -> Estimate | None:
    """The mean of `ours` minus that of `theirs`, each an arm under a policy; None where one was not played.

    Paired on the layouts that both played, and by seed where it is one arm under two policies.
    """
    (our_arm, our_policy), (their_arm, their_policy) = ours, theirs
    a, b = our_arm.episodes(our_policy, metric), their_arm.episodes(their_policy, metric)
    if a is None or b is None:
        return None
    ours_, theirs_, paired = tables_of_both(a, b, metric)
    return difference_interval(
        ours_,
        theirs_,
        paired=paired,
        trained=(our_arm.seeds_differ, their_arm.seeds_differ),
        same_seeds=our_arm is their_arm and our_arm.seeds_differ,
        bounds=bounds_of(metric),
    )
