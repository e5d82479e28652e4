"""GLAM (Carta et al. 2023): a language model as policy, grounded by online PPO, with its baselines."""

from groundlab.papers.method import Method, Paper

_HERE = "groundlab.papers.glam"
_PROBES = ("prompts/glam/probes.json",)
_CORPUS = ("prompts/reasoning/*-short.txt",)  # read wherever the corpus is imported


def _method(
    name: str, module: str, summary: str, settings: str, assets: tuple[str, ...] = (), learns: bool = True
) -> Method:
    schema = f"{_HERE}.{settings}"
    return Method(name, f"{_HERE}.{module}", summary, learns, settings=schema, assets=assets)


def _tuned(name: str, summary: str) -> Method:
    return _method(name, "ppo", summary, "settings:TrainingSettings", _PROBES)


PAPER = Paper(
    name="glam",
    title="Grounding Large Language Models in Interactive Environments with Online Reinforcement Learning "
    "(Carta et al. 2023)",
    question="Can a language model be the policy, grounded by online PPO?",
    url="https://arxiv.org/abs/2302.02662",
    page_tables=(
        *("glam-agents", "glam-efficiency", "glam-kinds", "glam-generalization", "glam-options", "glam-doses"),
        "glam-hangs-on",
    ),
    methods=(
        _tuned("glam", "a language model tuned by PPO"),
        _tuned("npae", "its embeddings only, action head, PPO"),
        _tuned("npe", "its embeddings only, PPO"),
        _tuned("npa", "its architecture only, action head, PPO"),
        _tuned("aflan", "a language model with an action head, PPO"),
        _method("glam-extended", "extended", "with options of later papers, PPO", "prompt_formats:ExtendedSettings"),
        _method("zero-shot", "zero_shot", "a language model as it is", "settings:ModelSettings", _PROBES, learns=False),
        _method(
            "turns",
            "turns",
            "which way a language model would turn as it is",
            "settings:ModelSettings",
            _CORPUS,
            learns=False,
        ),
        _method(
            "own-answers",
            "answers",
            "a language model's own answers, without PPO",
            "settings:AnswersSettings",
            _CORPUS,
            learns=False,
        ),
        _method("drrn", "drrn", "text Q-learning from scratch", "settings:DRRNSettings", ("tokenizers/drrn.json",)),
        _method("symbolic", "symbolic", "recurrent PPO on the view's codes", "settings:SymbolicSettings"),
        _method("cloning", "cloning", "a language model that imitates the bot", "settings:CloningSettings", _PROBES),
    ),
    policies=("sampled", "sampled *", "greedy", "greedy *", "first-finished", "random", "bot", "turns"),
    short_names={
        "glam": "tuned model",
        "glam-extended": "tuned model",
        "aflan": "AFlan",
        "npa": "NPA",
        "zero-shot": "untuned model",
        "turns": "untuned model",
        "own-answers": "own answers",
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
