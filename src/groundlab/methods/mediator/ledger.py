"""The planner that the settings ask for: scripted, scripted and recorded to a ledger, or replayed from one.

Called from: the agents of this package. Read next: `language/chat.py`, whose makers these are.
"""

from dataclasses import replace
from pathlib import Path

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Ledger, Recorded, Recording
from groundlab.methods.mediator.planner import Planner, scripted_planner
from groundlab.methods.mediator.settings import Settings


def planner_for(world: str, settings: Settings) -> Planner:
    """The planner of one world. Raises GroundlabError when `recorded` is asked for without an existing ledger."""
    planner = scripted_planner(world, settings.plans, settings.epsilon)
    if settings.planner == "scripted":
        if settings.ledger is None:
            return planner
        ledger = Ledger(Path(settings.ledger))
        return replace(planner, chat=Recording(planner.chat, ledger, source="scripted"))
    if settings.ledger is None or not Path(settings.ledger).is_file():
        raise GroundlabError(f"planner=recorded needs a ledger file, not {settings.ledger!r}; give --set ledger=FILE")
    return replace(planner, chat=Recorded(planner.chat.model, Ledger(Path(settings.ledger))))
