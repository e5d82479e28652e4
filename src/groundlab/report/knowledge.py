"""The exhibits of the background-knowledge paper: its arms side by side, how fast each learns and what it comes to.

The paper's own figures could not be had, so everything is held against phi = 0, plain PPO with as many steps and seeds:
the area under the learning curve (mean training success over all steps), and the chance that a seed of an arm has more
of it than one of phi = 0. Two potentials are controls: an oracle, which knows the task, and a random one, which knows
nothing.
Read first: `Arm`, `improvement_table`. Read next: `knowledge_figures.py`, `knowledge_studies.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from groundlab.core.seeding import generator
from groundlab.report.records import Records, table, training_means
from groundlab.report.statistics import Estimate, difference_interval, improvement_interval, two_level_interval
from groundlab.report.style import Look
from groundlab.report.tables import Table, measured

LOOKS = {
    "none": Look("φ = 0 (plain PPO)", "#4C4C4C", "o"),
    "code": Look("BK-Code", "#D55E00", "s"),
    "preference": Look("BK-Pref", "#0072B2", "^"),
    "goals": Look("BK-Goal", "#009E73", "D"),
    "rnd": Look("RND", "#CC79A7", "v"),
    "curious": Look("RND, on equal terms", "#8E4585", "<"),
    "ellm": Look("reward in the style of ELLM", "#56B4E9", "P"),
    "motif": Look("reward in the style of Motif", "#E6AB02", "p"),
    "oracle": Look("oracle potential (control, knows the task)", "#8C6D31", "*"),
    "random": Look("random potential (control, knows nothing)", "#999999", "X"),
}
FORMS, CONTROLS, REWARDS = ("code", "preference", "goals"), ("oracle", "random"), ("ellm", "motif")
POLICIES = ("sampled", "argmax")
WRONG_BY_DEFAULT = 0.1  # of the scripted judge's answers, where the settings name no other share
QUIRKS = {
    "late": "paid one step late (Q2)",
    "no_boundaries": "episodes not kept apart (Q3)",
    "running_scale": "divided by a running deviation (Q4)",
    "carried_twice": "divided again when carried (Q4)",
    "shared_clock": "one clock for all environments (Q5)",
    "unclipped_gradients": "gradients not clipped (Q1)",
    "first_action_fills": "first window filled with its action",
}
_TOLD = ("network", "timeouts", "scale", "strength", "share", "pooling", "threshold", "encoder", "frames", "iterations")


@dataclass(frozen=True)
class Arm:
    """The runs of one potential in one world with one choice of settings; `varied` says how it differs from most."""

    kind: str
    world: str
    varied: str
    settings: dict[str, Any]
    """Those of its first run."""
    evaluations: pd.DataFrame
    curves: pd.DataFrame

    @property
    def name(self) -> str:
        """As figures call it: `BK-Pref`, `BK-Pref, label error 40 %`."""
        return LOOKS[self.kind].label + (f", {self.varied}" if self.varied else "")

    @property
    def source(self) -> str:
        """Whose knowledge it is; a dash where there is none."""
        return source_of(self.kind, self.settings)

    @property
    def label(self) -> str:
        """Name and source: `BK-Code (hand-written knowledge)`."""
        return self.name + (f" ({self.source})" if self.source else "")

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run, ascending."""
        return sorted(self.curves["seed"].unique().tolist())

    @property
    def frames(self) -> int:
        """The steps of all environments together that every seed has."""
        ends = self.curves["frames"].to_numpy(dtype=int), self.curves["seed"].to_numpy()
        return min(int(ends[0][ends[1] == seed].max()) for seed in self.seeds)

    @property
    def quirks(self) -> list[str]:
        """The original's deviations that are switched on, in the order of `QUIRKS`."""
        return [name for name in QUIRKS if self.settings.get("fidelity", {}).get(name)]

    def areas(self, frames: float = np.inf) -> np.ndarray:
        """[seeds, 1]: the area under the curve, the mean success of training in percent, over the first frames."""
        return training_means(self.curves.loc[self.curves["frames"] <= frames])

    def area(self) -> Estimate:
        """Its mean with the 95 % interval over seeds."""
        return two_level_interval(self.areas(), generator(0, "area", self.label, self.world))

    def scores(self, policy: str) -> np.ndarray | None:
        """[seeds, layouts]: success of the final evaluation in percent; None where it was not played."""
        rows = self.evaluations.loc[self.evaluations["policy"] == policy]
        return None if rows.empty else table(rows, "success")

    def final(self, policy: str) -> Estimate | None:
        """Its mean with the 95 % interval over seeds and layouts."""
        scores, owner = self.scores(policy), (self.label, self.world, policy)
        return None if scores is None else two_level_interval(scores, generator(0, "final", *owner))


