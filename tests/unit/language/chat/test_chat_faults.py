"""Faults of a chat server: each ends in one clear line or in a reply, with a whole ledger."""

import json
import random
import re
import string

import pytest
from chat_server import Answer, ChatServer, chunk, chunked, completion, echo, error, held, http, ok, reset

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Budget, Ledger, Recording, Sampling, Unanswered, connection
from groundlab.language.chat.openai_client import Server
from groundlab.language.chat.redaction import redact

QUESTION = [{"role": "user", "content": "what now?"}]
KEY = "sk-d0-n0t-te11-Anyb0dy"
LONGEST = 480  # characters of an error line
OK = ok()
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "{go}"}]}
HALF = len(OK) - 60
NO_COMPLETION = "the answer is not a chat completion"


def body(data: bytes, kind: str | None = "application/json") -> bytes:
    return http(data, "200 OK", kind)


def usage(value: str) -> bytes:
    """A proper answer but for its token counts, written as they are given."""
    return body(completion(usage="HERE").replace(b'"HERE"', value.encode()))


def counts(prompt: object) -> bytes:
    return usage(f'{{"prompt_tokens": {prompt}, "completion_tokens": 9}}')


def choices(value: object) -> bytes:
    return body(json.dumps({"choices": value}).encode())


def redirect(location: str) -> bytes:
    return http(b"", "302 Found", None, f"Location: {location}")


