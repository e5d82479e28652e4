"""The language models that ship: what each knows by its probes, and how it was made.

    models = shipped()          # every folder of assets/models, those that were taught everything first
    models_table(models)        # recipe, temperature, cost, the command that pretrains it again
    probe_figure(models)        # share of right answers, models by probes

All is read from the `recipe.json` beside the weights, which pretraining wrote; no model is loaded and no run needed.
Called from: exhibits.py, notebooks/01_language_model.ipynb. Read next: `language/probes.py`, what a probe asks.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from groundlab import assets
from groundlab.core import storage
from groundlab.report.records import Records
from groundlab.report.style import new_figure
from groundlab.report.tables import Table

MODELS = Path(assets.__file__).parent / "models"
_BINDING = "binding: "
_COLOURS, _DARK = "Blues", 0.6  # share from which text on a cell is white
_UNTAUGHT = {"facecolor": "none", "edgecolor": "#D55E00", "linewidth": 1.6}


@dataclass(frozen=True)
class Model:
    """A shipped model by the name of its folder, and what its `recipe.json` says."""

    name: str
    facts: dict[str, Any]

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe that it was pretrained by."""
        return self.facts["recipe"]

    @property
    def probes(self) -> dict[str, float]:
        """Probe -> percent of right answers."""
        return {probe: 100.0 * share for probe, share in self.facts["probes"].items()}

    @property
    def taught(self) -> set[str]:
        """The topics that some stage teaches."""
        return {topic for stage in self.recipe["stages"] for topic in stage["topics"]} - set(self.recipe["leave_out"])

    @property
    def differs(self) -> str:
        """What its recipe leaves out or changes: "no affordances", "25% of the steps"; "" when nothing."""
        left_out = ", ".join(self.recipe["leave_out"]).replace("_", " ")
        parts = [f"no {left_out}"] * bool(left_out)
        parts += [f"{self.recipe['dose']:.0%} of the steps"] * (self.recipe["dose"] != 1)
        parts += ["stock initial values"] * (not self.recipe["architecture"]["binding_start"])
        return ", ".join(parts)

    @property
    def command(self) -> str:
        """What pretrains it again."""
        return f"groundlab pretrain {self.recipe['name']} --seed {self.recipe['seed']} --out out/{self.name}"


def shipped(home: Path = MODELS) -> list[Model]:
    """The models in a folder of models: those that were taught everything first, then by name."""
    models = [Model(file.parent.name, storage.read_json(file)) for file in home.glob("*/recipe.json")]
    return sorted(models, key=lambda model: (bool(model.differs), model.name))


def models(records: Records) -> Table:
    """The exhibit `glam-models`: of what ships, whatever was run."""
    return models_table(shipped())


def probes(records: Records) -> Figure:
    """The exhibit `glam-probes`: of what ships, whatever was run."""
    return probe_figure(shipped())


def models_table(models: list[Model]) -> Table:
    """One row a model; the CSV has one row a model and probe."""
    lines = [
        {"model": model.name, "probe": probe, "success": value, "questions": model.recipe["probe_samples"]}
        for model in models
        for probe, value in model.probes.items()
    ]
    return Table(pd.DataFrame(lines), pd.DataFrame([_row(model) for model in models]), _NOTES)


def _row(model: Model) -> dict[str, str]:
    facts = model.facts
    return {
        "model": model.name,
        "recipe": model.differs or "everything",
        "architecture": _shape(model.recipe["architecture"]),
        "parameters": f"{facts['parameters']:,}",
        "temperature": f"{facts['temperature']:.2f}",
        "CPU": f"{facts['cpu_seconds']:,} s",
        "pretrained": f"{facts['date']}, {facts['hardware']}",
        "again": model.command,
    }


def _shape(architecture: dict[str, Any]) -> str:
    layers = [architecture["layers"]] + [architecture["decoder_layers"]] * (architecture["family"] == "t5")
    return f"{architecture['family']}, {' + '.join(map(str, layers))} layers, width {architecture['width']}"


_NOTES = (
    "recipe: what differs from the whole corpus, its steps, and initial values that favour binding",
    "temperature: what scores of actions are divided by; found on random scenes, success is never looked at",
    "CPU: seconds of one core for all training steps; the model's seed draws corpus, tokenizer and weights",
)


def probe_figure(models: list[Model]) -> Figure:
    """Two panels of cells, models by probes: topics of the corpus, and the binding probes."""
    asked = list(dict.fromkeys(probe for model in models for probe in model.probes))
    panels = [
        ("questions by topic", [probe for probe in asked if not probe.startswith(_BINDING)]),
        ("binding: which place is whose", [probe for probe in asked if probe.startswith(_BINDING)]),
    ]
    panels = [(title, chosen) for title, chosen in panels if chosen]
    widths, labels = [len(chosen) for _, chosen in panels], [_label(model) for model in models]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    width, height = 0.3 + 0.07 * longest + 0.68 * sum(widths), 1.7 + 0.42 * len(models)
    figure, axes = new_figure(width, height, 1, len(panels), sharey=True, width_ratios=widths)
    for axis, (title, chosen) in zip(axes[0], panels, strict=True):
        _cells(axis, models, chosen)
        axis.set_title(title)
    axes[0, 0].set_yticks(range(len(models)), labels)
    figure.legend(
        handles=[Patch(**_UNTAUGHT, label="the model was not taught this topic")],
        title="number in a cell: percent of answers that are right to the last word",
        loc="outside lower center",
    )
    return figure


def _label(model: Model) -> str:
    return f"{model.name}\n{model.differs}" if model.differs else model.name


def _cells(axis: Axes, models: list[Model], chosen: list[str]) -> None:
    """A coloured cell with its number for each model and probe; blank where the probe was not asked."""
    values = np.array([[model.probes.get(probe, np.nan) for probe in chosen] for model in models])
    axis.imshow(values, cmap=_COLOURS, vmin=0, vmax=100, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        colour = "white" if value > 100 * _DARK else "black"
        axis.text(column, row, f"{np.floor(value + 0.5):.0f}", ha="center", va="center", color=colour)
        if not chosen[column].startswith(_BINDING) and chosen[column] not in models[row].taught:
            axis.add_patch(Rectangle((column - 0.47, row - 0.46), 0.94, 0.92, **_UNTAUGHT))
    names = [probe.removeprefix(_BINDING).replace("_", "\n").replace(", ", "\n") for probe in chosen]
    axis.set_xticks(range(len(chosen)), names)
    axis.tick_params(length=0)
    axis.grid(False)
    axis.spines[:].set_visible(False)
