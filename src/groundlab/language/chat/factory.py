"""From a method's settings to a chat model: which model answers, and which maker builds it.

    chat_model("openai", ChatSettings(model="Qwen/Qwen3-8B"), Path("out/ledger.jsonl")).reply(messages, sampling)

Every maker that works for its replies writes them to a ledger, so one must be named.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from groundlab.core.errors import GroundlabError
from groundlab.core.schema import Strict
from groundlab.core.seeding import child_seed
from groundlab.language.chat.connection import budget, connection
from groundlab.language.chat.interface import MOST_TOKENS, ChatModel, Sampling
from groundlab.language.chat.ledger import Ledger, Recorded, Recording

Backend = Literal["openai", "local", "recorded"]


class ChatSettings(Strict):
    """Which model answers and how its replies are drawn: what belongs to a run. How it is reached does not."""

    model: str | None = None
    """As the server calls it (openai), a folder or a name on this machine's disk (local), or as in the ledger."""
    revision: str | None = None
    """Of a local model."""
    device: str = "cpu"
    """Of a local model; replies may differ between devices."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of a local model."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    seed: Annotated[int, Field(ge=0)] = 0
    """Above temperature 0, another seed gives other draws."""
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 128
    """Length at which a reply is cut."""
    unanswered: Literal["stop", "fallback"] = "stop"
    """A question that no attempt got an answer to: end the run, which can be continued, or take the fallback."""

    def sampling(self, draw: int) -> Sampling:
        """How the reply to one question is drawn; `draw` >= 0 tells draws of the same question apart."""
        if self.temperature == 0:
            return Sampling(max_tokens=self.max_tokens)
        seed = child_seed(self.seed, "reply", draw) >> 32  # 31 bits: servers take a C int
        return Sampling(self.temperature, seed, self.max_tokens)


def chat_model(maker: Backend, settings: ChatSettings, ledger: Path | None, empty: bool = False) -> ChatModel:
    """The chat model that the settings ask for; empty: whether an empty reply is the fallback of a missing answer.

    Raises GroundlabError where a name, a ledger or a server is missing.
    """
    if settings.model is None:
        raise GroundlabError(f"{maker} needs a model; give --model NAME")
    if ledger is None:
        raise GroundlabError(f"{maker} needs a ledger, where its replies are kept; give --ledger FILE")
    if maker == "recorded":
        if not ledger.is_file():
            raise GroundlabError(f"recorded needs the ledger {str(ledger)!r}, which does not exist; give --ledger FILE")
        return Recorded(settings.model, Ledger(ledger))
    if maker == "local":
        from groundlab.language.chat.local_client import Local

        local = Local(settings.model, settings.revision, settings.device, settings.dtype)
        return Recording(local, Ledger(ledger), "local", budget())
    from groundlab.language.chat.openai_client import Server

    server, survives = connection(), empty and settings.unanswered == "fallback"
    return Recording(Server(settings.model, server), Ledger(ledger), f"openai {server.base_url}", budget(), survives)
