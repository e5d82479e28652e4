"""The ledger: every reply on disk, asked for once, whoever asks and however often a run is killed.

An append-only JSON-lines file with one reply a line, keyed by model, messages and sampling:

    {"key", "model", "messages_sha256", "sampling", "reply", "tokens", "cost", "source", "created"}

Processes may share one. Each appends whole lines under a lock; and who asks a question holds that question, so that
another process with the same one waits and reads the reply instead of paying again. What was spent is the sum of the
lines, so a budget holds across processes and restarts.
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.storage import digest_json
from groundlab.language.chat.interface import ChatModel, Messages, Sampling

_log = logging.getLogger(__name__)
_TAIL = 0  # the byte of the lock file that stands for the end of the ledger; the others stand for questions
_QUESTION_DIGITS = 12  # of a key; two questions that share them wait for each other, no more


@dataclass
class Account:
    """What the replies of a ledger (or of one model in it) took."""

    replies: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    uncounted: int = 0
    """Replies whose model did not say how many tokens they took."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def add(self, record: dict[str, Any]) -> None:
        """Enter one line of a ledger."""
        tokens = record.get("tokens")
        self.replies += 1
        self.cost += record.get("cost") or 0.0
        if tokens is None:
            self.uncounted += record.get("source") != "scripted"  # a rule takes none
            return
        self.prompt_tokens += tokens["prompt"]
        self.completion_tokens += tokens["completion"]


class Ledger:
    """Replies on disk, read once, then appended to; `accounts` holds what each model's took.

    A last line cut short by a kill is ignored with one warning, and removed before the next reply is written.
    Any other broken line raises GroundlabError.
    """

    _FIELDS = ("key", "model", "reply")

    def __init__(self, path: Path):
        self.path = path
        self.accounts: dict[str, Account] = {}
        self._replies: dict[str, str] = {}
        self._read_to, self._lines, self._warned = 0, 0, False
        self._read_on()

    @staticmethod
    def key(model: str, messages: Messages, sampling: Sampling) -> str:
        """What a reply is filed under."""
        return digest_json({"model": model, "messages": messages, "sampling": asdict(sampling)})

    def find(self, model: str, messages: Messages, sampling: Sampling) -> str | None:
        """The reply on file, as far as the file has been read, or None."""
        return self._replies.get(self.key(model, messages, sampling))

    def account(self) -> Account:
        """What all replies on file took together."""
        total = Account()
        for each in self.accounts.values():
            total = Account(*(getattr(total, name) + value for name, value in vars(each).items()))
        return total

    def add(self, model: str, messages: Messages, sampling: Sampling, reply: str, source: str) -> None:
        """File a reply, with its tokens and cost if it is a `Reply` that knows them."""
        tokens = getattr(reply, "tokens", None)
        record = {
            "key": self.key(model, messages, sampling),
            "model": model,
            "messages_sha256": digest_json(messages),
            "sampling": asdict(sampling),
            "reply": str(reply),
            "tokens": tokens and tokens._asdict(),
            "cost": getattr(reply, "cost", 0.0),
            "source": source,
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        storage.make_folder(self.path.parent)
        with self._locked(_TAIL):
            cut = self._read_on()
            if cut:
                storage.truncate(self.path, self._read_to)
            storage.append_line(self.path, record)
            self._read_on()

    @contextmanager
    def asking(self, model: str, messages: Messages, sampling: Sampling) -> Iterator[None]:
        """Hold a question: no other process asks it meanwhile, and what others have filed is known inside."""
        storage.make_folder(self.path.parent)
        with self._locked(1 + int(self.key(model, messages, sampling)[:_QUESTION_DIGITS], 16)):
            with self._locked(_TAIL):
                self._read_on()
            yield

    @contextmanager
    def _locked(self, byte: int) -> Iterator[None]:
        """Hold one byte of the lock file; the system frees it when this process ends, however it ends."""
        with storage.clear_disk_errors(self.path):
            lock = _lock_file(self.path.absolute().with_name(f".{self.path.name}.lock"))
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX, 1, byte)
            except OSError as error:
                reason = f"the file system of {self.path} has no locks ({error.strerror})"
                raise GroundlabError(f"{reason}; put the ledger on another one") from None
        try:
            yield
        finally:
            fcntl.lockf(lock, fcntl.LOCK_UN, 1, byte)

    def _read_on(self) -> bool:
        """Take in the whole lines since the last time; says whether a piece of a line follows them."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            *lines, rest = file.read().split(b"\n")
        for line in lines:
            self._lines += 1
            record = self._parse(line)
            self._replies[record["key"]] = record["reply"]
            self.accounts.setdefault(record["model"], Account()).add(record)
            self._read_to += len(line) + 1
        if rest and not self._warned:
            self._warned = True
            _log.warning("%s: the last line was cut short (by a kill?) and is ignored", self.path)
        return bool(rest)

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError):
            record = None
        if not isinstance(record, dict):
            where = f"{self.path}:{self._lines}"
            raise GroundlabError(f"{where} is not valid JSON; delete that line and run again") from None
        missing = [name for name in self._FIELDS if name not in record]
        if missing:
            where = f"{self.path}:{self._lines}"
            raise GroundlabError(f"{where} lacks {', '.join(missing)}; delete that line and run again")
        return record


@cache
def _lock_file(path: Path) -> int:
    """The open lock file of a ledger. It is never closed: closing any would drop all locks of this process on it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


@dataclass(frozen=True)
class Budget:
    """What a ledger may come to hold; None is no limit."""

    tokens: int | None = None
    cost: float | None = None

    def check(self, ledger: Ledger) -> None:
        """Raises GroundlabError when nothing more may be asked. The reply that crosses the limit is still kept."""
        spent = ledger.account()
        held = f"{ledger.path} holds {spent.tokens:,} tokens, cost {spent.cost:.4f}"
        if self.tokens is not None and spent.tokens >= self.tokens:
            limit = f"{self.tokens:,} tokens"
        elif self.cost is not None and spent.cost >= self.cost:
            limit = f"cost {self.cost:g}"
        elif self.tokens is not None and spent.uncounted:
            uncounted = f"and {spent.uncounted} replies that nobody counted"
            raise GroundlabError(f"{held}, {uncounted}; a budget of tokens cannot be kept, leave it out")
        else:
            return
        raise GroundlabError(f"the budget of {limit} is used up ({held}); raise --budget and run the same command")


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
                "run the same command with --set planner=scripted (or openai, local) to fill it"
            )
        return found


@dataclass(frozen=True)
class Recording:
    """Asks the ledger first, then `maker`, and files what it says; stops before the budget is passed."""

    maker: ChatModel
    ledger: Ledger
    source: str
    budget: Budget = Budget()

    @property
    def model(self) -> str:
        return self.maker.model

    def reply(self, messages: Messages, sampling: Sampling) -> str:
        question = (self.model, messages, sampling)
        found = self.ledger.find(*question)
        if found is not None:
            return found
        with self.ledger.asking(*question):
            found = self.ledger.find(*question)
            if found is None:
                self.budget.check(self.ledger)
                found = self.maker.reply(messages, sampling)
                self.ledger.add(*question, found, self.source)
        return found
