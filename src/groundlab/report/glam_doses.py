"""The dose of prior knowledge: what a language model knew before, against how it learnt and what it could do after.

The same network is pretrained on less, or with topics left out; each is tuned by the same PPO. What
each model knew is told by the probes that pretraining wrote beside its weights (assets/models/*/recipe.json): held-out
questions, none of them about acting. Read first: `doses_table`. Called from: exhibits.py.
"""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from groundlab.core import storage
from groundlab.report.glam import CONTROL, EIGHT, Agent, agents
from groundlab.report.glam_learning import LEVEL, WINDOW, draw_curve, frames_cell, learns, mean_success, reached
from groundlab.report.language import MODELS
from groundlab.report.records import Records
from groundlab.report.style import new_figure
from groundlab.report.tables import Table, measured

BINDING = "binding: places, 8 things"
TESTED = {
    "synonyms": ("adj_synonym", "synonyms of the colours"),
    "verbs": ("synonyms", "other words for the actions"),
    "french_spatial": ("BabyAI-GoToFrench-v0", "French"),
}
"""Probe -> (the generalisation test that needs what it asks, what the test is)."""
_COLOURS = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D31", "#7A4B9A", "#4C4C4C")
_MARKERS = ("o", "^", "s")


def pretraining_of(agent: Agent) -> dict[str, Any] | None:
    """What pretraining wrote down beside the model that an agent starts from; None for models of other makers."""
    name = next(iter(agent.curves["settings"]), {}).get("model", "")
    file = MODELS / name / "recipe.json"
    return {"model": name, **storage.read_json(file)} if name and file.is_file() else None


def doses(records: Records) -> list[tuple[Agent, dict[str, Any]]]:
    """The tuned agents that differ only in the model they start from, in its usual world, least binding first."""
    tuned = [each for each in agents(records) if each.method == "glam" and learns(each)]
    world = next((each.world for each in tuned if not each.varied), None)
    only_model = [each for each in tuned if each.world == world and each.varied.count(",") == 0]
    found = [(each, pretraining_of(each)) for each in only_model if not each.varied or each.other_model]
    known = [(agent, facts) for agent, facts in found if facts is not None]
    return sorted(known, key=lambda pair: pair[1]["probes"][BINDING])


def dose_name(facts: dict[str, Any]) -> str:
    """`all, seed 0`, `a quarter of the steps`, `no affordances`, `stock initial values`."""
    recipe = facts["recipe"]
    parts = [f"no {', '.join(recipe['leave_out'])}"] if recipe["leave_out"] else []
    parts += [f"{recipe['dose']:.0%} of the steps"] if recipe["dose"] != 1 else []
    parts += [] if recipe["architecture"]["binding_start"] else ["stock initial values"]
    return (", ".join(parts) or "all").replace("_", " ") + f" (seed {recipe['seed']})"


def doses_table(records: Records) -> Table | None:
    """One row a model: what its probes say it knew, how fast it learnt by PPO, and what was left under other words."""
    found = doses(records)
    if not found:
        return None
    return Table(
        pd.DataFrame([_line(agent, facts) for agent, facts in found]),
        pd.DataFrame([_row(agent, facts) for agent, facts in found]),
        _NOTES,
    )


_NOTES = (
    "knew: accuracy on held-out questions before any tuning (400 each): the place of a named thing among eight; "
    "synonyms; what verbs do; French places",
    "then: success after tuning, in percent, mean [95 % interval] over seeds and layouts; one mission: every prompt "
    "names one fixed mission",
    "models with one seed of PPO show the shape only",
)


