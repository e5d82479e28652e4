"""The `openai` maker: any server that speaks OpenAI's chat completions (vLLM, llama.cpp, `transformers serve`, Azure).

    Server(model="Qwen/Qwen3-8B", connection=connection.connection()).reply(messages, sampling)

The openai client asks one question at most `attempts` times: again after a refusal for now (408, 409, 429, 5xx),
silence or a cut connection, with growing pauses or the one that the server asks for. Refusals for good (400, 401, 404,
a quota used up), redirects and answers without a text end at once, as `Unanswered`: one line without the key, and what
was charged. What a server refuses of the sampling is left out, or sent under its other name, with a warning.
"""

import json
import logging
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import httpx2
import openai

from groundlab.core.errors import GroundlabError, clip, shown_value
from groundlab.language.chat.connection import ADDRESS, KEY, Connection
from groundlab.language.chat.interface import MOST_TOKENS, Messages, Reply, Sampling, Tokens, Unanswered
from groundlab.language.chat.redaction import redact
from groundlab.language.chat.texts import joined, without_thoughts

_log = logging.getLogger(__name__)
_LONGEST_REASON, _LONGEST_NAME = 140, 70  # characters of an error line that are a server's own words, or a name
_CUT = ("length", "content_filter")  # reasons to finish that are no end
_OTHER_NAME = {"max_tokens": "max_completion_tokens", "temperature": "", "seed": ""}  # where a server refuses it
_UNKNOWN = re.compile("support(?!s)|unknown|unrecogni[sz]ed|unexpected|extra|not (permitted|allowed)|instead", re.I)
_NO_CREDIT = re.compile("insufficient[_ ](quota|balance|credit|funds)|billing_|exceeded_current_quota", re.I)
_HINTS = {
    401: f"; set {KEY} to a key of this server",
    402: "; the account of this key has nothing left",
    403: f"; set {KEY} to a key that may use this model",
    404: f"; check --base-url ({ADDRESS}) and the model's name",
}
_REDIRECTED = f"; redirects are not followed: give the server itself as --base-url ({ADDRESS})"


@dataclass(frozen=True)
class Server:
    """A model behind an OpenAI-compatible server."""

    model: str
    connection: Connection
    _sent_as: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def reply(self, messages: Messages, sampling: Sampling) -> Reply:
        """Return the server's reply with its tokens and cost. Raises Unanswered when the attempts are used up, and
        GroundlabError where a proxy or a certificate of this machine cannot be used."""
        try:
            return self._read(*self._put(messages, vars(sampling)))
        except openai.APIStatusError as error:
            raise self._unanswered(*_refusal(error)) from None
        except openai.APITimeoutError:
            raise self._unanswered(f"no answer within {self.connection.timeout:g} s") from None
        except openai.APIConnectionError as error:
            via = "" if self.connection.is_local else _set("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY")
            raise self._unanswered(*_what_broke(error.__cause__, via)) from None
        except ValueError as error:
            raise self._unanswered(str(error)) from None

    def _unanswered(self, reason: str, hint: str = "") -> Unanswered:
        """Return the error in one line: a server's own words are in it."""
        server, model = clip(self.connection.base_url, _LONGEST_NAME), shown_value(self.model, _LONGEST_NAME)
        said = clip(" ".join(redact(reason, self.connection.key).split()), _LONGEST_REASON)
        what = f"{server} gave no usable answer of {model}: {said}{hint}"
        return Unanswered(f"{what}; the ledger keeps what it has, the same command continues")

    @cached_property
    def _client(self) -> openai.OpenAI:
        try:
            return openai.OpenAI(
                base_url=self.connection.base_url,
                api_key=self.connection.key or "none",  # the package insists on one
                timeout=self.connection.timeout,
                max_retries=self.connection.attempts - 1,
                http_client=openai.DefaultHttpxClient(
                    follow_redirects=False,  # else another server answers under this one's name
                    event_hooks={"response": [_ask_no_more]},
                    transport=httpx2.HTTPTransport() if self.connection.is_local else None,  # by no proxy
                ),
            )
        except Exception as error:  # of as many kinds as there are broken proxies
            files, proxies = ("SSL_CERT_FILE", "SSL_CERT_DIR"), ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY")
            names = _set(*(files if isinstance(error, OSError) else proxies)) or ADDRESS
            kind = "SOCKS needs the package socksio" if isinstance(error, ImportError) else type(error).__name__
            what = f"expected a value that a client can use in {names}, got another ({kind})"
            raise GroundlabError(f"{what}; correct it or unset it") from None

    def _put(self, messages: Messages, sampling: dict[str, Any]) -> tuple[httpx2.Response, dict[str, Any]]:
        """Return the server's answer, and how it was sampled: without what the server refuses."""
        while True:
            sent = {self._sent_as.get(name, name): value for name, value in sampling.items() if value is not None}
            sent.pop("", None)
            try:
                create = self._client.chat.completions.with_raw_response.create
                return create(model=self.model, messages=messages, **sent).http_response, sent  # type: ignore[arg-type]
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                refused = {name: other for name, other in _OTHER_NAME.items() if name in sent and _refuses(error, name)}
                if not refused:
                    raise
            self._sent_as.update(refused)
            for name, other in refused.items():
                instead = f"sent as {other}" if other else "left out, and the server samples as it likes"
                _log.warning("the server of %s refuses %s=%s: it is %s", self.model, name, sent[name], instead)

    def _read(self, answer: httpx2.Response, sent: dict[str, Any]) -> Reply:
        """Return the text of the first choice, its tokens where the server counts, and what it lacks.

        Raises ValueError for an answer that is not JSON, and Unanswered, with the charge, for one without a reply.
        """
        events = [line[5:] for line in answer.content.splitlines() if line.startswith(b"data:") and b'"usage"' in line]
        try:
            body = json.loads(events[-1] if events else answer.content)  # a stream, not asked for, has its usage last
        except (ValueError, RecursionError):
            kind = answer.headers.get("content-type", "").partition(";")[0].strip()
            what = "not a chat completion" if kind.endswith("json") else f"{kind or 'of no content type'}, not JSON"
            raise ValueError(f"the answer is {what}") from None
        first, tokens, of = _at(body, "choices", 0), _tokens(_at(body, "usage")), _at(body, "model")
        text, finish = joined(_at(first, "message", "content")), _at(first, "finish_reason")
        said, cost = redact(text, self.connection.key), self.connection.prices.cost(tokens) if tokens else 0.0
        flaws = {
            "cut": finish in _CUT,
            "of": of not in (None, "", self.model) and redact(shown_value(of, _LONGEST_NAME), self.connection.key),
            "sent": "" in self._sent_as.values() and sent,
            "struck": said != text,
        }
        if error := _at(body, "error") or _at(first, "error") or finish == "error":
            failed = f"the answer holds an error ({shown_value(error)})"
        elif first is None:
            failed = f"the answer {'holds no choice' if _at(body, 'choices') == [] else 'is not a chat completion'}"
        elif without_thoughts(text).strip() and not re.search(r"[\ud800-\udfff]", text):
            return Reply(said, tokens, cost, **flaws)
        else:
            why = _at(first, "message", "refusal") or finish
            fix = "; raise chat.max_tokens" if finish == "length" else ""
            failed = f"the answer holds no text ({shown_value(why)}){fix}"
        failure = self._unanswered(failed)
        if tokens or first:
            failure.charged = Reply("", tokens, cost, failed=redact(failed, self.connection.key), **flaws)
        raise failure


