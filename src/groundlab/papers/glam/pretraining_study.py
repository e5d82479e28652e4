"""What pretraining gives at equal temperature: recipes by pretraining seeds by temperatures, tuned by the same PPO; and
what the lead over a network that read nothing hangs on: the words of the actions, and what the corpus says.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from groundlab.papers.glam.arms import LEAD, MIXED, STYLES, GlamArm, glam_arms, temperature
from groundlab.papers.glam.pretraining_exhibits import WHOLE, doses, recipe_name
from groundlab.report import arms
from groundlab.report.arms import short
from groundlab.report.exhibits import exhibit
from groundlab.report.records import FIRST_FINISHED, Records, tenth_means, training_means
from groundlab.report.statistics import Estimate, bounds_of, mean_interval
from groundlab.report.style import PALETTE, new_figure
from groundlab.report.tables import POINTS, Column, Table

_MARKERS = ("o", "^", "s", "D", "v")
"""One a pretraining seed."""
_VERBS = "synonyms"
_IN_LINES = {WHOLE: "the whole\npretraining", "stock initial values": "stock initial\nvalues"}


@dataclass(frozen=True)
class Cell:
    """A recipe's model of one pretraining seed, tuned at one temperature."""

    arm: GlamArm
    recipe: str
    seed: int
    temperature: float


def cells(records: Records) -> list[Cell]:
    """All tuned models whose temperature is known, the recipe that binds least first."""
    found = ((arm, facts, temperature(arm.settings)) for arm, facts in doses(records))
    return [
        Cell(arm, recipe_name(facts), facts["recipe"]["seed"], round(at, 2))
        for arm, facts, at in found
        if isinstance(at, int | float)
    ]


@exhibit(
    "glam-pretraining",
    "What pretraining gives at equal temperature, in each pretraining seed",
    methods=("glam",),
    beside=("zero-shot", "random"),
)
def study(records: Records) -> Figure | None:
    """Success while models learn, by recipe, and under other words for the actions, by temperature.

    A mark is one pretraining seed, its bar the 95 % interval over PPO seeds. None where no two recipes were
    tuned at one temperature in several pretraining seeds.
    """
    found, every = cells(records), glam_arms(records)
    crossed = {at: _crossed([each for each in found if each.temperature == at]) for at in _temperatures(found)}
    shared = [at for at, recipes in crossed.items() if len(recipes) > 1]
    if not shared:
        return None
    tuned = [each for each in found if each.temperature in shared or each.recipe == WHOLE]
    colours = dict(zip(_temperatures(tuned), PALETTE, strict=False))
    figure, axes = new_figure(10.4, 4.8, 1, 2, sharey=True)
    compared = [each for each in tuned if each.temperature in shared and each.recipe in crossed[each.temperature]]
    _draw_recipes(axes[0, 0], compared, every, colours)
    _draw_other_words(axes[0, 1], [each for each in tuned if each.recipe == WHOLE], every, colours)
    entries = [
        *(Line2D([], [], color=colours[at], linewidth=3, label=f"temperature {at:g}") for at in colours),
        *(_entry(f"pretraining seed {seed}", marker=_marker(seed)) for seed in _seeds(tuned)),
        _entry("one PPO seed", marker="."),
        _entry("before tuning, as they finish", marker="*"),
        _entry("in the usual words", marker="o", fillstyle="none"),
        Line2D([], [], color=STYLES["random"].colour, linestyle="--", label="random actions"),
    ]
    figure.legend(handles=entries, loc="outside lower center", ncols=4)
    return figure


def _entry(label: str, **look: Any) -> Line2D:
    return Line2D([], [], color="#666666", linestyle="none", label=label, **look)


def _crossed(tuned: list[Cell]) -> list[str]:
    """The recipes that were tuned from several pretraining seeds."""
    recipes = dict.fromkeys(each.recipe for each in tuned)
    return [recipe for recipe in recipes if len({each.seed for each in tuned if each.recipe == recipe}) > 1]