def source_of(kind: str, settings: dict[str, Any]) -> str:
    """`hand-written knowledge`, `scripted labeller, error 10 %`, `own model quick-t5-s0`, or the source's name."""
    if kind not in (*FORMS, *REWARDS):
        return ""
    maker = settings.get("maker")
    if maker == "recorded":
        return "hand-written knowledge"
    if maker == "scripted":
        return "scripted labeller" + (
            f", error {100 * label_error(settings):.0f} %" if kind in ("preference", "motif") else ""
        )
    if maker == "local":
        return f"own model {settings.get('model')}"
    return f"from {settings.get('source')}"


def label_error(settings: dict[str, Any]) -> float:
    """The share of wrong answers of the scripted judge."""
    return settings.get("labelling", {}).get("error", WRONG_BY_DEFAULT)


def kind_of(method: str, settings: dict[str, Any]) -> str:
    """The key of `LOOKS` that a run belongs to."""
    if method == "rnd":
        return "curious" if settings.get("timeouts") == "bootstrap" else "rnd"
    return settings["form"]


def arms(records: Records) -> list[Arm]:
    """All arms that were run, in the order of `LOOKS`, then by world; usual settings before others."""
    runs = records.runs.loc[records.runs["paper"] == "knowledge"]
    runs = runs.assign(kind=[kind_of(*each) for each in zip(runs["method"], runs["settings"], strict=True)])
    return [
        arm
        for kind in LOOKS
        for world in sorted(runs["world"].unique())
        for arm in _arms_of(records, kind, world, runs.loc[runs["world"] == world])
    ]


def _arms_of(records: Records, kind: str, world: str, runs: pd.DataFrame) -> list[Arm]:
    """runs: all of this world."""
    mine = runs.loc[runs["kind"] == kind, "settings"]
    usual, told = _usual(list(mine), list(runs["settings"])), {}
    for settings in mine:
        told.setdefault(difference(settings, usual), settings)
    frames = records.evaluations, records.curves
    found = [
        Arm(kind, world, varied, settings, *(_rows(frame, kind, world, varied, usual) for frame in frames))
        for varied, settings in told.items()
    ]
    return sorted(found, key=lambda each: each.varied)


