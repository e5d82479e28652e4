"""What a chat server can do wrong, by name, and how each ends: FAULTS[name] is a `Fault`.

refused   one question, one line        again   two attempts, then one line
timed     the same, by the clock        fine    a reply, after so many requests
"""

import gzip
import json
import zlib
from typing import NamedTuple

from chat_server import Answer, chunk, chunked, completion, echo, error, flood, held, http, ok, reset, slowly

TIMEOUT = 1.0  # seconds of patience for faults that wait; the others never come near theirs
ELSEWHERE = "http://elsewhere.invalid/v1"  # the test puts another server's address in its place


class Fault(NamedTuple):
    """Answers in turn, and what becomes of them."""

    answers: tuple[Answer, ...]
    line: str | None  # what the error says, a pattern
    reply: str | None = None
    requests: int = 1
    waits: bool = False
    counted: bool = True


def refused(line: str, *answers: Answer) -> Fault:
    return Fault(answers, line)


def again(line: str, *answers: Answer) -> Fault:
    return Fault(answers, line, requests=2)


def timed(*answers: Answer) -> Fault:
    return Fault(answers, r"no answer within 1 s", requests=2, waits=True)


def fine(reply: str, *answers: Answer, requests: int = 1, counted: bool = True) -> Fault:
    return Fault(answers, None, reply, requests, counted=counted)


OK = ok()
HALF = len(OK) - 60
DEEP = b"[" * 100_000
NO_COMPLETION = "the answer is no chat completion"
TOO_LONG = "too long, more than 1,048,576 bytes"
KIND = "application/json"


def body(data: bytes, kind: str | None = "application/json") -> bytes:
    return http(data, "200 OK", kind)


def usage(value: object) -> bytes:
    """A proper answer but for its token counts, written as they are given."""
    return body(completion(usage="HERE").replace(b'"HERE"', str(value).encode()))


def counts(prompt: object, completion: object = 9) -> bytes:
    return usage(f'{{"prompt_tokens": {prompt}, "completion_tokens": {completion}}}')


def choices(value: object) -> bytes:
    return body(json.dumps({"choices": value, "usage": {"prompt_tokens": 30, "completion_tokens": 0}}).encode())


def packed(data: bytes, *codings: str) -> bytes:
    return http(data, "200 OK", "application/json", f"Content-Encoding: {', '.join(codings)}")


def redirect(status: str, location: str = f"{ELSEWHERE}/chat/completions") -> bytes:
    return http(b"", status, None, f"Location: {location}")


def deflated(megabytes: int) -> bytes:
    """Gzip of gzip of spaces, kilobytes that unfold to so much."""
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(b" " * (1 << 20)) for _ in range(megabytes)]
    return gzip.compress(b"".join([*parts, packer.flush()]))


