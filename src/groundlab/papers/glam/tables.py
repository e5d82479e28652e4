"""The GLAM paper's tables: its agents side by side, how fast each learns, and what is left under other words.

A policy that reads its goal does worse when every prompt names one mission. That control stands in every table: what
a policy loses by it tells whether its other scores mean anything. Published values are those that could be recovered
from the paper's figures (docs/papers/glam-reference.md#env-5-3); they are of Flan-T5-large on MixedTrainLocal.

Sample efficiency is the mean over updates of the success of the episodes that end in them; the paper logs a window of
32 episodes or more that begins with zeros (docs/papers/glam-method.md#agents-7). The frames to a level stand seed by
seed, and as a ratio to the pretrained agent's. They may be bounds: a seed that never gets there counts with all frames
that it had, and one that is there where its curve begins, after 100 finished episodes, may have got there earlier (≤).
"""

import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from groundlab.papers.glam.arms import CONTROL, EIGHT, GlamArm, glam_arms
from groundlab.report.arms import short
from groundlab.report.claims import load_claims
from groundlab.report.exhibits import exhibit
from groundlab.report.records import FIRST_FINISHED, WINDOW, Records, running_success
from groundlab.report.statistics import Estimate, ratio_interval
from groundlab.report.tables import DASH, Column, Table, written

# --- Agents


@exhibit("glam-agents", "Success of every agent, and the control of a fixed mission", methods=("glam",))
def agents_table(records: Records) -> Table:
    """Agent by agent: success in its own world and among eight objects, each with the control."""
    played = [each for each in glam_arms(records) if each.scores(each.policy) is not None]
    trained_in = {each.world for each in played if each.kind == "glam"}
    shown = [each for each in played if each.world in trained_in]
    eight = {each.kind: each for each in played if each.world == EIGHT}

    def among_eight(agent: GlamArm) -> Estimate | None:
        own = eight.get(agent.kind) if agent.policy == "random" else None
        return agent.estimate(agent.played_in(EIGHT)) or (own.estimate("random") if own else None)

    columns: list[Column[GlamArm]] = [
        Column("agent", lambda agent: agent.label),
        Column("world", lambda agent: short(agent.world)),
        Column("sampled", lambda agent: agent.estimate(agent.policy), "success"),
        Column("as they finish", lambda agent: agent.estimate(FIRST_FINISHED), "success"),
        Column("one mission", lambda agent: agent.estimate(agent.played_in(CONTROL)), "success"),
        Column("lost", lambda agent: agent.cost(""), "success"),
        Column("greedy", lambda agent: agent.estimate("greedy"), "success"),
        Column("steps", lambda agent: agent.estimate(agent.policy, "steps"), "steps"),
        Column("8 objects", among_eight, "success"),
        Column("8, one mission", lambda agent: agent.estimate(agent.played_in(f"{EIGHT} {CONTROL}")), "success"),
        Column("8, lost", lambda agent: agent.cost(EIGHT), "success"),
    ]
    return Table.of(shown, columns, _AGENT_NOTES, data=[line for each in shown for line in _agent_lines(each)])


_AGENT_NOTES = (
    "success in percent, mean [95 % interval] over seeds and layouts; sampled: actions are drawn from the policy",
    "as they finish: the first episodes that end among restarting environments, as in training and in the paper's "
    "figures; short ones come first, so it is the column to hold training success against, and an untuned model's",
    "one mission: the same evaluation when every prompt names one fixed mission; lost: the points that this costs. "
    "A policy that loses nothing does not read its goal",
)


def _agent_lines(agent: GlamArm) -> list[dict[str, Any]]:
    """One line of numbers a policy."""
    lines = []
    for policy in agent.evaluations["policy"].unique():
        for metric in ("success", "steps", "return"):
            estimate, scores = agent.estimate(policy, metric), agent.scores(policy, metric)
            if estimate is not None and scores is not None:
                line = {"agent": agent.label, "method": agent.kind, "world": agent.world, "policy": policy}
                line |= {"metric": metric, "mean": estimate.value, "low": estimate.low, "high": estimate.high}
                lines.append(line | {"seeds": scores.shape[0], "layouts": scores.shape[1]})
    return lines


# --- Sample efficiency

LEVEL = 80  # percent


