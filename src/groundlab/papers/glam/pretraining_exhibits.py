"""The language models that ship: what each knows by its probes, how it was made, and how it learns by PPO.

    models_table()        # recipe, temperature, cost, the command that pretrains it again
    probe_figure()        # share of right answers, models by probes

These two are read from the `recipe.json` beside the weights, which pretraining wrote; no model is loaded and no run
needed. The doses hold what a model knew beside how it was tuned by PPO, and do need runs.
"""

from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from groundlab.assets import MODELS
from groundlab.core import storage
from groundlab.papers.glam.arms import CONTROL, EIGHT, STYLES, GlamArm, glam_arms, pretraining_facts, temperature
from groundlab.papers.glam.tables import FRAMES, LEVEL, reached_by_seed
from groundlab.report.curves import FILLING, RUNNING_SUCCESS, draw_running_success, in_thousands
from groundlab.report.exhibits import exhibit
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate
from groundlab.report.style import COLOURS, PALETTE, legend_below, new_figure
from groundlab.report.tables import Column, Table

WHOLE = "all"
"""The name of a recipe that leaves nothing out."""
BINDING = "binding: places, 8 things"
_BINDING_PREFIX = "binding: "
_USUAL_WIDTH = 96  # of the T5s that ship
_COLOURS, _DARK = "Blues", 0.6  # share from which text on a cell is white
_UNTAUGHT = {"facecolor": "none", "edgecolor": COLOURS["orange"], "linewidth": 1.6}


def taught(recipe: dict[str, Any]) -> set[str]:
    """The topics that some stage of a recipe teaches."""
    return {topic for stage in recipe["stages"] for topic in stage["topics"]} - set(recipe["leave_out"])


def shipped(home: Path = MODELS) -> dict[str, dict[str, Any]]:
    """The `recipe.json` of each model in a folder of models: of those taught everything first, then by their names."""
    found = {file.parent.name: storage.read_json(file) for file in sorted(home.glob("*/recipe.json"))}
    return dict(sorted(found.items(), key=lambda model: recipe_name(model[1]) != WHOLE))


# --- What ships


@exhibit("glam-models", "The language models that ship, and how each was made")
def models_table(home: Path = MODELS) -> Table:
    """One row a model; the CSV has one row a model and probe."""
    models = shipped(home)
    lines = [
        {"model": name, "probe": probe, "success": 100.0 * share, "questions": facts["recipe"]["probe_samples"]}
        for name, facts in models.items()
        for probe, share in facts["probes"].items()
    ]
    return Table.of(models.items(), _MODEL_COLUMNS, _MODEL_NOTES, data=lines)


_AGAIN = "groundlab pretrain {name} --seed {seed}"
_MODEL_COLUMNS: list[Column[tuple[str, dict[str, Any]]]] = [
    Column("model", lambda model: model[0]),
    Column("recipe", lambda model: recipe_name(model[1]), lambda recipe: "everything" if recipe == WHOLE else recipe),
    Column("architecture", lambda model: _shape(model[1]["recipe"]["architecture"])),
    Column("parameters", lambda model: model[1]["parameters"], "{:,}"),
    Column("temperature", lambda model: model[1]["temperature"], "{:.2f}"),
    Column("CPU", lambda model: model[1]["cpu_seconds"], "{:,} s"),
    Column("pretrained", lambda model: "{date}, {hardware}".format(**model[1])),
    Column("again", lambda model: f"{_AGAIN.format(**model[1]['recipe'])} --out out/{model[0]}"),
]


def _shape(architecture: dict[str, Any]) -> str:
    layers = [architecture["layers"]] + [architecture["decoder_layers"]] * (architecture["family"] == "t5")
    return f"{architecture['family']}, {' + '.join(map(str, layers))} layers, width {architecture['width']}"


_MODEL_NOTES = (
    "recipe: what differs from the whole corpus, its steps, and initial values that favour binding",
    "temperature: what scores of actions are divided by; found on random scenes, success is never looked at",
    "CPU: seconds of one core for all training steps; the model's seed draws corpus, tokenizer and weights",
)


@exhibit("glam-probes", "What each shipped language model knows: held-out questions of its corpus, answered right")
def probe_figure(home: Path = MODELS) -> Figure:
    """Two panels of cells, models by probes: topics of the corpus, and the binding probes."""
    models = shipped(home)
    asked = list(dict.fromkeys(probe for facts in models.values() for probe in facts["probes"]))
    panels = [
        ("questions by topic", [probe for probe in asked if not probe.startswith(_BINDING_PREFIX)]),
        ("binding", [probe for probe in asked if probe.startswith(_BINDING_PREFIX)]),
    ]
    panels = [(title, chosen) for title, chosen in panels if chosen]
    widths = [len(chosen) for _, chosen in panels]
    recipes = {name: recipe_name(facts) for name, facts in models.items()}
    labels = [name if recipe == WHOLE else f"{name}\n{recipe}" for name, recipe in recipes.items()]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    width, height = 0.3 + 0.07 * longest + 0.68 * sum(widths), 2.4 + 0.42 * len(models)
    figure, axes = new_figure(width, height, 1, len(panels), sharey=True, width_ratios=widths)
    for axis, (title, chosen) in zip(axes[0], panels, strict=True):
        _cells(axis, list(models.values()), chosen)
        axis.set_title(title)
    axes[0, 0].set_yticks(range(len(models)), labels)
    figure.legend(
        handles=[Patch(**_UNTAUGHT, label="the model was not taught this topic")],
        title="number in a cell: percent of answers that are right to the last word",
        loc="outside lower center",
    )
    return figure


