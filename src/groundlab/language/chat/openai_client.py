"""The `openai` maker: any server that speaks OpenAI's chat completions (vLLM, llama.cpp, `transformers serve`, Azure).

    Server(model="Qwen/Qwen3-8B", connection=connection.connection()).reply(messages, sampling)

One question is put at most `attempts` times. Put again after a growing pause, or after the one that the server asks
for: refusals for now (408, 409, 429, 5xx), no answer in time, a cut connection, and answers that are no chat answer
(another content type, broken JSON, no choices, no text, an error beside them, too long). Not put again: refusals for
good (400, 401, 404), redirects, and compressed answers, which could unfold to any size. What then remains is
`Unanswered`, one line. No key is ever in it.
"""

import logging
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Annotated, Any

import httpx2
import openai
from pydantic import BaseModel, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from groundlab.core.errors import clip, shown_value
from groundlab.language.chat.connection import ADDRESS, KEY, Connection
from groundlab.language.chat.exchange import TooLong, bounded, exchange
from groundlab.language.chat.interface import MOST_TOKENS, Messages, Reply, Sampling, Tokens, Unanswered

_log = logging.getLogger(__name__)
_LONGEST_REASON, _LONGEST_NAME = 140, 70  # characters of an error line that are a server's own words, or a name
_YEAR = 365 * 86_400.0
_NOTHING = Tokens(0, 0)
_FOR_NOW = (408, 409, 425, 429)  # and 500 to 599
_CUT = ("length", "content_filter")  # reasons to finish that are no end
_HINTS = {
    401: f"; set {KEY} to a key of this server",
    403: f"; set {KEY} to a key that may use this model",
    404: f"; check --base-url ({ADDRESS}) and the model's name",
}
_REDIRECTED = f"; redirects are not followed: give the server itself as --base-url ({ADDRESS})"
_PLAINLY = "; have the server, or the proxy before it, answer without compression"


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: Any = None


Count = Annotated[int, Field(ge=0, le=MOST_TOKENS, strict=True)]


class _Usage(BaseModel):
    prompt_tokens: Count
    completion_tokens: Count


def _or_none(value: Any, check: ValidatorFunctionWrapHandler) -> _Usage | None:
    """A count that cannot be believed is no count; the reply is worth keeping all the same."""
    try:
        return check(value)
    except ValidationError:
        return None


class _Answer(BaseModel):
    """What we read of a chat completion."""

    choices: list[_Choice]
    model: Any = None
    error: Any = None
    usage: Annotated[_Usage | None, WrapValidator(_or_none)] = None


@dataclass(eq=False)
class _Trouble(Exception):
    """Why one attempt failed.

    wait: seconds that the server asks for; lost: what it charged all the same; hint: what to do.
    """

    reason: str
    again: bool = True
    wait: float | None = None
    lost: Tokens = _NOTHING
    hint: str = ""


class _Compressed(httpx2.ReadError):
    """An answer whose body would have to be unfolded."""


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
                _log.info("attempt %d: %s; again in %.1f s", attempt, self._reason(trouble), wait)
            time.sleep(wait)
            pause = min(2 * pause, self.connection.longest_backoff)
        raise AssertionError("a connection has at least one attempt")

    def _ask(self, request: dict[str, Any], lost: Tokens) -> Reply:
        """One attempt. Raises _Trouble."""
        completions = self._client.chat.completions.with_raw_response  # made before the clock runs
        try:
            with exchange(self.connection.timeout, self.connection.longest_answer):
                answer = completions.create(**request).http_response
        except openai.APIStatusError as error:
            raise _refusal(error) from None
        except openai.APITimeoutError:
            raise _Trouble(f"no answer within {self.connection.timeout:g} s") from None
        except openai.APIConnectionError as error:
            raise _what_broke(error.__cause__) from None
        except Exception as error:  # the libraries trip over hostile answers in ways of their own
            raise _Trouble(f"the answer cannot be read ({type(error).__name__})") from None
        reply = _read(answer.content, answer.headers.get("content-type", ""), self.model)
        paid = _sum(reply.tokens, lost) if reply.tokens else None
        cost = self.connection.prices.cost(paid) if paid else 0.0
        hidden = self.connection.without_key
        return Reply(hidden(reply), paid, cost, reply.cut, hidden(reply.of))

    def _unanswered(self, trouble: _Trouble, attempts: int) -> Unanswered:
        times = "once" if attempts == 1 else f"{attempts} times"
        asks = f"; it asks to wait {_seconds(trouble.wait)}" if trouble.wait else ""
        server, model = clip(self.connection.base_url, _LONGEST_NAME), shown_value(self.model, _LONGEST_NAME)
        what = f"{server} gave no usable answer of {model}, asked {times}"
        said = f"{self._reason(trouble)}{asks}{trouble.hint}"
        return Unanswered(f"{what}: {said}; the ledger keeps what it has, the same command continues")

    def _reason(self, trouble: _Trouble) -> str:
        """What went wrong, as it may be shown: a server's own words are in it."""
        return clip(" ".join(self.connection.without_key(trouble.reason).split()), _LONGEST_REASON)

    @cached_property
    def _client(self) -> openai.OpenAI:
        client = openai.DefaultHttpxClient(
            timeout=self.connection.timeout,
            follow_redirects=False,  # another server would get the question, and its answer the name of this one
            event_hooks={"request": [], "response": [_before_body]},
        )
        return openai.OpenAI(
            base_url=self.connection.base_url,
            api_key=self.connection.key or "none",  # the package insists on one
            max_retries=0,  # ours are counted and reported
            default_headers={"Accept-Encoding": "identity"},
            http_client=bounded(client),
        )


