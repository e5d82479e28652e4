"""How fast GLAM's agents learn: curves of training success, sample efficiency, and the frames to a level.

Sample efficiency is the paper's: the mean of the training success over all frames. The frames to a level are told seed
by seed, and as a ratio to the pretrained agent; a seed that never gets there counts with all frames that it had, so a
ratio with such seeds is a lower bound. Read first: `efficiency_table`. Called from: exhibits.py.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core.seeding import generator
from groundlab.report.glam import LOOKS, Agent, agents
from groundlab.report.records import Records, training_means
from groundlab.report.statistics import Estimate, band, mean, ratio_interval, two_level_interval
from groundlab.report.style import new_figure
from groundlab.report.tables import Table, measured

WINDOW = 100  # finished training episodes in a running success rate: some 3,000 frames of an agent that fails
LEVEL = 80  # percent
_DASHES = ("--", ":", "-.")  # of an agent's variations


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


def learns(agent: Agent) -> bool:
    """Whether there is a learning curve: records of training episodes."""
    return "episodes" in agent.curves and bool(np.isfinite(agent.curves["episodes"].to_numpy(dtype=float)).any())


def frames_to(curve: pd.DataFrame, level: float = LEVEL) -> float | None:
    """The frames at which the running success of one run first reaches a level; None if it never did."""
    frames, success = running_success(curve)
    reached = np.flatnonzero(success >= level)
    return float(frames[reached[0]]) if len(reached) else None


# --- Curves


def curves(records: Records) -> Figure:
    """Running success over frames, one panel a world: seeds thin, their mean thick, the band their 95 % interval.

    Other amounts of pretraining are not drawn here but among the doses (glam_doses.py).
    """
    learners = [each for each in agents(records) if learns(each) and not each.other_model]
    names = list(dict.fromkeys(each.world for each in learners))
    figure, axes = new_figure(1.6 + 4.8 * len(names), 4.4, 1, len(names), sharey=True)
    for axis, world in zip(axes[0], names, strict=True):
        drawn: dict[str, int] = {}
        for agent in [each for each in learners if each.world == world]:
            variation = drawn.setdefault(agent.method, 0)
            draw_curve(axis, agent, LOOKS[agent.method].colour, "-" if not variation else _DASHES[(variation - 1) % 3])
            drawn[agent.method] += 1
        _reference_lines(axis, records, world)
        axis.set(title=world, xlabel="frames", xlim=(0, None), ylim=(0, 103))
    axes[0, 0].set_ylabel(f"success of the last {WINDOW} episodes [%]")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def draw_curve(axis: Axes, agent: Agent, colour: str, dashes: str = "-", label: str = "") -> None:
    """One agent: its seeds thin; where all have a curve, their mean and band too."""
    seeds = [running_success(curve) for _, curve in agent.curves.groupby("seed")]
    for frames, success in seeds:
        axis.plot(frames, success, color=colour, linewidth=0.5, alpha=0.45, linestyle=dashes)
    starts = [frames[0] for frames, _ in seeds if len(frames)]
    if len(starts) < len(seeds):
        return  # a seed that finished too few episodes has no curve, and the others no mean
    grid = np.unique(np.concatenate([frames for frames, _ in seeds]))
    grid = grid[grid >= max(starts)]
    stacked = np.stack([np.interp(grid, *seed) for seed in seeds])
    middle, low, high = band(stacked, mean, generator(0, "band", agent.label, agent.world))
    if len(seeds) > 1:
        axis.fill_between(grid, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(grid, middle, color=colour, linestyle=dashes, label=label or agent.label)


def _reference_lines(axis: Axes, records: Records, world: str) -> None:
    for agent in agents(records):
        if agent.method in ("zero-shot", "random") and agent.world == world and not agent.varied:
            level = agent.estimate(agent.policy)
            if level:
                axis.axhline(level.value, color=LOOKS[agent.method].colour, linestyle=(0, (5, 3)), label=agent.label)


# --- Sample efficiency


def efficiency_table(records: Records) -> Table:
    """Agent by agent: mean success while training, frames to 80 %, and their ratio to the pretrained agent's."""
    learners = [each for each in agents(records) if learns(each)]
    rows, lines = [], []
    for agent in learners:
        rivals = [each for each in learners if each.method == "glam" and each.world == agent.world]
        usual = min(rivals, key=lambda each: bool(each.varied), default=agent)
        efficiency = mean_success(agent)
        ratio = None if usual is agent else _ratio(usual, agent)
        rows.append(_row(agent, efficiency, ratio))
        lines.append(_line(agent, efficiency, ratio))
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _NOTES)


