"""The language model as policy before any tuning, and the effect of the temperature alone.

    groundlab evaluate zero-shot --world BabyAI-GoToLocalS8N4-v0 --layouts 0-199

It is played at the stored temperature ("sampled", "greedy", the control, the tests) and, as "sampled temperature-1",
without one; the greedy policy is the same at both. A temperature restores exploration, so that half of what it gains
over temperature 1 is chance: compare with `random`.
"""

from groundlab import worlds
from groundlab.papers.glam.episodes import SAMPLED, evaluate_scorer
from groundlab.papers.glam.policy import VARIANTS, build_scorer, temperature
from groundlab.papers.glam.settings import ModelSettings
from groundlab.papers.method import Request
from groundlab.papers.training import Evaluation
from groundlab.worlds.text_env.prompts import text_actions

__all__ = ["Settings", "evaluate"]

Settings = ModelSettings


def evaluate(request: Request) -> list[Evaluation]:
    """All tests at the stored temperature, then the world and the control, sampled, at temperature 1."""
    settings = ModelSettings(**request.settings)
    actions = text_actions(settings.action_space, worlds.find(request.world).language)
    scorer = build_scorer(VARIANTS["glam"], settings, actions, request.seed)
    results = evaluate_scorer(scorer, request.world, request.seed, settings)
    plain = settings.model_copy(update={"tests": [], "first_finished": 0})
    unscaled = evaluate_scorer(scorer, request.world, request.seed, plain, temperature=1 / temperature(settings))
    sampled = [result for result in unscaled if result["policy"].startswith(SAMPLED)]
    return [*results, *({**result, "policy": f"{result['policy']} temperature-1"} for result in sampled)]
