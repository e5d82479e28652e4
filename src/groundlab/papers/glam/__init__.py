"""GLAM (Carta et al. 2023): a language model as policy, grounded by online PPO, with its baselines."""

from groundlab.papers.method import Method, Paper

_HERE = "groundlab.papers.glam"
_PROBES = ("prompts/glam/probes.json",)

PAPER = Paper(
    name="glam",
    title="Grounding large language models with online reinforcement learning (Carta et al. 2023)",
    question="Can a language model be the policy, grounded by online PPO?",
    url="https://arxiv.org/abs/2302.02662",
    page_tables=("glam-agents", "glam-efficiency", "glam-generalization", "glam-doses"),
    methods=(
        Method(
            "glam",
            f"{_HERE}.ppo",
            "a language model tuned by PPO",
            learns=True,
            assets=_PROBES,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
        Method(
            "npae",
            f"{_HERE}.ppo",
            "its embeddings only, action head, PPO",
            learns=True,
            assets=_PROBES,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
        Method(
            "npe",
            f"{_HERE}.ppo",
            "its embeddings only, PPO",
            learns=True,
            assets=_PROBES,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
        Method(
            "npa",
            f"{_HERE}.ppo",
            "its architecture only, action head, PPO",
            learns=True,
            assets=_PROBES,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
        Method(
            "aflan",
            f"{_HERE}.ppo",
            "a language model with an action head, PPO",
            learns=True,
            assets=_PROBES,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
        Method(
            "glam-extended",
            f"{_HERE}.extended",
            "with options of later papers, PPO",
            learns=True,
            settings=f"{_HERE}.prompt_formats:ExtendedSettings",
        ),
        Method(
            "zero-shot",
            f"{_HERE}.zero_shot",
            "a language model as it is",
            assets=_PROBES,
            settings=f"{_HERE}.settings:ModelSettings",
        ),
        Method(
            "turns",
            f"{_HERE}.turns",
            "which way a language model would turn as it is",
            settings=f"{_HERE}.settings:ModelSettings",
        ),
        Method(
            "drrn",
            f"{_HERE}.drrn",
            "text Q-learning from scratch",
            learns=True,
            assets=("tokenizers/drrn.json",),
            settings=f"{_HERE}.settings:DRRNSettings",
        ),
        Method(
            "symbolic",
            f"{_HERE}.symbolic",
            "recurrent PPO on the view's codes",
            learns=True,
            settings=f"{_HERE}.settings:SymbolicSettings",
        ),
        Method(
            "cloning",
            f"{_HERE}.cloning",
            "a language model that imitates the bot",
            learns=True,
            assets=_PROBES,
            settings=f"{_HERE}.settings:CloningSettings",
        ),
    ),
    policies=("sampled", "sampled *", "greedy", "greedy *", "first-finished", "random", "bot", "turns"),
    short_names={
        "glam": "tuned model",
        "zero-shot": "untuned model",
        "turns": "untuned model",
        "npae": "NPAE",
        "npe": "NPE",
        "drrn": "DRRN",
        "symbolic": "symbolic PPO",
        "cloning": "clone",
        "random": "chance",
    },
    exhibits=(
        *(f"{_HERE}.pretraining_exhibits", f"{_HERE}.pretraining_study", f"{_HERE}.tables", f"{_HERE}.figures"),
        f"{_HERE}.transfer_exhibits",
    ),
)
