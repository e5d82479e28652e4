"""The knowledge paper's figures: how the arms learn, and how much more they learn than phi = 0.

Seeds are thin lines or small marks, means thick; bands and bars are 95 % bootstrap intervals over seeds (with three
seeds, close to their range). Controls are dashed. Read first: `curves`. Called from: knowledge_exhibits.py.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core.seeding import generator
from groundlab.papers.knowledge.tables import (
    CONTROLS,
    LOOKS,
    QUIRKS,
    REWARDS,
    Arm,
    arms,
    compared,
    gain,
    label_error,
    main_world,
    original_network_records,
    plain,
)
from groundlab.report.curves import WINDOW, running_success
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate, band, mean
from groundlab.report.style import new_figure
from groundlab.report.tables import Table


@exhibit(
    "knowledge-curves",
    "Success while agents learn, their rewards shaped by background knowledge",
    methods=("knowledge",),
    beside=("rnd",),
)
def curves(records: Records) -> Figure | None:
    """Success while learning: the potentials of knowledge in one panel, the rest in the other, phi = 0 in both.

    None where no run finished as many episodes as a point needs.
    """
    found = compared(records)
    if not any(arm.curves["episodes"].sum() >= WINDOW for arm in found):
        return None
    figure, axes = new_figure(9.6, 4.4, 1, 2, sharey=True)
    controls = [arm for arm in found if arm.kind in (*CONTROLS, *REWARDS, "rnd", "curious")]
    title = "controls and other rewards" if any(arm.kind in REWARDS for arm in found) else "controls and curiosity"
    panels = {"background knowledge": [arm for arm in found if arm not in controls], title: controls}
    for axis, (title, drawn) in zip(axes[0], panels.items(), strict=True):
        for arm in dict.fromkeys(arm.kind for arm in found if arm.kind == "none" or arm in drawn):
            draw_curve(axis, next(each for each in found if each.kind == arm))
        axis.set(title=title, xlabel="environment steps [thousands]", xlim=(0, None), ylim=(0, 103))
        axis.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1000:g}")
    axes[0, 0].set_ylabel(f"success of the last {WINDOW} episodes [%]")
    figure.suptitle(f"{main_world(found)}, {_seeds(found)} an arm", fontsize=9.5)
    handles: dict[str, Artist] = {}
    for axis in axes[0]:
        handles.update({label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)})
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=2)
    return figure


def _seeds(found: list[Arm]) -> str:
    counts = sorted({len(arm.seeds) for arm in found})
    return " or ".join(map(str, counts)) + (" seed" if counts == [1] else " seeds")


def draw_curve(axis: Axes, arm: Arm) -> None:
    """One arm: its seeds thin, their mean and band where all have a curve."""
    look, dashes = LOOKS[arm.kind], (0, (4, 2)) if arm.kind in CONTROLS else "-"
    seeds = [running_success(curve) for _, curve in arm.curves.groupby("seed")]
    for frames, success in seeds:
        axis.plot(frames, success, color=look.colour, linewidth=0.5, alpha=0.5, linestyle=dashes)
    starts = [frames[0] for frames, _ in seeds if len(frames)]
    if len(starts) < len(seeds):
        return  # a seed that finished too few episodes has no curve, and the others no mean
    grid = np.unique(np.concatenate([frames for frames, _ in seeds]))
    grid = grid[grid >= max(starts)]
    stacked = np.stack([np.interp(grid, *seed) for seed in seeds])
    middle, low, high = band(stacked, mean, generator(0, "band", arm.label, arm.world))
    if len(seeds) > 1:
        axis.fill_between(grid, low, high, color=look.colour, alpha=0.13, linewidth=0)
    axis.plot(grid, middle, color=look.colour, linestyle=dashes, label=arm.label)


@exhibit(
    "knowledge-improvement",
    "How much more is learnt than with φ = 0: area under the curve, and the chance of more",
    methods=("knowledge",),
    beside=("rnd",),
)
def improvement(records: Records) -> Figure | None:
    """Arm by arm: the area under the curve, seed by seed, and the chance of more of it than phi = 0 has."""
    found = compared(records)
    base = plain(found, main_world(found))
    if base is None or len(found) < 2:
        return None
    figure, axes = new_figure(9.6, 1.5 + 0.42 * len(found), 1, 2, sharey=True)
    for row, arm in enumerate(found):
        look, area, against = LOOKS[arm.kind], arm.area(), gain(arm, base)
        axes[0, 0].plot(arm.areas()[:, 0], np.full(len(arm.seeds), row + 0.22), "|", color=look.colour, markersize=7)
        _interval(axes[0, 0], row, area, look.colour, look.marker)
        if against:
            _interval(axes[0, 1], row, against.chance, look.colour, look.marker)
    axes[0, 0].axvline(base.area().value, color="#aaaaaa", linewidth=0.8)
    axes[0, 1].axvline(0.5, color="#aaaaaa", linewidth=0.8)
    axes[0, 0].set(title="area under the learning curve", xlabel="mean success of training episodes [%]")
    axes[0, 1].set(title="chance of more than φ = 0", xlabel="probability of improvement", xlim=(-0.03, 1.03))
    axes[0, 0].set_yticks(range(len(found)), [_two_lines(arm) for arm in found])
    axes[0, 0].set_ylim(len(found) - 0.4, -0.6)
    figure.suptitle(f"{main_world(found)}, {_seeds(found)} an arm; bars: 95 % bootstrap intervals", fontsize=9.5)
    return figure


def _two_lines(arm: Arm) -> str:
    name, _, rest = arm.name.partition(" (")
    second = arm.source or rest.removesuffix(")")
    return f"{name}\n{second}" if second else name


def _interval(axis: Axes, row: int, estimate: Estimate, colour: str, marker: str) -> None:
    axis.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=2.2, alpha=0.45)
    axis.plot(estimate.value, row, marker, color=colour, markersize=6)


def paired_areas(arm: Arm, other: Arm) -> tuple[np.ndarray, np.ndarray]:
    """([seeds], [seeds]): areas under both curves in percent, for the seeds and the frames that both have."""
    frames, seeds = min(arm.frames, other.frames), sorted(set(arm.seeds) & set(other.seeds))
    found = [dict(zip(each.seeds, each.areas(frames)[:, 0], strict=True)) for each in (arm, other)]
    ours, theirs = (np.array([areas[seed] for seed in seeds]) for areas in found)
    return ours, theirs


# --- Wrong labels, few labels, another judge


def judged(records: Records) -> list[Arm]:
    """The arms of preferences in the main world that differ in their labels only: by rule, fewer errors first, the rest
    after them."""
    found = arms(records)
    mine = [each for each in found if each.kind == "preference" and each.world == main_world(found)]
    usual = next((each for each in mine if not each.varied), None)
    labels = [each for each in mine if usual and _without_labels(each) == _without_labels(usual)]
    return sorted(labels, key=lambda each: (_judge(each).count(","), label_error(each.settings), each.varied))


def _without_labels(arm: Arm) -> dict[str, Any]:
    return {key: value for key, value in arm.settings.items() if key not in ("maker", "model", "labelling", "source")}


def _judge(arm: Arm) -> str:
    """`10 %` for the scripted judge, else whose labels they are, or how many, after a comma."""
    if arm.settings.get("maker") != "scripted":
        return f",{arm.source.replace(' model ', ' model' + chr(10))}"
    wrong = f"{100 * label_error(arm.settings):.0f} %"
    fewer = arm.settings.get("labelling", {}).get("pairs") if "pairs" in arm.varied else None
    return f"{wrong},\n{fewer} pairs" if fewer else wrong


@exhibit("knowledge-labels", "Sensitivity to wrong preference labels", methods=("knowledge",))
def label_errors(records: Records) -> Figure | None:
    """The area under the curve against the share of wrong preference labels, seed by seed, beside phi = 0."""
    drawn, found = judged(records), arms(records)
    base = plain(found, main_world(found))
    if len(drawn) < 2 or base is None:
        return None
    frames = min(arm.frames for arm in [*drawn, base])
    figure, axes = new_figure(6.4, 4.1)
    axis, look, level = axes[0, 0], LOOKS["preference"], base.areas(frames)[:, 0]
    for place, arm in enumerate(drawn):
        areas = arm.areas(frames)[:, 0]
        axis.plot(np.full(len(areas), place), areas, look.marker, color=look.colour, markersize=5, fillstyle="none")
        axis.plot(place, areas.mean(), "_", color=look.colour, markersize=16, markeredgewidth=2)
    axis.plot([], [], look.marker, color=look.colour, fillstyle="none", label="BK-Pref: each seed; bars: their mean")
    axis.axhline(level.mean(), color=LOOKS["none"].colour, linestyle="--", label="φ = 0: mean, and range of its seeds")
    axis.axhspan(level.min(), level.max(), color=LOOKS["none"].colour, alpha=0.12, linewidth=0)
    names = [f"{_judge(arm).lstrip(',')}\n({_arm_seeds(arm)})" for arm in drawn]
    axis.set_xticks(range(len(drawn)), names)
    axis.set(
        title=f"{base.world}, first {frames:,.0f} steps; φ = 0: {_arm_seeds(base)}",
        xlabel="wrong labels of the scripted judge [%], or other judges",
        ylabel="area under the learning curve [%]",
        xlim=(-0.5, len(drawn) - 0.5),
    )
    axis.margins(y=0.25)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _arm_seeds(arm: Arm) -> str:
    return f"{len(arm.seeds)} seed" + "s" * (len(arm.seeds) > 1)


# --- The original's quirks


def quirky(records: Records) -> list[tuple[Arm, Arm]]:
    """(arm with some of the original's quirks, the same without), in the main world."""
    found = [each for each in arms(records) if each.world == main_world(arms(records))]
    pairs = [(arm, _without_quirks(arm, found)) for arm in found if arm.quirks]
    return [(arm, usual) for arm, usual in pairs if usual is not None]


def _without_quirks(arm: Arm, found: list[Arm]) -> Arm | None:
    """The arm of the same kind that differs least in what else was varied."""
    mine = [each for each in found if each.kind == arm.kind and not each.quirks]
    told = set(arm.varied.split(", ")) - set(QUIRKS)
    return min(
        mine, key=lambda each: (len(told ^ set(filter(None, each.varied.split(", ")))), each.varied), default=None
    )


@exhibit("knowledge-quirks", "What each of the original's quirks does to learning", methods=("knowledge",))
def quirks_table(records: Records) -> Table | None:
    """Quirk by quirk: areas under the curve with it and without, for the same seeds and frames."""
    pairs = quirky(records)
    if not pairs:
        return None
    found = arms(records)
    base = plain(found, main_world(found))
    lines = [_quirk_line(arm, usual, base) for arm, usual in pairs]
    rows = [_quirk_row(arm, line) for (arm, _), line in zip(pairs, lines, strict=True)]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _QUIRK_NOTES)