def _temperatures(tuned: list[Cell]) -> list[float]:
    return sorted({each.temperature for each in tuned})


def _seeds(tuned: list[Cell]) -> list[int]:
    return sorted({each.seed for each in tuned})


def _marker(seed: int) -> str:
    return _MARKERS[seed % len(_MARKERS)]


def _draw_recipes(axis: Axes, tuned: list[Cell], every: list[GlamArm], colours: dict[float, str]) -> None:
    """Success while learning: recipes side by side, temperatures and pretraining seeds beside each other in each."""
    recipes, shared, seeds = list(dict.fromkeys(each.recipe for each in tuned)), _temperatures(tuned), _seeds(tuned)
    for each in tuned:
        place = recipes.index(each.recipe) + _aside(each.temperature, shared, 0.42) + _aside(each.seed, seeds, 0.1)
        successes = each.arm.training_success().ravel()
        axis.plot(np.full(len(successes), place), successes, ".", color=colours[each.temperature], alpha=0.35)
        _draw_mark(axis, place, each.arm.efficiency(), colours[each.temperature], each.seed)
        before = next((arm for arm in every if _is_untuned(arm, each)), None)
        if before and (level := before.estimate(FIRST_FINISHED)):
            axis.plot(place, level.value, "*", color=STYLES["zero-shot"].colour, markersize=8)
    axis.set_xticks(range(len(recipes)), [_IN_LINES.get(recipe, recipe.replace(", ", ",\n")) for recipe in recipes])
    axis.set(title="while it learns", ylabel="success [%]", ylim=(0, 103))


def _draw_other_words(axis: Axes, whole: list[Cell], every: list[GlamArm], colours: dict[float, str]) -> None:
    """Success after tuning under other words for the actions, hollow in the usual ones; the line is chance."""
    shown = [each for each in whole if each.arm.scores(each.arm.played_in(_VERBS)) is not None]
    temperatures = _temperatures(shown)
    for each in shown:
        place = temperatures.index(each.temperature) + _aside(each.seed, _seeds(shown), 0.16)
        for policy, fill in ((each.arm.played_in(_VERBS), "full"), (each.arm.policy, "none")):
            _draw_mark(axis, place, each.arm.estimate(policy), colours[each.temperature], each.seed, fillstyle=fill)
    chance = [arm for arm in every if arm.kind == "random" and shown and arm.world == shown[0].arm.world]
    for level in filter(None, (arm.estimate(arm.policy) for arm in chance)):
        axis.axhline(level.value, color=STYLES["random"].colour, linestyle="--")
    axis.set_xticks(range(len(temperatures)), [f"{at:g}" for at in temperatures])
    axis.set(title="other words for the actions, after tuning\n(the whole pretraining)", xlabel="temperature")


def _aside(value: float, values: list[Any], step: float) -> float:
    """How far from the middle the mark of one of several values stands."""
    return step * (values.index(value) - (len(values) - 1) / 2)


def _is_untuned(arm: GlamArm, cell: Cell) -> bool:
    """Whether an arm is the model of a cell before tuning, at its temperature and with its actions."""
    same = all(arm.settings.get(name) == cell.arm.settings.get(name) for name in ("model", "action_space"))
    at = temperature(arm.settings)
    return arm.kind == "zero-shot" and same and isinstance(at, int | float) and round(at, 2) == cell.temperature


def _draw_mark(axis: Axes, x: float, level: Estimate | None, colour: str, seed: int, **look: Any) -> None:
    if level:
        spread = level.bars if level.known else None
        axis.errorbar(x, level.value, spread, fmt=_marker(seed), color=colour, markersize=6, elinewidth=1, **look)


# --- What the lead hangs on

_WHATS = {
    "usual": "usual words, whole corpus",
    "opaque": "words: opaque",
    "exchanged": "words: exchanged",
    "places": "corpus: places only",
    "shuffled": "corpus: shuffled binding",
    "mirrored": "corpus: mirrored sides",
    "no-view": "corpus: no view",
}
_Arms = dict[int, GlamArm]  # by pretraining


