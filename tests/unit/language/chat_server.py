"""A chat server on the loopback that behaves, or misbehaves on purpose, one behaviour per request.

with ChatServer(status(500), held(), answer("hello")) as server:
    ...  # the first request gets a 500, the second silence, all others "hello"

`server.requests` holds what was asked. An answer is bytes, or a function of the connection and the request; after it
the connection is closed.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_LONGEST = 120.0  # seconds that a slow answer lasts if nobody hangs up; "for ever" to who waits for one


class Request(NamedTuple):
    """One request as it came in."""

    line: str
    key: str  # as it is sent: Bearer KEY
    content: bytes
    at: float = 0.0  # time.monotonic()

    @property
    def body(self) -> dict:
        return json.loads(self.content)


Answer = bytes | Callable[[socket.socket, Request], None]


class ChatServer:
    """Gives `answers` in turn, the last one for ever."""

    def __init__(self, *answers: Answer):
        self.requests: list[Request] = []
        self._answers, self._turn = list(answers), threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def __enter__(self) -> "ChatServer":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._socket.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = _read(connection)
            with self._turn:
                self.requests.append(request)
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            if callable(answer):
                answer(connection, request)
            else:
                connection.sendall(answer)
            with suppress(OSError):  # so that what was sent arrives before the end does
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(5.0)
                while connection.recv(1 << 16):
                    pass


def _read(connection: socket.socket) -> Request:
    """A request, or the first bytes of what is none (a greeting of TLS)."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(1 << 16)
        data += piece
        if not piece or data[:1] == b"\x16":
            return Request("", "", data)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(1 << 16)
    return Request(first, headers.get("authorization", ""), body, time.monotonic())


def completion(content: object = "{explore}", usage: object = None, finish: str = "stop", **other: object) -> bytes:
    """The body of a chat completion; usage None is 40 and 9 tokens, False that nobody counted."""
    usage = {"prompt_tokens": 40, "completion_tokens": 9} if usage is None else usage or None
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return json.dumps({"id": "1", "choices": [choice], "usage": usage} | other).encode()


def http(
    body: bytes = b"{}", status: str = "200 OK", kind: str | None = "application/json", *more: str, length: object = ""
) -> bytes:
    """An answer in HTTP/1.1; `more` are header lines, `length` another Content-Length than the body's (None: none)."""
    lines = [f"HTTP/1.1 {status}"]
    lines += [f"Content-Type: {kind}"] if kind is not None else []
    lines += [f"Content-Length: {len(body) if length == '' else length}"] if length is not None else []
    return "\r\n".join([*lines, "Connection: close", *more, "", ""]).encode("latin-1") + body


def ok(content: object = "{explore}", usage: object = None, *more: str) -> bytes:
    """A proper answer, with more header lines."""
    return http(completion(content, usage), "200 OK", "application/json", *more)


def error(status: str, message: str = "no", *more: str) -> bytes:
    """A refusal in OpenAI's form."""
    return http(json.dumps({"error": {"message": message}}).encode(), status, "application/json", *more)


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A proper answer's head, then raw chunks."""
    return http(b"", "200 OK", "application/json", "Transfer-Encoding: chunked", length=None) + b"".join(chunks) + end


def chunk(data: bytes, size: str | None = None) -> bytes:
    """One chunk, which may lie about its size."""
    return (size or f"{len(data):x}").encode() + b"\r\n" + data + b"\r\n"


def held(data: bytes = b"") -> Answer:
    """The bytes, then silence on an open connection."""

    def answer(connection: socket.socket, request: Request) -> None:
        connection.sendall(data)
        connection.settimeout(_LONGEST)
        connection.recv(1)

    return answer


def reset(data: bytes = b"") -> Answer:
    """The bytes, then the connection is reset."""

    def answer(connection: socket.socket, request: Request) -> None:
        connection.sendall(data)
        time.sleep(0.05)  # else the reset overtakes the bytes
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return answer


def echo(make: Callable[[str], bytes]) -> Answer:
    """An answer made from the key that came with the request."""
    return lambda connection, request: connection.sendall(make(request.key.removeprefix("Bearer ")))


def answer(
    text: object = "action: {explore}.", tokens: tuple[int, int] | None = (40, 9), finish: str = "stop", of: str = ""
) -> Answer:
    """A proper answer; tokens None is a server that does not count. Else cut by length, or of another model."""
    usage = tokens and {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    return lambda connection, request: connection.sendall(
        http(completion(text, usage or False, finish, model=of or request.body["model"]))
    )


def rule(reply: Callable[[str], str]) -> Answer:
    """A proper answer made from the last message."""
    return lambda connection, request: connection.sendall(ok(reply(request.body["messages"][-1]["content"])))


def status(code: int, message: str = "no", **headers: str) -> Answer:
    """An error in OpenAI's form; headers with _ for -."""
    return error(f"{code} No", message, *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()))


repeats_the_key = echo(lambda key: ok(f"your key is {key}. action: {{explore}}."))
refuses_the_key = echo(lambda key: error("401 No", f"Incorrect API key provided: {key}"))
