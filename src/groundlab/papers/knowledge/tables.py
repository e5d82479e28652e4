"""The exhibits of the background-knowledge paper: its arms side by side, how fast each learns and what it comes to.

The paper's own figures could not be had, so everything is held against phi = 0, plain PPO with as many steps and seeds:
the area under the learning curve (mean training success over all steps), and the chance that a seed of an arm has more
of it than one of phi = 0. Two potentials are controls: an oracle, which knows the task, and a random one, which knows
nothing.
Read first: `Arm`, `improvement_table`. Read next: `knowledge_figures.py`, `knowledge_studies.py`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from groundlab import assets
from groundlab.core import storage
from groundlab.core.paths import repository_root
from groundlab.core.seeding import generator
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records, load, table, training_means
from groundlab.report.statistics import Estimate, difference_interval, improvement_interval, two_level_interval
from groundlab.report.style import Look, new_figure
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
    kinds = [kind_of(*each) for each in zip(runs["method"], runs["settings"], strict=True)]
    return [
        arm
        for kind in LOOKS
        for world in sorted(runs["world"].unique())
        for arm in _arms_of(records, kind, world, runs.loc[(np.array(kinds) == kind) & (runs["world"] == world)])
    ]


def _arms_of(records: Records, kind: str, world: str, runs: pd.DataFrame) -> list[Arm]:
    usual, told = _usual(list(runs["settings"])), {}
    for settings in runs["settings"]:
        told.setdefault(difference(settings, usual), settings)
    frames = records.evaluations, records.curves
    found = [
        Arm(kind, world, varied, settings, *(_rows(frame, kind, world, varied, usual) for frame in frames))
        for varied, settings in told.items()
    ]
    return sorted(found, key=lambda each: each.varied)


def _usual(of_runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that most runs have; in a tie, those without quirks, then those nearest to all the others."""

    def rank(each: dict[str, Any]) -> tuple[int, bool, int]:
        differing = sum(len(dict(_flat(each).items() ^ _flat(other).items())) for other in of_runs)
        return of_runs.count(each), not any(each.get("fidelity", {}).values()), -differing

    return max(of_runs, key=rank, default={})


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
    keep = [
        kind_of(method, settings) == kind and difference(settings, usual) == varied
        for method, settings in zip(rows["method"], rows["settings"], strict=True)
    ]
    return rows.loc[keep]


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


@exhibit(
    "knowledge-efficiency", "Sample efficiency of every arm against φ = 0", methods=("knowledge",), beside=("rnd",)
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


@exhibit("knowledge-final", "Success after training", methods=("knowledge",), beside=("rnd",))
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


EXPERIMENT = "original-network"
_PARTS = 4  # of the updates, for which success is told


def version(results: Path) -> Path | None:
    """The folder of the newest version of that experiment; None where it was never run."""
    manifests = {file.parent: storage.read_json(file) for file in results.glob("[!.]*/manifest.json")}
    found = [folder for folder, manifest in manifests.items() if manifest.get("alone") == [EXPERIMENT]]
    return max(found, key=lambda folder: manifests[folder]["created"], default=None)


def original_network_records() -> Records | None:
    found = version(repository_root() / "results")
    return load(found) if found else None


@exhibit("knowledge-original-network-table", "The paper's room, network and batch, one seed: the numbers")
def row_table(records: Records) -> Table | None:
    """The exhibit `knowledge-original-network-table`, whatever was run here."""
    found = original_network_records()
    return table_of(found) if found else None


def table_of(records: Records) -> Table:
    """Arm by arm: success by quarters of training, area under the curve, success and return on the test layouts."""
    found = compared(records)
    base = plain(found, main_world(found))
    lines = [_line(arm, base) for arm in found]
    rows = [_row(arm, line) for arm, line in zip(found, lines, strict=True)]
    made = records.manifest.get("version", records.folder.name)
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), (f"{main_world(found)}, results {made}", *_NOTES))


_NOTES = (
    "one seed an arm and a fiftieth of the paper's steps: a shape, no result",
    "quarters: success of training episodes in each quarter of the updates; area: their mean over all steps",
    "test: success and return on the test layouts, by drawn actions and by the likeliest ones",
)


def _line(arm: Arm, base: Arm | None) -> dict[str, Any]:
    line: dict[str, Any] = {"arm": arm.kind, "knowledge": arm.source, "seeds": len(arm.seeds), "frames": arm.frames}
    line |= {"episodes": int(np.sum(arm.curves["episodes"].to_numpy(dtype=float))), "area": float(arm.areas().mean())}
    line |= {f"quarter {number}": part for number, part in enumerate(quarters(arm), 1)}
    for policy in POLICIES:
        rows = arm.evaluations.loc[arm.evaluations["policy"] == policy]
        line |= {
            f"{metric}, {policy}": float(np.mean(rows[metric].to_numpy(dtype=float)))
            for metric in ("success", "return")
        }
    return line | ({} if base is None or base is arm else {"gap": line["area"] - float(base.areas().mean())})


def quarters(arm: Arm) -> list[float]:
    """Success of the episodes that ended in each quarter of the updates, in percent; NaN where none did."""
    parts = np.array_split(arm.curves.sort_values("iteration")[["success", "episodes"]].to_numpy(dtype=float), _PARTS)
    won, ended = ([np.nansum(part[:, 0] * part[:, 1]) for part in parts], [part[:, 1].sum() for part in parts])
    return [total / count if count else np.nan for total, count in zip(won, ended, strict=True)]