def _usual(of_runs: list[dict[str, Any]], of_world: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that most runs have; in a tie, those without quirks, then those that most runs of the world share,
    then those nearest to all the others."""
    whole = [_flat(other) for other in of_runs]

    def rank(each: dict[str, Any]) -> tuple[int, bool, int, int]:
        shared = sum(each.get(key) == other.get(key) for other in of_world for key in _TOLD)
        differing = sum(len(dict(_flat(each).items() ^ other.items())) for other in whole)
        return of_runs.count(each), not any(each.get("fidelity", {}).values()), shared, -differing

    return max((each for place, each in enumerate(of_runs) if each not in of_runs[:place]), key=rank, default={})


def _flat(settings: dict[str, Any]) -> dict[str, str]:
    """Nested settings by their path."""
    nested = {key: given for key, given in settings.items() if isinstance(given, dict)}
    inner = {f"{key}.{name}": value for key, given in nested.items() for name, value in given.items()}
    return {key: repr(value) for key, value in {**settings, **inner}.items() if key not in nested}


def difference(settings: dict[str, Any], usual: dict[str, Any]) -> str:
    """What is told about settings: how they differ from those that most runs of the arm have."""
    quirks = [name for name in QUIRKS if _fidelity(settings, name) != _fidelity(usual, name)]
    parts = [", ".join(name if _fidelity(settings, name) else f"without {name}" for name in quirks)]
    sources = [source_of(each.get("form", "none"), each) for each in (settings, usual)]
    parts += [sources[0]] if sources[0] != sources[1] else []
    labels = [{**each.get("labelling", {}), "error": None} for each in (settings, usual)]
    parts += [f"{key} {value}" for key, value in labels[0].items() if labels[1].get(key) != value]
    parts += [f"{key} {settings.get(key)}" for key in _TOLD if settings.get(key) != usual.get(key)]
    return ", ".join(part for part in parts if part)


def _fidelity(settings: dict[str, Any], name: str) -> bool:
    return bool(settings.get("fidelity", {}).get(name))


def _rows(frame: pd.DataFrame, kind: str, world: str, varied: str, usual: dict[str, Any]) -> pd.DataFrame:
    rows = frame.loc[(frame["paper"] == "knowledge") & (frame["world"] == world)]
    of_run = {id(each): (method, each) for method, each in zip(rows["method"], rows["settings"], strict=True)}
    mine = {
        name: kind_of(method, settings) == kind and difference(settings, usual) == varied
        for name, (method, settings) in of_run.items()  # all rows of a run share its settings
    }
    return rows.loc[[mine[id(settings)] for settings in rows["settings"]]]


def main_world(found: list[Arm]) -> str:
    """The world of the comparison: where phi = 0 has the most seeds; in a tie, where there are most arms."""
    base = [each for each in found if each.kind == "none" and not each.varied]
    rivals = {each.world: sum(other.world == each.world for other in found) for each in base}
    return max(base, key=lambda each: (len(each.seeds), rivals[each.world])).world if base else ""


def compared(records: Records) -> list[Arm]:
    """The arms of the comparison: usual settings, in the main world."""
    found = arms(records)
    return [each for each in found if each.world == main_world(found) and not each.varied]


def plain(found: list[Arm], world: str) -> Arm | None:
    """phi = 0 with its usual settings in a world."""
    return next((each for each in found if each.kind == "none" and each.world == world and not each.varied), None)


# --- Against phi = 0


@dataclass(frozen=True)
class Gain:
    """An arm against phi = 0: areas under the curve, in percent, and the chance that a seed has more."""

    gap: Estimate
    chance: Estimate


def gain(arm: Arm, base: Arm | None) -> Gain | None:
    """Against phi = 0, or another arm; None for that one itself, and where it was not run."""
    if base is None or base is arm:
        return None
    ours, theirs, owner = arm.areas(), base.areas(), (arm.label, base.label, arm.world)
    return Gain(
        difference_interval(ours, theirs, False, generator(0, "gap", *owner)),
        improvement_interval(ours, theirs, generator(0, "chance", *owner)),
    )


def improvement_table(records: Records) -> Table:
    """Arm by arm: the area under the curve, its distance from phi = 0, and the chance of having more of it."""
    found = compared(records)
    base = plain(found, main_world(found))
    noise = next((arm for arm in found if arm.kind == "random"), None)
    gains = [gain(arm, base) for arm in found]
    rows = [
        _improvement_row(arm, each, gain(arm, noise) if each else None) for arm, each in zip(found, gains, strict=True)
    ]
    lines = [_improvement_line(arm, each) for arm, each in zip(found, gains, strict=True)]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _IMPROVEMENT_NOTES)


_IMPROVEMENT_NOTES = (
    "area under the curve: mean success of training episodes over all steps, in percent, [95 % interval] over seeds; "
    "actions are drawn by chance. Short episodes end first, so the first update flatters every arm alike",
    "chance of more: the probability of improvement over φ = 0 (Agarwal et al. 2021), ties counted half, [95 % "
    "stratified bootstrap interval]; one half is no difference",
    "three seeds against three: the interval is [1, 1] as soon as all of one are above all of the other, by however "
    "little; without any difference one comparison in 20 ends so, and one in 20 the other way round; several are made",
    "controls: the oracle potential is 1 while the mission's thing is in view, which background knowledge cannot know; "
    "the random potential is a number drawn for each view",
    "rewards in the style of ELLM (Du et al. 2023) and of Motif (Klissarov et al. 2023) are paid as they are, once a "
    "goal and less at each visit, so they can change which policy is best. RND: as in collection, or with the rewards "
    "and time limits of the other arms",
)


def _improvement_row(arm: Arm, found: Gain | None, over_noise: Gain | None) -> dict[str, str]:
    return {
        "arm": arm.name,
        "knowledge": arm.source or "–",
        "seeds": str(len(arm.seeds)),
        "area under the curve": _in_percent(arm.area()),
        "minus φ = 0": _signed(found.gap) if found else "–",
        "chance of more than φ = 0": measured(found.chance, "chance") if found else "–",
        "minus random potential": _signed(over_noise.gap) if over_noise else "–",
        "mean |F| a step": shaping_cell(arm),
    }


def _signed(gap: Estimate) -> str:
    return f"{gap.value:+.1f} [{gap.low:+.1f}, {gap.high:+.1f}]"


def _in_percent(estimate: Estimate) -> str:
    return f"{estimate.value:.1f} % [{estimate.low:.1f}, {estimate.high:.1f}]"


def shaping_cell(arm: Arm) -> str:
    """How much shaping an arm pays a step, beside 10 for success at once; a dash where nothing is shaped."""
    paid = arm.curves["shaping"].dropna() if "shaping" in arm.curves else pd.Series(dtype=float)
    return f"{paid.mean():.3f}" if len(paid) and paid.to_numpy(dtype=float).any() else "–"


def _improvement_line(arm: Arm, found: Gain | None) -> dict[str, Any]:
    area = arm.area()
    line: dict[str, Any] = {"arm": arm.kind, "world": arm.world, "knowledge": arm.source, "seeds": len(arm.seeds)}
    line |= {"frames": arm.frames, "area": area.value}
    line |= {"area_low": area.low, "area_high": area.high}
    for name, estimate in vars(found).items() if found else ():
        line |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return line


# --- What they come to


def final_table(records: Records) -> Table:
    """Arm by arm: success on the test layouts after training, by chance and by the likeliest action."""
    found = compared(records)
    base = plain(found, main_world(found))
    rows = [_final_row(arm, base) for arm in found if arm.final("sampled")]
    lines = [
        {"arm": arm.kind, "world": arm.world, "policy": policy, "seeds": len(arm.seeds), **vars(estimate)}
        for arm in found
        for policy in POLICIES
        if (estimate := arm.final(policy))
    ]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _FINAL_NOTES)


_FINAL_NOTES = (
    "success on the test layouts after the last update, mean [95 % interval] over seeds and layouts",
    "minus φ = 0: of sampled actions, paired by layout. Correct shaping leaves the optimal policy alone, so what "
    "differs here is how far learning got",
)


def _final_row(arm: Arm, base: Arm | None) -> dict[str, str]:
    ours, theirs = arm.scores("sampled"), base.scores("sampled") if base and base is not arm else None
    gap = "–"
    if ours is not None and theirs is not None:
        found = difference_interval(ours, theirs, True, generator(0, "final gap", arm.label, arm.world))
        gap = _signed(found)
    played = {policy: measured(arm.final(policy), "success") for policy in POLICIES}
    return {"arm": arm.name, "knowledge": arm.source or "–", "seeds": str(len(arm.seeds)), **played, "minus φ = 0": gap}
