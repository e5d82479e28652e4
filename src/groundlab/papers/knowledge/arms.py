"""The knowledge paper's runs as arms: one potential or reward in one world, and whose knowledge it has.

The paper's own figures could not be had, so everything is held against phi = 0, plain PPO with as many steps and seeds:
the area under the learning curve (mean training success over all steps), and an exact permutation test of the seeds'
areas. Two potentials are controls: an oracle, which knows the task, and a random one, which knows
nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from groundlab.report import arms
from groundlab.report.arms import Arm, Settings
from groundlab.report.records import Records
from groundlab.report.statistics import Estimate, difference_interval, permutation_p
from groundlab.report.style import COLOURS, PlotStyle

STYLES = {
    "none": PlotStyle("φ = 0 (plain PPO)", COLOURS["grey"], "o"),
    "code": PlotStyle("BK-Code", COLOURS["orange"], "s"),
    "preference": PlotStyle("BK-Pref", COLOURS["blue"], "^"),
    "goals": PlotStyle("BK-Goal", COLOURS["green"], "D"),
    "rnd": PlotStyle("RND", COLOURS["pink"], "v"),
    "curious": PlotStyle("RND, on equal terms", COLOURS["plum"], "<"),
    "ellm": PlotStyle("reward in the style of ELLM", COLOURS["sky"], "P"),
    "motif": PlotStyle("reward in the style of Motif", COLOURS["yellow"], "p"),
    "oracle": PlotStyle("oracle potential (control, knows the task)", COLOURS["brown"], "*"),
    "random": PlotStyle("random potential (control, knows nothing)", COLOURS["black"], "X"),
    "constant": PlotStyle("φ = 1 (control, an offset)", "#B07AA1", "h"),
    "negated constant": PlotStyle("φ = -1 (control, an offset)", "#76448A", "H"),
    "negated code": PlotStyle("BK-Code, negated (control)", "#F0A070", "s"),
}
FORMS, REWARDS = ("code", "preference", "goals"), ("ellm", "motif")
CONTROLS = ("oracle", "random", "constant", "negated constant", "negated code")
POLICIES = ("sampled", "argmax")
PUBLIC_MODEL = "smollm2/"  # begins the names of folders with SmolLM2-135M-Instruct's replies
PROMPT_ALONE = "prompt-alone/"  # begins the names of programs whose writers saw nothing but the prompt
WRONG_BY_DEFAULT = 0.1  # of the scripted judge's answers, where the settings name no other share
QUIRKS = {
    "late": "paid one step late (Q2)",
    "no_boundaries": "episodes not kept apart (Q3)",
    "running_scale": "divided by a running deviation (Q4)",
    "carried_twice": "divided again when carried (Q4)",
    "shared_clock": "one clock for all environments (Q5)",
    "normalised_view": "programs read fractions (Q7)",
    "unclipped_gradients": "gradients not clipped (Q1)",
    "first_action_fills": "first window filled with its action",
    "unscaled_attention": "attention not scaled (Q16)",
}


class KnowledgeArm(Arm):
    """The runs of one potential in one world with one choice of settings."""

    paper = "knowledge"
    styles: ClassVar = STYLES

    @property
    def title(self) -> str:
        """As figures call it: `BK-Pref`, `BK-Pref, scripted labeller, error 40 %`."""
        return super().label

    @property
    def source(self) -> str:
        """Whose knowledge it is; empty where there is none."""
        return source_of(self.kind, self.settings)

    @property
    def label(self) -> str:
        """Name and source: `BK-Code (hand-written knowledge)`."""
        return self.title + (f" ({self.source})" if self.source else "")

    @property
    def dashes(self) -> str | tuple[int, tuple[int, int]]:
        """Its line in figures: controls are dashed."""
        return (0, (4, 2)) if self.kind in CONTROLS else "-"

    @property
    def frames(self) -> int:
        """The steps of all environments together that every seed has."""
        return self.shared_end("frames")

    @property
    def quirks(self) -> list[str]:
        """The original's deviations that are switched on, in the order of `QUIRKS`; one belongs to the labelling."""
        on = [name for name in QUIRKS if self.settings.get("fidelity", {}).get(name)]
        scaled = self.settings.get("labelling", {}).get("train", {}).get("scaled_attention", True)
        return on if scaled else [*on, "unscaled_attention"]


