"""The knowledge paper's figures: how the arms learn, and how much more they learn than phi = 0.

Seeds are thin lines or small marks, means thick; bands and bars are 95 % bootstrap intervals over seeds (with three
seeds, close to their range). Controls are dashed. Read first: `curves`. Called from: knowledge_exhibits.py.
"""

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core.seeding import generator
from groundlab.report.glam_learning import WINDOW, running_success
from groundlab.report.knowledge import CONTROLS, LOOKS, REWARDS, Arm, compared, gain, main_world, plain
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate, band, mean
from groundlab.report.style import new_figure


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
