"""What becomes of the thoughts while an agent is tuned: their length, their content, and whether they decide anything.

The report calls it a collapse when thoughts fall to two words ("Go forward."). Two words can still be a thought, and a
long one can be empty, so the rule here looks at what is said (docs/papers/reasoning-method.md#s6-2): a collapse is an
echo rate of one half or more in three updates in a row, an echo being a thought that only repeats its action or says
nothing; it is over after three updates at a quarter or less. The report's own rule, a mean of 2.05 words, stands beside
it.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.papers.reasoning.arms import (
    ANOTHERS,
    EMPTIED,
    SAMPLED,
    ReasoningArm,
    main_arms,
    reasoning_arms,
)
from groundlab.papers.reasoning.figures import REPLIES, draw_series
from groundlab.report.arms import short
from groundlab.report.curves import in_thousands
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.style import COLOURS, new_figure
from groundlab.report.tables import DASH, Column, Table, written

COLLAPSED, RECOVERED, IN_A_ROW = 0.5, 0.25, 3
PUBLISHED_WORDS = 2.05
_TEN = 10  # updates in the first and the last values of a series
_BOUND: dict[str, Any] = {"color": "#333333", "linestyle": ":", "linewidth": 1}


class Collapse(NamedTuple):
    """When thoughts collapsed and when that was over: the first update of the three that decide it, or None."""

    began: int | None
    ended: int | None

    def __str__(self) -> str:
        return _at(self.began, "none") + (f", over at {self.ended}" if self.ended is not None else "")


def _at(update: int | None, never: str = "never") -> str:
    return never if update is None else f"at update {update}"


def collapse(updates: np.ndarray, echo: np.ndarray) -> Collapse:
    """The collapse in one seed's echo rates [updates], in 0 to 1; an update without a rate belongs to neither."""
    began = _first_in_a_row(echo >= COLLAPSED)
    if began is None:
        return Collapse(None, None)
    ended = _first_in_a_row(echo[began:] <= RECOVERED)
    return Collapse(int(updates[began]), None if ended is None else int(updates[began + ended]))


def _first_in_a_row(holds: np.ndarray) -> int | None:
    """The first index from which something holds `IN_A_ROW` times."""
    runs = np.convolve(holds.astype(int), np.ones(IN_A_ROW, dtype=int), mode="valid") if len(holds) >= IN_A_ROW else []
    starts = np.flatnonzero(np.asarray(runs) == IN_A_ROW)
    return int(starts[0]) if len(starts) else None


# --- Over training


@exhibit(
    "reasoning-thoughts", "What becomes of the thoughts while the agent is tuned", methods=("reasoning",), beside=()
)
def thoughts_figure(records: Records) -> Figure | None:
    """Length, echoes, content, what a thought says of its state, what it decides, and the form of replies."""
    arm = main_arms(records).get("reasoning")
    if arm is None or arm.series("thought_words") is None:
        return None
    figure, axes = new_figure(9.0, 9.0, 3, 2)
    _words(axes[0, 0], arm)
    _shares(axes[0, 1], arm, {"echo_rate": ("only repeats its action", COLOURS["orange"])}, "thoughts that only echo")
    for level, label, dashes in ((COLLAPSED, "a collapse begins", "--"), (RECOVERED, "it is over", ":")):
        axes[0, 1].axhline(100 * level, **_BOUND | {"linestyle": dashes}, label=label)
    contents = {
        "grounded_rate": ("names a thing of its goal or view", COLOURS["green"]),
        "hallucination_rate": ("names a thing found nowhere", COLOURS["pink"]),
    }
    _shares(axes[1, 0], arm, contents, "what thoughts name")
    _information(axes[1, 1], arm)
    swaps = {
        "swap_empty": ("thought left out", COLOURS["blue"]),
        "swap_other": ("thought of another episode", COLOURS["yellow"]),
    }
    _shares(axes[2, 0], arm, swaps, "actions that change with the thought")
    forms = {"valid": ("valid", COLOURS["blue"]), "cut_off": ("cut off by the limit of tokens", COLOURS["orange"])}
    _shares(axes[2, 1], arm, forms, "replies")
    for axis in axes.flat:
        in_thousands(axis, REPLIES)
        axis.legend(loc="best")
    return figure


def _words(axis: Axes, arm: ReasoningArm) -> None:
    """The mean, and the band between the tenth and the ninetieth percentile, both averaged over seeds."""
    low, high = arm.series("thought_words_p10"), arm.series("thought_words_p90")
    if low and high:
        bounds = low[1].mean(axis=0), high[1].mean(axis=0)
        axis.fill_between(low[0], *bounds, color="#999999", alpha=0.25, linewidth=0, label="10 to 90 % of the thoughts")
    draw_series(axis, arm, "thought_words", COLOURS["orange"], "mean")
    axis.axhline(2, **_BOUND, label="the report's threshold")
    axis.set(title="words of a thought", ylabel="words", ylim=(0, None))


