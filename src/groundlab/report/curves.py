"""Learning curves: the one way in which curves of several seeds are drawn, and how lines are labelled where they end.

draw_running_success(axis, arm, colour)                  # of all seeds of an arm
draw_seeds(axis, frames, values, colour, label)          # any values [seeds, points] on shared points
label_ends(axis)                                         # labels beside the ends of lines, in place of a legend
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy.optimize import isotonic_regression

from groundlab.report.arms import Arm
from groundlab.report.records import WINDOW, running_success
from groundlab.report.statistics import SEEDS_FOR_A_VERDICT, Bounds, band

RUNNING_SUCCESS = f"success of the last {WINDOW} episodes [%]"
FILLING = f"dotted: fewer than {WINDOW} episodes so far"
_THIN: dict[str, Any] = {"linewidth": 0.5, "alpha": 0.45}
_MARKS = 6  # markers on a line


def draw_running_success(axis: Axes, arm: Arm, colour: str, label: str = "", linestyle: Any = "-") -> None:
    """The running success of an arm, over the frames that all its seeds have; dotted while its window fills.

    A seed without any point has no curve; then the others are drawn thin, without a mean.
    """
    runs = [curve for _, curve in arm.curves.groupby("seed")]
    seeds, label = [running_success(curve, filling=True) for curve in runs], label or arm.label
    curves = [seed for seed in seeds if len(seed[0])]
    if len(curves) < len(seeds):
        for number, (frames, success) in enumerate(curves):
            axis.plot(frames, success, color=colour, linestyle=linestyle, label=label if not number else None, **_THIN)
        return
    grid = np.unique(np.concatenate([frames for frames, _ in curves]))
    grid = grid[grid >= max(frames[0] for frames, _ in curves)]
    values = np.stack([np.interp(grid, *seed) for seed in curves])
    full = max(min(running_success(curve)[0], default=np.inf) for curve in runs)
    filling = int(np.searchsorted(grid, full, side="right"))  # the two parts share a point
    axis.plot(grid[:filling], values.mean(axis=0)[:filling], color=colour, linestyle=":", linewidth=1.2)
    marks = {"marker": arm.style.marker, "markersize": 4.5, "markevery": max(1, len(grid) // _MARKS)}
    start = max(0, filling - 1)
    draw_seeds(axis, grid[start:], values[:, start:], colour, label, (0, 100), linestyle=linestyle, **marks)


def draw_seeds(
    axis: Axes,
    x: np.ndarray,
    values: np.ndarray,
    colour: str,
    label: str | None = None,
    bounds: Bounds | None = None,
    **style: Any,
) -> None:
    """Seeds thin, their mean thick, from five seeds on its 95 % band shaded; values is [seeds, points].

    Fewer seeds have no band: the lines themselves are all that is known. A single seed is one line of medium width.
    `bounds` cut the band off; `style` is that of the thick line.
    """
    if len(values) == 1:
        axis.plot(x, values[0], color=colour, label=label, **{"linewidth": 1.2, **style})
        return
    axis.plot(x, values.T, color=colour, linestyle=style.get("linestyle", "-"), **_THIN)
    if len(values) >= SEEDS_FOR_A_VERDICT:
        _, low, high = band(values, bounds)
        axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(x, values.mean(axis=0), color=colour, label=label, **style)


def label_ends(axis: Axes, apart: float = 0.055) -> None:
    """Write each line's label beside its end, in its colour, at least `apart` of the axis' height from the next."""
    low, high = axis.get_ylim()
    lines = [line for line in axis.get_lines() if not str(line.get_label()).startswith("_") and len(_y_of(line))]
    ends = sorted((((_y_of(line)[-1] - low) / (high - low), line) for line in lines), key=lambda end: end[0])
    places = spread(np.array([end for end, _ in ends]), apart)
    for place, (_, line) in zip(places, ends, strict=True):
        label = str(line.get_label())
        axis.annotate(label, (1.02, place), xycoords="axes fraction", va="center", fontsize=8, color=line.get_color())


def in_thousands(axis: Axes, what: str) -> None:
    """Count frames, steps or replies on the x axis from 0, in thousands, so that ticks keep apart in narrow panels."""
    axis.set_xlim(0, None)
    axis.set_xlabel(f"{what} [thousands]")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")


def seeds_in_words(arms: Sequence[Arm]) -> str:
    """`one seed`, `3 seeds`, `1 to 5 seeds`: how many stand behind the curves of a panel."""
    counts = sorted({len(arm.seeds) for arm in arms})
    if counts == [1]:
        return "one seed"
    return f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{counts[0]} seeds"


def _y_of(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_ydata(), dtype=float)


def spread(places: np.ndarray, apart: float) -> np.ndarray:
    """Heights [n], ascending, moved as little as it takes until neighbours are `apart` and none lies below 0."""
    steps = apart * np.arange(len(places))
    return np.maximum(isotonic_regression(places - steps).x, 0) + steps
