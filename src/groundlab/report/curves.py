"""Learning curves: the one way in which curves of several seeds are drawn.

draw_running_success(axis, arm, colour)                  # of all seeds of an arm
draw_seeds(axis, frames, values, colour, label)          # any values [seeds, points] on shared points
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from groundlab.report.arms import Arm
from groundlab.report.records import WINDOW, running_success
from groundlab.report.statistics import SEEDS_FOR_A_VERDICT, Bounds, band

RUNNING_SUCCESS = f"success of the last {WINDOW} episodes [%]"
_THIN: dict[str, Any] = {"linewidth": 0.5, "alpha": 0.45}


def draw_running_success(axis: Axes, arm: Arm, colour: str, label: str = "", linestyle: Any = "-") -> None:
    """The running success of an arm, over the frames that all its seeds have.

    A seed that finished too few episodes has no curve; then the others are drawn thin, without a mean.
    """
    seeds = [running_success(curve) for _, curve in arm.curves.groupby("seed")]
    curves, label = [seed for seed in seeds if len(seed[0])], label or arm.label
    if len(curves) < len(seeds):
        for number, (frames, success) in enumerate(curves):
            axis.plot(frames, success, color=colour, linestyle=linestyle, label=label if not number else None, **_THIN)
        return
    grid = np.unique(np.concatenate([frames for frames, _ in curves]))
    grid = grid[grid >= max(frames[0] for frames, _ in curves)]
    values = np.stack([np.interp(grid, *seed) for seed in curves])
    draw_seeds(axis, grid, values, colour, label, bounds=(0, 100), linestyle=linestyle)


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
