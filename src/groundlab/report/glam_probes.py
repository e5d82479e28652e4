"""How the policy changes on fixed prompts while it learns: the paper's 11 probes, logged before every update.

The prompts were written by hand, partly in another style than the agent's own (spec glam-environment 4.5, Q7), so what
counts is the direction in which a probability moves, not its level. Drawn only for runs that logged them
(`probe_template`). Read first: `probe_actions`. Called from: exhibits.py. Read next: `glam_learning.py`.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.report.glam import Agent, agents
from groundlab.report.records import Records
from groundlab.report.style import new_figure

ACTIONS = {
    "turn left": "#0072B2",
    "turn right": "#56B4E9",
    "go forward": "#D55E00",
    "pick up": "#009E73",
    "drop": "#CC79A7",
    "toggle": "#8C6D31",
    "sleep": "#999999",
    "do nothing": "#4C4C4C",
    "think": "#7A4B9A",
}
"""The text actions in their order (the first 3, 6 or 9 are an action space) and how each is drawn."""
PROBES = (
    ("go to the green ball: 3 ahead", "go forward"),
    ("go to the green ball: 2 left", "turn left"),
    ("open the purple door: the key 2 left", "turn left"),
    ("open the purple door: the key 1 ahead", "pick up"),
    ("open the purple door: 1 ahead, key in hand", "toggle"),
    ("pick up green box: 2 right", "turn right"),
    ("pick up green box: 1 ahead", "pick up"),
    ("put blue ball next to red box: 2 ahead", "drop"),
    ("pick up the blue ball then ...: 2 left", "turn left"),
    ("... after you pick up the blue ball: 2 left", "turn left"),
    ("... then pick up ... red box: 1 left, key in hand", "drop"),
)
"""What each probe tells, and the sensible answer (spec glam-environment 4.5)."""
_COUNTS = {1: len(PROBES), 2: 2}  # by `probe_template`


def logged(records: Records) -> Agent | None:
    """The pretrained agent with the usual settings, in the first world where it logged probes."""
    found = (each for each in agents(records) if each.method == "glam" and not each.varied and "probe" in each.curves)
    return next((each for each in found if len(each.curves["probe"].dropna())), None)


def probabilities(curves: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(updates before each row [U], probabilities [seeds, U, prompts, actions]) of one agent's training records.

    Updates are those that all seeds have: an unfinished seed shortens the picture.
    """
    rows = curves.loc[curves["probe"].notna()]
    prompts = _COUNTS[rows["settings"].iloc[0]["probe_template"]]
    seeds = [np.array(list(each.sort_values("iteration")["probe"])) for _, each in rows.groupby("seed")]
    shortest = min(len(each) for each in seeds)
    return np.arange(shortest), np.stack([each[:shortest].reshape(shortest, prompts, -1) for each in seeds])


def probe_actions(records: Records) -> Figure | None:
    """One panel a probe: the probability of each action over the updates, mean of the seeds, the band their range."""
    agent = logged(records)
    if agent is None:
        return None
    updates, found = probabilities(agent.curves)
    rows = -(-(found.shape[2] + 1) // 4)
    figure, axes = new_figure(11.5, 0.6 + 2.4 * rows, rows, 4, sharex=True, sharey=True)
    panels = list(axes.flat)
    for number, axis in enumerate(panels[: found.shape[2]]):
        _draw_probe(axis, number, updates, found[:, :, number])
    for axis in panels[found.shape[2] :]:
        axis.set_axis_off()
    for axis in panels[max(0, found.shape[2] - 4) : found.shape[2]]:
        axis.set_xlabel("updates")
        axis.tick_params(labelbottom=True)
    for axis in axes[:, 0]:
        axis.set_ylabel("probability")
    handles, labels = panels[0].get_legend_handles_labels()
    legend = panels[found.shape[2]].legend(handles, labels, loc="center", title=f"{agent.label}\n{agent.world}")
    for line in legend.get_lines():
        line.set_linewidth(1.6)
    return figure


def _draw_probe(axis: Axes, number: int, updates: np.ndarray, found: np.ndarray) -> None:
    """found: [seeds, U, actions]; the sensible action is drawn thicker."""
    told, sensible = PROBES[number]
    for place, (name, colour) in enumerate(list(ACTIONS.items())[: found.shape[2]]):
        seeds = found[:, :, place]
        axis.fill_between(updates, seeds.min(0), seeds.max(0), color=colour, alpha=0.15, linewidth=0)
        axis.plot(updates, seeds.mean(0), color=colour, linewidth=2.4 if name == sensible else 1.0, label=name)
    axis.set_title(f"{told}\nsensible: {sensible}", fontsize=8)
    axis.set_ylim(0, 1)