@exhibit("glam-efficiency", "Sample efficiency, and the frames that each agent needs", methods=("glam",))
def efficiency_table(records: Records) -> Table:
    """Agent by agent: mean success while training, frames to 80 %, and their ratio to the pretrained agent's."""
    learners = [each for each in glam_arms(records) if each.learns]

    def ratio(agent: GlamArm) -> tuple[Estimate | None, str | None]:
        """(frames that it needs, as a multiple of the usual agent's; the sign of what that bounds, if it does)."""
        rivals = [each for each in learners if each.kind == "glam" and each.world == agent.world]
        usual = min(rivals, key=lambda each: not each.usual, default=agent)
        if usual is agent:
            return None, None
        at_least, at_most = _unfinished(agent) or _earlier(usual), _earlier(agent) or _unfinished(usual)
        sign = "≶" if at_least and at_most else "≥" if at_least else "≤" if at_most else ""
        theirs, ours = (np.array([each.frames for each in reached_by_seed(side)]) for side in (agent, usual))
        return ratio_interval(theirs, ours), sign

    def times(agent: GlamArm) -> str:
        found, sign = ratio(agent)
        return f"{sign or ''} {written(found, '{:.1f}')}".strip()

    columns: list[Column[GlamArm]] = [
        Column("agent", lambda agent: agent.label),
        Column("method", lambda agent: agent.kind, caption=""),
        Column("world", lambda agent: agent.world, short),
        Column("seeds", lambda agent: len(agent.seeds), caption=""),
        Column("efficiency", lambda agent: agent.efficiency(), "success", "sample efficiency"),
        *FRAMES,
        Column("ratio", lambda agent: ratio(agent)[0], caption="times GLAM's", text=times),
        Column("bound", lambda agent: ratio(agent)[1], caption=""),
    ]
    return Table.of(learners, columns, _EFFICIENCY_NOTES)


_EFFICIENCY_NOTES = (
    "sample efficiency: the mean over updates of the success of the episodes that ended in them, [95 % interval] over "
    "seeds; agents of one seed have none. Short episodes end first and flatter, weak agents most: the paper's window "
    "of 32 episodes or more begins with zeros and gives less (docs/papers/glam-reference.md#counting)",
    f"frames to {LEVEL} %: when the last {WINDOW} training episodes reach it, seed by seed; short episodes finish "
    f"first, so early values flatter, weak agents most. ≤: the curve begins there, with the first {WINDOW} episodes, "
    "so it may have been earlier",
    "times GLAM's: ratio of the mean frames [95 % interval over seeds]; a seed that did not get there counts with all "
    "of its frames. ≥: the true ratio is at least this; ≤: at most this; ≶: it may lie on either side, because some "
    "seeds never got there and others may have been there before their curve begins",
    "published, on MixedTrainLocal with Flan-T5-large: GFlan-T5 reaches 80 % at 250,000 frames and 90 % at 600,000; "
    "NPAE and DRRN stay below 20 % and symbolic PPO is close to 40 % at 1,500,000",
)


class Reached(NamedTuple):
    """When a run reached a level."""

    frames: float
    """All of its frames where it never got there."""
    unfinished: bool = False
    """It never got there."""
    earlier: bool = False
    """It is there where its curve begins, so it may have got there earlier."""

    def __str__(self) -> str:
        return f"{'not in ' if self.unfinished else '≤ ' if self.earlier else ''}{self.frames / 1000:.1f}k"


def reached(curve: pd.DataFrame, level: float = LEVEL) -> Reached:
    """When the running success of one run first reached a level."""
    frames, success = running_success(curve)
    there = np.flatnonzero(success >= level)
    if not len(there):
        return Reached(float(curve["frames"].to_numpy().max()), unfinished=True)
    return Reached(float(frames[there[0]]), earlier=bool(there[0] == 0))


def reached_by_seed(agent: GlamArm) -> list[Reached]:
    """When each seed of an agent reached the level, in their order."""
    return [reached(curve) for _, curve in agent.curves.groupby("seed")]


def _unfinished(agent: GlamArm) -> bool:
    return any(each.unfinished for each in reached_by_seed(agent))


def _earlier(agent: GlamArm) -> bool:
    return any(each.earlier for each in reached_by_seed(agent))


