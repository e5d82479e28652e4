"""A chat server on the loopback that behaves, or misbehaves on purpose, one behaviour a request.

with ChatServer(status(500), answer("hello")) as server:
    ...  # the first request gets a 500, all others "hello"; server.requests holds what was asked
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

Behaviour = Callable[[BaseHTTPRequestHandler, dict], None]


class Request(NamedTuple):
    """One request as it came in."""

    at: float  # time.monotonic()
    key: str | None
    body: dict


class ChatServer:
    """Serves `behaviours` in turn, the last one for ever."""

    def __init__(self, *behaviours: Behaviour):
        self.requests: list[Request] = []
        self._behaviours, self._turn = list(behaviours), threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server._next(self.headers.get("Authorization"), body)(self, body)

            def log_message(self, format, *arguments):
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def _next(self, key: str | None, body: dict) -> Behaviour:
        with self._turn:
            self.requests.append(Request(time.monotonic(), key, body))
            return self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]

    def __enter__(self) -> "ChatServer":
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error) -> None:
        self._http.shutdown()
        self._http.server_close()


def _send(handler: BaseHTTPRequestHandler, body: bytes, code: int = 200, kind: str = "application/json", **headers):
    handler.send_response(code)
    for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    with suppress(OSError):  # the client may have heard enough
        handler.wfile.write(body)


def _completion(
    text: object, tokens: tuple[int, int] | None = (40, 9), finish: str = "stop", model: str | None = None
) -> bytes:
    usage = tokens and {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    answer = {"id": "1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}
    return json.dumps(answer).encode()


def answer(
    text: object = "action: {explore}.", tokens: tuple[int, int] | None = (40, 9), finish: str = "stop", of: str = ""
) -> Behaviour:
    """A proper answer; tokens None is a server that does not count. Else cut by length, or of another model."""
    return lambda handler, body: _send(handler, _completion(text, tokens, finish, of or body["model"]))


def rule(reply: Callable[[str], str]) -> Behaviour:
    """A proper answer made from the last message."""
    return lambda handler, body: _send(handler, _completion(reply(body["messages"][-1]["content"])))


def status(code: int, message: str = "no", **headers: str) -> Behaviour:
    """An error in OpenAI's form; headers with _ for -."""
    return lambda handler, body: _send(handler, json.dumps({"error": {"message": message}}).encode(), code, **headers)


def hang(seconds: float) -> Behaviour:
    """Silence."""
    return lambda handler, body: time.sleep(seconds)


def drip(seconds: float) -> Behaviour:
    """A proper answer, one byte every 20 ms, so that no single wait is long."""

    def behave(handler: BaseHTTPRequestHandler, body: dict) -> None:
        content, until = _completion("slow " * 1000), time.monotonic() + seconds
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        with suppress(OSError):
            for byte in content:
                if time.monotonic() > until:
                    return
                handler.wfile.write(bytes([byte]))
                time.sleep(0.02)

    return behave


def cut(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """Half an answer, then the connection is closed."""
    content = _completion("never seen")
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.close_connection = True


def hang_up(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """The connection is closed without a word."""
    handler.close_connection = True


def no_choices(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """An answer without choices, which is charged all the same."""
    _send(handler, json.dumps({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 0}}).encode())


def error_beside_a_choice(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """A text that the server itself says is none."""
    _send(handler, json.dumps({**json.loads(_completion("never seen")), "error": {"message": "overloaded"}}).encode())


def html(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """A proxy's page with status 200."""
    _send(handler, b"<html>please log in</html>", kind="text/html; charset=utf-8")


def broken_json(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """Not JSON under JSON's name."""
    _send(handler, b'{"choices": [{"message": ')


def ten_megabytes(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """A reply of 10 MB."""
    _send(handler, _completion("explore " * 1_250_000))


def repeats_the_key(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """A reply in which the server tells the key that it was given."""
    key = handler.headers["Authorization"].removeprefix("Bearer ")
    _send(handler, _completion(f"your key is {key}. action: {{explore}}."))


def refuses_the_key(handler: BaseHTTPRequestHandler, body: dict) -> None:
    """A refusal that tells the key."""
    key = handler.headers["Authorization"].removeprefix("Bearer ")
    message = f"Incorrect API key provided: {key}"
    _send(handler, json.dumps({"error": {"message": message, "code": key}}).encode(), 401)
