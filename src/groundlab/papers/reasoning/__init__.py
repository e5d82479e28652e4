"""Agents that answer in words, token by token, and may think first, tuned by nested PPO (Gandhi et al. 2025)."""

from groundlab.papers.method import Method, Paper

_HERE = "groundlab.papers.reasoning"


def _method(name: str, summary: str, module: str, settings: str) -> Method:
    return Method(
        name,
        f"{_HERE}.{module}",
        summary,
        learns=module == "ppo",
        worlds=("Reasoning-*",),
        assets=("prompts/reasoning/*.txt",),
        settings=f"{_HERE}.settings:{settings}",
    )


PAPER = Paper(
    name="reasoning",
    title="Incentivizing both Grounding and Reasoning in Large Language Models with Online Reinforcement Learning "
    "(Gandhi et al. 2025)",
    question="Does thinking in words before each action help?",
    page_tables=(
        *("reasoning-agents", "reasoning-mixture", "reasoning-models-table", "reasoning-fitting"),
        *("reasoning-collapse", "reasoning-swaps"),
    ),
    methods=(
        _method("reasoning", "thinks, then acts; tuned by PPO", "ppo", "TrainingSettings"),
        _method("direct", "answers in words; tuned by PPO", "ppo", "TrainingSettings"),
        _method("reasoning-zero-shot", "thinks, then acts, untuned", "zero_shot", "ReplySettings"),
        _method("direct-zero-shot", "answers in words, untuned", "zero_shot", "ReplySettings"),
    ),
    metrics=("success", "return", "length", "test_success", "thought_words", "echo_rate"),
    policies=("sampled", "first-finished", "thought emptied", "another's thought", "Reasoning-*", "random"),
    short_names={
        "reasoning": "thinking first",
        "direct": "answering at once",
        "reasoning-zero-shot": "thinking first untuned",
        "direct-zero-shot": "answering at once untuned",
        "random": "chance",
    },
    exhibits=(f"{_HERE}.figures", f"{_HERE}.tables", f"{_HERE}.thought_figures"),
)
