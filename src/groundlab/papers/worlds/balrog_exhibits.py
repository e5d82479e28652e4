"""The exhibits of published language-model agents: success by kind of task, and what their steps did.

They are drawn from the `balrog` run alone: 17 submissions to BALROG's leaderboard, and on the very same levels random
actions, a stated rule and minigrid's bot. What GLAM's paper prints of its tuned agent is quoted from its claims.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from groundlab.papers.worlds.exhibits import KINDS
from groundlab.papers.worlds.exhibits import TRAIN as WORLD
from groundlab.report.claims import load_claims
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records, select
from groundlab.report.statistics import Estimate, bounds_of, mean_interval
from groundlab.report.style import COLOURS, SUCCESS, new_figure
from groundlab.report.tables import DASH, Column, Table

KIND_NAMES = ("go to", "pick up", "open", "put next to", "pick up, then go to")
OURS = {"random": "random actions", "reflex": "a stated rule", "bot": "minigrid's bot"}
EFFECTS = ("new", "again", "wall", "toggled", "blocked", "idle")
_PAPERS_CLAIM = "glam-fig4-a-glam"
_PAPERS_COLOUR = "#00694D"
_MARKS = {"LLM": COLOURS["blue"], "VLM": COLOURS["orange"], "": "#333333"}
# Okabe and Ito's, in an order whose neighbours differ in lightness; and what the reader sees of each effect.
_EFFECT_STYLES = {
    "new": (COLOURS["green"], "reached a new state"),
    "again": (COLOURS["sky"], "back to a state met before"),
    "wall": ("#999999", "walked into something"),
    "toggled": (COLOURS["yellow"], "toggled what does not open"),
    "blocked": (COLOURS["orange"], "dropped onto an occupied cell"),
    "idle": ("#333333", "picked up or dropped nothing"),
}
_DARK = ("new", "blocked", "idle")
_NAMES = {
    "20241030_naive-Llama-3.2-1B-Instruct": "Llama-3.2-1B",
    "20241030_naive-Llama-3.2-3B-Instruct": "Llama-3.2-3B",
    "20241101_naive-Llama-3.1-8B-Instruct": "Llama-3.1-8B",
    "20241103_Claude-3.5-Sonnet": "Claude-3.5-Sonnet",
    "20241115_naive-Qwen2.5-7B-it": "Qwen2.5-7B",
    "20241209_naive-claude-3-5-haiku": "Claude-3.5-Haiku",
    "20241209_naive-mistral-nemo-instruct": "Mistral-Nemo",
    "20241209_naive_Llama-3.3-70B-Instruct": "Llama-3.3-70B",
    "20250113_robust_naive_microsoft_phi-4": "Phi-4",
    "20250126_robust_cot_deepseek_R1_distill_qwen32B": "R1-distill-Qwen-32B (thinks)",
    "20250313_robust_cot_Reka-Flash-3": "Reka-Flash-3 (thinks)",
    "20250425_naive_Gemini-2.5-Pro-Exp-03-25": "Gemini-2.5-Pro",
    "20250425_naive_grok-3": "Grok-3",
    "20250713_naive_grok-4": "Grok-4",
    "20250719-naive_gemini-2.5-flash": "Gemini-2.5-Flash",
}


def submission_name(submission: str, distractors: int) -> str:
    """What a page calls a submission ("VLM/DATE_NAME"); what it was shown or played among is said."""
    group, _, name = submission.partition("/")
    pictures = " + pictures" if group == "VLM" else ""
    return _NAMES.get(name, submission) + pictures + (f" ({distractors} distractors)" if distractors else "")


@dataclass(frozen=True)
class Agent:
    """One agent of the run: its rows by kind, in the order of KINDS."""

    policy: str
    rows: pd.DataFrame

    @property
    def group(self) -> str:
        """LLM, VLM (it is shown pictures besides), or nothing for ours."""
        return self.policy.partition("/")[0] if "/" in self.policy else ""

    @property
    def name(self) -> str:
        """As the page calls it; what it was shown or played among is said."""
        if not self.group:
            return OURS[self.policy]
        return submission_name(self.policy, int(self.rows["num_dists"].iloc[0]))

    def success(self, kind: str | None = None) -> Estimate:
        """Percent of the episodes of a kind, or of all, with its 95 % interval."""
        rows = self.rows if kind is None else self.rows.loc[self.rows["kind"] == kind]
        episodes = rows["episodes"].to_numpy(dtype=int)
        wins = int(np.rint(rows["success"].to_numpy() / 100 * episodes).sum())
        values = np.repeat([100.0, 0.0], [wins, int(episodes.sum()) - wins])[None]
        return mean_interval(values, trained=False, bounds=bounds_of("success"))

    def total(self, column: str, kind: str | None = None) -> int:
        """A count over the episodes of a kind, or of all."""
        rows = self.rows if kind is None else self.rows.loc[self.rows["kind"] == kind]
        return int(rows[column].to_numpy().sum())


def _rows(records: Records) -> pd.DataFrame:
    return select(records.evaluations, method="balrog", world=WORLD)


def agents(records: Records) -> list[Agent]:
    """The submissions, best first, then ours."""
    rows = _rows(records)
    names = [name for name in rows["policy"].unique() if re.fullmatch(r"[LV]LM/[^,]*", name)]
    found = [Agent(name, rows.loc[rows["policy"] == name].sort_values("layout")) for name in names]
    ours = [Agent(name, rows.loc[rows["policy"] == name].sort_values("layout")) for name in reversed(OURS)]
    return sorted(found, key=lambda each: -each.success().value) + [each for each in ours if not each.rows.empty]


# --- The table


@exhibit("worlds-published", "What published language-model agents do here", methods=("balrog",), beside=())
def published(records: Records) -> Table:
    """Agent by agent: success in all and by kind, invalid replies, tokens."""
    return Table.of(agents(records), _COLUMNS, (*_NOTES, *_facts_note(records)))


_NOTES = (
    "success in percent of the levels that each submission played, 10 of each kind; in all with its 95 % interval; "
    "without distractors but where named",
    "replayed step by step from published seeds and actions; ours on the 800 levels of those without distractors; the "
    "stated rule reads one observation and knows the rules of the game",
    "invalid: replies that were no action, of all; they were played as go forward",
    "boxes: episodes in which a box that the mission names was toggled, which destroys it",
    "tokens: thousands of prompts and of replies, over 50 episodes, as logged",
)


def _facts_note(records: Records) -> tuple[str, ...]:
    rows = _rows(records)
    facts, putnext = (rows.loc[rows["policy"] == name] for name in ("facts", "putnext"))
    if facts.empty or putnext.empty:
        return ()
    one, why = facts.iloc[0], putnext.iloc[0]
    return (
        f"{int(one['replayed_episodes']):,} episodes, {int(one['replayed_steps']):,} steps played again, "
        f"{int(one['mismatches'])} differ",
        f"put next to, without distractors: right thing in hand in {int(why['in_hand'])} of {int(why['episodes'])} "
        f"episodes, {int(why['tried_occupied'])} of these tried an occupied cell; drops at an occupied cell "
        f"{int(why['drops_occupied']):,}, at a free one {int(why['drops_free']):,}; successes {int(why['successes'])}",
    )


def _count(name: str, caption: str = "", text: Callable[[Agent], str] | None = None) -> Column[Agent]:
    """What was counted of a submission; nothing of ours."""
    return Column(name, lambda agent: agent.total(name) if agent.group else None, "{}", caption, text)


def _invalid(agent: Agent) -> str:
    return f"{100 * agent.total('invalid') / sum(map(agent.total, EFFECTS)):.1f} %" if agent.group else DASH


def _tokens(agent: Agent) -> str:
    read, said = (agent.total(name) / 1000 if agent.group else 0 for name in ("prompt_tokens", "reply_tokens"))
    return f"{read:,.0f} + {said:,.0f}" if agent.group else DASH


_COLUMNS: list[Column[Agent]] = [
    Column("agent", lambda agent: agent.policy, text=lambda agent: agent.name),
    Column("num_dists", lambda agent: int(agent.rows["num_dists"].iloc[0]), caption=""),
    Column("episodes", lambda agent: agent.total("episodes"), caption=""),
    Column("success", lambda agent: agent.success(), "{:.0f}", "in all"),
    *(
        Column(f"success_{kind}", lambda agent, kind=kind: agent.success(kind).value, "{:.0f}", name)
        for kind, name in zip(KINDS, KIND_NAMES, strict=True)
    ),
    _count("invalid", "invalid", _invalid),
    _count("broken", "boxes"),
    _count("prompt_tokens", "tokens", _tokens),
    *map(_count, ("reply_tokens", *EFFECTS)),
]


# --- The figures


@exhibit("worlds-published-success", "Published language-model agents by kind of task", methods=("balrog",), beside=())
def success(records: Records) -> Figure:
    """One row an agent, one panel a kind: percent with 95 % intervals; last what GLAM's paper prints, in all."""
    every = agents(records)
    figure, axes = new_figure(9.2, 0.9 + 0.225 * (len(every) + 1), 1, 1 + len(KINDS), sharey=True, sharex=True)
    for axis, kind, title in zip(axes[0], (None, *KINDS), ("in all", *KIND_NAMES), strict=True):
        for height, agent in enumerate(every):
            _interval(axis, height, agent, agent.success(kind))
        axis.axhline(len(every) - len(OURS) - 0.5, color="#999999", linewidth=0.8)
        axis.set(title=title, xlim=(-7, 107), xticks=(0, 50, 100))
        axis.title.set_fontsize(8.5)
    first = axes[0, 0]
    _papers_row(first, len(every))
    first.set(ylim=(len(every) + 0.6, -0.6))
    first.set_yticks(range(len(every) + 1), [*(agent.name for agent in every), "GLAM's paper (8 distractors)"])
    for label, agent in zip(first.get_yticklabels(), every, strict=False):
        label.set_color(_MARKS[agent.group])
    first.get_yticklabels()[-1].set_color(_PAPERS_COLOUR)
    figure.supxlabel(SUCCESS, fontsize=8.5)
    return figure