FRAMES: list[Column[GlamArm]] = [
    Column(
        f"frames_to_{LEVEL}",
        lambda agent: float(np.mean([each.frames for each in reached_by_seed(agent)])),
        caption=f"frames to {LEVEL} %",
        text=lambda agent: ", ".join(map(str, reached_by_seed(agent))),
    ),
    Column("unfinished", _unfinished, caption=""),
    Column("earlier", _earlier, caption=""),
]


# --- Other words, worlds and actions

_OTHER_TASK = "BabyAI-PickUpSeqPickUpLocal-v0"
TESTS = {
    "": "the training task",
    EIGHT: "eight objects instead of four",
    "BabyAI-MixedTestLocal-v0": "unseen pairs of adjective and noun",
    "other_name_same_categories": "unseen nouns: chair, table, car",
    "adj_synonym": "synonyms of the colours",
    "no_meaning_nouns": "invented nouns",
    "no_meaning_adj": "invented colours",
    "no_meaning_words": "invented nouns and colours",
    "change_intro_first_personne_speaker": "goal told as a wish of the speaker",
    "change_intro_first_personne_agent": "goal told as a duty",
    _OTHER_TASK: "new composition: pick up, then pick up",
    "synonyms": "other words for the actions",
    "BabyAI-GoToFrench-v0": "another language: French",
}
"""Test -> what it is."""


def published(test: str) -> str | None:
    """`(b) 87 %, -2 %`: the panel of the paper's Fig. 4, GFlan-T5 in it, and the change against its training task."""
    levels = {
        (claim.select.world, claim.select.policy): (claim.locus.split()[2], float(claim.published["success"]))
        for claim in load_claims("glam")
        if claim.select and re.match(r"Fig. 4 \(.\) GFlan-T5,", claim.locus)
    }
    for (world, policy), (panel, level) in levels.items():
        if policy == (f"sampled {test}" if test else FIRST_FINISHED):
            change = 100 * (level / levels[world, FIRST_FINISHED][1] - 1)
            return f"{panel} {level:.0f} %" + (f", {change:.0f} %" if test and test != _OTHER_TASK else "")
    return None


@exhibit("glam-generalization", "Other words, worlds and actions than in training", methods=("glam",))
def generalization(records: Records) -> Table:
    """Tests by agents: success under other words, worlds and actions, and the change against the training task.

    Agents of other language models have a table of their own, `glam-doses`, and so have later papers' options.
    """
    every = [each for each in glam_arms(records) if each.kind != "glam-extended"]
    others = [test for test in TESTS if test not in ("", EIGHT)]
    tested = [
        each
        for each in every
        if each.study != "model" and any(each.scores(each.played_in(test)) is not None for test in others)
    ]
    chance = {each.world: each for each in every if each.kind == "random"}
    own_world = next((each.world for each in tested if each.kind == "glam"), "")
    rows, lines = [], []
    for test, title in TESTS.items():
        if all(agent.scores(agent.played_in(test)) is None for agent in tested):
            continue
        row = {"test": title}
        for agent in tested:
            estimate = agent.estimate(agent.played_in(test))
            where = f" ({short(agent.world)})" if agent.world != own_world else ""
            row[agent.label + where] = written(estimate, "success") + _change(agent, estimate, test)
            if estimate is not None:
                line = {"test": test, "agent": agent.label, "world": agent.world, "mean": estimate.value}
                lines.append(line | {"low": estimate.low, "high": estimate.high})
        world = test if test.startswith("BabyAI") else own_world
        row["random"] = written(chance[world].estimate("random"), "success") if world in chance else "–"
        rows.append(row | {"paper's GFlan-T5": published(test) or DASH})
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _TEST_NOTES)


_TEST_NOTES = (
    "success in percent, mean [95 % interval]; in brackets the relative change against the same agent's training task, "
    "whose layouts are more or others: no comparison, which the claims make, in points on the layouts of both",
    "rows count only for agents that lose by the control (first table): others do not read what is changed",
    "paper: Flan-T5-large, MixedTrainLocal, 1,000 episodes, read off its figure (± 0.5 %); (f): trained on GoToLocal",
)


def _change(agent: GlamArm, estimate: Estimate | None, test: str) -> str:
    """` (-13 %)` against the agent's own training task."""
    base = agent.estimate(agent.policy)
    if estimate is None or not test or base is None or base.value == 0:
        return ""
    return f" ({100 * (estimate.value / base.value - 1):+.0f} %)"
