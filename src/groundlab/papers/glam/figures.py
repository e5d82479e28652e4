"""The GLAM paper's figures: how its agents learn, and what the policy answers on fixed prompts meanwhile."""

from collections import Counter

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from groundlab.papers.glam.arms import MIXED, GlamArm, glam_arms
from groundlab.report.claims import load_claims
from groundlab.report.curves import (
    FILLING,
    RUNNING_SUCCESS,
    draw_running_success,
    in_thousands,
    label_ends,
    seeds_in_words,
)
from groundlab.report.exhibits import exhibit
from groundlab.report.records import FIRST_FINISHED, Records
from groundlab.report.style import COLOURS, PUBLISHED_COLOUR, legend_below, new_figure

_DASHES = ("-", "--", ":", "-.")  # of the usual arm of a method, and of its variants
_COLUMNS = 4  # panels beside each other
_CROWDED = 8  # curves that a panel can hold

# --- Curves


@exhibit("glam-curves", "Success while the agents learn", methods=("glam",))
def curves(records: Records) -> Figure:
    """Running success over frames, one panel a world or study: seeds thin, their mean thick, their 95 % band shaded.

    The star at frame 0 is the model that GLAM's agents start from. Other amounts of pretraining have a figure of their
    own, `glam-dose-curves`, and so has the mixed task; other temperatures and the options of later papers are left to
    tables.
    """
    every = glam_arms(records)
    return _draw_curves(every, _panels([each for each in _compared(every) if each.world != MIXED]))


@exhibit("glam-fig2", "Success on the mixed task while the agents learn", methods=("glam",))
def mixed_curves(records: Records) -> Figure | None:
    """The paper's Fig. 2, drawn as `glam-curves`, with every pretrained model; None where nobody learnt this task."""
    every = glam_arms(records)
    panels = _panels([each for each in _compared(every, ("temperature",)) if each.world == MIXED])
    return _draw_curves(every, panels) if panels else None


def _compared(every: list[GlamArm], left_out: tuple[str, ...] = ("model", "temperature")) -> list[GlamArm]:
    """The learners whose curves are laid side by side, without those studies."""
    return [each for each in every if each.learns and each.study not in left_out and each.kind != "glam-extended"]


def _draw_curves(every: list[GlamArm], panels: list[tuple[str, str, list[GlamArm]]]) -> Figure:
    """A panel for each (world, what is varied, agents)."""
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(max(8.0, 1.6 + 4.8 * columns), 0.6 + 3.8 * rows, rows, columns, sharey=True)
    for axis, (world, varied, agents) in zip(axes.flat, panels, strict=False):
        variants = Counter[str]()
        for agent in agents:
            dashes = _DASHES[min(variants[agent.kind], len(_DASHES) - 1)]
            draw_running_success(axis, agent, agent.style.colour, linestyle=dashes)
            variants[agent.kind] += 1
        _reference_lines(axis, every, world)
        title = f"{world}: {varied}" if varied else world
        axis.set(title=f"{title}\n{seeds_in_words(agents)}\n{FILLING}", ylim=(0, 103))
        in_thousands(axis, "frames")
        axis.title.set_fontsize(8.5)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel(RUNNING_SUCCESS)
    if len(panels) == 1:
        label_ends(axes[0, 0])
    else:
        legend_below(figure, axes.flat)
    return figure


def _panels(learners: list[GlamArm]) -> list[tuple[str, str, list[GlamArm]]]:
    """(world, what is varied, agents) of each panel.

    One panel a world; where a method has more variants there than there are dashes, one for each study, with the usual
    agents in all of them. Where that would be a crowd, the numbers of actions are left to `glam-sizes`.
    """
    panels = []
    for world in dict.fromkeys(each.world for each in learners):
        agents = [each for each in learners if each.world == world]
        if len(agents) > _CROWDED:
            agents = [each for each in agents if each.study != "action_space"] or agents
        if max(Counter(each.kind for each in agents).values()) <= len(_DASHES):
            panels.append((world, "", agents))
            continue
        for study in dict.fromkeys(each.study for each in agents if each.study):
            panels.append((world, study, [each for each in agents if each.study in ("", study)]))
    return panels