def _interval(axis: Axes, height: int, agent: Agent, estimate: Estimate) -> None:
    colour = _MARKS[agent.group]
    axis.plot([estimate.low, estimate.high], [height, height], color=colour, linewidth=1.3, alpha=0.55)
    face = "white" if int(agent.rows["num_dists"].iloc[0]) else colour
    marker = {"LLM": "o", "VLM": "s"}.get(agent.group, "D")
    axis.plot(estimate.value, height, marker, markersize=5, color=colour, markerfacecolor=face)


def _papers_row(axis: Axes, height: int) -> None:
    """GLAM's tuned Flan-T5-large with the error bar of its figure: the same five kinds, among eight distractors."""
    claim = next((each for each in load_claims("glam") if each.id == _PAPERS_CLAIM), None)
    if claim is not None:
        value, bar = float(claim.published["success"]), float(claim.error_bar["success"])
        axis.plot([value - bar, value + bar], [height, height], color=_PAPERS_COLOUR, linewidth=1.3, alpha=0.55)
        axis.plot(value, height, "^", markersize=5.5, color=_PAPERS_COLOUR, markerfacecolor="white")


@exhibit("worlds-published-failures", "What the steps of published agents did", methods=("balrog",), beside=())
def failures(records: Records) -> Figure:
    """One bar a kind: steps of all submissions without distractors, by what they did; putnext once more by agent."""
    every = [agent for agent in agents(records) if agent.group and not agent.rows["num_dists"].to_numpy().any()]
    figure, axes = new_figure(9.2, 4.5, 1, 2, width_ratios=(1, 1.25))
    by_kind, by_agent = axes[0]
    for height, kind in enumerate(KINDS):
        _bar(by_kind, height, {name: sum(agent.total(name, kind) for agent in every) for name in EFFECTS})
    by_kind.set_yticks(range(len(KINDS)), KIND_NAMES)
    by_kind.set(title="all submissions without distractors", xlabel="share of their steps [%]", ylim=(4.5, -0.5))
    for height, agent in enumerate(every):
        _bar(by_agent, height, {name: agent.total(name, "putnext") for name in EFFECTS})
    by_agent.set_yticks(range(len(every)), [agent.name for agent in every])
    by_agent.set(title="put next to, agent by agent", xlabel="share of their steps [%]", ylim=(len(every) - 0.5, -0.5))
    for axis in axes[0]:
        axis.set_xlim(0, 100)
        axis.grid(visible=False)
    handles = [Patch(color=colour, label=label) for colour, label in _EFFECT_STYLES.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _bar(axis: Axes, height: int, counts: dict[str, int]) -> None:
    """Shares of steps, one after the other; those of a tenth and more say how much."""
    whole, start = max(1, sum(counts.values())), 0.0
    for name, count in counts.items():
        width = 100 * count / whole
        colour = _EFFECT_STYLES[name][0]
        axis.barh(height, width, left=start, height=0.8, color=colour, edgecolor="white", linewidth=0.6)
        if width >= 8:
            ink = "white" if name in _DARK else "black"
            axis.text(start + width / 2, height, f"{width:.0f}", ha="center", va="center", fontsize=7, color=ink)
        start += width