def _row(arm: Arm, line: dict[str, Any]) -> dict[str, str]:
    return {
        "arm": arm.name,
        "knowledge": arm.source or "–",
        "episodes": str(line["episodes"]),
        "quarters": ", ".join(f"{line[f'quarter {number}']:.0f}" for number in range(1, _PARTS + 1)) + " %",
        "area": f"{line['area']:.1f} %",
        "minus φ = 0": f"{line['gap']:+.1f}" if "gap" in line else "–",
        "test, drawn": f"{line['success, sampled']:.0f} %, {line['return, sampled']:.2f}",
        "test, likeliest": f"{line['success, argmax']:.0f} %, {line['return, argmax']:.2f}",
    }


HOME = Path(assets.__file__).parent / "knowledge"


def cards(home: Path = HOME) -> dict[str, dict[str, Any]]:
    """The cards of the datasets in a folder, by the name of their folder."""
    return {file.parent.name: storage.read_json(file) for file in sorted(home.glob("*/card.json"))}


@exhibit("knowledge-dataset", "The dataset that ships: what was played before any label")
def dataset_table(records: Records) -> Table | None:
    """The exhibit `knowledge-dataset`: of what ships, whatever was run."""
    return card_table(cards())


def card_table(found: dict[str, dict[str, Any]]) -> Table | None:
    """One row a snapshot of the policy that played, and one for the whole of each dataset."""
    lines = [line for name, card in found.items() for line in _lines(name, card)]
    if not lines:
        return None
    recipes = (f"{name} was made by `{card['recipe']}`" for name, card in found.items() if "recipe" in card)
    return Table(pd.DataFrame(lines), pd.DataFrame([_dataset_row(line) for line in lines]), (*_DATASET_NOTES, *recipes))


_DATASET_NOTES = (
    "policy: after how many steps of PPO with curiosity it was kept, the first after one update; drawn actions, so the "
    "first one all but plays at random",
    "return: 1 minus 0.9 times the share of the time limit that was used, for success; in Crafter what its rewards add "
    "up to; cells: the share of the room's cells on which some agent stood; views, captions: distinct ones",
)


def _lines(name: str, card: dict[str, Any]) -> list[dict[str, Any]]:
    cells = card.get("cells_visited", {})
    parts = [
        {"dataset": name, "snapshot": int(key), **values, "cells_visited": cells.get(key)}
        for key, values in card["snapshots"].items()
    ]
    whole = {"dataset": name, "snapshot": None, "episodes": card["episodes"], "steps": card["steps"]}
    whole |= {"distinct_views": card["distinct_views"], "distinct_captions": card["distinct_captions"]}
    return [*parts, whole]


def _dataset_row(line: dict[str, Any]) -> dict[str, str]:
    whole, cells = line["snapshot"] is None, line.get("cells_visited")
    return {
        "dataset": line["dataset"],
        "policy after": "all" if whole else f"{line['snapshot']:,} steps",
        "episodes": str(line["episodes"]),
        "success": f"{100 * line['success']:.0f} %" if "success" in line else "–",
        "return": "–" if whole else f"{line['return']:.2f}",
        "steps": f"{line['steps']:,}" if whole else f"{line['length'] * line['episodes']:,.0f}",
        "cells": "–" if cells is None else f"{100 * cells:.0f} %",
        "views": f"{line['distinct_views']:,}",
        "captions": f"{line['distinct_captions']:,}" if whole else "–",
    }


# --- Where the agents went


def visits(folder: Path) -> dict[int, np.ndarray]:
    """Steps on each cell, int64 [height, width], by snapshot, as `methods/knowledge/coverage.py` stored them."""
    stored = storage.read_json(folder / "coverage.json")
    return {int(key): np.array([row.split() for row in rows], np.int64) for key, rows in stored.items()}


@exhibit("knowledge-coverage", "Where the agents of the dataset that ships have been")
def coverage(records: Records) -> Figure | None:
    """The exhibit `knowledge-coverage`: a room for each snapshot of what ships, its rooms laid over one another."""
    found = [(HOME / name, card) for name, card in cards().items() if (HOME / name / "coverage.json").is_file()]
    rooms = [(card, *room) for folder, card in found for room in visits(folder).items()]
    if not rooms:
        return None
    figure, axes = new_figure(3.7 * len(rooms), 3.9, 1, len(rooms))
    for axis, room in zip(axes[0], rooms, strict=True):
        _draw_room(axis, *room)
        figure.colorbar(axis.images[0], ax=axis, label="steps on a cell (logarithmic)", shrink=0.8)
    return figure


def _draw_room(axis: Axes, card: dict[str, Any], snapshot: int, counts: np.ndarray) -> None:
    facts, share = card["snapshots"][str(snapshot)], card["cells_visited"][str(snapshot)]
    axis.imshow(np.where(counts > 0, counts, np.nan), cmap="viridis", norm=LogNorm())
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(True)
    told = f"{facts['episodes']} episodes, success {100 * facts['success']:.0f} %, {100 * share:.0f} % of the cells"
    axis.set_title(f"after {snapshot:,} steps of training\n{told}", fontsize=8)