_QUIRK_NOTES = (
    "area under the curve, in percent, with the quirk and without it, over the frames and seeds that both have; spec "
    "background-knowledge 6 and 11",
    "one seed shows a shape: what differs may be chance. Late payment, episodes that are not kept apart and a "
    "scale that drifts break the guarantee that shaping leaves the optimal policies alone",
)


def _quirk_line(arm: Arm, usual: Arm, base: Arm | None) -> dict[str, Any]:
    ours, theirs = paired_areas(arm, usual)
    line: dict[str, Any] = {"arm": arm.kind, "quirks": " ".join(arm.quirks), "world": arm.world, "seeds": len(ours)}
    line |= {"frames": min(arm.frames, usual.frames), "area": ours.mean(), "area without": theirs.mean()}
    return line | ({"area of phi 0": paired_areas(arm, base)[1].mean()} if base else {})


def _quirk_row(arm: Arm, line: dict[str, Any]) -> dict[str, str]:
    return {
        "arm": LOOKS[arm.kind].label,
        "quirk": "; ".join(QUIRKS[name] for name in arm.quirks),
        "seeds": str(line["seeds"]),
        "steps": f"{line['frames']:,.0f}",
        "with it": f"{line['area']:.1f} %",
        "without": f"{line['area without']:.1f} %",
        "difference": f"{line['area'] - line['area without']:+.1f}",
        "φ = 0": f"{line['area of phi 0']:.1f} %" if "area of phi 0" in line else "–",
    }