def _row(agent: Agent, facts: dict[str, Any]) -> dict[str, str]:
    probes = facts["probes"]
    return {
        "pretrained on": dose_name(facts),
        "knew: binding": f"{probes[BINDING]:.0%}",
        **{f"knew: {probe.replace('_', ' ')}": f"{probes[probe]:.0%}" for probe in TESTED},
        "PPO seeds": str(agent.curves["seed"].nunique()),
        "sample efficiency": f"{mean_success(agent).value:.0f} %",
        f"frames to {LEVEL} %": frames_cell(agent),
        "then: success": _cell(agent, agent.policy),
        "8 objects": _cell(agent, f"{agent.policy} {EIGHT}"),
        "8, one mission": _cell(agent, f"{agent.policy} {EIGHT} {CONTROL}"),
        **{title: _cell(agent, f"{agent.policy} {test}") for test, title in TESTED.values()},
        "invented words": _cell(agent, f"{agent.policy} no_meaning_words"),
    }


def _cell(agent: Agent, policy: str) -> str:
    return measured(agent.estimate(policy), "success")


def _line(agent: Agent, facts: dict[str, Any]) -> dict[str, Any]:
    frames, bound = reached(agent)
    after = {policy: agent.estimate(policy) for policy in agent.evaluations["policy"].unique()}
    return {
        "model": facts["model"],
        "pretrained on": dose_name(facts),
        "temperature": facts["temperature"],
        "cpu_seconds": facts["cpu_seconds"],
        **{f"probe {name}": value for name, value in facts["probes"].items()},
        "seeds": agent.curves["seed"].nunique(),
        "efficiency": mean_success(agent).value,
        f"frames_to_{LEVEL}": frames.mean(),
        "bound": bound,
        **{policy: estimate.value for policy, estimate in after.items() if estimate},
    }


def doses_figure(records: Records) -> Figure | None:
    """Learning by model; frames to a level by what the model could bind; other words by what it knew of them."""
    found = doses(records)
    if not found:
        return None
    figure, axes = new_figure(11.4, 4.2, 1, 3)
    for (agent, facts), colour in zip(found, _COLOURS, strict=False):
        draw_curve(axes[0, 0], agent, colour, label=dose_name(facts))
        _draw_frames(axes[0, 1], agent, facts, colour)
        _draw_tests(axes[0, 2], agent, facts, colour)
    for agent in agents(records):
        if agent.method == "npe" and learns(agent) and not agent.varied:
            draw_curve(axes[0, 0], agent, "#0072B2", "--", label="token embeddings only (NPE)")
    _finish(axes[0])
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw_frames(axis: Axes, agent: Agent, facts: dict[str, Any], colour: str) -> None:
    for _, curve in agent.curves.groupby("seed"):
        frames, bound = reached(Agent(agent.method, agent.world, agent.varied, agent.evaluations, curve))
        x = 100 * facts["probes"][BINDING]
        axis.plot(x, frames[0] / 1000, "^" if bound else "o", color=colour, fillstyle="none" if bound else "full")


def _draw_tests(axis: Axes, agent: Agent, facts: dict[str, Any], colour: str) -> None:
    for (probe, (test, _)), marker in zip(TESTED.items(), _MARKERS, strict=True):
        after = agent.estimate(f"{agent.policy} {test}")
        if after:
            spread = [[after.value - after.low], [after.high - after.value]]
            x = 100 * facts["probes"][probe]
            axis.errorbar(x, after.value, spread, fmt=marker, color=colour, markersize=5, elinewidth=0.7)


def _finish(axes: Any) -> None:
    success = f"success of the last {WINDOW} episodes [%]"
    axes[0].set(title="learning", xlabel="frames", ylabel=success, xlim=(0, None), ylim=(0, 103))
    axes[1].set(
        title=f"frames to {LEVEL} % (open: not reached)",
        xlabel="binding probe: place of a thing among 8 [%]",
        ylabel="thousand frames",
        ylim=(0, None),
    )
    axes[2].set(
        title="other words, after tuning",
        xlabel="what the model knew of them [% of its probe]",
        ylabel="success [%]",
        ylim=(0, 103),
    )
    for marker, (_, title) in zip(_MARKERS, TESTED.values(), strict=True):
        axes[2].plot([], [], marker, color="#666666", label=title)
    axes[2].legend(loc="lower left")
