"""A chat server on the loopback that behaves, or misbehaves on purpose, one behaviour a request.

with ChatServer(status(500), answer("hello")) as server:
    ...  # the first request gets a 500, all others "hello"; server.requests holds what was asked
"""

from collections.abc import Callable

from faulty_server import Answer, FaultyServer, completion, echo, error, http, ok

ChatServer = FaultyServer


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
