"""How the reasoning and the direct agent learn: curves of their tests, and of what the report displays in their place.

True success is that of tests on fixed layouts, all played to their ends; displayed success that of the episodes that
ended in an update, of which short ones end first. Read first: `curves`. Called from: exhibits.py.
Read next: `reasoning_bias.py`, where the two are held against each other.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core.seeding import generator
from groundlab.report.reasoning import LOOKS, Arm, main_arms
from groundlab.report.records import Records
from groundlab.report.statistics import band, mean
from groundlab.report.style import new_figure

REPLIES = "replies of the environments"
WINDOW = 10  # updates in the mean that is displayed; the report has 100 of its longer trainings
TRUE, SHOWN = "true success, fixed layouts [%]", f"success of ended episodes, {WINDOW} updates [%]"


def curves(records: Records) -> Figure:
    """True success, displayed success and invalid replies over the replies of the environments, both agents."""
    found = main_arms(records)
    figure, axes = new_figure(11.4, 4.2, 1, 3)
    for method in ("reasoning", "direct"):
        if method in found:
            colour = LOOKS[method].colour
            draw_series(axes[0, 0], found[method], "test_success", colour)
            draw_displayed(axes[0, 1], found[method], colour)
            draw_series(axes[0, 2], found[method], "test_invalid", colour)
    for axis in axes[0, :2]:
        _levels(axis, found)
        axis.set(ylim=(0, 103))
    axes[0, 0].set(title="true", ylabel=TRUE)
    axes[0, 1].set(title="displayed", ylabel=SHOWN)
    axes[0, 2].set(title="invalid", ylabel="invalid replies per test episode", ylim=(0, None))
    for axis in axes[0]:
        axis.set(xlabel=REPLIES, xlim=(0, None))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def draw_series(axis: Axes, arm: Arm, metric: str, colour: str, label: str = "") -> None:
    """A recorded series of an arm: seeds thin; of several, the mean thick and its 95 % band."""
    found = arm.series(metric)
    if found is not None:
        _draw(axis, *found, (arm.label, metric), colour, label or arm.label)


def draw_displayed(axis: Axes, arm: Arm, colour: str, label: str = "") -> None:
    """Success as the report displays it, from the first update with enough before it."""
    found = displayed(arm)
    if found is not None:
        _draw(axis, *found, (arm.label, "displayed"), colour, label or arm.label)


def displayed(arm: Arm) -> tuple[np.ndarray, np.ndarray] | None:
    """(replies [points], success in percent [seeds, points]): the mean over the last `WINDOW` updates.

    Each update counts alike, as in the report's curves; one in which no episode ended is left out of the mean.
    """
    if "success" not in arm.curves:
        return None
    told = arm.curves.loc[arm.curves["iteration"] > 0]
    wide = told.pivot(index="iteration", columns="seed", values="success").rolling(WINDOW, min_periods=1).mean()
    frames = told.pivot(index="iteration", columns="seed", values="frames").mean(axis=1)
    full = wide.iloc[WINDOW - 1 :].dropna()
    return (frames.loc[full.index].to_numpy(dtype=float), full.to_numpy(dtype=float).T) if len(full) else None


def _draw(axis: Axes, frames: np.ndarray, values: np.ndarray, owner: tuple[str, str], colour: str, label: str) -> None:
    """values: [seeds, points]."""
    if len(values) == 1:
        axis.plot(frames, values[0], color=colour, linewidth=1.2, label=label)
        return
    for seed in values:
        axis.plot(frames, seed, color=colour, linewidth=0.5, alpha=0.45)
    middle, low, high = band(values, mean, generator(0, "band", *owner))
    axis.fill_between(frames, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(frames, middle, color=colour, label=label)


def _levels(axis: Axes, found: dict[str, Arm]) -> None:
    """What the untuned agents and random actions reach on the layouts of the final evaluation."""
    for method in ("reasoning-zero-shot", "direct-zero-shot", "random"):
        level = found[method].estimate(found[method].main) if method in found else None
        if level:
            look = LOOKS[method]
            axis.axhline(level.value, color=look.colour, linestyle=(0, (5, 3)), linewidth=1.1, label=look.label)
