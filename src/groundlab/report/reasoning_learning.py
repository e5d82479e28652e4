"""How the reasoning and the direct agent learn, and what the report's own curves would have shown.

Two curves of one training are drawn side by side: the true one, tests on fixed layouts that are all played to their
ends, and the displayed one, the episodes that ended in each update. Short episodes end first and are more often
successful; where every update begins anew and throws unfinished episodes away, as the original did, long failures are
never counted at all (spec reasoning-agents, quirk Q6). Read first: `curves`. Called from: exhibits.py.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core.seeding import generator
from groundlab.report.reasoning import LOOKS, Arm, arms, main_arms
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


def draw_series(
    axis: Axes, arm: Arm, metric: str, colour: str, label: str = "", dashes: str = "-", until: float = np.inf
) -> None:
    """A recorded series of an arm: seeds thin; of several, the mean thick and its 95 % band. `until`: replies drawn."""
    found = arm.series(metric)
    if found is None:
        return
    frames, values = found
    keep = frames <= until
    _draw(axis, frames[keep], values[:, keep], (arm.label, metric), colour, label or arm.label, dashes)


def draw_displayed(axis: Axes, arm: Arm, colour: str, label: str = "", until: float = np.inf) -> None:
    """Success as the report displays it, from the first update with enough before it."""
    found = displayed(arm)
    if found is None:
        return
    frames, values = found
    keep = frames <= until
    _draw(axis, frames[keep], values[:, keep], (arm.label, "displayed"), colour, label or arm.label, "-")


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


def _draw(
    axis: Axes, frames: np.ndarray, values: np.ndarray, owner: tuple[str, str], colour: str, label: str, dashes: str
) -> None:
    """values: [seeds, points]."""
    if len(values) == 1:
        axis.plot(frames, values[0], color=colour, linestyle=dashes, linewidth=1.2, label=label)
        return
    for seed in values:
        axis.plot(frames, seed, color=colour, linewidth=0.5, alpha=0.45, linestyle=dashes)
    middle, low, high = band(values, mean, generator(0, "band", *owner))
    axis.fill_between(frames, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(frames, middle, color=colour, linestyle=dashes, label=label)


def _levels(axis: Axes, found: dict[str, Arm]) -> None:
    """What the untuned agents and random actions reach on the layouts of the final evaluation."""
    for method in ("reasoning-zero-shot", "direct-zero-shot", "random"):
        level = found[method].estimate(found[method].main) if method in found else None
        if level:
            look = LOOKS[method]
            axis.axhline(level.value, color=look.colour, linestyle=(0, (5, 3)), linewidth=1.1, label=look.label)


# --- The length bias


def length_bias(records: Records) -> Figure | None:
    """True and displayed success of the same training, unfinished episodes continued and thrown away."""
    pairs = biased_pairs(records)
    if not pairs:
        return None
    columns = [arm for pair in pairs for arm in pair if arm is not None]
    until = min(dropped.end for _, dropped in pairs)
    figure, axes = new_figure(1.2 + 3.5 * len(columns), 4.0, 1, len(columns), sharey=True)
    for axis, arm in zip(axes[0], columns, strict=True):
        draw_series(axis, arm, "test_success", "#333333", "true: fixed layouts, played to their ends", until=until)
        draw_displayed(axis, arm, "#D55E00", f"displayed: episodes that ended, last {WINDOW} updates", until=until)
        kept = "thrown away" if "drop_unfinished" in arm.differs else "continued"
        gap = excess(arm, until)
        told = f"\ndisplayed {gap:+.0f} points" if gap is not None else ""
        axis.set(title=f"{LOOKS[arm.method].label}\nunfinished {kept}{told}", xlabel=REPLIES, xlim=(0, until))
        axis.set_ylim(0, 103)
    axes[0, 0].set_ylabel("success [%]")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def biased_pairs(records: Records) -> list[tuple[Arm | None, Arm]]:
    """(the same arm with unfinished episodes continued, if there is one; the one with them thrown away)."""
    every = [arm for arm in arms(records) if arm.trained]
    pairs = []
    for dropped in [arm for arm in every if "drop_unfinished" in arm.differs]:
        others = {key: value for key, value in dropped.differs.items() if key != "drop_unfinished"}
        same = [arm for arm in every if (arm.method, arm.world, arm.differs) == (dropped.method, dropped.world, others)]
        pairs.append((next(iter(same), None), dropped))
    return pairs


def excess(arm: Arm, until: float) -> float | None:
    """Points by which displayed success exceeds the true one, in the mean over the updates that were tested.

    None where no tested update is displayed. The mean of past updates lags behind an agent that learns: that lowers it.
    """
    tests, shown = arm.series("test_success"), displayed(arm)
    if tests is None or shown is None:
        return None
    both = np.intersect1d(tests[0], shown[0])
    both = both[both <= until]
    places = [np.isin(frames, both) for frames in (tests[0], shown[0])]
    return float((shown[1][:, places[1]] - tests[1][:, places[0]]).mean()) if len(both) else None
