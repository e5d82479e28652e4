"""Agents that answer in words, token by token, and may think before they act, tuned by nested PPO (rl-llm 2025)."""

from groundlab.papers.method import Method, Paper

_HERE = "groundlab.papers.reasoning"
_WORLDS = ("Reasoning-*",)
_PROMPTS = ("prompts/reasoning/*.txt",)

PAPER = Paper(
    name="reasoning",
    title="Grounding and reasoning: thinking in words before acting, under nested PPO (rl-llm 2025)",
    question="Does thinking in words before each action help?",
    page_tables=("reasoning-agents", "reasoning-collapse", "reasoning-swaps"),
    methods=(
        Method(
            "reasoning",
            f"{_HERE}.ppo",
            "thinks, then acts; tuned by PPO",
            learns=True,
            worlds=_WORLDS,
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
        Method(
            "direct",
            f"{_HERE}.ppo",
            "answers in words; tuned by PPO",
            learns=True,
            worlds=_WORLDS,
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:TrainingSettings",
        ),
        Method(
            "reasoning-zero-shot",
            f"{_HERE}.zero_shot",
            "thinks, then acts, untuned",
            worlds=_WORLDS,
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:ReplySettings",
        ),
        Method(
            "direct-zero-shot",
            f"{_HERE}.zero_shot",
            "answers in words, untuned",
            worlds=_WORLDS,
            assets=_PROMPTS,
            settings=f"{_HERE}.settings:ReplySettings",
        ),
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
