"""The exhibits of the GLAM paper: its agents side by side, and the generalisation table.

A policy that reads its goal does worse when every prompt names one mission. That control stands in every table: what
a policy loses by it tells whether its other scores mean anything. Published values are those that could be recovered
from the paper's figures (spec glam-environment 5.3); they are of Flan-T5-large on MixedTrainLocal.
Read first: `Agent`, `agents_table`. Read next: `glam_learning.py` (curves, sample efficiency), `glam_doses.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from groundlab.core.seeding import generator
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records, table
from groundlab.report.statistics import Estimate, difference_interval, two_level_interval
from groundlab.report.style import PUBLISHED_COLOUR, Look
from groundlab.report.tables import Table, measured

LOOKS = {
    "glam": Look("pretrained LM, PPO (GLAM)", "#D55E00", "o"),
    "aflan": Look("pretrained LM, action head", "#CC79A7", "P"),
    "npe": Look("embeddings only, scoring (NPE)", "#0072B2", "s"),
    "npae": Look("embeddings only, action head (NPAE)", "#56B4E9", "^"),
    "npa": Look("random weights, action head (NPA)", "#7A4B9A", "v"),
    "drrn": Look("DRRN", "#009E73", "D"),
    "symbolic": Look("symbolic PPO", "#8C6D31", "X"),
    "cloning": Look("cloning", "#4C4C4C", "p"),
    "zero-shot": Look("LM without tuning", "#999999", "*"),
    "random": Look("random", "#E69F00", "d"),
    "bot": Look("bot", PUBLISHED_COLOUR, "h"),
}
EIGHT = "BabyAI-GoToLocal-v0"
CONTROL = "fixed-mission"
FIRST_FINISHED = "first-finished"
_OWN_POLICY = {"random": "random", "bot": "bot"}
_VARIED = (
    "model",
    "nbr_obs",
    "action_space",
    "action_list",
    "rule",
    "temperature",
    "binding_start",
    "demonstrations",
    "fidelity",
)


@dataclass(frozen=True)
class Agent:
    """The runs of one method in one world with one choice of settings; `varied` says how it differs from the rest."""

    method: str
    world: str
    varied: str
    evaluations: pd.DataFrame
    curves: pd.DataFrame

    @property
    def label(self) -> str:
        """As tables call it."""
        return LOOKS[self.method].label + (f", {self.varied}" if self.varied else "")

    @property
    def other_model(self) -> bool:
        """Whether it starts from another language model than the usual agent."""
        return "model " in self.varied

    @property
    def policy(self) -> str:
        """The policy that stands for the agent."""
        return _OWN_POLICY.get(self.method, "sampled")

    def scores(self, policy: str, metric: str = "success") -> np.ndarray | None:
        """[seeds, layouts] of the final evaluation under a policy; None where it was not played."""
        rows = self.evaluations.loc[self.evaluations["policy"] == policy]
        columns = "episode" if policy == FIRST_FINISHED else "layout"  # as they finish, episodes belong to no layout
        return None if rows.empty else table(rows, metric, columns)

    def estimate(self, policy: str, metric: str = "success") -> Estimate | None:
        """The mean with its 95 % interval over seeds and layouts."""
        scores, owner = self.scores(policy, metric), (self.label, self.world, policy, metric)
        return None if scores is None else two_level_interval(scores, generator(0, "interval", *owner))

    def loss(self, policy: str, control: str) -> Estimate | None:
        """How many points of success the control costs, on the same layouts."""
        scores, under = self.scores(policy), self.scores(control)
        if scores is None or under is None:
            return None
        return difference_interval(scores, under, True, generator(0, "control", self.label, self.world, policy))


def agents(records: Records) -> list[Agent]:
    """All agents of this paper that were run, in the order of `LOOKS`, then by world and settings."""
    runs = records.runs.loc[records.runs["paper"] == "glam"]
    usual = {method: _usual(list(runs.loc[runs["method"] == method, "settings"])) for method in LOOKS}
    keys = {
        (method, world, _difference(settings, usual[method])): None
        for method in LOOKS
        for world, settings in runs.loc[runs["method"] == method, ["world", "settings"]].itertuples(index=False)
    }
    frames = records.evaluations, records.curves
    return [Agent(*key, *(_of_agent(frame, *key, usual[key[0]]) for frame in frames)) for key in keys]


def _usual(of_runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that most runs have; in a tie, the first with the most tests."""
    return max(of_runs, key=lambda each: (of_runs.count(each), len(each.get("tests", []))), default={})


