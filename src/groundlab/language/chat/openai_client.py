"""The `openai` maker: any server that speaks OpenAI's chat completions (vLLM, llama.cpp, `transformers serve`, Azure).

    Server(model="Qwen/Qwen3-8B", connection=reach.connection()).reply(messages, sampling)

One question is put at most `attempts` times. Put again after a growing pause, or after the one that the server asks
for: refusals for now (408, 409, 429, 5xx), no answer in time, a cut connection, and answers that are no chat answer
(another content type, broken JSON, no choices, no text, too long). Not put again: refusals for good (400, 401, 404).
What then remains is `Unanswered`, one line. No key is ever in it.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, cast

import httpx2
import openai
from pydantic import BaseModel, ValidationError

from groundlab.language.chat.connection import ADDRESS, KEY, Connection
from groundlab.language.chat.interface import Messages, Reply, Sampling, Tokens, Unanswered

_log = logging.getLogger(__name__)
_LONGEST_DETAIL = 200  # characters of a server's own words in an error line
_NOTHING = Tokens(0, 0)
_FOR_NOW = (408, 409, 425, 429)  # and 500 to 599
_HINTS = {
    401: f"; set {KEY} to a key of this server",
    403: f"; set {KEY} to a key that may use this model",
    404: f"; check --base-url ({ADDRESS}) and the model's name",
}


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Answer(BaseModel):
    """What we read of a chat completion."""

    choices: list[_Choice]
    usage: _Usage | None = None


@dataclass(eq=False)
class _Trouble(Exception):
    """Why one attempt failed; `wait` is what the server asks for in seconds, `lost` what it charged all the same."""

    reason: str
    again: bool = True
    wait: float | None = None
    lost: Tokens = _NOTHING


class _TooLong(httpx2.ReadError):
    """The answer is longer than anyone asked for."""


class _Bounded(httpx2.SyncByteStream):
    """A body that ends with an error when it is too long or comes too slowly."""

    def __init__(self, stream: httpx2.SyncByteStream, limit: int, seconds: float):
        self._stream, self._limit, self._deadline = stream, limit, time.monotonic() + seconds

    def __iter__(self) -> Iterator[bytes]:
        seen = 0
        for chunk in self._stream:
            seen += len(chunk)
            if seen > self._limit:
                raise _TooLong(f"more than {self._limit:,} bytes")
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("too slow")
            yield chunk

    def close(self) -> None:
        self._stream.close()


@dataclass(frozen=True)
class Server:
    """A model behind an OpenAI-compatible server."""

    model: str
    connection: Connection

    def reply(self, messages: Messages, sampling: Sampling) -> Reply:
        """The server's reply with its tokens and cost. Raises Unanswered when the attempts are used up."""
        request, lost, pause = _request(self.model, messages, sampling), _NOTHING, self.connection.backoff
        for attempt in range(1, self.connection.attempts + 1):
            try:
                return self._ask(request, lost)
            except _Trouble as trouble:
                lost = _sum(lost, trouble.lost)
                wait = trouble.wait if trouble.wait is not None else pause
                if not trouble.again or attempt == self.connection.attempts or wait > self.connection.longest_wait:
                    raise self._unanswered(trouble, attempt) from None
                _log.info("attempt %d: %s; again in %.1f s", attempt, trouble.reason, wait)
            time.sleep(wait)
            pause = min(2 * pause, self.connection.longest_backoff)
        raise AssertionError("a connection has at least one attempt")

    def _ask(self, request: dict[str, Any], lost: Tokens) -> Reply:
        """One attempt. Raises _Trouble."""
        try:
            answer = self._client.chat.completions.with_raw_response.create(**request).http_response
        except openai.APIStatusError as error:
            raise self._refusal(error) from None
        except openai.APITimeoutError:
            raise _Trouble(f"no answer within {self.connection.timeout:g} s") from None
        except openai.APIConnectionError as error:
            raise _Trouble(_what_broke(error.__cause__)) from None
        text, tokens = _read(answer.content, answer.headers.get("content-type", ""))
        paid = _sum(tokens, lost) if tokens else None
        cost = self.connection.prices.cost(paid) if paid else 0.0
        return Reply(self.connection.without_key(text), paid, cost)

    def _refusal(self, error: openai.APIStatusError) -> _Trouble:
        said = " ".join(self.connection.without_key(error.message).split())[:_LONGEST_DETAIL]
        status = error.status_code
        again = status in _FOR_NOW or status >= 500
        wait = _retry_after(error.response.headers.get("retry-after"))
        return _Trouble(f"status {status} ({said}){_HINTS.get(status, '')}", again, wait if again else None)

    def _unanswered(self, trouble: _Trouble, attempts: int) -> Unanswered:
        times = "once" if attempts == 1 else f"{attempts} times"
        asks = f"; it asks to wait {trouble.wait:.0f} s" if trouble.wait else ""
        what = f"{self.connection.base_url} gave no usable answer of {self.model!r}, asked {times}"
        return Unanswered(f"{what}: {trouble.reason}{asks}; the ledger keeps what it has, the same command continues")

    @cached_property
    def _client(self) -> openai.OpenAI:
        def bound(response: httpx2.Response) -> None:
            stream = cast(httpx2.SyncByteStream, response.stream)
            response.stream = _Bounded(stream, self.connection.longest_answer, self.connection.timeout)

        return openai.OpenAI(
            base_url=self.connection.base_url,
            api_key=self.connection.key or "none",  # the package insists on one
            max_retries=0,  # ours are counted and told
            default_headers={"Accept-Encoding": "identity"},  # so that the length of the body is that of the answer
            http_client=openai.DefaultHttpxClient(
                timeout=self.connection.timeout, event_hooks={"request": [], "response": [bound]}
            ),
        )


def _request(model: str, messages: Messages, sampling: Sampling) -> dict[str, Any]:
    request: dict[str, Any] = {"model": model, "messages": messages, "temperature": sampling.temperature}
    if sampling.seed is not None:
        request["seed"] = sampling.seed
    if sampling.max_tokens is not None:
        request["max_tokens"] = sampling.max_tokens
    return request


def _what_broke(cause: BaseException | None) -> str:
    if isinstance(cause, _TooLong):
        return f"the answer is too long, {cause}"
    if isinstance(cause, httpx2.ConnectError):
        return "no server answers there"
    return f"the connection was cut ({type(cause).__name__})"


def _read(body: bytes, content_type: str) -> tuple[str, Tokens | None]:
    """The text of the first choice, and its tokens where the server counts. Raises _Trouble."""
    kind = content_type.partition(";")[0].strip()
    if not kind.endswith("json"):
        raise _Trouble(f"the answer is {kind or 'of no content type'}, not JSON")
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError:
        raise _Trouble("the answer is no chat completion") from None
    used = answer.usage
    tokens = Tokens(used.prompt_tokens, used.completion_tokens) if used else None
    text = answer.choices[0].message.content if answer.choices else None
    if text is None:
        what = "text" if answer.choices else "choice"
        raise _Trouble(f"the answer holds no {what}", lost=tokens or _NOTHING)
    return text, tokens


def _retry_after(header: str | None) -> float | None:
    """Seconds from now, of a number or an HTTP date; None where there is none to be read."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _sum(one: Tokens, other: Tokens) -> Tokens:
    return Tokens(one.prompt + other.prompt, one.completion + other.completion)
