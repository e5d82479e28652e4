"""Background knowledge: a language model is asked once, and what it says shapes rewards (Zhang et al. 2024)."""

from groundlab.papers.method import CRAFTER, GRID, Method, Paper

_HERE = "groundlab.papers.knowledge"
_WORLDS = ("!Crafter-Reward",)  # of Crafter, the text variants
_PROMPTS = ("prompts/knowledge/*.txt",)
_FORMS = ("code", "preference", "goals", "ellm", "motif", "oracle", "random", "constant")

PAPER = Paper(
    name="knowledge",
    title="Improving sample efficiency with background knowledge of LLMs (Zhang et al. 2024)",
    question="Does knowledge given once, before training, save samples?",
    page_tables=("knowledge-efficiency", "knowledge-final", "knowledge-quirks"),
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
    short_names={"negated=True": "negated", "form=none": "phi = 0"} | {f"form={form}": form for form in _FORMS},
    exhibits=(f"{_HERE}.figures", f"{_HERE}.tables"),
)