def _difference(settings: dict[str, Any], usual: dict[str, Any]) -> str:
    """What is told about settings: how they differ from those that most runs of the method have."""
    differing = [key for key in _VARIED if settings.get(key) != usual.get(key)]
    return ", ".join(f"{key} {settings[key]}" for key in differing)


def _of_agent(frame: pd.DataFrame, method: str, world: str, varied: str, usual: dict[str, Any]) -> pd.DataFrame:
    rows = frame.loc[(frame["paper"] == "glam") & (frame["method"] == method) & (frame["world"] == world)]
    return rows.loc[[_difference(settings, usual) == varied for settings in rows["settings"]]]


# --- Tables


@exhibit(
    "glam-agents",
    "Success of every agent, and the control of a fixed mission",
    methods=("glam",),
    beside=("npae", "npe", "drrn", "symbolic", "zero-shot", "random"),
)
def agents_table(records: Records) -> Table:
    """Agent by agent: success in its own world and among eight objects, each with the control."""
    played = [each for each in agents(records) if each.scores(each.policy) is not None]
    trained_in = {each.world for each in played if each.method == "glam"}
    found = [each for each in played if each.world in trained_in]
    eight = {each.method: each for each in played if each.world == EIGHT}
    rows = [_agent_row(each, eight.get(each.method)) for each in found]
    data = pd.DataFrame([line for each in found for line in _agent_lines(each)])
    return Table(data, pd.DataFrame(rows), _NOTES)


_NOTES = (
    "success in percent, mean [95 % interval] over seeds and layouts; sampled: actions are drawn from the policy",
    "one mission: the same evaluation when every prompt names one fixed mission; lost: the points that this costs. "
    "A policy that loses nothing does not read its goal",
)


def _agent_row(agent: Agent, on_eight: Agent | None) -> dict[str, str]:
    policy = agent.policy
    own = {
        "agent": agent.label,
        "world": agent.world.removeprefix("BabyAI-").removesuffix("-v0"),
        "sampled": _cell(agent.estimate(policy)),
        "one mission": _cell(agent.estimate(f"{policy} {CONTROL}")),
        "lost": _cell(agent.loss(policy, f"{policy} {CONTROL}")),
        "greedy": _cell(agent.estimate("greedy")),
        "steps": measured(agent.estimate(policy, "steps"), "steps"),
    }
    tested = f"{policy} {EIGHT}"
    among_eight = agent.estimate(tested) or (on_eight.estimate(policy) if on_eight and policy == "random" else None)
    return {
        **own,
        "8 objects": _cell(among_eight),
        "8, one mission": _cell(agent.estimate(f"{tested} {CONTROL}")),
        "8, lost": _cell(agent.loss(tested, f"{tested} {CONTROL}")),
    }


def _cell(estimate: Estimate | None) -> str:
    return measured(estimate, "success")


def _agent_lines(agent: Agent) -> list[dict[str, Any]]:
    """One line of numbers a policy."""
    lines = []
    for policy in agent.evaluations["policy"].unique():
        for metric in ("success", "steps", "return"):
            estimate, scores = agent.estimate(policy, metric), agent.scores(policy, metric)
            if estimate is not None and scores is not None:
                line = {"agent": agent.label, "method": agent.method, "world": agent.world, "policy": policy}
                line |= {"metric": metric, "mean": estimate.value, "low": estimate.low, "high": estimate.high}
                lines.append(line | {"seeds": scores.shape[0], "layouts": scores.shape[1]})
    return lines


