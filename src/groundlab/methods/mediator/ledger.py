"""The planner that the settings ask for: scripted, replayed from a ledger, or a language model that is really asked.

    groundlab evaluate always --world SimpleDoorKey --planner openai --model NAME --base-url URL --ledger FILE

Called from: the agents of this package. Read next: `language/chat/making.py`, which makes the chat models.
"""

from dataclasses import replace
from pathlib import Path

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Ledger, Recorded, Recording
from groundlab.language.chat.making import chat_model
from groundlab.methods.mediator.planner import Planner, scripted_planner
from groundlab.methods.mediator.settings import Settings


def planner_for(world: str, settings: Settings) -> Planner:
    """The planner of one world. Raises GroundlabError when a ledger, a model or a server is asked for and missing."""
    scripted = scripted_planner(world, settings.plans, settings.epsilon)
    ledger = Path(settings.ledger) if settings.ledger else None
    if settings.planner == "scripted":
        return replace(scripted, chat=Recording(scripted.chat, Ledger(ledger), "scripted")) if ledger else scripted
    if settings.planner == "recorded" and settings.chat.model is None:
        if ledger is None or not ledger.is_file():
            raise GroundlabError(f"planner=recorded needs a ledger file, not {settings.ledger!r}; give --ledger FILE")
        return replace(scripted, chat=Recorded(scripted.chat.model, Ledger(ledger)))
    chat = chat_model(settings.planner, settings.chat, ledger)
    return Planner(world, chat, settings.chat.sampling, survives=settings.chat.unanswered == "fallback")