def _shares(axis: Axes, arm: ReasoningArm, names: dict[str, tuple[str, str]], title: str) -> None:
    for metric, (label, colour) in names.items():
        draw_series(axis, arm, metric, colour, label, factor=100, bounds=(0, 100))
    axis.set(title=title, ylabel="share [%]", ylim=(-3, 103))


def _information(axis: Axes, arm: ReasoningArm) -> None:
    draw_series(axis, arm, "mi_retrieval", COLOURS["orange"], "what a thought says of its state")
    draw_series(axis, arm, "thought_entropy", COLOURS["sky"], "what is open in a state (entropy)")
    if bound := arm.series("mi_bound"):
        axis.plot(bound[0], bound[1].mean(axis=0), **_BOUND, label="the most that can be told")
    axis.set(title="information", ylabel="information in a thought [nats]", ylim=(0, None))


# --- Judged, seed by seed


@exhibit("reasoning-collapse", "Do thoughts collapse? Run by run", methods=("reasoning",), beside=())
def collapse_table(records: Records) -> Table | None:
    """One row a run of every arm that thinks and was tuned: its thoughts at both ends, and whether they collapsed."""
    runs = [
        _Run(arm, seed, curve.loc[curve["thought_words"].notna()].sort_values("iteration"))
        for arm in reasoning_arms(records)
        if arm.kind == "reasoning" and "echo_rate" in arm.curves
        for seed, curve in arm.curves.groupby("seed")
    ]
    return Table.of(runs, _COLLAPSE_COLUMNS, _COLLAPSE_NOTES) if runs else None


_COLLAPSE_NOTES = (
    f'first and last: means over the first and the last {_TEN} updates; words are those before "final answer", '
    "counted in replies that have it",
    "collapse: the first of three updates in a row in which at least half of the valid replies' thoughts only repeat "
    "their action or are empty; over: the first of three with a quarter at most",
    f"2 words: the first update whose mean is {PUBLISHED_WORDS} words or less, the report's rule",
    "the report's five runs (Llama-3.2-3B, limit of 20 tokens): 7.1 to 8.3 words in the first ten updates; 2 words "
    "first at update 292 and 75 (no distractors), 77 and never (three; the second was ended at update 98), 187 (five)",
)


class _Run(NamedTuple):
    arm: ReasoningArm
    seed: Any
    curve: pd.DataFrame
    """Its updates with a thought, in their order."""

    def mean(self, metric: str, part: slice) -> float:
        values = self.curve[metric].to_numpy(dtype=float)[part] if metric in self.curve else np.zeros(0)
        finite = values[np.isfinite(values)]
        return float(finite.mean()) if len(finite) else np.nan

    @property
    def collapse(self) -> Collapse:
        updates, echo = (self.curve[name].to_numpy(dtype=float) for name in ("iteration", "echo_rate"))
        return collapse(updates, echo)

    @property
    def two_words(self) -> int | None:
        """The first update that the report's rule finds."""
        brief = self.curve.loc[self.curve["thought_words"] <= PUBLISHED_WORDS, "iteration"].tolist()
        return brief[0] if brief else None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


_FIRST, _LAST = slice(_TEN), slice(-_TEN, None)
_COLLAPSE_COLUMNS: list[Column[_Run]] = [
    Column("arm", lambda run: run.arm.variant or "main"),
    Column("world", lambda run: short(run.arm.world)),
    Column("seed", lambda run: int(run.seed)),
    Column("updates", lambda run: int(max(run.curve["iteration"]))),
    Column("words_first", lambda run: run.mean("thought_words", _FIRST), "{:.1f}", "words, first"),
    Column("words_last", lambda run: run.mean("thought_words", _LAST), "{:.1f}", "last"),
    Column("words_least", lambda run: min(run.curve["thought_words"]), "{:.1f}", "least"),
    Column("echo_first", lambda run: run.mean("echo_rate", _FIRST), _percent, "echoes, first"),
    Column("echo_last", lambda run: run.mean("echo_rate", _LAST), _percent, "echoes, last"),
    Column("grounded_rate_last", lambda run: run.mean("grounded_rate", _LAST), _percent, "grounded, last"),
    Column(
        "hallucination_rate_last", lambda run: run.mean("hallucination_rate", _LAST), _percent, "hallucinated, last"
    ),
    Column("valid_last", lambda run: run.mean("valid", _LAST), _percent, "valid, last"),
    Column("cut_off_last", lambda run: run.mean("cut_off", _LAST), caption=""),
    Column("collapsed", lambda run: run.collapse.began, caption="collapse", text=lambda run: str(run.collapse)),
    Column("recovered", lambda run: run.collapse.ended, caption=""),
    Column("two_words", lambda run: run.two_words, caption="2 words", text=lambda run: _at(run.two_words)),
]


