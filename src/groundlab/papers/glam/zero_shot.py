"""The language model as policy before any tuning: what it knows, and what the temperature alone makes of it.

    groundlab evaluate zero-shot --world BabyAI-GoToLocalS8N4-v0 --layouts 0-199

It is played at the stored temperature ("sampled", "greedy", the control, the tests) and, as "sampled temperature-1",
without one; the greedy policy is the same at both. A temperature restores exploration, so that half of what it gains
over temperature 1 is chance: compare with `random`. Read next: `lm_ppo.py`.
"""

from typing import Any

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.language.prompts import text_actions
from groundlab.papers.glam import ppo
from groundlab.papers.glam.policy import VARIANTS, build_scorer, temperature
from groundlab.papers.glam.settings import ModelSettings
from groundlab.papers.method import Request

__all__ = ["WORLDS", "Settings", "evaluate"]

Settings = ModelSettings
WORLDS = ppo.WORLDS


def evaluate(request: Request) -> list[dict[str, Any]]:
    """All tests at the stored temperature, then the world and the control, sampled, at temperature 1."""
    if request.watch:
        raise GroundlabError("zero-shot asks nobody, so there is no dialogue; leave out --show and --record")
    settings = ModelSettings(**request.settings)
    actions = text_actions(settings.action_space, worlds.find(request.world).language)
    scorer = build_scorer(VARIANTS["glam"], settings, actions, request.seed)
    stored = temperature(settings)
    results = ppo.examine(scorer, request.world, request.seed, settings)
    plain = settings.model_copy(update={"tests": [], "first_finished": 0})
    others = ppo.examine(scorer, request.world, request.seed, plain, temperature=1 / stored)
    return [*results, *({**each, "policy": f"{each['policy']} temperature-1"} for each in others if _sampled(each))]


def _sampled(result: dict[str, Any]) -> bool:
    return result["policy"].startswith("sampled")
