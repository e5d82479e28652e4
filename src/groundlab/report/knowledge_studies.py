"""What the knowledge and its use depend on: wrong labels, the original's quirks, other tasks and rooms.

Most of these have one seed at scale `quick`: they show a shape, and no interval is drawn where there is none. A study
is compared with the arm's usual settings and with phi = 0 over the same frames and the same seeds. Read first:
`label_errors`, `quirks_table`. Called from: knowledge_exhibits.py.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from groundlab.report.knowledge import LOOKS, QUIRKS, Arm, arms, label_error, main_world, plain
from groundlab.report.records import Records
from groundlab.report.style import new_figure
from groundlab.report.tables import Table


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
    names = [f"{_judge(arm).lstrip(',')}\n({_seeds(arm)})" for arm in drawn]
    axis.set_xticks(range(len(drawn)), names)
    axis.set(
        title=f"{base.world}, first {frames:,.0f} steps; φ = 0: {_seeds(base)}",
        xlabel="wrong labels of the scripted judge [%], or other judges",
        ylabel="area under the learning curve [%]",
        xlim=(-0.5, len(drawn) - 0.5),
    )
    axis.margins(y=0.25)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _seeds(arm: Arm) -> str:
    return f"{len(arm.seeds)} seed" + "s" * (len(arm.seeds) > 1)


# --- The original's quirks


def quirky(records: Records) -> list[tuple[Arm, Arm]]:
    """(arm with some of the original's quirks, the same without), in the main world."""
    every = arms(records)
    home = main_world(every)
    found = [each for each in every if each.world == home]
    pairs = [(arm, _without_quirks(arm, found)) for arm in found if arm.quirks]
    return [(arm, usual) for arm, usual in pairs if usual is not None]


def _without_quirks(arm: Arm, found: list[Arm]) -> Arm | None:
    """The arm of the same kind that differs least in what else was varied."""
    mine = [each for each in found if each.kind == arm.kind and not each.quirks]
    told = set(arm.varied.split(", ")) - set(QUIRKS)
    return min(
        mine, key=lambda each: (len(told ^ set(filter(None, each.varied.split(", ")))), each.varied), default=None
    )


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
    home = main_world(found)
    others = [each for each in found if each.world != home]
    return sorted(others, key=lambda each: each.world)


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
