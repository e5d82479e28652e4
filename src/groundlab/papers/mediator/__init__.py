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
        ),
        Method(
            "hard-coded", f"{_HERE}.baselines", "asks when the plan is exhausted", families=(DOOR_KEY,), assets=_PROMPTS
        ),
        Method("always", f"{_HERE}.baselines", "asks at every step", families=(DOOR_KEY,), assets=_PROMPTS),
        Method("random", f"{_HERE}.baselines", "asks with probability one half", families=(DOOR_KEY,), assets=_PROMPTS),
        Method(
            "on-change",
            f"{_HERE}.baselines",
            "asks when the text has changed (our control)",
            families=(DOOR_KEY,),
            assets=_PROMPTS,
        ),
        Method(
            "never",
            f"{_HERE}.options_rl",
            "learns by PPO which option to run",
            learns=True,
            families=(DOOR_KEY,),
            worlds=("SimpleDoorKey",),
            assets=_PROMPTS,
        ),
    ),
    exhibits=(f"{_HERE}.exhibits",),
)
