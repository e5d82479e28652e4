"""What a chat server can do wrong, by name, and how each ends: FAULTS[name] is a `Fault`.

refused   one question, one line        again   two attempts, then one line
timed     the same, by the clock        fine    a reply, after so many requests
"""

import gzip
import json
import zlib
from typing import NamedTuple

from faulty_server import Answer, chunk, chunked, completion, echo, error, flood, held, http, ok, reset, slowly

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
    **{
        f"status {code}": again(rf"status {code} \(.*no", error(f"{code} Trouble"))
        for code in (408, 409, 425, 429, 500, 502, 503, 504, 520, 599, 999)
    },
    **{
        f"status {code}": refused(rf"status {code} \(.*no", error(f"{code} Never"))
        for code in (400, 401, 402, 403, 404, 405, 413, 418, 422, 451)
    },
    "status 204": again("of no content type, not JSON", http(b"", "204 No Content", None, length=None)),
    "status 206": fine("{explore}", OK.replace(b"200 OK", b"206 Partial Content")),
    "status 101": again("connection was cut", http(b"", "101 Switching Protocols", None, "Upgrade: x", length=None)),
    "100, then an answer": fine("{explore}", b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
    "103, then an answer": fine("{explore}", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 50 + OK),
    "100, then nothing": again("connection was cut", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "100 for ever": timed(slowly(b"HTTP/1.1 100 Continue\r\n\r\n", 0.2, step=25, repeat=True)),
    "100 for ever, fast": again(TOO_LONG, flood(b"", b"HTTP/1.1 100 Go\r\nX: %b\r\n\r\n" % (b"x" * 5000))),
    **{
        f"redirect {code}": refused(rf"status {code}, a redirect to .*--base-url", redirect(f"{code} Gone There"))
        for code in (300, 301, 302, 303, 307, 308)
    },
    "redirect to itself": refused("a redirect to /v1/chat/completions", redirect("307 Again", "/v1/chat/completions")),
    "redirect to nowhere": refused("a redirect to nowhere", http(b"", "302 Found", None)),
    "redirect to no address": refused("a redirect to", redirect("302 Found", "http://[::1")),
    "redirect far away": refused("a redirect to", redirect("308 There", "http://far/" + "away" * 10_000)),
}

SLOW = {
    "silence": timed(held()),
    "silence after a status": timed(held(b"HTTP/1.1 200 OK\r\n")),
    "silence after the headers": timed(held(http(b"", length=500))),
    "silence after half an answer": timed(held(OK[:HALF])),
    "silence before the last byte": timed(held(OK[:-1])),
    "silence instead of the last chunk": timed(held(chunked(chunk(completion()), end=b""))),
    "a byte now and then": timed(slowly(OK, 0.1)),
    "a byte of the body now and then": timed(slowly(OK, 0.1, at_once=HALF)),
    "headers for ever": timed(slowly(b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 900, 0.2, step=13, at_once=17)),
    "a chunk now and then": timed(slowly(chunked(*[chunk(b" ")] * 900), 0.2, step=6, at_once=len(chunked(end=b"")))),
    "a refusal in drops": timed(slowly(error("500 Slow", "slow " * 500), 0.1, at_once=60)),
}

CUT = {
    "closed at once": again("connection was cut", b""),
    "closed in the headers": again("connection was cut", b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "closed in the body": again("connection was cut", OK[:HALF]),
    "closed in a chunk": again("connection was cut", chunked(chunk(completion(), "fff"), end=b"")),
    "closed before the last chunk": again("connection was cut", chunked(chunk(completion()), end=b"")),
    "reset at once": again("connection was cut", reset()),
    "reset in the body": again("connection was cut", reset(OK[:HALF])),
}

HTTP = {
    "HTTP/0.9": again("connection was cut", completion()),
    "HTTP/1.0 without a length": fine("{explore}", http(completion(), length=None).replace(b"HTTP/1.1", b"HTTP/1.0")),
    "HTTP/3.9": fine("{explore}", OK.replace(b"HTTP/1.1", b"HTTP/3.9")),
    "random bytes": again("connection was cut", bytes(range(256)) * 20),
    "a status of words": again("connection was cut", OK.replace(b"200 OK", b"good OK")),
    "a length of 5,000 digits": again("connection was cut", http(completion(), length="9" * 5000)),
    "a length too short": again(NO_COMPLETION, http(completion(), length=20)),
    "a length too long": again("connection was cut", http(completion(), length=5000)),
    "two lengths": again("connection was cut", ok("{explore}", None, "Content-Length: 7")),
    "a length and chunks": fine(
        "{explore}",
        http(chunk(completion()) + b"0\r\n\r\n", "200 OK", KIND, "Transfer-Encoding: chunked"),
    ),
    "a transfer of its own": again("connection was cut", ok("{explore}", None, "Transfer-Encoding: pigeon")),
    "chunks": fine("{explore}", chunked(*[chunk(bytes([byte])) for byte in completion()])),
    "chunks with extensions": fine("{explore}", chunked(chunk(completion(), f"{len(completion()):x};x={'y' * 900}"))),
    "a trailer": fine("{explore}", chunked(chunk(completion()), end=b"0\r\nX-Last: 1\r\n\r\n")),
    "a chunk of 5,000 hex digits": again("connection was cut", chunked(chunk(completion(), "f" * 5000))),
    "a chunk longer than it says": again("connection was cut", chunked(chunk(completion(), "5"))),
    "a header of 200 kB": again("connection was cut", ok("{explore}", None, "X-Long: " + "x" * 200_000)),
    "20,000 headers": again("connection was cut", ok("{explore}", None, *["X-More: yes"] * 20_000)),
    "a header with a NUL": again("connection was cut", ok("{explore}", None, "X-Nul: \x00")),
    "a header in Latin-1": fine("{explore}", ok("{explore}", None, "X-Name: \xe9\xff")),
    "a folded header": fine("{explore}", ok("{explore}", None, "X-Fold: one\r\n two")),
    "more bytes than the length": fine("{explore}", OK + OK),
    "an endless body": again(TOO_LONG, flood(http(b"", length=None).replace(b"1.1", b"1.0"), b" " * 9999)),
    "a body of ten megabytes": again(TOO_LONG, body(completion("go " * 3_500_000))),
}

CODINGS = {
    "gzip": refused(r"compressed \(gzip\).*; have the server", packed(gzip.compress(completion()), "gzip")),
    "gzip in gzip": refused(r"compressed \(gzip, gzip\)", packed(deflated(64), "gzip", "gzip")),
    "two headers of gzip": refused("compressed", http(deflated(1), "200 OK", KIND, *["Content-Encoding: gzip"] * 2)),
    "a coding of its own": refused(r"compressed \(own\)", packed(completion(), "own")),
    "plain under gzip's name": refused(r"compressed \(gzip\)", packed(completion(), "GZIP")),
    "identity": fine("{explore}", packed(completion(), "identity")),
    "a refusal in gzip": again(r"status 503 \(", http(deflated(8), "503 Busy", KIND, "Content-Encoding: gzip, gzip")),
    "a charset that is no charset": fine("{explore}", body(completion(), "application/json; charset=hex")),
    **{
        f"a refusal in {name}": again("status 500", http(b"\xff%", "500 No", f"application/json; charset={name}"))
        for name in ("hex", "zlib", "punycode", "utf-16", "undefined", "nonsense")
    },
    "HTML": again("text/html, not JSON", body(b"<html>please log in</html>", "text/html; charset=utf-8")),
    "no content type": again("of no content type, not JSON", body(completion(), None)),
    "a stream of events": again("text/event-stream, not JSON", body(b"data: {}\n\n", "text/event-stream")),
    "two content types": again("not JSON", http(completion(), "200 OK", KIND, "Content-Type: text/html", length=None)),
}

JSON = {
    **{
        f"the body {text[:20]!r}": again(NO_COMPLETION, body(text.encode()))
        for text in ("", "null", "[]", "42", '"text"', "true", "NaN", "{}", "{{}}", "go!", '{"choices": [')
    },
    "JSON twice": again(NO_COMPLETION, body(completion() * 2)),
    "100,000 brackets": again(NO_COMPLETION, body(DEEP)),
    "100,000 brackets in a field": again(NO_COMPLETION, body(completion()[:-1] + b', "x": ' + DEEP + b"}")),
    "5,000 digits": again(NO_COMPLETION, body(b'{"choices": ' + b"9" * 5000 + b"}")),
    "Latin-1": again(NO_COMPLETION, body('{"choices": "é"}'.encode("latin-1"))),
    "UTF-16": again(NO_COMPLETION, body(completion().decode().encode("utf-16"))),
    "a byte order mark": again(NO_COMPLETION, body(b"\xef\xbb\xbf" + completion())),
    "half a surrogate": again(NO_COMPLETION, body(completion("HERE").replace(b"HERE", b"\\ud800"))),
    "an error under 200": again(NO_COMPLETION, body(b'{"error": {"message": "overloaded"}}')),
    "an error beside a text": again("the answer holds an error", body(completion(error={"message": "overloaded"}))),
    "a key twice": fine("{explore}", body(b'{"choices": 3, ' + completion()[1:])),
    **{
        f"choices {json.dumps(value)}": again(NO_COMPLETION, choices(value))
        for value in (None, {}, "x", 3, [None], [{}], [[]], [{"message": None}], [{"message": "go"}])
    },
    **{
        f"content {json.dumps(value)}": again(NO_COMPLETION, body(completion(value)))
        for value in (3, True, ["go"], {"text": "go"}, [{"type": "text", "text": "go"}])
    },
    "no choices": again("holds no choice", choices([])),
    "no content": again("holds no text", body(completion(None))),
    "a message without content": again("holds no text", choices([{"message": {"refusal": "no"}}])),
    "500 choices": fine("{explore}", choices([{"message": {"content": "{explore}"}}] * 500)),
    "an empty reply": fine("", ok("")),
    "a reply of signs": fine("\x00\x1b[2J\u2028\r\n\u202e", ok("\x00\x1b[2J\u2028\r\n\u202e")),
    "a reply of 500 kB": fine("go " * 160_000, ok("go " * 160_000)),
}

NO_NUMBERS = ("null", "{}", "[]", "true")
USAGE = {
    **{
        f"tokens {text[:20]}": fine("{explore}", counts(text), counted=False)
        for text in ("-5000000", "1e400", "1" + "0" * 400, "1000000001", "2.5", '"z"', '"40"', *NO_NUMBERS)
    },
    "tokens of NaN": fine("{explore}", counts("NaN"), counted=False),
    "tokens of 5,000 digits": again(NO_COMPLETION, counts("9" * 5000)),
    "completion tokens below 0": fine("{explore}", counts(40, -9), counted=False),
    "tokens at the bound": fine("{explore}", counts(10**9)),
    **{
        f"usage {text}": fine("{explore}", usage(text), counted=False)
        for text in ('"lots"', "{}", "[]", "3", "false", '{"prompt_tokens": 40}')
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
        f"wait {text[:20]!r}": again("status 429", error("429 Slow Down", "no", f"Retry-After: {text}"))
        for text in ("0", "-5", "nan", "inf", "1e400", "soon", "1_0", "0x10", "Thu, 01 Jan 1970 00:00:00 GMT")
    },
    "wait for two times": again("status 429", error("429 No", "no", "Retry-After: 9999", "Retry-After: 0")),
    "wait in another script": again("status 503", error("503 No", "no", "Retry-After: \xb2")),
    "wait for no date": again("status 503", error("503 No", "no", "Retry-After: Mon, 99 Foo 99999 99:99:99 GMT")),
    "wait, but a refusal for good": refused("status 400 ", error("400 No", "no", "Retry-After: 0")),
}

PASSING = {
    f"{name}, then an answer": fine("{explore}", *answers, OK, requests=1 + len(answers))
    for name, answers in {
        "500": [error("500 Oh")],
        "reset": [reset()],
        "no choices": [choices([])],
        "an endless body": [flood(http(b"", length=None), b" " * 9999)],
    }.items()
} | {"silence, then an answer": fine("{explore}", held(), OK, requests=2)._replace(waits=True)}

WORDS = {
    "words in lines": again("status 500", error("500 Oh", "one\ntwo\r\n\u2028three\x1b[31m\x07")),
    "words without end": again("status 500", error("500 Oh", "oh " * 100_000)),
    "words that are brackets": again("status 500", http(DEEP, "500 Oh")),
    "words that are bytes": again("status 500", http(bytes(range(256)), "500 Oh")),
    "words of ten megabytes": again("too long", http(b"x" * 10_000_000, "503 Oh")),
    "a reason of 50 kB": again("status 500", error("500 " + "oh " * 16_000)),
}

KEYS = {
    "the key in the reply": fine("your key is [key].", echo(lambda key: ok(f"your key is {key}."))),
    "the key in halves": fine("[key] and [key]", echo(lambda key: ok(f"{key[:12]} and {key[12:]}"))),
    "the key in lines": fine("[key]", echo(lambda key: ok("\n".join(key)))),
    "the key in other signs": fine("[key]", echo(lambda key: ok(key.replace("-", "\u2011")))),
    "the key twice": fine("[key][key]", echo(lambda key: ok(key * 2))),
    "the key in a refusal": refused(r"status 401 \(.*\[key\]", echo(lambda key: error("401 No", f"bad key {key}"))),
    "the key in a fault": again(
        r"status 500 \(.*\[key\]", echo(lambda key: error("500 No", f"{key.swapcase()} {key}"))
    ),
    "the key at the end of a long refusal": refused(
        "status 400", echo(lambda key: error("400 No", "x" * 90 + key + "y" * 90))
    ),
    "the key in a content type": again("not JSON", echo(lambda key: body(b"{}", f"text/{key}"))),
    "the key in a redirect": refused("a redirect", echo(lambda key: redirect("302 Go", f"http://x/?key={key}"))),
    "the key as a coding": refused("compressed", echo(lambda key: packed(b"", key))),
    "the key in a broken answer": again(NO_COMPLETION, echo(lambda key: body(f'{{"{key}": {key}}}'.encode()))),
}

FAULTS = STATUS | SLOW | CUT | HTTP | CODINGS | JSON | USAGE | WAITS | PASSING | WORDS | KEYS
