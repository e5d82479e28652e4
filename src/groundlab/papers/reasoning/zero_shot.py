"""A language model that answers in words, untuned: thinking before it acts (`reasoning-zero-shot`) or not (`direct-`).

    groundlab evaluate reasoning-zero-shot --world Reasoning-GoTo-v0 --layouts 0-199
    groundlab evaluate reasoning-zero-shot --world Reasoning-GoTo-v0 --layouts 0-2 --set transcripts=3
    groundlab evaluate direct-zero-shot --world Reasoning-GoTo-v0 --set model=runs/direct/model

The second line prints the episodes word by word; the third plays what `groundlab run direct --out runs/direct` trained.
"""

from groundlab.papers.method import Request
from groundlab.papers.reasoning import evaluation
from groundlab.papers.reasoning.policy import open_chat_policy
from groundlab.papers.reasoning.settings import ReplySettings
from groundlab.papers.training import Evaluation


def evaluate(request: Request) -> list[Evaluation]:
    """The test layouts; see `evaluation.py`."""
    settings = ReplySettings(**request.settings)
    thinks = request.method.startswith("reasoning")
    return evaluation.evaluate(open_chat_policy(settings), request.world, thinks, settings, request.seed)
