"""Background knowledge: a language model is asked once, and its answers shape the rewards (Zhang et al. 2024)."""

from groundlab.papers.method import CRAFTER, GRID, Method, Paper

_HERE = "groundlab.papers.knowledge"
_WORLDS = ("!Crafter-Reward", "!*Debug-v0")  # not the public Crafter, no room in which a failure ends an episode
_PROMPTS = ("prompts/knowledge/*.txt",)

PAPER = Paper(
    name="knowledge",
    title="Improving Sample Efficiency of Reinforcement Learning with Background Knowledge from Large Language Models "
    "(Zhang et al. 2024)",
    question="Does knowledge given once, before training, save samples?",
    url="https://arxiv.org/abs/2407.03964",
    page_tables=(
        "knowledge-efficiency",
        "knowledge-final",
        "knowledge-worlds",
        "knowledge-achievements",
        "knowledge-quirks",
    ),
    methods=(
        Method(
            "knowledge",
            f"{_HERE}.agent",
            "PPO, shaped by knowledge",
            learns=True,
            families=(GRID, CRAFTER),
            worlds=_WORLDS,
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:KnowledgeSettings",
        ),
        Method(
            "rnd",
            f"{_HERE}.rnd",
            "curious PPO, records episodes",
            learns=True,
            families=(GRID, CRAFTER),
            worlds=_WORLDS,
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:CollectionSettings",
        ),
    ),
    policies=("sampled", "argmax"),
    short_names={
        "form=none": "plain PPO",
        "form=code": "BK-Code",
        "form=preference": "BK-Pref",
        "form=goals": "BK-Goal",
        "form=oracle": "oracle",
        "form=random": "random potential",
        "form=constant": "constant potential",
        "form=ellm": "ELLM's style",
        "form=motif": "Motif's style",
        "rnd": "curiosity",
    },
    exhibits=(f"{_HERE}.figures", f"{_HERE}.tables", f"{_HERE}.crafter_exhibits"),
)
