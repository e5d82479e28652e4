"""The GLAM paper's runs as arms: who learns by which method, how each is called and drawn, and what varies.

The usual settings of a method are those of most of its runs, in any world; other arms name what differs from them. Of
a stored temperature that is the number: models differ in it, so arms that start from two models may differ in both.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

from groundlab.assets import MODELS
from groundlab.core import storage
from groundlab.report import arms
from groundlab.report.arms import Arm, Run, Settings, most_common
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate
from groundlab.report.style import COLOURS, PUBLISHED_COLOUR, PlotStyle

STYLES = {
    "glam": PlotStyle("pretrained LM, PPO (GLAM)", COLOURS["orange"], "o"),
    "aflan": PlotStyle("pretrained LM, action head", COLOURS["pink"], "P"),
    "npe": PlotStyle("embeddings only, scoring (NPE)", COLOURS["blue"], "s"),
    "npae": PlotStyle("embeddings only, action head (NPAE)", COLOURS["sky"], "^"),
    "npa": PlotStyle("random weights, action head (NPA)", COLOURS["violet"], "v"),
    "drrn": PlotStyle("DRRN", COLOURS["green"], "D"),
    "symbolic": PlotStyle("symbolic PPO", COLOURS["olive"], "X"),
    "cloning": PlotStyle("cloning", COLOURS["black"], "p"),
    "zero-shot": PlotStyle("LM without tuning", COLOURS["grey"], "*"),
    "random": PlotStyle("random", COLOURS["yellow"], "d"),
    "bot": PlotStyle("bot", PUBLISHED_COLOUR, "h"),
}
EIGHT = "BabyAI-GoToLocal-v0"
CONTROL = "fixed-mission"
_NAMED = (
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
"""The settings by which arms may differ."""


@cache
def pretraining_facts(model: str) -> dict[str, Any]:
    """What pretraining wrote down beside a model of our own (`recipe.json`); empty for models of other makers."""
    file = MODELS / model / "recipe.json"
    return storage.read_json(file) if model and file.is_file() else {}


def temperature(settings: Settings) -> float | str | None:
    """What scores are divided by; `stored` where no file here tells the number, None where they are not divided."""
    chosen = settings.get("temperature")
    return pretraining_facts(settings.get("model", "")).get("temperature", chosen) if chosen == "stored" else chosen


class GlamArm(Arm):
    """The runs of one method in one world that share their settings."""

    paper = "glam"
    styles: ClassVar = STYLES

    @classmethod
    def baseline_settings(cls, kind: str, world: str, runs: Sequence[Run]) -> Settings:
        """The settings that most runs of the method have, in any world; in a tie, the first with the most tests."""
        own = [run.settings for run in runs if run.kind == kind]
        return most_common(own, lambda each: (len(each.get("tests", [])), each.get("temperature") == "stored"))

    @classmethod
    def overrides_of(cls, settings: Settings, baseline: Settings) -> Settings:
        """The named settings that are not those of the baseline, with the number of a stored temperature."""
        ours, usual = (each | {"temperature": temperature(each)} for each in (settings, baseline))
        return {key: ours.get(key) for key in _NAMED if ours.get(key) != usual.get(key)}

    @classmethod
    def phrase(cls, name: str, value: Any) -> str:
        """`nbr_obs 3`, `temperature 2.14`; of the original's quirks those that are on."""
        if name == "temperature" and isinstance(value, float):
            return f"{name} {value:.3g}"
        if name != "fidelity":
            return super().phrase(name, value)
        return ", ".join(key.replace("_", " ") for key, on in (value or {}).items() if on) or "no quirks"

    @property
    def policy(self) -> str:
        """The policy that stands for the arm."""
        return self.kind if self.kind in ("random", "bot") else "sampled"

    @property
    def learns(self) -> bool:
        """Whether there is a learning curve: records of training episodes."""
        return "episodes" in self.curves and bool(self.curves["episodes"].notna().any())

    def cost(self, policy: str, control: str) -> Estimate | None:
        """How many points of success the control costs, on the same layouts."""
        return arms.difference((self, policy), (self, control))


def glam_arms(records: Records) -> list[GlamArm]:
    """All arms of this paper."""
    return arms.arms(records, GlamArm)


def short(world: str) -> str:
    """`GoToLocal` for `BabyAI-GoToLocal-v0`."""
    return world.removeprefix("BabyAI-").removesuffix("-v0")
