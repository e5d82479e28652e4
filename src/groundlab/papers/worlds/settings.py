"""The settings of the agents that show what the worlds are: chance, minigrid's bot, the comparison with minigrid."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from groundlab.assets import model_files
from groundlab.core.schema import Layouts, Strict
from groundlab.language.chat.factory import ChatSettings

PROMPTS = {"balrog": "instructions", "balrog-corrected": "instructions-corrected"}
"""The prompts of the language model in a conversation, and their files."""


class RandomSettings(Strict):
    """Settings of the random agent."""

    layouts: Layouts = "0-1999"
    """Test layouts, "first-last": the reset seeds of the evaluation."""
    actions: int = Field(6, ge=1, le=7)
    """How many of left, right, forward, pickup, drop, toggle, done it uses (the paper's canonical space: 6)."""
    num_dists: int | None = None
    """Objects besides the mission's own, of Reasoning-* and Mixed* worlds."""
    first_finished: int = Field(0, ge=0)
    """Also count so many episodes as they finish, over `num_envs` restarting environments; 0: not."""
    num_envs: int = Field(20, ge=1)


class BotSettings(Strict):
    """Settings of the bot."""

    layouts: Layouts = "0-99"
    """Test layouts, "first-last": the reset seeds of the evaluation."""
    num_dists: int | None = None
    """Objects besides the mission's own, of Reasoning-* and Mixed* worlds; their own number where it is not given."""


class FactsSettings(Strict):
    """Settings of the comparison."""

    states: int = Field(5000, ge=1)
    """How many states are compared, those after a reset among them."""


class ChatAgentSettings(Strict):
    """Settings of a language model in a conversation."""

    layouts: Layouts = "0-9"
    """Test layouts, "first-last": the reset seeds of the evaluation."""
    num_dists: int | None = None
    """Objects besides the mission's own, of Reasoning-* and Mixed* worlds."""
    maker: Literal["scripted", "recorded", "openai", "local"] = "scripted"
    """Who replies: a stated rule (`reflex.py`), a ledger, a server, or a model in this process."""
    chat: ChatSettings = ChatSettings()
    ledger: str | None = None
    """File of replies: read by maker=recorded, read and filled by openai and local."""
    prompt: str = "balrog"
    """balrog, balrog-corrected, or a file of instructions that holds {mission}."""
    history: int = Field(16, ge=1)
    """Observations, each with its reply, that the model reads before the present one's."""
    thinks: bool = False
    """Whether it is asked to think first; the action then follows the last "ACTION:"."""

    def inputs(self) -> dict[str, Path | bytes | str]:
        """The ledger (of one that is filled, neither path nor content counts), a local model, and an own prompt."""
        files = model_files(self.chat.model, "chat.model") if self.maker == "local" and self.chat.model else {}
        ledger = Path(self.ledger) if self.ledger and self.maker == "recorded" else b""
        prompt = {} if self.prompt in PROMPTS else {"prompt": Path(self.prompt)}
        return {**files, **({"ledger": ledger} if self.ledger else {}), **prompt}