# --- What a thought decides


@exhibit(
    "reasoning-swaps",
    "Information in thoughts, and success with thoughts left out and exchanged",
    methods=("reasoning",),
    beside=("reasoning-zero-shot",),
)
def swaps_table(records: Records) -> Table | None:
    """An agent's own thoughts, none, and another state's: what each comes to, and what thoughts tell."""
    main = main_arms(records)
    agents = [main[name] for name in ("reasoning-zero-shot", "reasoning") if name in main]
    tested = [arm for arm in agents if arm.estimate(EMPTIED)]
    swaps = [_Swap(arm, policy, main.get("reasoning")) for arm in tested for policy in _POLICIES]
    return Table.of(swaps, _SWAP_COLUMNS, _SWAP_NOTES) if swaps else None


_SWAP_NOTES = (
    "each layout played to its end, mean [95 % interval] over seeds and layouts; lost: points of success (each run)",
    "actions changed: the share that are others with the same random numbers, in 24 states, mean of the seeds; "
    "of the untuned agent before the first update, of the trained one after the last",
    "information: about which of K states a thought belongs to, of at most log K nats; right: how often that state "
    "is the likeliest; none of this is in the report",
)
_POLICIES = {SAMPLED: "its own", EMPTIED: "left out", ANOTHERS: "from another episode's start"}
_CHANGED = {EMPTIED: "swap_empty", ANOTHERS: "swap_other"}


class _Swap(NamedTuple):
    """An agent under one choice of its thoughts; `trained` is the arm whose training recorded what they tell."""

    arm: ReasoningArm
    policy: str
    trained: ReasoningArm | None

    @property
    def losses(self) -> np.ndarray | None:
        """[seeds]: points of success that each run loses by the swap, on the same layouts; None for own thoughts."""
        scores, swapped = self.arm.scores(SAMPLED), self.arm.scores(self.policy)
        if self.policy == SAMPLED or scores is None or swapped is None:
            return None
        return (scores - swapped).mean(axis=1)

    def told(self, metric: str) -> float | None:
        """What its own thoughts tell, by training's first record if it is untuned; None for swapped ones."""
        return self.recorded(metric) if self.policy == SAMPLED else None

    @property
    def changed(self) -> float | None:
        """The share of actions that are others under swapped thoughts; None for its own."""
        return None if self.policy == SAMPLED else self.recorded(_CHANGED[self.policy])

    def recorded(self, metric: str) -> float:
        series = self.trained.series(metric) if self.trained else None
        return float(series[1][:, -1 if self.arm.trained else 0].mean()) if series else np.nan


def _share(value: float | None) -> str:
    return "" if value is None else written(value, _percent)


def _losses(swap: _Swap) -> str:
    """`21 (27, 0, 37)`: the mean, then run by run; nothing for its own thoughts."""
    losses = swap.losses
    if losses is None:
        return "" if swap.policy == SAMPLED else DASH
    runs = f" ({', '.join(f'{each:.0f}' for each in losses)})" if len(losses) > 1 else ""
    return f"{losses.mean():.0f}{runs}"


def _nats(swap: _Swap) -> str:
    value, bound = (swap.told(name) for name in ("mi_retrieval", "mi_bound"))
    return "" if value is None else written(value, "{:.2f}" + f" of {bound:.2f}")


_SWAP_COLUMNS: list[Column[_Swap]] = [
    Column("method", lambda swap: swap.arm.kind, caption=""),
    Column("", lambda swap: swap.arm.agent_and_state, caption="agent"),
    Column("thoughts", lambda swap: swap.policy, lambda policy: _POLICIES[policy]),
    Column("seeds", lambda swap: len(swap.arm.seeds), caption=""),
    Column("success", lambda swap: swap.arm.estimate(swap.policy), "success"),
    Column("", lambda swap: "", caption="lost", text=_losses),
    Column("return", lambda swap: swap.arm.estimate(swap.policy, "return"), "return"),
    Column("length", lambda swap: swap.arm.estimate(swap.policy, "length"), "length", "replies"),
    Column("lost", lambda swap: None if swap.losses is None else swap.losses.mean(), caption=""),
    Column("changed", lambda swap: swap.changed, caption="actions changed", text=lambda swap: _share(swap.changed)),
    Column("mi_retrieval", lambda swap: swap.told("mi_retrieval"), caption="information [nats]", text=_nats),
    Column("mi_bound", lambda swap: swap.told("mi_bound"), caption=""),
    Column(
        "retrieval_accuracy",
        lambda swap: swap.told("retrieval_accuracy"),
        caption="right",
        text=lambda swap: _share(swap.told("retrieval_accuracy")),
    ),
    Column("thought_entropy", lambda swap: swap.told("thought_entropy"), caption=""),
    Column("", lambda swap: len(swap.arm.seeds), caption="seeds"),
]
