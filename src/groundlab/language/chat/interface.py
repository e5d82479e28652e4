"""What a question to a language model is, what a reply is, and what answers.

`Scripted` is the smallest chat model: a stated rule.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from groundlab.core.errors import GroundlabError

MOST_TOKENS = 10**9  # of one reply: more cannot be believed
Messages = list[dict[str, str]]  # {"role": "system" | "user" | "assistant", "content": text}


@dataclass(frozen=True)
class Sampling:
    """How a reply is drawn. The seed counts only above temperature 0, where it tells draws apart."""

    temperature: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    """Length at which a reply is cut; None leaves it to the model."""


class Tokens(NamedTuple):
    """What a reply took, as its model counts."""

    prompt: int
    completion: int


class Reply(str):
    """A reply is its text; one that a model has worked for also says what that took.

    tokens: None where the model does not count; cost: in the currency of the prices, 0 without prices. flaws: "cut": it
    was not written to its end; "of": the model that wrote it, where that is not the one that was asked; "sent": how it
    was sampled, where the server refuses what was asked for; "struck": the API key was struck out of it; "failed": why
    a charged answer is not a reply.
    """

    tokens: Tokens | None
    cost: float
    flaws: dict[str, Any]

    def __new__(cls, text: str, tokens: Tokens | None = None, cost: float = 0.0, **flaws: Any) -> "Reply":
        reply = super().__new__(cls, text)
        reply.tokens, reply.cost = tokens, cost
        reply.flaws = {name: value for name, value in flaws.items() if value}
        return reply


class ChatModel(Protocol):
    """Anything that answers a chat; `model` is the name that goes into ledgers."""

    @property
    def model(self) -> str: ...

    def reply(self, messages: Messages, sampling: Sampling) -> str: ...


class Unanswered(GroundlabError):
    """A model gave no usable answer within its stated attempts."""

    charged: Reply | None = None
    """Tokens and cost of its last answer, which was charged all the same."""


@dataclass(frozen=True)
class Scripted:
    """Answers the last message by a rule; the rule gets the sampling so that noise can be seeded."""

    model: str
    rule: Callable[[str, Sampling], str]

    def reply(self, messages: Messages, sampling: Sampling) -> str:
        return self.rule(messages[-1]["content"], sampling)
