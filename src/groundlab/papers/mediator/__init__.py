"""The mediator paper (Hu et al. 2024): learn when it is worth asking the LLM for a plan."""

from groundlab.papers.method import DOOR_KEY, Method, Paper

_HERE = "groundlab.papers.mediator"
_PROMPTS = ("prompts/mediator/*.txt",)
WORLDS = ("SimpleDoorKey", "KeyInBox", "RandomBoxKey", "ColoredDoorKey", "MovingObstacle")

PAPER = Paper(
    name="mediator",
    title="Enabling intelligent interactions between an agent and an LLM (Hu et al. 2024)",
    question="When does it pay to ask a language model for a plan?",
    methods=(
        Method(
            "mediator",
            f"{_HERE}.agent",
            "learns by PPO when to ask the planner",
            learns=True,
            families=(DOOR_KEY,),
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
        Method(
            "hard-coded",
            f"{_HERE}.baselines",
            "asks when the plan is exhausted",
            families=(DOOR_KEY,),
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:RuleSettings",
        ),
        Method(
            "always",
            f"{_HERE}.baselines",
            "asks at every step",
            families=(DOOR_KEY,),
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:RuleSettings",
        ),
        Method(
            "random",
            f"{_HERE}.baselines",
            "asks with probability one half",
            families=(DOOR_KEY,),
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:RuleSettings",
        ),
        Method(
            "on-change",
            f"{_HERE}.baselines",
            "asks when the text has changed (our control)",
            families=(DOOR_KEY,),
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:RuleSettings",
        ),
        Method(
            "never",
            f"{_HERE}.options_rl",
            "learns by PPO which option to run",
            learns=True,
            families=(DOOR_KEY,),
            worlds=("SimpleDoorKey",),
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
    ),
    metrics=("interactions", "steps", "success", "return"),
    short_names={"mediator": "ours"} | {f"probability={p}": f"random (p = {p})" for p in (0.02, 0.05, 0.1, 0.2)},
    exhibits=(f"{_HERE}.exhibits",),
)