def _reference_lines(axis: Axes, every: list[GlamArm], world: str) -> None:
    """What agents reach that do not learn, counted as the curves are where that was recorded."""
    for agent in every:
        shown = agent.usual or (world == MIXED and agent.study == "model")
        if shown and agent.world == world and not agent.learns:
            counted, listed = agent.estimate(FIRST_FINISHED), agent.estimate(agent.policy)
            if level := counted or listed:
                style = {"color": agent.style.colour, "linestyle": (0, (5, 3)), "linewidth": 1.1}
                label = agent.label if counted else f"{agent.label} (fixed list)"
                axis.axhline(level.value, label=label, **style)
                if agent.kind == "zero-shot":
                    axis.plot(
                        0, level.value, agent.style.marker, color=agent.style.colour, markersize=11, clip_on=False
                    )
    _published_level(axis, world)


def _published_level(axis: Axes, world: str) -> None:
    """The paper's level in this world, which belongs to more frames than are drawn: an arrow at the right edge."""
    for claim in load_claims("glam"):
        later = claim.select
        if later is None or (later.method, later.world) != ("glam", world):
            continue
        if later.frames and claim.kind == "paper" and "success" in claim.published:
            value = float(claim.published["success"])
            text = f"published:\n{value:g} % after {later.frames:,} frames"
            arrow = {"arrowstyle": "->", "color": PUBLISHED_COLOUR}
            at = ("axes fraction", "data")
            axis.annotate(text, (1.0, value), (0.93, value - 19), at, at, ha="right", fontsize=7.5, arrowprops=arrow)
            return


# --- Sizes: more actions, more objects

OBJECTS = {"BabyAI-GoToLocalS8N4-v0": 4, "BabyAI-GoToLocal-v0": 8, "BabyAI-GoToLocalS8N16-v0": 16}
"""The rooms of Fig. 3b and how many objects lie in each."""
_DODGE = 0.07  # between agents at one size


def sized(learners: list[GlamArm]) -> dict[str, dict[str, dict[int, GlamArm]]]:
    """What is counted -> kind -> number -> agent: of the kinds that were trained with several numbers and differ from
    their usual agents in nothing else.

    Actions are counted in the world where most agents of that sort were trained.
    """
    sorts = [each for each in learners if each.study in ("", "action_space")]
    worlds = Counter(each.world for each in sorts)
    found: dict[str, dict[str, dict[int, GlamArm]]] = {"actions": {}, "objects": {}}
    for each in sorts:
        actions = each.settings.get("action_space")
        if each.world == max(worlds, key=worlds.__getitem__) and isinstance(actions, int):
            found["actions"].setdefault(each.kind, {})[actions] = each
        if each.world in OBJECTS and each.usual:
            found["objects"].setdefault(each.kind, {})[OBJECTS[each.world]] = each
    several = {
        what: {kind: agents for kind, agents in kinds.items() if len(agents) > 1} for what, kinds in found.items()
    }
    return {what: kinds for what, kinds in several.items() if kinds}


@exhibit(
    "glam-sizes",
    "Sample efficiency with more actions and among more objects",
    methods=("glam",),
    beside=("npae", "drrn", "symbolic"),
)
def sizes(records: Records) -> Figure | None:
    """Success while each agent learns, by number of actions and of objects: seeds faint, means with 95 % intervals.

    None where agents were trained with one number only.
    """
    panels = sized([each for each in glam_arms(records) if each.learns])
    if not panels:
        return None
    figure, axes = new_figure(0.8 + 4.2 * len(panels), 4.0, 1, len(panels), sharey=True)
    for axis, (what, kinds) in zip(axes[0], panels.items(), strict=True):
        numbers = sorted({number for agents in kinds.values() for number in agents})
        for place, agents in enumerate(kinds.values()):
            _draw_sizes(axis, agents, numbers, _DODGE * (place - (len(kinds) - 1) / 2))
        axis.set_xticks(range(len(numbers)), [str(number) for number in numbers])
        shown = [each for agents in kinds.values() for each in agents.values()]
        axis.set(title=f"{what}\n{seeds_in_words(shown)}", xlabel=f"number of {what}", ylim=(0, 103))
    axes[0, 0].set_ylabel("success while learning [%]")
    legend_below(figure, axes[0])
    return figure