ASKED_AGAIN: dict[str, tuple[Answer, str]] = {
    **{f"status {code}": (error(f"{code} No"), rf"status {code} \(.*no") for code in (408, 429, 500, 503)},
    "silence": (held(), "no answer within 0.5 s"),
    "silence after half an answer": (held(OK[:HALF]), "no answer within 0.5 s"),
    "closed at once": (b"", "connection was cut"),
    "closed in the body": (OK[:HALF], "connection was cut"),
    "reset in the body": (reset(OK[:HALF]), "connection was cut"),
    "random bytes": (bytes(range(256)) * 20, "connection was cut"),
    "words in lines": (error("500 Oh", "one\ntwo\r\n\u2028three\x1b[31m\x07"), "status 500"),
    "words without end": (error("500 Oh", "oh " * 100_000), "status 500"),
}
ASKED_ONCE: dict[str, tuple[Answer, str]] = {
    **{f"status {code}": (error(f"{code} No"), rf"status {code} \(.*no") for code in (400, 401, 404, 422)},
    "a wait of an hour": (error("429 Slow", "no", "Retry-After: 3600"), "status 429.*asks to wait 3600"),
    **{
        f"a quota used up, status {code}": (
            error(f"{code} No", "insufficient_quota"),
            f"status {code}.*has nothing left",
        )
        for code in (429, 503)
    },
    "status 204": (http(b"", "204 No Content", None, length=None), "of no content type, not JSON"),
    "redirect": (redirect("http://far/" + "away" * 10_000), "status 302, a redirect to .*--base-url"),
    "HTML": (body(b"<html>please log in</html>", "text/html; charset=utf-8"), "text/html, not JSON"),
    **{
        f"the body {text!r}": (body(text.encode()), NO_COMPLETION)
        for text in ("", "null", "{}", "go!", '{"choices": [')
    },
    "an error alone": (body(b'{"error": {"message": "overloaded"}}'), "holds an error .*overloaded"),
    "100,000 brackets": (body(b"[" * 100_000), NO_COMPLETION),
    "Latin-1": (body('{"choices": "é"}'.encode("latin-1")), NO_COMPLETION),
    "choices null": (choices(None), NO_COMPLETION),
    "no choices": (choices([]), "holds no choice"),
    "the key in a refusal": (echo(lambda key: error("401 No", f"bad key {key}")), r"status 401 \(.*\[key\]"),
    "the key in a long refusal": (echo(lambda key: error("400 No", "x" * 90 + key + "y" * 90)), "status 400"),
    "the key in a content type": (echo(lambda key: body(b"", f"text/{key}")), "not JSON"),
    "the key in a redirect": (echo(lambda key: redirect(f"http://x/?key={key}")), "a redirect"),
    "the key in a broken answer": (echo(lambda key: body(f'{{"{key}": {key}}}'.encode())), NO_COMPLETION),
}
FINE: dict[str, tuple[Answer, str]] = {
    "100, then an answer": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, "{explore}"),
    "chunks": (chunked(*[chunk(bytes([byte])) for byte in completion()]), "{explore}"),
    "parts": (ok([THOUGHT, {"type": "text", "text": "{ex"}, {"type": "output_text", "text": "plore}"}]), "{explore}"),
    "a type that is not JSON": (body(completion(), "text/plain"), "{explore}"),
    "a reply of signs": (ok("\x00\x1b[2J\u2028\r\n\u202e"), "\x00\x1b[2J\u2028\r\n\u202e"),
    "the key in the reply": (echo(lambda key: ok(f"your key is {key}.")), "your key is [key]."),
    "the key in halves": (echo(lambda key: ok(f"{key[:12]} and {key[12:]}")), "[key] and [key]"),
    "the key in other signs": (echo(lambda key: ok(key.replace("-", "\u2011"))), "[key]"),
}
CHARGED: dict[str, tuple[Answer, str]] = {
    **{f"content {text!r}": (ok(text), "holds no text") for text in (None, "", " \n", 3, "<think>{go}", "x</think>")},
    "parts without a text": (ok([THOUGHT, {"type": "image_url", "image_url": {}}]), "holds no text"),
    "half a surrogate": (body(completion("HERE").replace(b"HERE", b"\\ud800")), "holds no text"),
    "a stream": (body(b"data: {}\n\ndata: " + completion(choices=[]) + b"\n\ndata: [DONE]\n"), "holds no choice"),
    "cut before any text": (body(completion("", finish="length")), "holds no text.*raise chat.max_tokens"),
    "a refusal": (body(completion(choices=[{"message": {"refusal": "I will not"}}])), "I will not"),
    "an error with a text": (body(completion(error={"message": "overloaded"})), "holds an error .*overloaded"),
    "an error in the choice": (body(completion(finish="error")), "holds an error"),
    **{
        f"choices {value}": (body(completion(choices=value)), "no choice|no text|not a chat")
        for value in ([], None, "é")
    },
}
UNCOUNTED = {
    **{f"tokens {text}": counts(text) for text in ("-5000000", "1e400", "1000000001", "2.5", '"40"', "null", "NaN")},
    **{f"usage {text}": usage(text) for text in ('"lots"', "{}", '{"prompt_tokens": 40}')},
}


def maker(server: ChatServer, **changes) -> Server:
    """A client that asks twice and waits for half a second."""
    return Server(
        "tiny", connection.Connection(server.base_url, **{"key": KEY, "timeout": 0.5, "attempts": 2} | changes)
    )


def pieces_of_the_key(text: str) -> list[str]:
    """Eight letters of it in a row, whatever their case and whatever stands between."""
    letters, said = (re.sub("[^a-z0-9]", "", each.lower()) for each in (KEY, text))
    return [letters[start : start + 8] for start in range(len(letters) - 7) if letters[start : start + 8] in said]


