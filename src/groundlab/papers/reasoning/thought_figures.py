"""What becomes of the thoughts while an agent is tuned: their length, their content, and whether they decide anything.

The report calls it a collapse when thoughts fall to two words ("Go forward."). Two words can still be a thought, and a
long one can be empty, so the rule here looks at what is said (docs/papers/reasoning.md#s6-2): a collapse is an echo
rate of one half or more in three updates in a row, an echo being a thought that only repeats its action or says
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
    short,
)
from groundlab.papers.reasoning.figures import REPLIES, draw_series
from groundlab.report.curves import in_thousands
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.style import COLOURS, new_figure
from groundlab.report.tables import Table, measured

COLLAPSED, RECOVERED, IN_A_ROW = 0.5, 0.25, 3
PUBLISHED_WORDS = 2.05
_TEN = 10  # updates in the first and the last values of a series


class Collapse(NamedTuple):
    """When thoughts collapsed and when that was over: the first update of the three that decide it, or None."""

    began: int | None
    ended: int | None


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
    "reasoning-thoughts",
    "What becomes of the thoughts while the agent is tuned",
    methods=("reasoning",),
    beside=(),
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
        axes[0, 1].axhline(100 * level, color="#333333", linestyle=dashes, linewidth=1, label=label)
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
        axis.set_xlim(0, None)
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
    axis.axhline(2, color="#333333", linestyle=":", linewidth=1, label="the report's threshold")
    axis.set(title="words of a thought", ylabel="words", ylim=(0, None))


def _shares(axis: Axes, arm: ReasoningArm, names: dict[str, tuple[str, str]], title: str) -> None:
    for metric, (label, colour) in names.items():
        draw_series(axis, arm, metric, colour, label, factor=100, bounds=(0, 100))
    axis.set(title=title, ylabel="share [%]", ylim=(-3, 103))


def _information(axis: Axes, arm: ReasoningArm) -> None:
    draw_series(axis, arm, "mi_retrieval", COLOURS["orange"], "what a thought says of its state")
    draw_series(axis, arm, "thought_entropy", COLOURS["sky"], "what is open in a state (entropy)")
    bound = arm.series("mi_bound")
    if bound:
        axis.plot(
            bound[0],
            bound[1].mean(axis=0),
            color="#333333",
            linestyle=":",
            linewidth=1,
            label="the most that can be told",
        )
    axis.set(title="information", ylabel="information in a thought [nats]", ylim=(0, None))


# --- Judged, seed by seed


@exhibit(
    "reasoning-collapse",
    "Do thoughts collapse? Run by run",
    methods=("reasoning",),
    beside=(),
)
def collapse_table(records: Records) -> Table | None:
    """One row a run of every arm that thinks and was tuned: its thoughts at both ends, and whether they collapsed."""
    lines = [
        _collapse_line(arm, seed, curve.sort_values("iteration"))
        for arm in reasoning_arms(records)
        if arm.kind == "reasoning" and "echo_rate" in arm.curves
        for seed, curve in arm.curves.groupby("seed")
    ]
    rows = [_collapse_row(line) for line in lines]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _COLLAPSE_NOTES) if rows else None


_COLLAPSE_NOTES = (
    f'first and last: means over the first and the last {_TEN} updates; words are those before "final answer", '
    "counted in replies that have it",
    "collapse: the first of three updates in a row in which at least half of the valid replies' thoughts only repeat "
    "their action or are empty; over: the first of three with a quarter at most",
    f"2 words: the first update whose mean is {PUBLISHED_WORDS} words or less, the report's rule",
    "the report's five runs (Llama-3.2-3B, limit of 20 tokens): 7.1 to 8.3 words in the first ten updates; 2 words "
    "first at update 292 and 75 (no distractors), 77 and never (three; the second was ended at update 98), 187 (five)",
)


def _collapse_line(arm: ReasoningArm, seed: Any, curve: pd.DataFrame) -> dict[str, Any]:
    curve = curve.loc[curve["thought_words"].notna()]
    updates, words = curve["iteration"].to_numpy(dtype=int), curve["thought_words"].to_numpy(dtype=float)
    echo = curve["echo_rate"].to_numpy(dtype=float)
    thoughts, brief = collapse(updates, echo), np.flatnonzero(words <= PUBLISHED_WORDS)
    line: dict[str, Any] = {
        "arm": arm.variant or "main",
        "world": short(arm.world),
        "seed": int(seed),
        "updates": int(updates.max()),
    }
    line |= {"words_first": words[:_TEN].mean(), "words_last": words[-_TEN:].mean(), "words_least": words.min()}
    line |= {"echo_first": _mean(echo[:_TEN]), "echo_last": _mean(echo[-_TEN:])}
    for name in ("grounded_rate", "hallucination_rate", "valid", "cut_off"):
        line[f"{name}_last"] = _mean(curve[name].to_numpy(dtype=float)[-_TEN:]) if name in curve else np.nan
    line |= {"collapsed": thoughts.began, "recovered": thoughts.ended}
    return line | {"two_words": int(updates[brief[0]]) if len(brief) else None}


def _mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else np.nan


def _collapse_row(line: dict[str, Any]) -> dict[str, str]:
    share = {name: _percent(line[f"{name}_last"]) for name in ("grounded_rate", "hallucination_rate")}
    over = "" if line["recovered"] is None else f", over at {line['recovered']}"
    return {
        "arm": line["arm"],
        "world": line["world"],
        "seed": str(line["seed"]),
        "updates": str(line["updates"]),
        "words, first": f"{line['words_first']:.1f}",
        "last": f"{line['words_last']:.1f}",
        "least": f"{line['words_least']:.1f}",
        "echoes, first": _percent(line["echo_first"]),
        "echoes, last": _percent(line["echo_last"]),
        "grounded, last": share["grounded_rate"],
        "hallucinated, last": share["hallucination_rate"],
        "valid, last": _percent(line["valid_last"]),
        "collapse": "none" if line["collapsed"] is None else f"at update {line['collapsed']}{over}",
        "2 words": "never" if line["two_words"] is None else f"at update {line['two_words']}",
    }


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %" if np.isfinite(value) else "–"


# --- What a thought decides


@exhibit(
    "reasoning-swaps",
    "What a thought tells and what it decides: success with thoughts left out and exchanged",
    methods=("reasoning",),
    beside=("reasoning-zero-shot",),
)
def swaps_table(records: Records) -> Table | None:
    """An agent's own thoughts, none, and another state's: what each comes to, and what thoughts tell."""
    main = main_arms(records)
    agents = [main[name] for name in ("reasoning-zero-shot", "reasoning") if name in main]
    swaps = [(arm, policy) for arm in agents if arm.estimate(EMPTIED) for policy in (SAMPLED, EMPTIED, ANOTHERS)]
    if not swaps:
        return None
    lines = [_swap_line(arm, policy, main.get("reasoning")) for arm, policy in swaps]
    rows = [_swap_row(arm, policy, line) for (arm, policy), line in zip(swaps, lines, strict=True)]
    return Table(pd.DataFrame(lines), pd.DataFrame(rows), _SWAP_NOTES)


_SWAP_NOTES = (
    "each layout played to its end, mean [95 % interval] over seeds and layouts; lost: points of success (each run)",
    "actions changed: the share that are others with the same random numbers, in 24 states, mean of the seeds; "
    "of the untuned agent before the first update, of the trained one after the last",
    "told: what a thought says of which of K states it belongs to, of at most log K nats; right: how often that state "
    "is the likeliest; none of this is in the report",
)
_CHANGED = {EMPTIED: "swap_empty", ANOTHERS: "swap_other"}
_INFORMATION = ("mi_retrieval", "mi_bound", "retrieval_accuracy", "thought_entropy")


def _swap_row(arm: ReasoningArm, policy: str, line: dict[str, Any]) -> dict[str, str]:
    own = policy == SAMPLED
    names = {SAMPLED: "its own", EMPTIED: "left out", ANOTHERS: "from another episode's start"}
    return {
        "agent": arm.agent_and_state,
        "thoughts": names[policy],
        "success": measured(arm.estimate(policy), "success"),
        "lost": "" if own else _losses(lost(arm, policy)),
        "return": measured(arm.estimate(policy, "return"), "return"),
        "replies": measured(arm.estimate(policy, "length"), "length"),
        "actions changed": "" if own else _percent(line["changed"]),
        "told [nats]": _of(line["mi_retrieval"], line["mi_bound"]) if own else "",
        "right": _percent(line["retrieval_accuracy"]) if own else "",
        "seeds": str(len(arm.seeds)),
    }


def _swap_line(arm: ReasoningArm, policy: str, trained: ReasoningArm | None) -> dict[str, Any]:
    update = -1 if arm.trained else 0  # before any update, training has tested the untuned model
    line: dict[str, Any] = {"method": arm.kind, "thoughts": policy, "seeds": len(arm.seeds)}
    for metric in ("success", "return", "length"):
        end = arm.estimate(policy, metric)
        line |= {metric: end.value, f"{metric}_low": end.low, f"{metric}_high": end.high} if end else {}
    losses = None if policy == SAMPLED else lost(arm, policy)
    line["lost"] = np.nan if losses is None else losses.mean()
    line["changed"] = _at(trained, _CHANGED[policy], update) if policy in _CHANGED else np.nan
    return line | {name: _at(trained, name, update) if policy == SAMPLED else np.nan for name in _INFORMATION}


def lost(arm: ReasoningArm, policy: str) -> np.ndarray | None:
    """[seeds]: points of success that each run loses when its thoughts are swapped, on the same layouts."""
    scores, under = arm.scores(SAMPLED), arm.scores(policy)
    return None if scores is None or under is None else (scores - under).mean(axis=1)


def _losses(losses: np.ndarray | None) -> str:
    """`21 (27, 0, 37)`: the mean, then run by run."""
    if losses is None:
        return "–"
    runs = f" ({', '.join(f'{each:.0f}' for each in losses)})" if len(losses) > 1 else ""
    return f"{losses.mean():.0f}{runs}"


def _at(arm: ReasoningArm | None, metric: str, update: int) -> float:
    series = arm.series(metric) if arm else None
    return float(series[1][:, update].mean()) if series else np.nan


def _of(value: float, bound: float) -> str:
    return f"{value:.2f} of {bound:.2f}" if np.isfinite(value) else "–"
