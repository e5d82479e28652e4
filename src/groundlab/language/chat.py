"""One interface for all LLM advice: `ChatModel.reply(messages, sampling) -> text`, and the ledger of past replies.

Makers here: `Scripted` answers by a stated rule; `Recorded` replays a ledger and never calls anything; `Recording`
wraps any maker and writes what it says to a ledger, so that the same question is never asked twice.
A ledger is an append-only JSON-lines file with one reply a line, keyed by model, messages and sampling.
Used by: `methods/mediator/planner.py`.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.hashing import digest_json

Messages = list[dict[str, str]]  # {"role": "system" | "user" | "assistant", "content": text}


@dataclass(frozen=True)
class Sampling:
    """How a reply is drawn. The seed counts only above temperature 0, where it tells draws apart."""

    temperature: float = 0.0
    seed: int | None = None


class ChatModel(Protocol):
    """Anything that answers a chat; `model` is the name that goes into ledgers."""

    @property
    def model(self) -> str: ...

    def reply(self, messages: Messages, sampling: Sampling) -> str: ...


@dataclass(frozen=True)
class Scripted:
    """Answers the last message by a rule; the rule gets the sampling so that noise can be seeded."""

    model: str
    rule: Callable[[str, Sampling], str]

    def reply(self, messages: Messages, sampling: Sampling) -> str:
        return self.rule(messages[-1]["content"], sampling)


class Ledger:
    """Replies on disk, read once, then appended to.

    A last line cut short by a kill is skipped; any other broken line raises GroundlabError.
    """

    _FIELDS = ("key", "model", "reply")

    def __init__(self, path: Path):
        self.path = path
        self._replies: dict[str, str] = {}
        for number, record in enumerate(storage.read_lines(path), start=1):
            missing = [name for name in self._FIELDS if not isinstance(record, dict) or name not in record]
            if missing:
                raise GroundlabError(f"{path}:{number} lacks {', '.join(missing)}; delete that line and run again")
            self._replies[record["key"]] = record["reply"]

    @staticmethod
    def key(model: str, messages: Messages, sampling: Sampling) -> str:
        """What a reply is filed under."""
        return digest_json({"model": model, "messages": messages, "sampling": asdict(sampling)})

    def find(self, model: str, messages: Messages, sampling: Sampling) -> str | None:
        """The reply on file, or None."""
        return self._replies.get(self.key(model, messages, sampling))

    def add(self, model: str, messages: Messages, sampling: Sampling, reply: str, source: str) -> None:
        """File a reply."""
        key = self.key(model, messages, sampling)
        record = {
            "key": key,
            "model": model,
            "messages_sha256": digest_json(messages),
            "sampling": asdict(sampling),
            "reply": reply,
            "tokens": None,
            "cost": 0.0,
            "source": source,
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        storage.make_folder(self.path.parent)
        storage.append_line(self.path, record)
        self._replies[key] = reply


@dataclass(frozen=True)
class Recorded:
    """Replays a ledger. Raises GroundlabError, naming the question, for one that is not on file."""

    model: str
    ledger: Ledger

    def reply(self, messages: Messages, sampling: Sampling) -> str:
        found = self.ledger.find(self.model, messages, sampling)
        if found is None:
            question = json.dumps(messages[-1]["content"])
            raise GroundlabError(
                f"{self.ledger.path} holds no reply of {self.model!r} to {question}; "
                "run the same command with --set planner=scripted to fill it"
            )
        return found


@dataclass(frozen=True)
class Recording:
    """Asks the ledger first, then `maker`, and files what it says."""

    maker: ChatModel
    ledger: Ledger
    source: str

    @property
    def model(self) -> str:
        return self.maker.model

    def reply(self, messages: Messages, sampling: Sampling) -> str:
        found = self.ledger.find(self.model, messages, sampling)
        if found is None:
            found = self.maker.reply(messages, sampling)
            self.ledger.add(self.model, messages, sampling, found, self.source)
        return found
