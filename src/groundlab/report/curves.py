"""Learning curves: running success of training episodes, and the one way in which curves of several seeds are drawn.

frames, success = running_success(curve)                 # of one run
draw_running_success(axis, arm, colour)                  # of all seeds of an arm
draw_seeds(axis, frames, values, colour, label)          # any values [seeds, points] on shared points
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from groundlab.report.arms import Arm
from groundlab.report.statistics import SEEDS_FOR_A_VERDICT, Bounds, band

WINDOW = 100  # finished training episodes in a running success rate: some 3,000 frames of an agent that fails
RUNNING_SUCCESS = f"success of the last {WINDOW} episodes [%]"
_THIN: dict[str, Any] = {"linewidth": 0.5, "alpha": 0.45}


def running_success(curve: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(frames, success in percent) of one run, each point over the updates that hold the last `WINDOW` episodes.

    Points before there are so many episodes are left out. Short episodes finish first, so early points flatter.
    """
    curve = curve.sort_values("frames")
    counts = curve["episodes"].to_numpy(dtype=float)
    totals = np.nan_to_num(curve["success"].to_numpy(dtype=float)) * counts
    ended, won = np.cumsum(counts), np.cumsum(totals)
    first = np.searchsorted(ended, ended - WINDOW, side="right") - 1  # the last update that is not needed
    before = np.where(first >= 0, ended[first], 0.0), np.where(first >= 0, won[first], 0.0)
    full = ended >= WINDOW
    return curve["frames"].to_numpy()[full], ((won - before[1]) / np.maximum(ended - before[0], 1))[full]


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
