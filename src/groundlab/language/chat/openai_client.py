"""The `openai` maker: any server that speaks OpenAI's chat completions (vLLM, llama.cpp, `transformers serve`, Azure).

    Server(model="Qwen/Qwen3-8B", connection=connection.connection()).reply(messages, sampling)

The openai client asks one question at most `attempts` times: again after a refusal for now (408, 409, 429, 5xx),
silence or a cut connection, with growing pauses or the one that the server asks for. Refusals for good (400, 401, 404),
redirects and answers that are not chat completions end at once, as `Unanswered`: one line without the key.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import httpx2
import openai
from pydantic import BaseModel, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from groundlab.core.errors import clip, shown_value
from groundlab.language.chat.connection import ADDRESS, KEY, Connection
from groundlab.language.chat.interface import MOST_TOKENS, Messages, Reply, Sampling, Tokens, Unanswered

_LONGEST_REASON, _LONGEST_NAME = 140, 70  # characters of an error line that are a server's own words, or a name
_CUT = ("length", "content_filter")  # reasons to finish that are no end
_HINTS = {
    401: f"; set {KEY} to a key of this server",
    403: f"; set {KEY} to a key that may use this model",
    404: f"; check --base-url ({ADDRESS}) and the model's name",
}
_REDIRECTED = f"; redirects are not followed: give the server itself as --base-url ({ADDRESS})"


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


@dataclass(frozen=True)
class Server:
    """A model behind an OpenAI-compatible server."""

    model: str
    connection: Connection

    def reply(self, messages: Messages, sampling: Sampling) -> Reply:
        """Return the server's reply with its tokens and cost. Raises Unanswered when the attempts are used up."""
        request = _request(self.model, messages, sampling)
        try:
            answer = self._client.chat.completions.with_raw_response.create(**request).http_response
            reply = _read(answer.content, answer.headers.get("content-type", ""), self.model)
        except openai.APIStatusError as error:
            raise self._unanswered(_refusal(error), _hint(error.status_code)) from None
        except openai.APITimeoutError:
            raise self._unanswered(f"no answer within {self.connection.timeout:g} s") from None
        except openai.APIConnectionError as error:
            raise self._unanswered(*_what_broke(error.__cause__)) from None
        except ValueError as error:
            raise self._unanswered(str(error)) from None
        cost = self.connection.prices.cost(reply.tokens) if reply.tokens else 0.0
        hidden = self.connection.without_key
        return Reply(hidden(reply), reply.tokens, cost, reply.cut, hidden(reply.of))

    def _unanswered(self, reason: str, hint: str = "") -> Unanswered:
        """Return the error in one line: a server's own words are in it."""
        server, model = clip(self.connection.base_url, _LONGEST_NAME), shown_value(self.model, _LONGEST_NAME)
        said = clip(" ".join(self.connection.without_key(reason).split()), _LONGEST_REASON)
        what = f"{server} gave no usable answer of {model}: {said}{hint}"
        return Unanswered(f"{what}; the ledger keeps what it has, the same command continues")

    @cached_property
    def _client(self) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=self.connection.base_url,
            api_key=self.connection.key or "none",  # the package insists on one
            timeout=self.connection.timeout,
            max_retries=self.connection.attempts - 1,
            # another server would get the question, and its answer the name of this one
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )


def _request(model: str, messages: Messages, sampling: Sampling) -> dict[str, Any]:
    request: dict[str, Any] = {"model": model, "messages": messages, "temperature": sampling.temperature}
    if sampling.seed is not None:
        request["seed"] = sampling.seed
    if sampling.max_tokens is not None:
        request["max_tokens"] = sampling.max_tokens
    return request


def _refusal(error: openai.APIStatusError) -> str:
    if 300 <= error.status_code < 400:
        return f"status {error.status_code}, a redirect to {error.response.headers.get('location', 'nowhere')}"
    wait = error.response.headers.get("retry-after")
    return f"status {error.status_code} ({error.message})" + (f"; it asks to wait {clip(wait, 40)}" if wait else "")


def _hint(status: int) -> str:
    return _REDIRECTED if 300 <= status < 400 else _HINTS.get(status, "")


def _what_broke(cause: BaseException | None) -> tuple[str, str]:
    """Return the reason for an attempt without any answer, and what to do."""
    if isinstance(cause, httpx2.ConnectError) and "SSL" in str(cause):
        return f"no safe connection ({cause})", "; is it https, and its certificate known here?"
    if isinstance(cause, httpx2.ConnectError):
        return "no server answers there", ""
    return f"the connection was cut ({type(cause).__name__})", ""


def _read(body: bytes, content_type: str, asked: str) -> Reply:
    """Return the text of the first choice, its tokens where the server counts, and what it lacks. Raises ValueError."""
    kind = content_type.partition(";")[0].strip()
    if not kind.endswith("json"):
        raise ValueError(f"the answer is {kind or 'of no content type'}, not JSON")
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "body"
        raise ValueError(f"the answer is not a chat completion ({where}: {problem['msg']})") from None
    used = answer.usage
    tokens = Tokens(used.prompt_tokens, used.completion_tokens) if used else None
    text = answer.choices[0].message.content if answer.choices else None
    if text is None or answer.error:
        what = "an error" if answer.error else "no text" if answer.choices else "no choice"
        raise ValueError(f"the answer holds {what}")
    of = shown_value(answer.model, _LONGEST_NAME) if answer.model not in (None, "", asked) else ""
    return Reply(text, tokens, cut=answer.choices[0].finish_reason in _CUT, of=of)