STATUS = {
    **{f"status {code}": again(rf"status {code} \(.*no", error(f"{code} No")) for code in (408, 429, 500, 503)},
    **{f"status {code}": refused(rf"status {code} \(.*no", error(f"{code} No")) for code in (400, 401, 404, 422)},
    "status 204": again("of no content type, not JSON", http(b"", "204 No Content", None, length=None)),
    "100, then an answer": fine("{explore}", b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
    "100 for ever": timed(slowly(b"HTTP/1.1 100 Continue\r\n\r\n", 0.2, step=25, repeat=True)),
    "100 for ever, fast": again(TOO_LONG, flood(b"", b"HTTP/1.1 100 Go\r\nX: %b\r\n\r\n" % (b"x" * 5000))),
    **{
        f"redirect {code}": refused(rf"status {code}, a redirect to .*--base-url", redirect(f"{code} Gone There"))
        for code in (302, 307)
    },
    "redirect to nowhere": refused("a redirect to nowhere", http(b"", "302 Found", None)),
    "redirect far away": refused("a redirect to", redirect("308 There", "http://far/" + "away" * 10_000)),
}

SLOW = {
    "silence": timed(held()),
    "silence after the headers": timed(held(http(b"", length=500))),
    "silence after half an answer": timed(held(OK[:HALF])),
    "a byte now and then": timed(slowly(OK, 0.1)),
    "headers for ever": timed(slowly(b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 900, 0.2, step=13, at_once=17)),
    "a refusal in drops": timed(slowly(error("500 Slow", "slow " * 500), 0.1, at_once=60)),
}

HTTP = {
    "closed at once": again("connection was cut", b""),
    "closed in the body": again("connection was cut", OK[:HALF]),
    "reset in the body": again("connection was cut", reset(OK[:HALF])),
    "random bytes": again("connection was cut", bytes(range(256)) * 20),
    "a length too long": again("connection was cut", http(completion(), length=5000)),
    "20,000 headers": again("connection was cut", ok("{explore}", None, *["X-More: yes"] * 20_000)),
    "HTTP/1.0 without a length": fine("{explore}", http(completion(), length=None).replace(b"HTTP/1.1", b"HTTP/1.0")),
    "chunks": fine("{explore}", chunked(*[chunk(bytes([byte])) for byte in completion()])),
    "an endless body": again(TOO_LONG, flood(http(b"", length=None).replace(b"1.1", b"1.0"), b" " * 9999)),
    "a body of ten megabytes": again(TOO_LONG, body(completion("go " * 3_500_000))),
}

CODINGS = {
    "gzip": refused(r"compressed \(gzip\).*; have the server", packed(gzip.compress(completion()), "gzip")),
    "gzip in gzip": refused(r"compressed \(gzip, gzip\)", packed(deflated(64), "gzip", "gzip")),
    "identity": fine("{explore}", packed(completion(), "identity")),
    "a refusal in gzip": again(r"status 503 \(", http(deflated(8), "503 Busy", KIND, "Content-Encoding: gzip, gzip")),
    "a charset that is no charset": fine("{explore}", body(completion(), "application/json; charset=hex")),
    "a refusal in no charset": again("status 500", http(b"\xff%", "500 No", "application/json; charset=hex")),
    "HTML": again("text/html, not JSON", body(b"<html>please log in</html>", "text/html; charset=utf-8")),
    "no content type": again("of no content type, not JSON", body(completion(), None)),
}

JSON = {
    **{
        f"the body {text!r}": again(NO_COMPLETION, body(text.encode()))
        for text in ("", "null", "{}", "go!", '{"choices": [', '{"error": {"message": "overloaded"}}')
    },
    "100,000 brackets": again(NO_COMPLETION, body(DEEP)),
    "5,000 digits": again(NO_COMPLETION, body(b'{"choices": ' + b"9" * 5000 + b"}")),
    "Latin-1": again(NO_COMPLETION, body('{"choices": "é"}'.encode("latin-1"))),
    "half a surrogate": again(NO_COMPLETION, body(completion("HERE").replace(b"HERE", b"\\ud800"))),
    "an error with a text": again("the answer holds an error", body(completion(error={"message": "overloaded"}))),
    **{
        f"choices {json.dumps(value)}": again(NO_COMPLETION, choices(value))
        for value in (None, [None], [{"message": None}])
    },
    **{
        f"content {json.dumps(value)}": again(NO_COMPLETION, body(completion(value)))
        for value in (3, [{"type": "text", "text": "go"}])
    },
    "no choices": again("holds no choice", choices([])),
    "no content": again("holds no text", body(completion(None))),
    "an empty reply": fine("", ok("")),
    "a reply of signs": fine("\x00\x1b[2J\u2028\r\n\u202e", ok("\x00\x1b[2J\u2028\r\n\u202e")),
    "a reply of 500 kB": fine("go " * 160_000, ok("go " * 160_000)),
}

USAGE = {
    **{
        f"tokens {text}": fine("{explore}", counts(text), counted=False)
        for text in ("-5000000", "1e400", "1000000001", "2.5", '"40"', "null", "NaN")
    },
    "tokens of 5,000 digits": again(NO_COMPLETION, counts("9" * 5000)),
    "tokens at the bound": fine("{explore}", counts(10**9)),
    **{
        f"usage {text}": fine("{explore}", usage(text), counted=False)
        for text in ('"lots"', "{}", '{"prompt_tokens": 40}')
    },
}

WAITS = {
    **{
        f"wait {text[:20]}": refused(f"status 429.*{said}", error("429 Slow Down", "no", f"Retry-After: {text}"))
        for text, said in (
            ("3600", "asks to wait 3600 s"),
            ("9" * 5000, "asks to wait for longer than a year"),
            ("Fri, 31 Dec 9999 23:59:59 GMT", "asks to wait for longer than a year"),
        )
    },
    **{
        f"wait {text!r}": again("status 429", error("429 Slow Down", "no", f"Retry-After: {text}"))
        for text in ("0", "nan", "soon", "\xb2", "Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 99 Foo 99999 99:99:99 GMT")
    },
    "wait, but a refusal for good": refused("status 400 ", error("400 No", "no", "Retry-After: 0")),
}

PASSING = {
    "500, then an answer": fine("{explore}", error("500 Oh"), OK, requests=2),
    "no choices, then an answer": fine("{explore}", choices([]), OK, requests=2),
    "silence, then an answer": fine("{explore}", held(), OK, requests=2)._replace(waits=True),
}

WORDS = {
    "words in lines": again("status 500", error("500 Oh", "one\ntwo\r\n\u2028three\x1b[31m\x07")),
    "words without end": again("status 500", error("500 Oh", "oh " * 100_000)),
    "words that are brackets": again("status 500", http(DEEP, "500 Oh")),
    "words that are bytes": again("status 500", http(bytes(range(256)), "500 Oh")),
    "words of ten megabytes": again("too long", http(b"x" * 10_000_000, "503 Oh")),
}

KEYS = {
    "the key in the reply": fine("your key is [key].", echo(lambda key: ok(f"your key is {key}."))),
    "the key in halves": fine("[key] and [key]", echo(lambda key: ok(f"{key[:12]} and {key[12:]}"))),
    "the key in other signs": fine("[key]", echo(lambda key: ok(key.replace("-", "\u2011")))),
    "the key in a refusal": refused(r"status 401 \(.*\[key\]", echo(lambda key: error("401 No", f"bad key {key}"))),
    "the key at the end of a long refusal": refused(
        "status 400", echo(lambda key: error("400 No", "x" * 90 + key + "y" * 90))
    ),
    "the key in a content type": again("not JSON", echo(lambda key: body(b"{}", f"text/{key}"))),
    "the key in a redirect": refused("a redirect", echo(lambda key: redirect("302 Go", f"http://x/?key={key}"))),
    "the key as a coding": refused("compressed", echo(lambda key: packed(b"", key))),
    "the key in a broken answer": again(NO_COMPLETION, echo(lambda key: body(f'{{"{key}": {key}}}'.encode()))),
}

FAULTS = STATUS | SLOW | HTTP | CODINGS | JSON | USAGE | WAITS | PASSING | WORDS | KEYS
