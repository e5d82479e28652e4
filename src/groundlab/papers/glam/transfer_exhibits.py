"""What an agent's success stands on: which kinds of missions it fulfils, what is left in other words and worlds, and
what scores per word or prompts of another format change.
"""

import re
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.papers.glam.arms import MIXED, GlamArm, glam_arms, temperature
from groundlab.report.arms import short
from groundlab.report.claims import load_claims
from groundlab.report.curves import seeds_in_words
from groundlab.report.exhibits import exhibit
from groundlab.report.records import FIRST_FINISHED, Records, table
from groundlab.report.statistics import Estimate, bounds_of, mean_interval
from groundlab.report.style import PUBLISHED_COLOUR, legend_below, new_figure
from groundlab.report.tables import Column, Table, written

# --- By kind of mission

MISSIONS = {
    "goto": "go to",
    "pickup": "pick up",
    "open": "open a locked door",
    "putnext": "put next to",
    "pick_up_seq_go_to": "pick up, go to",
}
"""The mixed task's kinds of missions in the order of the layouts, as stored and in words."""


def by_kind(agent: GlamArm, policy: str) -> dict[str, Estimate]:
    """Kind -> success in percent on the fixed list with its 95 % interval; empty for a policy that was not played."""
    rows = agent.episodes(policy)
    if rows is None or "kind" not in rows:
        return {}
    scores = {kind: table(rows.loc[rows["kind"] == kind], "success") for kind in MISSIONS if kind in set(rows["kind"])}
    bounds = bounds_of("success")
    return {kind: mean_interval(each, trained=agent.trained, bounds=bounds) for kind, each in scores.items()}


@exhibit("glam-kinds", "Success on the mixed task by kind of mission", methods=("glam",))
def kinds_table(records: Records) -> Table | None:
    """Agent by agent, drawn actions and the likeliest one; None where nobody played the mixed task."""
    readable, lines = [], []
    for agent in (each for each in glam_arms(records) if each.world == MIXED):
        for policy in dict.fromkeys((agent.policy, "greedy")):
            found, whole = by_kind(agent, policy), agent.estimate(policy)
            if not found or whole is None:
                continue
            label = agent.label + (", likeliest action" if policy == "greedy" else "")
            cells = {MISSIONS[kind]: written(estimate, "success") for kind, estimate in found.items()}
            readable.append({"agent": label, **cells, "all": written(whole, "success")})
            for kind, estimate in (*found.items(), ("all", whole)):
                line: dict[str, Any] = {"agent": agent.label, "policy": policy, "kind": kind, "mean": estimate.value}
                lines.append(line | {"low": estimate.low, "high": estimate.high, "seeds": len(agent.seeds)})
    if not lines:
        return None
    notes = (
        "success in percent, mean [95 % interval] over seeds and layouts; each layout counts once, a fifth of them of "
        "each kind. As episodes finish, which is how the curves count, short kinds weigh more",
    )
    return Table(pd.DataFrame(lines), pd.DataFrame(readable), notes)


# --- In other words and worlds: the paper's Fig. 4

TESTS = {
    "training task": "",
    "unseen nouns": "other_name_same_categories",
    "invented words": "no_meaning_words",
    "two tasks in a row": "BabyAI-PickUpSeqPickUpLocal-v0",
    "other words for the actions": "synonyms",
    "French": "BabyAI-GoToFrench-v0",
}
"""What the paper's panels (a) to (f) change, and the test here."""
_PUBLISHED = {"GFlan-T5": "glam", "NPAE": "npae", "DRRN": "drrn"}
_AGENTS = (*_PUBLISHED.values(), "random")
_WIDTH = 0.8  # of all bars of a test


def published_levels() -> dict[str, dict[str, float]]:
    """Kind of agent -> panel -> the paper's success in percent, from its claims."""
    found: dict[str, dict[str, float]] = {}
    for claim in load_claims("glam"):
        match = re.match(r"Fig. 4 \(.\) (\S+), (.+)", claim.locus)
        if match and match[1] in _PUBLISHED and match[2] in TESTS and "success" in claim.published:
            found.setdefault(_PUBLISHED[match[1]], {})[match[2]] = float(claim.published["success"])
    return found