def _cells(axis: Axes, models: list[dict[str, Any]], chosen: list[str]) -> None:
    """A coloured cell with its number for each model and probe; blank where the probe was not asked."""
    values = np.array([[100.0 * facts["probes"].get(probe, np.nan) for probe in chosen] for facts in models])
    axis.imshow(values, cmap=_COLOURS, vmin=0, vmax=100, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        colour = "white" if value > 100 * _DARK else "black"
        axis.text(column, row, f"{np.floor(value + 0.5):.0f}", ha="center", va="center", color=colour)
        if not chosen[column].startswith(_BINDING_PREFIX) and chosen[column] not in taught(models[row]["recipe"]):
            axis.add_patch(Rectangle((column - 0.47, row - 0.46), 0.94, 0.92, **_UNTAUGHT))
    names = [probe.removeprefix(_BINDING_PREFIX).replace("_", " ") for probe in chosen]
    axis.set_xticks(range(len(chosen)), names, rotation=45, ha="right", rotation_mode="anchor")
    axis.tick_params(length=0)
    axis.grid(False)
    axis.spines[:].set_visible(False)


# --- The dose of prior knowledge

TESTED = {
    "synonyms": ("adj_synonym", "synonyms of the colours"),
    "verbs": ("synonyms", "other words for the actions"),
    "french_spatial": ("BabyAI-GoToFrench-v0", "French"),
}
"""Probe -> (the generalisation test that needs what it asks, what the test is)."""
_MARKERS = ("o", "^", "s")


def doses(records: Records) -> list[tuple[GlamArm, dict[str, Any]]]:
    """The tuned agents that differ only in the model they start from and in the temperature, least binding first.

    They are those of the world where most of them were tuned.
    """
    tuned = [each for each in glam_arms(records) if each.kind == "glam" and each.learns]
    same = [each for each in tuned if each.study in ("", "model", "temperature")]
    known = [(each, facts) for each in same if (facts := pretraining_facts(each.settings.get("model", "")))]
    worlds = Counter(agent.world for agent, _ in known)
    world = max(worlds, key=worlds.__getitem__, default=None)
    there = [pair for pair in known if pair[0].world == world]
    return sorted(there, key=lambda pair: (pair[1]["probes"][BINDING], temperature(pair[0].settings)))


def recipe_name(facts: dict[str, Any]) -> str:
    """`all`, `25% of the steps`, `no affordances`, `stock initial values`, `several tasks, no french`."""
    recipe = facts["recipe"]
    topics = taught(recipe)
    asked = [probe for probe in facts["probes"] if ":" not in probe]
    untaught = [*recipe["leave_out"], *(topic for topic in asked if topic not in {*topics, *recipe["leave_out"]})]
    parts = ["several tasks"] if "targets" in topics else []
    parts += [f"no {', '.join(untaught)}"] if untaught else []
    parts += [f"{recipe['dose']:.0%} of the steps"] if recipe["dose"] != 1 else []
    shape = recipe["architecture"]
    parts += [f"width {shape['width']}"] if shape["family"] == "t5" and shape["width"] != _USUAL_WIDTH else []
    parts += [] if shape["binding_start"] else ["stock initial values"]
    return (", ".join(parts) or WHOLE).replace("_", " ")


def dose_name(facts: dict[str, Any]) -> str:
    """The recipe and its pretraining seed: `all (seed 0)`."""
    return f"{recipe_name(facts)} (seed {facts['recipe']['seed']})"


@exhibit(
    "glam-doses",
    "What each model knew, how fast it learnt, and what was left under other words",
    methods=("glam",),
    beside=(),
)
def doses_table(records: Records) -> Table | None:
    """One row a model and temperature: what its probes say it knew, how fast it learnt by PPO, and what was left under
    other words. None where a single one was tuned: one dose compares nothing.
    """
    pairs = doses(records)
    if len(pairs) < 2:
        return None
    return Table.of([agent for agent, _ in pairs], _dose_columns(pairs), _DOSE_NOTES)


_DOSE_NOTES = (
    "temperature: what scores of actions are divided by, in tuning and tests; where models differ in it, a difference "
    "between them has two possible causes",
    "knew: accuracy on held-out questions before any tuning (400 each): the place of a named thing among eight; "
    "synonyms; what verbs do; French places",
    "then: success after tuning, in percent, mean [95 % interval] over seeds and layouts; one mission: every prompt "
    "names one fixed mission",
    f"frames to {LEVEL} %: ≤ where the curve begins there, so that it may have been earlier; such rows do not tell "
    "doses apart",
    "models with one seed of PPO give no verdict",
)


def _dose_columns(pairs: list[tuple[GlamArm, dict[str, Any]]]) -> list[Column[GlamArm]]:
    facts = {agent.key: known for agent, known in pairs}
    probes = dict.fromkeys(probe for known in facts.values() for probe in known["probes"])
    policies = dict.fromkeys(policy for agent, _ in pairs for policy in agent.evaluations["policy"].unique())
    after = {"": "then: success", EIGHT: "8 objects", f"{EIGHT} {CONTROL}": "8, one mission"}
    after |= {**dict(TESTED.values()), "no_meaning_words": "invented words"}

    def knew(probe: str) -> Callable[[GlamArm], float | None]:
        return lambda agent: facts[agent.key]["probes"].get(probe)

    def level(policy: str) -> Callable[[GlamArm], float | None]:
        return lambda agent: found.value if (found := agent.estimate(policy)) else None

    def left(test: str) -> Callable[[GlamArm], Estimate | None]:
        return lambda agent: agent.estimate(agent.played_in(test))

    return [
        Column("model", lambda agent: agent.settings["model"], caption=""),
        Column("pretrained on", lambda agent: dose_name(facts[agent.key])),
        Column("temperature", lambda agent: temperature(agent.settings), "{:.2f}"),
        Column("cpu_seconds", lambda agent: facts[agent.key]["cpu_seconds"], caption=""),
        Column("", knew(BINDING), "{:.0%}", "knew: binding"),
        *(Column("", knew(probe), "{:.0%}", f"knew: {probe.replace('_', ' ')}") for probe in TESTED),
        *(Column(f"probe {probe}", knew(probe), caption="") for probe in probes),
        Column("seeds", lambda agent: len(agent.seeds), caption="PPO seeds"),
        Column("efficiency", lambda agent: agent.efficiency().value, "{:.0f} %", "sample efficiency"),
        *FRAMES,
        *(Column("", left(test), "success", title) for test, title in after.items()),
        *(Column(policy, level(policy), caption="") for policy in policies),
    ]


@exhibit(
    "glam-dose-curves",
    "The dose of prior knowledge: models pretrained on less, tuned by the same PPO",
    methods=("glam",),
    beside=("npe",),
)
def doses_figure(records: Records) -> Figure | None:
    """Learning by model; frames to a level by what the model could bind; other words by what it knew of them.

    Each model at the temperature that its pretraining wrote down, which differs. None where a single model was tuned.
    """
    pairs = [(agent, facts) for agent, facts in doses(records) if temperature(agent.settings) == facts["temperature"]]
    if len(pairs) < 2:
        return None
    figure, axes = new_figure(11.4, 4.5, 1, 3)
    colours = cycle(colour for colour in PALETTE if colour != STYLES["npe"].colour)
    for (agent, facts), colour in zip(pairs, colours, strict=False):
        label = f"{dose_name(facts)}, temperature {facts['temperature']:.2f}"
        draw_running_success(axes[0, 0], agent, colour, label)
        for each in reached_by_seed(agent):
            marker, fill = ("^", "none") if each.unfinished else ("v", "none") if each.earlier else ("o", "full")
            point = 100 * facts["probes"][BINDING], each.frames / 1000
            axes[0, 1].plot(*point, marker, color=colour, fillstyle=fill, alpha=0.8)
        for (probe, (test, _)), marker in zip(TESTED.items(), _MARKERS, strict=True):
            if after := agent.estimate(agent.played_in(test)):
                look = {"fmt": marker, "color": colour, "markersize": 5, "elinewidth": 0.7}
                axes[0, 2].errorbar(100 * facts["probes"][probe], after.value, after.bars, **look)
    for agent in glam_arms(records):
        if agent.name == "npe" and agent.world == pairs[0][0].world and agent.learns:
            draw_running_success(axes[0, 0], agent, STYLES["npe"].colour, "token embeddings only (NPE)", "--")
    _finish(axes[0])
    legend_below(figure, axes[0, :1])
    return figure


def _finish(axes: Any) -> None:
    in_thousands(axes[0], "frames")
    axes[0].set(title=f"learning\n{FILLING}", ylabel=RUNNING_SUCCESS, ylim=(0, 103))
    axes[1].set(
        title=f"frames to {LEVEL} %\n△ not reached, ▽ or earlier",
        xlabel="binding probe:\nplace of a thing among 8 [%]",
        ylabel="thousand frames",
        ylim=(0, None),
    )
    axes[2].set(
        title="other words, after tuning\nbars: 95 % intervals",
        xlabel="what the model knew of them\n[% of its probe]",
        ylabel="success [%]",
        ylim=(0, 103),
    )
    for marker, (_, title) in zip(_MARKERS, TESTED.values(), strict=True):
        axes[2].plot([], [], marker, color="#666666", label=title)
    axes[2].legend(loc="lower left")
