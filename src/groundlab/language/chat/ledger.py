"""The ledger: every reply on disk, asked for once, whoever asks and however often a run is killed.

An append-only JSON-lines file with one reply a line, keyed by model, messages and sampling:

    {"key", "model", "messages_sha256", "sampling", "reply", "tokens", "cost", "source", "created"}

What a reply lacks is in its line ("cut", "of", "sent", "struck"), and each use warns. An answer that was charged and is
no reply counts as well: its line has the reply null and says why ("failed"), and its question is asked again.
Processes may share one. Each appends whole lines under a lock; and who asks a question holds that question, so that
another process with the same one waits and reads the reply instead of paying again. What was spent is the sum of the
lines, so a budget holds across processes and restarts.
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, clip, shown_value
from groundlab.core.storage import digest_json
from groundlab.language.chat.interface import MOST_TOKENS, ChatModel, Messages, Reply, Sampling, Unanswered
from groundlab.language.chat.texts import without_thoughts

_log = logging.getLogger(__name__)
_TAIL = 0  # the byte of the lock file that stands for the end of the ledger; the others stand for questions
_MOST_LOST = 1000  # answers that were charged and lost before the one that was filed
_FLAWS = {
    "cut": "a reply of %s was cut by length",
    "of": "a reply was asked of %s and came from %s",
    "sent": "a reply of %s was sampled with %s: its server refuses what was asked for",
    "struck": "the API key was struck out of a reply of %s",
    "failed": "an answer of %s was no reply (%s)",
}
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

    def add(self, line: "Line") -> None:
        """Enter one line of a ledger."""
        self.replies += line.reply is not None
        self.cost += line.cost
        if line.tokens is None:
            self.uncounted += line.source != "scripted"  # a rule takes none
            return
        self.prompt_tokens += line.tokens.prompt
        self.completion_tokens += line.tokens.completion


Count = Annotated[int, Field(ge=0, le=_MOST_LOST * MOST_TOKENS)]


class _LineTokens(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    prompt: Count
    completion: Count


class Line(BaseModel):
    """What a line of a ledger holds. Every line that is read or written passes through here."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    key: str
    model: str
    messages_sha256: str = ""
    sampling: Sampling | None = None
    reply: str | None
    tokens: _LineTokens | None = None
    cost: Annotated[float, Field(ge=0)] = 0.0
    source: str = ""
    created: str = ""
    cut: bool = False
    of: str = ""
    sent: dict[str, int | float] | None = None
    struck: bool = False
    failed: str = ""

    @model_validator(mode="after")
    def _empty_is_none(self) -> Self:
        """Thoughts alone are not a reply; what runs in this process may say nothing, and costs nothing."""
        if self.source not in ("local", "scripted") and not without_thoughts(self.reply or "").strip():
            self.reply = None
        return self