@exhibit("glam-tests", "Success in other words, worlds and actions, beside the paper's", methods=("glam",))
def tests_figure(records: Records) -> Figure | None:
    """One panel a training world, one group of bars a test, one bar an agent: seeds as points, 95 % intervals.

    The line across a bar is the paper's level of that agent, which was trained on the mixed task, for French on
    GoToLocal. None where no agent was tested in other words.
    """
    agents = [each for each in glam_arms(records) if each.kind in _AGENTS and each.usual]
    tested = (each for each in agents if each.kind == "glam" and each.scores("sampled synonyms") is not None)
    worlds = list(dict.fromkeys(each.world for each in tested))
    if not worlds:
        return None
    figure, axes = new_figure(9.0, 0.8 + 3.4 * len(worlds), len(worlds), 1, sharey=True)
    for axis, world in zip(axes[:, 0], worlds, strict=True):
        _draw_tests(axis, [each for each in agents if each.world == world], agents)
        shown = [each for each in agents if each.world == world and each.kind != "random"]
        axis.set(title=f"trained in {short(world)}, {seeds_in_words(shown)}", ylim=(0, 103), ylabel="success [%]")
    legend_below(figure, axes[:, 0], columns=3)
    return figure


def _draw_tests(axis: Axes, agents: list[GlamArm], every: list[GlamArm]) -> None:
    """The bars of one world; `every`: all agents, for chance in the worlds that are tests."""
    learners = [each for each in agents if each.kind != "random"]
    tests = {
        name: test for name, test in TESTS.items() if any(each.estimate(each.played_in(test)) for each in learners)
    }
    chance = {each.world: each for each in every if each.kind == "random"}
    paper, width = published_levels(), _WIDTH / len(learners)
    for index, agent in enumerate(learners):
        for at, (name, test) in enumerate(tests.items()):
            x = at + width * (index - (len(learners) - 1) / 2)
            if (mean := agent.estimate(agent.played_in(test))) is None:
                continue
            _draw_bar(axis, agent, test, mean, x, width)
            if (level := paper.get(agent.kind, {}).get(name)) is not None:
                ends = (x - width / 2, x + width / 2)
                axis.hlines(level, *ends, colors=PUBLISHED_COLOUR, label="the paper's Fig. 4")
    for at, test in enumerate(tests.values()):
        random = chance.get(test if test.startswith("BabyAI") else agents[0].world)
        if random is not None and (level := random.estimate("random")):
            ends, colour = (at - _WIDTH / 2, at + _WIDTH / 2), random.style.colour
            axis.hlines(level.value, *ends, colors=colour, linestyles="dashed", label=random.label)
    axis.set_xticks(range(len(tests)), [name.replace(" for ", "\nfor ") for name in tests])


def _draw_bar(axis: Axes, agent: GlamArm, test: str, mean: Estimate, x: float, width: float) -> None:
    """The mean of all seeds, its interval, and each seed as a point."""
    axis.bar(x, mean.value, 0.9 * width, color=agent.style.colour, alpha=0.75, label=agent.label)
    scores = agent.scores(agent.played_in(test))
    if scores is not None:
        axis.plot(np.full(len(scores), x), scores.mean(1), ".", color="black", markersize=3, alpha=0.5)
    if mean.known:
        axis.errorbar(x, mean.value, mean.bars, color="black", linewidth=1, capsize=2)


# --- Options of later papers

FORMATS = {
    "glam": "GLAM's format",
    "reordered": "the goal behind the observations",
    "xml": "elements",
    "prose": "sentences",
}


@exhibit("glam-options", "Scores per word, and prompts in four formats", methods=("glam-extended",), beside=())
def options_table(records: Records) -> Table | None:
    """Agent by agent: success while it learns, at the end, in other words for the actions and in each format."""
    agents = [each for each in glam_arms(records) if each.kind == "glam-extended" and each.learns]

    def in_format(agent: GlamArm, name: str) -> Estimate | None:
        own = agent.settings["prompt_format"] == name
        return agent.estimate("sampled" if own else f"sampled format-{name}")

    columns: list[Column[GlamArm]] = [
        Column("option", _option),
        Column("learning", lambda agent: agent.efficiency(), "success", "while it learns"),
        Column("sampled", lambda agent: agent.estimate("sampled"), "success", "at the end"),
        Column("as they finish", lambda agent: agent.estimate(FIRST_FINISHED), "success"),
        Column("synonyms", lambda agent: agent.estimate("sampled synonyms"), "success", "other words for the actions"),
        *(Column(name, lambda agent, name=name: in_format(agent, name), "success", FORMATS[name]) for name in FORMATS),
    ]
    return Table.of(agents, columns, _OPTIONS_NOTES) if agents else None


def _option(agent: GlamArm) -> str:
    """Its normalisation and format where they are not GLAM's, and its temperature."""
    own = {"normalisation": "none", "prompt_format": "glam"}
    options = [f"{key.replace('_', ' ')} {value}" for key in own if (value := agent.settings[key]) != own[key]]
    return f"{', '.join(options) or 'none'}, temperature {temperature(agent.settings):g}"


_OPTIONS_NOTES = (
    "success in percent, mean [95 % interval] over seeds and layouts, in one room with one pretrained model; an agent "
    "without an option is GLAM's own, to the bit",
    "formats say the same in other orders and signs; mixed: a checksum of each prompt chooses its format",
)
