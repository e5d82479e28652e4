"""A language model that answers in words, as it is: thinking before it acts (`reasoning-zero-shot`) or not (`direct-`).

    groundlab evaluate reasoning-zero-shot --world Reasoning-GoTo-v0 --layouts 0-199
    groundlab evaluate reasoning-zero-shot --world Reasoning-GoTo-v0 --layouts 0-2 --set transcripts=3
    groundlab evaluate direct-zero-shot --world Reasoning-GoTo-v0 --set model=runs/direct/model

The second line prints the episodes word by word, the third listens to what `groundlab run direct --out runs/direct` has
trained. Read next: `learner.py`.
"""

from typing import Any

from groundlab.core.errors import GroundlabError
from groundlab.papers.method import Request
from groundlab.papers.reasoning.evaluation import WORLDS, examine
from groundlab.papers.reasoning.policy import open_speaker
from groundlab.papers.reasoning.settings import TalkingSettings
from groundlab.papers.reasoning.thoughts import play_swapped

__all__ = ["WORLDS", "Settings", "evaluate"]

Settings = TalkingSettings


def evaluate(request: Request) -> list[dict[str, Any]]:
    """The test layouts; see `evaluation.py`, and `probing.py` for swapped thoughts."""
    if request.watch:
        raise GroundlabError(f"{request.method} asks nobody; to read it, give --set transcripts=3, not --show")
    settings = TalkingSettings(**request.settings)
    thinks = request.method.startswith("reasoning")
    speaker = open_speaker(settings)
    results = examine(speaker, request.world, thinks, settings, request.seed)
    if thinks and settings.swapped:
        results += play_swapped(speaker, request.world, settings, request.seed)
    return results