def source_of(kind: str, settings: Settings) -> str:
    """`hand-written knowledge`, `scripted labeller, error 10 %`, `own model quick-t5-s0`, or where it is from."""
    kind = kind.removeprefix("negated ")
    if kind not in (*FORMS, *REWARDS):
        return ""
    maker = settings.get("maker")
    if maker == "recorded":
        return "hand-written knowledge"
    if maker == "scripted":
        error = f", error {100 * label_error(settings):.0f} %" if kind in ("preference", "motif") else ""
        return f"scripted labeller{error}"
    if maker == "local":
        return f"own model {settings.get('model')}"
    source = settings.get("source")
    if str(source).startswith(PUBLIC_MODEL):
        return "SmolLM2-135M-Instruct" + (", shuffled" if settings.get("shuffled") else "")
    return "an unnamed model, from the prompt alone" if str(source).startswith(PROMPT_ALONE) else f"from {source}"


def label_error(settings: Settings) -> float:
    """The share of wrong answers of the scripted judge."""
    return settings.get("labelling", {}).get("error", WRONG_BY_DEFAULT)


def knowledge_arms(records: Records) -> list[KnowledgeArm]:
    """All arms of this paper."""
    return arms.arms(records, KnowledgeArm)


def main_world(every: list[KnowledgeArm]) -> str:
    """The world of the comparison: where phi = 0 has the most seeds; in a tie, where there are most arms."""
    base = [each for each in every if each.name == "none"]
    rivals = {each.world: sum(other.world == each.world for other in every) for each in base}
    return max(base, key=lambda each: (len(each.seeds), rivals[each.world])).world if base else ""


def tabled_arms(every: list[KnowledgeArm]) -> list[KnowledgeArm]:
    """The usual arms, and those whose program is from elsewhere."""
    home = main_world(every)
    return [each for each in every if each.world == home and each.study in ("", "source")]


def usual_arms(every: list[KnowledgeArm]) -> list[KnowledgeArm]:
    """The arms of the comparison: usual settings, in the main world."""
    home = main_world(every)
    return [each for each in every if each.world == home and each.usual]


def plain_ppo(every: list[KnowledgeArm]) -> KnowledgeArm | None:
    """phi = 0 with its usual settings in the main world."""
    return next((each for each in usual_arms(every) if each.kind == "none"), None)


@dataclass(frozen=True)
class Gain:
    """An arm against another: areas under the curve, in percent, and the exact p that seeds are relabelled so far."""

    gap: Estimate
    p: float


def gain(arm: KnowledgeArm, base: KnowledgeArm | None) -> Gain | None:
    """An arm against phi = 0, or another arm; None for that one itself, and where it was not run."""
    if base is None or base is arm:
        return None
    ours, theirs = arm.training_success(), base.training_success()
    return Gain(difference_interval(ours, theirs, paired=False), permutation_p(ours[:, 0], theirs[:, 0]))


def paired_areas(arm: KnowledgeArm, other: KnowledgeArm) -> tuple[np.ndarray, np.ndarray]:
    """([seeds], [seeds]): areas under both curves in percent, for the seeds and the frames that both have."""
    frames, seeds = min(arm.frames, other.frames), sorted(set(arm.seeds) & set(other.seeds))
    by_seed = [dict(zip(each.seeds, each.training_success(frames)[:, 0], strict=True)) for each in (arm, other)]
    ours, theirs = (np.array([areas[seed] for seed in seeds]) for areas in by_seed)
    return ours, theirs
