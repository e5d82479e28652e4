"""The mediator paper's runs as arms: its agents, how they are drawn, and by which settings their rows are selected."""

from groundlab.papers.mediator import WORLDS
from groundlab.report.claims import Selector
from groundlab.report.judging import select_rows
from groundlab.report.records import Records
from groundlab.report.style import COLOURS, PlotStyle, with_styles

STYLES = {
    "mediator": PlotStyle("trained to ask (the paper's method)", COLOURS["orange"], "o"),
    "hard-coded": PlotStyle("hard-coded", COLOURS["blue"], "s"),
    "always": PlotStyle("always ask", COLOURS["green"], "^"),
    "random": PlotStyle("random", COLOURS["yellow"], "D"),
    "on-change": PlotStyle("on change (our control)", COLOURS["pink"], "v"),
    "nothing-changed": PlotStyle("nothing changed (our control)", COLOURS["olive"], "X"),
    "new-object": PlotStyle("new object (our control)", "#332288", "*"),
    "never": PlotStyle("never (RL, no planner)", COLOURS["sky"], "P"),
}
OWN_WORLD = "MovingObstacle"  # undefined in the paper and in its code: never set beside the published values
RULES = ("hard-coded", "always", "random", "on-change")
CONTROLS = ("nothing-changed", "new-object")  # rules on the network's own input, ours
OF_TABLE_1 = ("plans", "probability", "rate")  # studies whose arms have rows in it
_ELSEWHERE = ("untrained", "rule-cloning")  # agents without a style: a row of Table 1 alone, and of no exhibit
COINS = (0.02, 0.05, 0.1, 0.2)  # our control for a policy that has learned how often to ask, but not when
QUIRKS = {  # the defaults of settings.Fidelity, which pictures cannot import
    "explore_avoid": False,
    "frame_difference": "uint8",
    "penalty": "head",
    "random_policy": "half",
    "advantage": "monte-carlo",
    "carry_inside": False,
    "repeat": "whole",
    "goto_ties": "original",
}
_HEAD = {"plans": "head", "epsilon": 0.0, "planner": "scripted", "fidelity": QUIRKS}
_ANNEALED = {**_HEAD, "ask_lambda": 0.01, "anneal_from": 0.75}
CONSTANT = {**_ANNEALED, "anneal_from": 1.0}  # the learning rate of the released code, whose last policy is a lottery
_PROTOCOL = {  # of the first commit, which seems to have made the published table
    **CONSTANT,
    "plans": "first-commit",
    "fidelity": {**QUIRKS, "penalty": "first-commit"},
}


def rule(method: str, world: str, plans: str = "head", probability: float = 0.5) -> Selector:
    """The rows of a method that follows a rule; `probability` is that of `random`."""
    coin = {"probability": probability} if method == "random" else {}
    return Selector(method=method, world=world, settings={**_HEAD, "plans": plans, **coin})


def trained(world: str, policy: str = "sampled", method: str = "mediator", settings: dict | None = None) -> Selector:
    """The rows of a trained method at the default communication penalty; by default its rate falls at the end."""
    return Selector(method=method, world=world, policy=policy, settings=settings or _ANNEALED)


def all_selectors(records: Records, world: str) -> list[Selector]:
    """The rows of Table 1 in a world, whether they were run or not."""
    rules = [rule(method, world) for method in (*RULES, *CONTROLS, "untrained")]
    rules += [rule("random", world, probability=probability) for probability in COINS]
    learners = (("mediator", _ANNEALED), ("mediator", CONSTANT), ("mediator", _PROTOCOL), ("never", CONSTANT))
    learned = [trained(world, policy, *learner) for learner in learners for policy in ("sampled", "argmax")]
    unknown = [row for row, _ in of_others(records, world)]
    return [rule("hard-coded", world, "first-commit"), *rules, *learned, *unknown]


def others(records: Records) -> dict[str, PlotStyle]:
    """The agents that this paper does not know, each with a style of its own."""
    arms = dict(records.runs[["arm", "arm_label"]].itertuples(index=False))
    unknown = {arm: label for arm, label in arms.items() if "/" not in arm and arm not in (*STYLES, *_ELSEWHERE)}
    return {arm: style for arm, style in with_styles(STYLES, unknown).items() if arm in unknown}


def of_others(records: Records, world: str) -> list[tuple[Selector, PlotStyle]]:
    """The rows of such agents in a world, each with its style: of the policy that its evaluation there begins with."""
    found = []
    for arm, style in others(records).items():
        runs = records.runs.loc[(records.runs["arm"] == arm) & (records.runs["world"] == world)]
        rows = records.evaluations.loc[records.evaluations["run"].isin(runs["run"])]
        if not rows.empty:
            method, policy, settings = rows[["method", "policy", "settings"]].iloc[0]
            found.append((Selector(method=method, world=world, policy=policy, settings=settings), style))
    return found


def usual(records: Records) -> dict:
    """The settings of the trainings that figures show: with a falling rate, else the first commit's, else constant."""
    for settings in (_ANNEALED, _PROTOCOL, CONSTANT):
        if any(not select_rows(records, trained(world, settings=settings)).empty for world in WORLDS):
            return settings
    return _ANNEALED


def trained_worlds(records: Records) -> list[str]:
    """The worlds in which the asking policy was trained."""
    settings = usual(records)
    return [world for world in WORLDS if not select_rows(records, trained(world, settings=settings)).empty]
