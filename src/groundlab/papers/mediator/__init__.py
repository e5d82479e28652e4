"""The mediator paper (Hu et al. 2024): learn when it is worth asking the LLM for a plan."""

from groundlab.papers.method import DOOR_KEY, Method, Paper

_HERE = "groundlab.papers.mediator"
WORLDS = ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey", "MovingObstacle")
_PROMPTS = ("prompts/mediator/*.txt",)


def _learner(name: str, module: str, summary: str, settings: str, worlds: tuple[str, ...] = WORLDS) -> Method:
    schema = f"{_HERE}.settings:{settings}"
    return Method(name, f"{_HERE}.{module}", summary, True, (DOOR_KEY,), worlds, schema, _PROMPTS)


def _rule(name: str, summary: str) -> Method:
    settings = f"{_HERE}.settings:RuleSettings"
    return Method(name, f"{_HERE}.baselines", summary, False, (DOOR_KEY,), WORLDS, settings, _PROMPTS)


PAPER = Paper(
    name="mediator",
    title="Enabling Intelligent Interactions between an Agent and an LLM: A Reinforcement Learning Approach "
    "(Hu et al. 2024)",
    question="When does it pay to ask a language model for a plan?",
    url="https://arxiv.org/abs/2306.03604",
    page_tables=("mediator-table1", "mediator-variants", "mediator-planner"),
    methods=(
        _learner("mediator", "agent", "learns by PPO when to ask the planner", "AskingSettings"),
        _rule("hard-coded", "asks when the plan is exhausted"),
        _rule("always", "asks at every step"),
        _rule("random", "asks with probability one half"),
        _rule("on-change", "asks when the text has changed (our control)"),
        _rule("nothing-changed", "asks when nothing changed (our control)"),
        _rule("new-object", "asks at new things in view (our control)"),
        _rule("untrained", "asks as an untrained network draws"),
        _learner("rule-cloning", "rule_cloning", "is taught one of our rules by example", "CloningSettings"),
        # its translator and its five options are this world's (docs/papers/mediator-method.md#s6)
        _learner("never", "options_rl", "learns by PPO which option to run", "TrainingSettings", ("SimpleDoorKey",)),
    ),
    metrics=("interactions", "steps", "success", "return", "asked"),
    short_names={"mediator": "trained policy"}
    | {f"probability={p}": f"random (p = {p})" for p in (0.02, 0.05, 0.1, 0.2)},
    exhibits=(f"{_HERE}.exhibits", f"{_HERE}.variants", f"{_HERE}.public_planner"),
)
