"""The GLAM paper's runs as arms: which method learns with which settings, and how each arm is named and drawn."""

from functools import cache
from typing import ClassVar

from groundlab import assets
from groundlab.report import arms
from groundlab.report.arms import Arm, Settings
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate
from groundlab.report.style import COLOURS, PUBLISHED_COLOUR, PlotStyle

STYLES = {
    "glam": PlotStyle("pretrained LM, PPO (GLAM)", COLOURS["orange"], "o"),
    "glam-extended": PlotStyle("GLAM, options of later papers", COLOURS["orange"], "h"),
    "aflan": PlotStyle("pretrained LM, action head", COLOURS["pink"], "P"),
    "npe": PlotStyle("embeddings only, scoring (NPE)", COLOURS["blue"], "s"),
    "npae": PlotStyle("embeddings only, action head (NPAE)", COLOURS["sky"], "^"),
    "npa": PlotStyle("random weights, action head (NPA)", COLOURS["violet"], "v"),
    "drrn": PlotStyle("DRRN", COLOURS["green"], "D"),
    "symbolic": PlotStyle("symbolic PPO", COLOURS["olive"], "X"),
    "cloning": PlotStyle("cloning", COLOURS["black"], "p"),
    "zero-shot": PlotStyle("LM without tuning", COLOURS["grey"], "*"),
    "own-answers": PlotStyle("LM's own answers, no PPO", COLOURS["pink"], "p"),
    "random": PlotStyle("random", COLOURS["yellow"], "d"),
    "bot": PlotStyle("bot", PUBLISHED_COLOUR, "h"),
}
EIGHT, MIXED = "BabyAI-GoToLocal-v0", "BabyAI-MixedTrainLocal-v0"
CONTROL = "fixed-mission"


# none of models that do not ship: a page must not depend on what was pretrained here
pretraining_facts = cache(lambda model: {} if assets.recipe_of(model) else assets.pretraining_facts(model))


def temperature(settings: Settings) -> float | str | None:
    """What scores are divided by; `stored` where no file here tells the number, None where they are not divided."""
    chosen = settings.get("temperature")
    return pretraining_facts(settings.get("model", "")).get("temperature", chosen) if chosen == "stored" else chosen


class GlamArm(Arm):
    """The runs of one arm in one world."""

    paper = "glam"
    styles: ClassVar = STYLES

    @property
    def policy(self) -> str:
        """The policy that stands for the arm."""
        return self.kind if self.kind in ("random", "bot") else "sampled"

    @property
    def learns(self) -> bool:
        """Whether there is a learning curve: records of training episodes."""
        return "episodes" in self.curves and bool(self.curves["episodes"].notna().any())

    def played_in(self, test: str) -> str:
        """The policy of the arm under a test's name; of no test that of the arm itself."""
        return f"{self.policy} {test}".strip()

    def cost(self, test: str) -> Estimate | None:
        """How many points of success the control of a fixed mission costs in a test, on the same layouts."""
        return arms.difference((self, self.played_in(test)), (self, self.played_in(f"{test} {CONTROL}".strip())))


LEAD = ("words", "corpus")
"""Studies of what the lead hangs on: their arms are in one table of their own (pretraining_study.py)."""


def glam_arms(records: Records) -> list[GlamArm]:
    """All arms of this paper but those of `LEAD`."""
    return [each for each in arms.arms(records, GlamArm) if each.study not in LEAD]