TESTS = {
    "": ("the training task", "(a) 89 %"),
    EIGHT: ("eight objects instead of four", ""),
    "BabyAI-MixedTestLocal-v0": ("unseen pairs of adjective and noun", ""),
    "other_name_same_categories": ("unseen nouns: chair, table, car", "(b) 87 %, -2 %"),
    "adj_synonym": ("synonyms of the colours", ""),
    "no_meaning_nouns": ("invented nouns", ""),
    "no_meaning_adj": ("invented colours", ""),
    "no_meaning_words": ("invented nouns and colours", "(c) 77 %, -13 %"),
    "change_intro_first_personne_speaker": ("goal told as a wish of the speaker", ""),
    "change_intro_first_personne_agent": ("goal told as a duty", ""),
    "BabyAI-PickUpSeqPickUpLocal-v0": ("new composition: pick up, then pick up", "(d) 12 %"),
    "synonyms": ("other words for the actions", "(e) 12 %, -87 %"),
    "BabyAI-GoToFrench-v0": ("another language: French", "(f) 1 %, -99 %"),
}
"""Test -> (what it is, what the paper's figure says of GFlan-T5: success, change against its training task)."""


@exhibit(
    "glam-generalization",
    "Other words, worlds and actions than in training",
    methods=("glam",),
    beside=("npae", "npe", "drrn", "symbolic", "zero-shot", "random"),
)
def generalization(records: Records) -> Table:
    """Tests by agents: success under other words, worlds and actions, and the change against the training task.

    Agents of other language models are among the doses (glam_doses.py).
    """
    found = [each for each in agents(records) if _tested(each) and not each.other_model]
    chance = {each.world: each for each in agents(records) if each.method == "random"}
    own_world = next((each.world for each in found if each.method == "glam"), "")
    rows, lines = [], []
    for test, (title, published) in TESTS.items():
        if all(agent.scores(f"{agent.policy} {test}".strip()) is None for agent in found):
            continue
        row = {"test": title}
        for agent in found:
            estimate = agent.estimate(f"{agent.policy} {test}".strip())
            row[_column(agent, own_world)] = _cell(estimate) + _change(agent, estimate, test)
            if estimate is not None:
                line = {"test": test, "agent": agent.label, "world": agent.world, "mean": estimate.value}
                lines.append(line | {"low": estimate.low, "high": estimate.high})
        place = test if test.startswith("BabyAI") else own_world
        row["random"] = _cell(chance[place].estimate("random")) if place in chance else "–"
        rows.append(row | {"paper's GFlan-T5": published or "–"})
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _TEST_NOTES)


_TEST_NOTES = (
    "success in percent, mean [95 % interval]; in brackets the change against the same agent's training task",
    "rows count only for agents that lose by the control (first table): others do not read what is changed",
    "paper: Flan-T5-large, MixedTrainLocal, 1,000 episodes, read off its figure (± 0.5 %); (f): trained on GoToLocal",
)


def _tested(agent: Agent) -> bool:
    policies = set(agent.evaluations["policy"])
    return any(f"{agent.policy} {test}" in policies for test in TESTS if test and test != EIGHT)


def _column(agent: Agent, usual_world: str) -> str:
    """The agent, and where it was trained if that is elsewhere."""
    elsewhere = agent.world.removeprefix("BabyAI-").removesuffix("-v0")
    return agent.label + (f" ({elsewhere})" if agent.world != usual_world else "")


def _change(agent: Agent, estimate: Estimate | None, test: str) -> str:
    """` (-13 %)` against the agent's own training task."""
    base = agent.estimate(agent.policy)
    if estimate is None or not test or base is None or base.value == 0:
        return ""
    return f" ({100 * (estimate.value / base.value - 1):+.0f} %)"