@pytest.mark.parametrize(("faults", "requests"), [(ASKED_AGAIN, 2), (ASKED_ONCE, 1)], ids=["again", "once"])
def test_a_fault_ends_in_one_line(tmp_path, faults, requests):
    for name, (answer, line) in faults.items():
        patience = 0.5 if "silence" in name else 60.0
        with ChatServer(answer) as server, pytest.raises(GroundlabError) as told:
            chat = maker(server, timeout=patience)
            Recording(chat, Ledger(tmp_path / "l"), "openai").reply(QUESTION, Sampling())
        said = str(told.value)
        assert re.search(line, said) and "'tiny'" in said and server.base_url in said, name
        assert len(said) < LONGEST and said.isprintable() and not pieces_of_the_key(said), name
        assert len(server.requests) == requests or patience < 1, name  # a busy machine asks too late
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize("name", FINE)
def test_a_strange_answer_is_a_reply_without_the_key(tmp_path, name):
    answer, expected = FINE[name]
    with ChatServer(answer) as server:
        chat = maker(server, timeout=60.0)
        assert Recording(chat, Ledger(tmp_path / "l"), "openai").reply(QUESTION, Sampling()) == expected
    line = json.loads((tmp_path / "l").read_text())
    assert line["reply"] == expected and line["tokens"] is not None and not pieces_of_the_key(str(line))
    assert line.get("struck", False) == ("the key" in name)


@pytest.mark.parametrize("name", CHARGED)
def test_an_answer_that_is_no_reply_is_charged_and_never_replayed(tmp_path, name):
    answer, line = CHARGED[name]
    with ChatServer(answer) as server:
        chat = Recording(maker(server, timeout=60.0), Ledger(tmp_path / "l"), "openai", Budget(tokens=90))
        for _ in range(2):
            with pytest.raises(Unanswered, match=line):
                chat.reply(QUESTION, Sampling())
        with pytest.raises(GroundlabError, match=r"budget of 90 tokens is used up .* holds 98 tokens"):
            chat.reply(QUESTION, Sampling())
        assert len(server.requests) == 2
    assert Ledger(tmp_path / "l").find("tiny", QUESTION, Sampling()) is None


def test_thoughts_that_only_the_total_counts_are_charged():
    counts = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 1500}
    with ChatServer(ok(usage=counts)) as server:
        assert maker(server, timeout=60.0).reply(QUESTION, Sampling()).tokens == (40, 1460)


REFUSALS = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
    "temperature": "Unsupported value: 'temperature' does not support 0.0 with this model. Only 1 is supported.",
    "seed": "{'type': 'extra_forbidden', 'loc': ['body', 'seed'], 'msg': 'Extra inputs are not permitted'}",
}


def test_what_a_server_refuses_of_the_sampling_is_left_out_once_and_for_all_and_reported(tmp_path, caplog):
    def picky(connection, request):
        refused = [why for name, why in REFUSALS.items() if name in request.body]
        connection.sendall(error("400 No", refused[0]) if refused else ok())

    with ChatServer(picky) as server:
        chat = Recording(maker(server, timeout=60.0), Ledger(tmp_path / "l"), "openai")
        for seed in (1, 2):
            assert chat.reply(QUESTION, Sampling(0.5, seed, 64)) == "{explore}"
        asked = [request.body.keys() - {"model", "messages"} for request in server.requests]
    assert len(asked) == 5 and asked[3:] == [{"max_completion_tokens"}] * 2
    lines = [json.loads(line) for line in (tmp_path / "l").read_text().splitlines()]
    assert [line["sent"] for line in lines] == [{"max_completion_tokens": 64}] * 2
    assert sum("refuses temperature=0.5" in said for said in caplog.messages) == 1
    assert sum("was sampled with {'max_completion_tokens': 64}" in said for said in caplog.messages) == 2