class Ledger:
    """Replies on disk, read once, then appended to; `accounts` holds what each model's took.

    A last line cut short by a kill is ignored with one warning, and removed before the next reply is written; one that
    lacks its end only is kept. Any other broken line raises GroundlabError.
    """

    def __init__(self, path: Path):
        self.path = path
        self.accounts: dict[str, Account] = {}
        self._replies: dict[str, Reply] = {}
        self._read_to, self._lines, self._warned, self._unended = 0, 0, False, False
        self._read_on()

    @staticmethod
    def key(model: str, messages: Messages, sampling: Sampling) -> str:
        """What a reply is filed under."""
        return digest_json({"model": model, "messages": messages, "sampling": asdict(sampling)})

    def find(self, model: str, messages: Messages, sampling: Sampling) -> Reply | None:
        """The reply on file, as far as the file has been read, or None."""
        return self._replies.get(self.key(model, messages, sampling))

    @property
    def flawed(self) -> int:
        """Replies on file that are not quite what was asked for."""
        return sum(bool(reply.flaws) for reply in self._replies.values())

    def account(self) -> Account:
        """What all replies on file took together."""
        total = Account()
        for each in self.accounts.values():
            total = Account(*(getattr(total, name) + value for name, value in vars(each).items()))
        return total

    def add(self, model: str, messages: Messages, sampling: Sampling, reply: str, source: str) -> None:
        """File a reply, with its tokens and cost if it is a `Reply` that knows them."""
        tokens, flaws = getattr(reply, "tokens", None), getattr(reply, "flaws", {})
        line = Line(
            key=self.key(model, messages, sampling),
            model=model,
            messages_sha256=digest_json(messages),
            sampling=sampling,
            reply=str(reply),
            tokens=tokens and _LineTokens(**tokens._asdict()),
            cost=getattr(reply, "cost", 0.0),
            source=source,
            created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            **flaws,
        )
        storage.make_folder(self.path.parent)
        with self._locked(_TAIL):
            cut = self._read_on()
            if cut:
                storage.truncate(self.path, self._read_to)
            record = line.model_dump(exclude=_FLAWS.keys() - flaws)
            storage.append_line(self.path, record, after="\n" if self._unended else "")
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
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                new = file.read()
        except OSError as error:
            raise GroundlabError(f"cannot read {clip(str(self.path), 200)}: {error.strerror}; give a file") from None
        if self._unended and new.startswith(b"\n"):
            new, self._read_to, self._unended = new[1:], self._read_to + 1, False
        *lines, rest = new.split(b"\n")
        with suppress(ValidationError):
            Line.model_validate_json(rest)
            lines, rest, self._unended = [*lines, rest], b"", True
        for content in lines:
            line = self._parse(content, self._lines + 1)
            if line.reply is not None:
                self._replies[line.key] = Reply(line.reply, **line.model_dump(include=set(_FLAWS)))
            self.accounts.setdefault(line.model, Account()).add(line)
            self._lines += 1
            self._read_to += len(content) + 1
        self._read_to -= self._unended and bool(lines)
        if rest and not self._warned:
            self._warned = True
            _log.warning("%s: the last line was cut short (by a kill?) and is ignored", self.path)
        return bool(rest)

    def _parse(self, content: bytes, number: int) -> Line:
        try:
            return Line.model_validate_json(content)
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        what = f"{where}: {problem['msg']}" if where else problem["msg"]
        raise GroundlabError(
            f"{clip(str(self.path), 200)}:{number} is no line of a ledger ({clip(what)}); "
            "delete that line and run the same command again: its question, if it is still one, is asked anew"
        )


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
        held = f"{clip(str(ledger.path))} holds {spent.tokens:,} tokens, cost {spent.cost:.4f}"
        if self.tokens is not None and spent.tokens >= self.tokens:
            limit = f"{self.tokens:,} tokens"
        elif self.cost is not None and spent.cost >= self.cost:
            limit = f"cost {self.cost:g}"
        elif spent.uncounted and self != Budget():
            uncounted = f"and {spent.uncounted} replies that nobody counted"
            raise GroundlabError(f"{held}, {uncounted}; a budget cannot be kept, leave it out")
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
            question = clip(json.dumps(messages[-1]["content"]), 120)
            raise GroundlabError(
                f"{clip(str(self.ledger.path))} holds no reply of {shown_value(self.model)} to {question}; "
                "run the same command with --set planner=scripted (or openai, local) to fill it"
            )
        return _used(found, self.model)


@dataclass(frozen=True)
class Recording:
    """Asks the ledger first, then `maker`, and files what it says; stops before the budget is passed."""

    maker: ChatModel
    ledger: Ledger
    source: str
    budget: Budget = Budget()
    survives: bool = False  # by an empty reply, which is not filed, where there is no answer

    @property
    def model(self) -> str:
        return self.maker.model

    def reply(self, messages: Messages, sampling: Sampling) -> str:
        question = (self.model, messages, sampling)
        found = self.ledger.find(*question)
        if found is not None:
            return _used(found, self.model)
        with self.ledger.asking(*question):
            found = self.ledger.find(*question)
            if found is None:
                self.budget.check(self.ledger)
                try:
                    found = self.maker.reply(messages, sampling)
                except Unanswered as error:
                    if error.charged is not None:
                        self.ledger.add(*question, error.charged, self.source)
                    if not self.survives:
                        raise
                    _log.warning("%s; an empty reply is taken", error)
                    return ""
                self.ledger.add(*question, found, self.source)
        return _used(found, self.model)


def _used(reply: str, model: str) -> str:
    """The reply itself; what it lacks is reported each time, so that the record of a run counts it."""
    for name, value in getattr(reply, "flaws", {}).items():
        _log.warning(_FLAWS[name], *(model, value)[: _FLAWS[name].count("%s")])
    return reply