def _draw_sizes(axis: Axes, by_number: dict[int, GlamArm], numbers: list[int], aside: float) -> None:
    """The line of one kind, `aside` of the ticks so that intervals do not hide each other."""
    agents = [by_number[number] for number in sorted(by_number)]
    x = np.array([numbers.index(number) + aside for number in sorted(by_number)])
    style, estimates = agents[0].style, [each.efficiency() for each in agents]
    for at, each in zip(x, agents, strict=True):
        seeds = each.training_success().ravel()
        axis.plot(np.full(len(seeds), at), seeds, style.marker, color=style.colour, alpha=0.3, markersize=3)
    means = np.array([each.value for each in estimates])
    spread = np.hstack([each.bars if each.known else [[0], [0]] for each in estimates])
    look = {"color": style.colour, "marker": style.marker, "markersize": 6, "linewidth": 1.2, "elinewidth": 1.2}
    axis.errorbar(x, means, spread, label=style.label, capsize=3, **look)


# --- Probes: the policy on fixed prompts

ACTIONS = {
    "turn left": COLOURS["blue"],
    "turn right": COLOURS["sky"],
    "go forward": COLOURS["orange"],
    "pick up": COLOURS["green"],
    "drop": COLOURS["pink"],
    "toggle": COLOURS["olive"],
    "sleep": "#999999",
    "do nothing": COLOURS["grey"],
    "think": COLOURS["violet"],
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
"""What each probe describes, and the sensible answer (docs/papers/glam-method.md#env-4-5)."""
_COUNTS = {1: len(PROBES), 2: 2}  # by `probe_template`


def probed_arm(records: Records) -> GlamArm | None:
    """The pretrained agent with the usual settings, in the first world where it logged probes."""
    usual = (each for each in glam_arms(records) if each.name == "glam")
    return next((each for each in usual if "probe" in each.curves and len(each.curves["probe"].dropna())), None)


def probabilities(curves: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(updates before each row [U], probabilities [seeds, U, prompts, actions]) of one agent's training records.

    Updates are those that all seeds have: an unfinished seed shortens the picture.
    """
    rows = curves.loc[curves["probe"].notna()]
    prompts = _COUNTS[rows["settings"].iloc[0]["probe_template"]]
    seeds = [np.array(list(each.sort_values("iteration")["probe"])) for _, each in rows.groupby("seed")]
    shortest = min(len(each) for each in seeds)
    return np.arange(shortest), np.stack([each[:shortest].reshape(shortest, prompts, -1) for each in seeds])


@exhibit(
    "glam-probe-actions",
    "The policy on fixed prompts while it learns: the probability of each action, update by update",
    methods=("glam",),
    beside=(),
)
def probe_actions(records: Records) -> Figure | None:
    """One panel a probe: the probability of each action over the updates, mean of the seeds, the band their range."""
    agent = probed_arm(records)
    if agent is None:
        return None
    updates, seeds = probabilities(agent.curves)
    prompts = seeds.shape[2]
    rows = -(-(prompts + 1) // 3)
    figure, axes = new_figure(9.0, 0.6 + 2.3 * rows, rows, 3, sharex=True, sharey=True)
    panels = list(axes.flat)
    for number, axis in enumerate(panels[:prompts]):
        _draw_probe(axis, number, updates, seeds[:, :, number])
    for axis in panels[prompts:]:
        axis.set_axis_off()
    for axis in panels[max(0, prompts - 3) : prompts]:
        axis.set_xlabel("updates")
        axis.tick_params(labelbottom=True)
    for axis in axes[:, 0]:
        axis.set_ylabel("probability")
    handles, labels = panels[0].get_legend_handles_labels()
    title = f"{agent.label}, {seeds_in_words([agent])}\n{agent.world}\nthick: the sensible action"
    legend = panels[prompts].legend(handles, labels, loc="center", title=title)
    for line in legend.get_lines():
        line.set_linewidth(1.6)
    return figure


def _draw_probe(axis: Axes, number: int, updates: np.ndarray, seeds: np.ndarray) -> None:
    """seeds: [seeds, U, actions]; the sensible action is drawn thicker."""
    description, sensible = PROBES[number]
    for (name, colour), values in zip(ACTIONS.items(), np.moveaxis(seeds, 2, 0), strict=False):
        axis.fill_between(updates, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
        axis.plot(updates, values.mean(0), color=colour, linewidth=2.4 if name == sensible else 1.0, label=name)
    axis.set_title(f"{description}\nsensible: {sensible}", fontsize=8)
    axis.set_ylim(0, 1)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