def test_a_limit_that_is_too_large_is_not_sent_by_its_other_name():
    with ChatServer(error("400 No", "'max_tokens' or 'max_completion_tokens' is too large: 64")) as server:
        with pytest.raises(Unanswered, match="too large"):
            maker(server, timeout=60.0).reply(QUESTION, Sampling(max_tokens=64))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", f"socks://me:{KEY}@host:1"),
        ("all_proxy", f"socks5://me:{KEY}@host:1"),
        ("HTTP_PROXY", f":::{KEY}"),
        ("https_proxy", f"http://me:{KEY}/@host"),
        ("SSL_CERT_FILE", f"/no/such/{KEY}"),
        ("HTTP_PROXY", f"http://me:{KEY}@127.0.0.1:1"),
    ],
)
def test_a_proxy_or_a_certificate_is_named_without_its_value_and_the_loopback_needs_no_proxy(
    monkeypatch, variable, value
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(GroundlabError, match=variable) as error:
        Server("tiny", connection.Connection("http://far.invalid/v1", attempts=1)).reply(QUESTION, Sampling())
    assert not pieces_of_the_key(str(error.value))
    if "proxy" in variable.lower():
        with ChatServer(OK) as server:
            assert maker(server, timeout=60.0).reply(QUESTION, Sampling()) == "{explore}"


def test_a_short_key_alters_no_reply():
    with ChatServer(OK) as server:
        assert maker(server, timeout=60.0, key="x").reply(QUESTION, Sampling()) == "{explore}"


def test_a_server_that_recovers_is_asked_again():
    with ChatServer(error("500 Oh"), b"", OK) as server:
        assert maker(server, timeout=60.0, attempts=3).reply(QUESTION, Sampling()) == "{explore}"
        assert len({request.content for request in server.requests}) == 1 and len(server.requests) == 3


def test_https_where_there_is_none_is_told():
    with ChatServer(OK) as server:
        chat = Server("tiny", connection.Connection(server.base_url.replace("http", "https"), timeout=30, attempts=1))
        with pytest.raises(GroundlabError, match=r"no safe connection \(.*SSL.*is it https"):
            chat.reply(QUESTION, Sampling())


@pytest.mark.parametrize("host", ["no-such-host.invalid", "127.0.0.1:1"])
def test_a_host_that_nobody_has_is_one_line(host):
    with pytest.raises(GroundlabError, match="no server answers there"):
        Server("tiny", connection.Connection(f"http://{host}/v1", attempts=1)).reply(QUESTION, Sampling())


@pytest.mark.parametrize("name", UNCOUNTED)
def test_counts_that_nobody_can_believe_do_not_stretch_a_budget(tmp_path, name):
    """Five million tokens below zero were once believed, and no budget ever ended."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with ChatServer(UNCOUNTED[name]) as server:
        chat = maker(server, timeout=60.0, prices=connection.Prices(1.0, 1.0))
        for budget in (Budget(tokens=100), Budget(cost=1.0)):
            Recording(chat, ledger, "openai", budget).reply(QUESTION, Sampling())
            with pytest.raises(GroundlabError, match="1 replies that nobody counted"):
                Recording(chat, ledger, "openai", budget).reply(QUESTION * 2, Sampling())
        assert ledger.account().tokens == 0 and ledger.account().cost == 0.0


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("EMPTY", "the box is empty, Empty or emptier"),
        ("not-needed", "the key is not needed"),
        ("sk-no-key-required", "no key required: the door is open"),
        (None, KEY),
        (KEY, ""),
    ],
)
def test_words_that_are_no_secret_are_left_in_replies(key, text):
    """Servers without keys are given words for one; a reply may use them."""
    assert redact(text, key) == text


@pytest.mark.parametrize("size", [9, 22, 51, 164])
def test_no_eight_letters_of_a_key_are_left_whatever_stands_around_them(size):
    key = "".join(random.Random(size).choices(string.ascii_letters + string.digits + "-_", k=size - 1)) + "7"
    letters = [letter for letter in key if letter.isalnum()]
    for text in (key, key.upper(), key[1:], key[:-1], f"a{key}b{key[2:]}c", " ".join(key), "\u200b".join(letters)):
        kept = re.sub("[^a-z0-9]", "", redact(text, key).replace("[key]", "#").lower().replace("#", " "))
        said = "".join(letters).lower()
        assert len(letters) <= 8 or not [at for at in range(len(said) - 7) if said[at : at + 8] in kept]