@dataclass(frozen=True)
class _Lead:
    """Change of words or corpus in a world, and the arms of each method there."""

    world: str
    what: str
    by_method: dict[str, _Arms]

    def level(self, method: str, first: bool = False) -> Estimate | None:
        """Success while learning, or in the first tenth of the updates, over all trainings."""
        curves = [arm.curves for arm in self.by_method.get(method, {}).values()]
        means = [tenth_means(each, "success", last=False) if first else training_means(each) for each in curves]
        return mean_interval(np.concatenate(means), bounds=bounds_of("success")) if means else None

    def lead(self) -> Estimate | None:
        """Points of success while learning over NPAE of the same pretraining, or all of NPAE; over pretrainings."""
        theirs = {number: arm.efficiency().value for number, arm in self.by_method.get("npae", {}).items()}
        ours = self.by_method["glam"]
        if not theirs:
            return None
        usual = float(np.mean([*theirs.values()]))
        return mean_interval(np.array([[ours[each].efficiency().value - theirs.get(each, usual)] for each in ours]))


def _place(arm: GlamArm) -> tuple[str, int] | None:
    """Return the change that an arm stands for, and its pretraining; None for one outside the comparison."""
    if arm.study in LEAD:
        what, _, seed = arm.name.split("/")[2].replace("-tasks", "").rpartition("-s")
        return what, int(seed)
    found = re.fullmatch(r"tasks-t5-s(\d+)", arm.settings.get("model", ""))
    is_usual = arm.world == MIXED and arm.study in ("", "model") and arm.kind in ("glam", "npae") and arm.learns
    return ("usual", int(found[1])) if found and is_usual else None


@exhibit("glam-hangs-on", "What the lead over NPAE hangs on: words and corpora", ("glam",), ("npe", "npae"))
def lead_table(records: Records) -> Table | None:
    """One row a change of the words or of the corpus and world; None where neither was changed."""
    placed = [(arm, place) for arm in arms.arms(records, GlamArm) if (place := _place(arm))]
    found = dict[tuple[str, str], dict[str, _Arms]]()
    for arm, (what, number) in placed:
        found.setdefault((arm.world, what), {}).setdefault(arm.kind, {})[number] = arm
    for (world, what), methods in found.items():
        if "npae" not in methods and _WHATS[what].startswith("words"):  # its heads know no words
            methods["npae"] = found.get((world, "usual"), {}).get("npae", {})
    rows = [_Lead(*key, found[key]) for key in sorted(found, key=_order) if "glam" in found[key]]
    columns: list[Column[_Lead]] = [
        Column("world", lambda row: row.world, short),
        Column("what", lambda row: _WHATS[row.what]),
        *(Column(name, partial(_Lead.level, method=name), "success", name.upper()) for name in ("glam", "npe", "npae")),
        Column("lead", _Lead.lead, POINTS, "lead over NPAE"),
        Column("glam first", partial(_Lead.level, method="glam", first=True), "success", "GLAM at first"),
        Column("npae first", partial(_Lead.level, method="npae", first=True), "success", "NPAE at first"),
        Column("pretrainings", lambda row: len(row.by_method.get("glam", {}))),
        Column("trainings", lambda row: sum(len(arm.seeds) for arm in row.by_method.get("glam", {}).values())),
    ]
    return Table.of(rows, columns, _LEAD_NOTES) if any(arm.study in LEAD for arm, _ in placed) else None


def _order(key: tuple[str, str]) -> tuple[bool, int]:
    return key[0] == MIXED, list(_WHATS).index(key[1])


_LEAD_NOTES = (
    "success of training episodes in percent, averaged over all frames, mean [95 % interval] over trainings; at first: "
    "in the first tenth of the updates; lead: points, its interval over pretrainings",
    "opaque: invented words of as many tokens; exchanged: left for right, forward for pick up; NPAE's heads know none",
)