# --- Other tasks, rooms and settings


def elsewhere(records: Records) -> list[Arm]:
    """Arms in other worlds than the main one, world by world, phi = 0 first."""
    found = arms(records)
    others = [each for each in found if each.world != main_world(found)]
    return sorted(others, key=lambda each: each.world)


@exhibit("knowledge-worlds", "Other tasks and rooms", methods=("knowledge",), beside=("rnd",))
def worlds_table(records: Records) -> Table | None:
    """World by world and arm by arm: the area under the curve and final success, beside phi = 0 of that world."""
    drawn = elsewhere(records)
    if not drawn:
        return None
    lines = [_world_line(arm, _base_of(arm, drawn)) for arm in drawn]
    rows = [_world_row(arm, line) for arm, line in zip(drawn, lines, strict=True)]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _WORLD_NOTES)


_WORLD_NOTES = (
    "area under the curve: mean success of training episodes over all frames, in percent; final: success of sampled "
    "actions on the test layouts",
    "minus φ = 0: areas, over the frames and seeds that both have. Few seeds show a shape: no interval is given",
)


def _base_of(arm: Arm, drawn: list[Arm]) -> Arm | None:
    same = [each for each in drawn if each.kind == "none" and each.world == arm.world]
    return next((each for each in same if each.varied == arm.varied), same[0] if same else None)


def _world_line(arm: Arm, base: Arm | None) -> dict[str, Any]:
    final = arm.final("sampled")
    line: dict[str, Any] = {"world": arm.world, "arm": arm.kind, "varied": arm.varied, "seeds": len(arm.seeds)}
    line |= {"frames": arm.frames, "area": arm.areas().mean(), "final": final.value if final else np.nan}
    if base is not None and base is not arm and set(arm.seeds) & set(base.seeds):
        ours, theirs = paired_areas(arm, base)
        line["gap"] = float((ours - theirs).mean())
    return line


def _world_row(arm: Arm, line: dict[str, Any]) -> dict[str, str]:
    return {
        "world": arm.world.removeprefix("BabyAI-Text-"),
        "arm": arm.name,
        "knowledge": arm.source or "–",
        "network": arm.settings.get("network", "–"),
        "seeds": str(line["seeds"]),
        "steps": f"{line['frames']:,.0f}",
        "area under the curve": f"{line['area']:.1f} %",
        "minus φ = 0": f"{line['gap']:+.1f}" if "gap" in line else "–",
        "final": f"{line['final']:.0f} %" if np.isfinite(line["final"]) else "–",
    }


@exhibit("knowledge-original-network", "The paper's room, network and batch, one seed: success while agents learn")
def row_curves(records: Records) -> Figure | None:
    """The exhibit `knowledge-original-network`, whatever was run here."""
    found = original_network_records()
    return curves(found) if found else None