def _request(model: str, messages: Messages, sampling: Sampling) -> dict[str, Any]:
    request: dict[str, Any] = {"model": model, "messages": messages, "temperature": sampling.temperature}
    if sampling.seed is not None:
        request["seed"] = sampling.seed
    if sampling.max_tokens is not None:
        request["max_tokens"] = sampling.max_tokens
    return request


def _before_body(response: httpx2.Response) -> None:
    """Refuse what is compressed. A refusal shows in its status: its body is read as it is, whatever it claims."""
    response.encoding = "utf-8"
    codings = response.headers.pop("content-encoding", "").lower().replace(",", " ").split()
    if set(codings) - {"identity"} and response.is_success:
        raise _Compressed(", ".join(codings))


def _refusal(error: openai.APIStatusError) -> _Trouble:
    """The trouble that another status than 2xx is."""
    status, headers = error.status_code, error.response.headers
    if 300 <= status < 400:
        target = headers.get("location", "nowhere")
        return _Trouble(f"status {status}, a redirect to {target}", again=False, hint=_REDIRECTED)
    again = status in _FOR_NOW or status >= 500
    wait = _retry_after(headers.get("retry-after")) if again else None
    return _Trouble(f"status {status} ({error.message})", again, wait, hint=_HINTS.get(status, ""))


def _what_broke(cause: BaseException | None) -> _Trouble:
    """The trouble behind an attempt without any answer."""
    if isinstance(cause, _Compressed):
        return _Trouble(f"the answer is compressed ({cause}), which was not asked for", again=False, hint=_PLAINLY)
    if isinstance(cause, httpx2.ReadError) and isinstance(cause.__cause__, TooLong):
        return _Trouble(f"the answer is too long, {cause}")
    if isinstance(cause, httpx2.ConnectError) and "SSL" in str(cause):
        return _Trouble(f"no safe connection ({cause})", hint="; is it https, and its certificate known here?")
    if isinstance(cause, httpx2.ConnectError):
        return _Trouble("no server answers there")
    return _Trouble(f"the connection was cut ({type(cause).__name__})")


def _read(body: bytes, content_type: str, asked: str) -> Reply:
    """The text of the first choice, its tokens where the server counts, and what it lacks. Raises _Trouble."""
    kind = content_type.partition(";")[0].strip()
    if not kind.endswith("json"):
        raise _Trouble(f"the answer is {kind or 'of no content type'}, not JSON")
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "body"
        raise _Trouble(f"the answer is no chat completion ({where}: {problem['msg']})") from None
    used = answer.usage
    tokens = Tokens(used.prompt_tokens, used.completion_tokens) if used else None
    text = answer.choices[0].message.content if answer.choices else None
    if text is None or answer.error:
        what = "an error" if answer.error else "no text" if answer.choices else "no choice"
        raise _Trouble(f"the answer holds {what}", lost=tokens or _NOTHING)
    of = shown_value(answer.model, _LONGEST_NAME) if answer.model not in (None, "", asked) else ""
    return Reply(text, tokens, cut=answer.choices[0].finish_reason in _CUT, of=of)


def _retry_after(header: str | None) -> float | None:
    """Seconds from now, of a number or an HTTP date; None where there is none to be read."""
    header = (header or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", header, re.ASCII):
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


def _seconds(wait: float) -> str:
    return f"{wait:.0f} s" if wait < _YEAR else "for longer than a year"


def _sum(one: Tokens, other: Tokens) -> Tokens:
    return Tokens(one.prompt + other.prompt, one.completion + other.completion)