def _set(*names: str) -> str:
    """Those of some variables that are set, by name only: a proxy's value may hold a password."""
    return ", ".join(name for name, value in os.environ.items() if value and name.upper() in names)


def _ask_no_more(answer: httpx2.Response) -> None:
    """An account with nothing left: the openai package asks again unless this header is there."""
    if answer.is_error and _NO_CREDIT.search(answer.read().decode(errors="replace")):
        answer.headers["x-should-retry"] = "false"


def _refuses(error: openai.APIStatusError, name: str) -> bool:
    """Return True if a value is refused; for a limit, only if its name is unknown (it may also be too large)."""
    named = name == error.param if error.param in _OTHER_NAME else re.search(rf"\b{name}\b", error.message)
    return bool(named and (name != "max_tokens" or _UNKNOWN.search(error.message)))


def _refusal(error: openai.APIStatusError) -> tuple[str, str]:
    """Return the reason for a refusal, and what to do."""
    if 300 <= error.status_code < 400:
        where = error.response.headers.get("location", "nowhere")
        return f"status {error.status_code}, a redirect to {where}", _REDIRECTED
    wait = error.response.headers.get("retry-after")
    said = f"status {error.status_code} ({error.message})" + (f"; it asks to wait {clip(wait, 40)}" if wait else "")
    return said, _HINTS.get(402 if _NO_CREDIT.search(error.message) else error.status_code, "")


def _what_broke(cause: BaseException | None, proxies: str) -> tuple[str, str]:
    """Return the reason for an attempt without any answer, and what to do."""
    if isinstance(cause, httpx2.ConnectError) and "SSL" in str(cause):
        return f"no safe connection ({cause})", "; is it https, and its certificate known here?"
    if isinstance(cause, httpx2.ConnectError | httpx2.ProxyError):
        return "no server answers there", f" through the proxy of {proxies}" if proxies else ""
    return f"the connection was cut ({type(cause).__name__})", ""


def _at(value: Any, *path: str | int) -> Any:
    """Return the value at a path in JSON, None for a path that does not exist."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _tokens(usage: Any) -> Tokens | None:
    """None where a count cannot be believed. A total that is more than its parts holds thoughts, charged as well."""
    prompt, completion, total = (_at(usage, f"{name}_tokens") for name in ("prompt", "completion", "total"))
    if not all(type(count) is int and 0 <= count <= MOST_TOKENS for count in (prompt, completion)):
        return None
    return Tokens(
        prompt, max(completion, total - prompt) if type(total) is int and total <= MOST_TOKENS else completion
    )
