"""The exhibits of the GLAM paper: agents side by side, learning curves, the generalisation table.

A policy that reads its goal does worse when every prompt names one mission. That control stands in every table: what
a policy loses by it tells whether its other scores mean anything. Published values are those that could be recovered
from the paper's figures (spec glam-environment 5.3); they are of Flan-T5-large on MixedTrainLocal.
Read first: `agents_table`; then `frames_to`, how sample efficiency is told.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core.seeding import generator
from groundlab.report.records import Records, table
from groundlab.report.statistics import Estimate, band, difference_interval, mean, two_level_interval
from groundlab.report.style import PUBLISHED_COLOUR, Look, new_figure
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
WINDOW = 100  # finished training episodes in a running success rate: some 3,000 frames of an agent that fails
LEVEL = 80  # percent
_OWN_POLICY = {"random": "random", "bot": "bot"}
_VARIED = ("model", "nbr_obs", "action_space", "action_list", "rule", "binding_start")


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
    def policy(self) -> str:
        """The policy that stands for the agent."""
        return _OWN_POLICY.get(self.method, "sampled")

    def scores(self, policy: str, metric: str = "success") -> np.ndarray | None:
        """[seeds, layouts] of the final evaluation under a policy; None where it was not played."""
        rows = self.evaluations.loc[self.evaluations["policy"] == policy]
        return None if rows.empty else table(rows, metric)

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
    usual = next(iter(runs.loc[runs["method"] == "glam", "settings"]), {})
    keys = {
        (method, world, _difference(settings, usual)): None
        for method in LOOKS
        for world, settings in runs.loc[runs["method"] == method, ["world", "settings"]].itertuples(index=False)
    }
    frames = records.evaluations, records.curves
    return [Agent(*key, *(_of_agent(frame, *key, usual) for frame in frames)) for key in keys]


def _difference(settings: dict[str, Any], usual: dict[str, Any]) -> str:
    """What is told about settings: how they differ from those of the first pretrained agent."""
    differing = [key for key in _VARIED if key in settings and key in usual and settings[key] != usual[key]]
    return ", ".join(f"{key} {settings[key]}" for key in differing)


def _of_agent(frame: pd.DataFrame, method: str, world: str, varied: str, usual: dict[str, Any]) -> pd.DataFrame:
    rows = frame.loc[(frame["paper"] == "glam") & (frame["method"] == method) & (frame["world"] == world)]
    return rows.loc[[_difference(settings, usual) == varied for settings in rows["settings"]]]


# --- Learning


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


def _learns(agent: Agent) -> bool:
    """Whether there is a learning curve: records of training episodes."""
    return "episodes" in agent.curves and bool(np.isfinite(agent.curves["episodes"].to_numpy(dtype=float)).any())


def frames_to(curve: pd.DataFrame, level: float = LEVEL) -> float | None:
    """The frames at which the running success of one run first reaches a level; None if it never did."""
    frames, success = running_success(curve)
    reached = np.flatnonzero(success >= level)
    return float(frames[reached[0]]) if len(reached) else None


def _frames_cell(agent: Agent, level: float = LEVEL) -> str:
    """`5k, 6k, not in 16k`: one entry a seed."""
    if not _learns(agent):
        return "–"
    cells = []
    for _, curve in agent.curves.groupby("seed"):
        found, last = frames_to(curve, level), float(curve["frames"].to_numpy().max())
        cells.append(f"{found / 1000:.1f}k" if found else f"not in {last / 1000:.1f}k")
    return ", ".join(cells)


def curves(records: Records) -> Figure:
    """Running success over frames, one panel a world: seeds thin, their mean thick, the band their 95 % interval."""
    learners = [each for each in agents(records) if _learns(each)]
    names = list(dict.fromkeys(each.world for each in learners))
    figure, axes = new_figure(1.0 + 4.6 * len(names), 3.9, 1, len(names), sharey=True)
    for axis, world in zip(axes[0], names, strict=True):
        for agent in [each for each in learners if each.world == world]:
            _draw_curve(axis, agent)
        _reference_lines(axis, records, world)
        axis.set(title=world, xlabel="frames", ylim=(0, 103))
    axes[0, 0].set_ylabel(f"success of the last {WINDOW} episodes [%]")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _draw_curve(axis: Axes, agent: Agent) -> None:
    colour = LOOKS[agent.method].colour
    seeds = [running_success(curve) for _, curve in agent.curves.groupby("seed")]
    for frames, success in seeds:
        axis.plot(frames, success, color=colour, linewidth=0.5, alpha=0.45)
    starts = [frames[0] for frames, _ in seeds if len(frames)]
    if len(starts) < len(seeds):
        return  # a seed that finished too few episodes has no curve, and the others no mean
    grid = np.unique(np.concatenate([frames for frames, _ in seeds]))
    grid = grid[grid >= max(starts)]
    stacked = np.stack([np.interp(grid, *seed) for seed in seeds])
    middle, low, high = band(stacked, mean, generator(0, "band", agent.label, agent.world))
    axis.fill_between(grid, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.plot(grid, middle, color=colour, label=agent.label)


def _reference_lines(axis: Axes, records: Records, world: str) -> None:
    for agent in agents(records):
        if agent.method in ("zero-shot", "random") and agent.world == world and not agent.varied:
            level = agent.estimate(agent.policy)
            if level:
                axis.axhline(level.value, color=LOOKS[agent.method].colour, linestyle="--", label=agent.label)


# --- Tables


def agents_table(records: Records) -> Table:
    """Agent by agent: success in its own world and among eight objects, each with the control; sample efficiency."""
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
    f"frames to {LEVEL} %: when the last {WINDOW} training episodes reach it, seed by seed; short episodes finish "
    "first, so early values flatter all agents alike",
    "published, on MixedTrainLocal with Flan-T5-large: GFlan-T5 reaches 80 % at 250,000 frames and 90 % at 600,000; "
    "NPAE and DRRN stay below 20 % and symbolic PPO below 40 % at 1,500,000",
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
        f"frames to {LEVEL} %": _frames_cell(agent),
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


def generalization(records: Records) -> Table:
    """Tests by agents: success under other words, worlds and actions, and the change against the training task."""
    found = [each for each in agents(records) if each.method in ("glam", "zero-shot") or _tested(each)]
    chance = {each.world: each for each in agents(records) if each.method == "random"}
    own_world = next((each.world for each in found if each.method == "glam"), "")
    rows, lines = [], []
    for test, (title, published) in TESTS.items():
        if all(agent.scores(f"{agent.policy} {test}".strip()) is None for agent in found):
            continue
        row = {"test": title}
        for agent in found:
            estimate = agent.estimate(f"{agent.policy} {test}".strip())
            row[f"{agent.label} ({_short(agent.world)})"] = _cell(estimate) + _change(agent, estimate, test)
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


def _short(world: str) -> str:
    return world.removeprefix("BabyAI-").removesuffix("-v0")


def _change(agent: Agent, estimate: Estimate | None, test: str) -> str:
    """` (-13 %)` against the agent's own training task."""
    base = agent.estimate(agent.policy)
    if estimate is None or not test or base is None or base.value == 0:
        return ""
    return f" ({100 * (estimate.value / base.value - 1):+.0f} %)"