_NOTES = (
    "sample efficiency: the mean over updates of the success of the episodes that ended in them, as in the paper, "
    "[95 % interval] over seeds; agents of one seed have none. Short episodes end first and flatter early updates",
    f"frames to {LEVEL} %: when the last {WINDOW} training episodes reach it, seed by seed; short episodes finish "
    "first, so early values flatter all agents alike",
    "times GLAM's: ratio of the mean frames [95 % bootstrap interval over seeds]; a seed that did not get there "
    "counts with all of its frames, so that ≥ is a lower bound",
    "published, on MixedTrainLocal with Flan-T5-large: GFlan-T5 reaches 80 % at 250,000 frames and 90 % at 600,000; "
    "NPAE and DRRN stay below 20 % and symbolic PPO is close to 40 % at 1,500,000",
)


def mean_success(agent: Agent) -> Estimate:
    """The sample efficiency of an agent in percent, with its 95 % interval over seeds."""
    return two_level_interval(training_means(agent.curves), generator(0, "efficiency", agent.label, agent.world))


def reached(agent: Agent) -> tuple[np.ndarray, bool]:
    """(frames to the level [seeds], whether some seed never got there and counts with all of its frames)."""
    each = [curve for _, curve in agent.curves.groupby("seed")]
    found, last = [frames_to(curve) for curve in each], [float(curve["frames"].to_numpy().max()) for curve in each]
    return np.array([frames or end for frames, end in zip(found, last, strict=True)]), None in found


def _ratio(usual: Agent, agent: Agent) -> tuple[Estimate, bool]:
    (theirs, unfinished), (ours, _) = reached(agent), reached(usual)
    return ratio_interval(theirs, ours, generator(0, "frames", agent.label, agent.world)), unfinished


def _row(agent: Agent, efficiency: Estimate, ratio: tuple[Estimate, bool] | None) -> dict[str, str]:
    several = len(reached(agent)[0]) > 1
    return {
        "agent": agent.label,
        "world": agent.world.removeprefix("BabyAI-").removesuffix("-v0"),
        "sample efficiency": measured(efficiency, "success") if several else f"{efficiency.value:.0f} %",
        f"frames to {LEVEL} %": frames_cell(agent),
        "times GLAM's": _ratio_cell(*ratio) if ratio else "–",
    }


def frames_cell(agent: Agent) -> str:
    """`5.1k, 6.1k, not in 16.4k`: one entry a seed."""
    cells = []
    for _, curve in agent.curves.groupby("seed"):
        found, last = frames_to(curve), float(curve["frames"].to_numpy().max())
        cells.append(f"{found / 1000:.1f}k" if found else f"not in {last / 1000:.1f}k")
    return ", ".join(cells)


def _ratio_cell(ratio: Estimate, unfinished: bool) -> str:
    return f"{'≥ ' if unfinished else ''}{ratio.value:.1f} [{ratio.low:.1f}, {ratio.high:.1f}]"


def _line(agent: Agent, efficiency: Estimate, ratio: tuple[Estimate, bool] | None) -> dict[str, Any]:
    line: dict[str, Any] = {"agent": agent.label, "method": agent.method, "world": agent.world}
    line |= {"seeds": len(reached(agent)[0])}
    line |= {"efficiency": efficiency.value, "efficiency_low": efficiency.low, "efficiency_high": efficiency.high}
    line |= {f"frames_to_{LEVEL}": reached(agent)[0].mean()}
    if ratio:
        line |= {"ratio": ratio[0].value, "ratio_low": ratio[0].low, "ratio_high": ratio[0].high, "bound": ratio[1]}
    return line
