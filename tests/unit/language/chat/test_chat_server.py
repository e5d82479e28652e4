"""A server that misbehaves on purpose: each fault is survived within the stated attempts or ends in one clear line."""

import json
import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import chat_server as serving
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Budget, Ledger, Recording, Sampling, Tokens, Unanswered, connection
from groundlab.language.chat.openai_client import Server

QUESTION = [{"role": "system", "content": "s"}, {"role": "user", "content": "what now?"}]
KEY = "sk-d0-n0t-te11-Anyb0dy"
PASSING = {
    "429": serving.status(429, "slow down"),
    "500": serving.status(500, "internal"),
    "503 with ten megabytes": lambda handler, body: serving._send(handler, b"x" * 10_000_000, 503),
    "hang": serving.hang(4.0),
    "drip": serving.drip(10.0),
    "cut connection": serving.cut,
    "no word": serving.hang_up,
    "empty choices": serving.no_choices,
    "no text": serving.answer(None),
    "wrong content type": serving.html,
    "broken json": serving.broken_json,
    "ten megabytes": serving.ten_megabytes,
}
SLOW = {"hang": 1.0, "drip": 1.0}  # seconds of patience for these; the others never wait so long


def client(server: serving.ChatServer, **changes) -> Server:
    """A client with little patience: 5 attempts, 10 ms before the second."""
    values = {"key": KEY, "timeout": 20.0, "attempts": 5, "backoff": 0.01, **changes}
    return Server("tiny", connection.Connection(server.base_url, **values))


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_survived_by_asking_again(fault):
    with serving.ChatServer(PASSING[fault], PASSING[fault], serving.answer("here")) as server:
        assert client(server, timeout=SLOW.get(fault, 20.0)).reply(QUESTION, Sampling()) == "here"
        assert len(server.requests) == 3
        assert all(request.body == server.requests[0].body for request in server.requests)


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_stays_ends_after_the_stated_attempts_in_one_line(fault):
    with serving.ChatServer(PASSING[fault]) as server:
        with pytest.raises(Unanswered) as told:
            client(server, attempts=2, timeout=SLOW.get(fault, 20.0)).reply(QUESTION, Sampling())
        assert len(server.requests) == 2
    line = str(told.value)
    assert "asked 2 times: " in line and len(line) < 400 and "\n" not in line and KEY not in line
    assert server.base_url in line and "'tiny'" in line


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
def test_a_refusal_for_good_is_not_asked_again(code):
    with serving.ChatServer(serving.status(code, "not you")) as server:
        with pytest.raises(Unanswered, match=rf"asked once: status {code} \(.*not you"):
            client(server).reply(QUESTION, Sampling())
        assert len(server.requests) == 1


def test_nobody_there_is_told():
    with serving.ChatServer(serving.answer()) as server:
        pass
    with pytest.raises(Unanswered, match="asked 2 times: no server answers there"):
        client(server, attempts=2).reply(QUESTION, Sampling())


def in_three_seconds(handler, body) -> None:
    """429 with a date, which HTTP writes in whole seconds."""
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True)
    serving.status(429, Retry_After=later)(handler, body)


@pytest.mark.parametrize(
    ("refusal", "pause"), [(serving.status(429, Retry_After="1"), 1.0), (in_three_seconds, 2.0)], ids=["number", "date"]
)
def test_the_pause_that_a_server_asks_for_is_kept(refusal, pause):
    with serving.ChatServer(refusal, serving.answer("here")) as server:
        assert client(server).reply(QUESTION, Sampling()) == "here"
        first, second = server.requests
    assert second.at - first.at >= pause


def test_pauses_grow_where_the_server_names_none():
    with serving.ChatServer(*[serving.status(500)] * 4, serving.answer("here")) as server:
        client(server, backoff=0.1).reply(QUESTION, Sampling())
        times = [request.at for request in server.requests]
    pauses = [after - before for before, after in pairwise(times)]
    assert all(pause >= at_least for pause, at_least in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True))


def test_a_pause_that_is_too_long_ends_the_run_at_once():
    with serving.ChatServer(serving.status(429, "quota", Retry_After="3600")) as server:
        began = time.monotonic()
        with pytest.raises(Unanswered, match=r"asked once: status 429 .*it asks to wait 3600 s"):
            client(server).reply(QUESTION, Sampling())
        assert len(server.requests) == 1 and time.monotonic() - began < 600, "seconds, of 3,600"


def test_the_request_says_exactly_what_was_asked_for():
    with serving.ChatServer(serving.answer()) as server:
        client(server).reply(QUESTION, Sampling())
        client(server, key=None).reply(QUESTION, Sampling(0.7, seed=5, max_tokens=64))
    plain, drawn = server.requests
    assert plain.body == {"model": "tiny", "messages": QUESTION, "temperature": 0.0}
    assert drawn.body == {"model": "tiny", "messages": QUESTION, "temperature": 0.7, "seed": 5, "max_tokens": 64}
    assert plain.key == f"Bearer {KEY}" and KEY not in drawn.key


def test_tokens_and_cost_count_what_lost_answers_took():
    prices = connection.Prices(prompt=10.0, completion=100.0)
    with serving.ChatServer(serving.no_choices, serving.answer("here", (40, 9))) as server:
        reply = client(server, prices=prices).reply(QUESTION, Sampling())
    assert reply.tokens == Tokens(30 + 40, 9)
    assert reply.cost == pytest.approx((70 * 10 + 9 * 100) / 1e6)


def test_a_text_with_an_error_beside_it_is_no_reply_and_is_asked_again(tmp_path):
    file = tmp_path / "ledger.jsonl"
    with serving.ChatServer(serving.error_beside_a_choice, serving.answer("here")) as server:
        assert Recording(client(server), Ledger(file), "openai").reply(QUESTION, Sampling()) == "here"
    assert [json.loads(line)["reply"] for line in file.read_text().splitlines()] == ["here"]


def test_a_question_is_paid_once_and_the_ledger_says_what_for(tmp_path):
    file = tmp_path / "ledger.jsonl"
    with serving.ChatServer(serving.status(500), serving.answer("here")) as server:
        for _ in range(3):
            recording = Recording(client(server, prices=connection.Prices(1.0, 2.0)), Ledger(file), "openai")
            assert recording.reply(QUESTION, Sampling()) == "here"
        assert len(server.requests) == 2
    (record,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert record["tokens"] == {"prompt": 40, "completion": 9} and record["cost"] == pytest.approx(58e-6)
    assert record["model"] == "tiny" and record["source"] == "openai" and record["reply"] == "here"


def test_nothing_is_asked_once_the_budget_is_used_up(tmp_path):
    ledger, other = Ledger(tmp_path / "ledger.jsonl"), [{"role": "user", "content": "and then?"}]
    with serving.ChatServer(serving.answer("here", (40, 9))) as server:
        prices = connection.Prices(1e4, 0.0)  # 0.4 a reply
        for budget in (Budget(tokens=49), Budget(cost=0.4)):
            recording = Recording(client(server, prices=prices), ledger, "openai", budget)
            assert recording.reply(QUESTION, Sampling()) == "here"
            with pytest.raises(GroundlabError, match=r"budget of .* is used up .*49 tokens.*raise --budget"):
                recording.reply(other, Sampling())
        assert len(server.requests) == 1
        raised = Recording(client(server), Ledger(ledger.path), "openai", Budget(tokens=50))
        assert raised.reply(other, Sampling()) == "here" and len(server.requests) == 2


@pytest.mark.parametrize("budget", [Budget(tokens=1000), Budget(cost=1.0)], ids=["tokens", "cost"])
def test_a_budget_needs_a_server_that_counts(tmp_path, budget):
    with serving.ChatServer(serving.answer("here", None)) as server:
        recording = Recording(client(server), Ledger(tmp_path / "l.jsonl"), "openai", budget)
        recording.reply(QUESTION, Sampling())
        with pytest.raises(GroundlabError, match="1 replies that nobody counted; a budget cannot be kept"):
            recording.reply(QUESTION[1:], Sampling())


def test_the_key_is_in_nothing_that_is_written_or_said(tmp_path, caplog, capfd, monkeypatch):
    """Not even at the loudest level of the libraries' own logs, nor when the server itself repeats it."""
    monkeypatch.setenv("OPENAI_LOG", "debug")
    caplog.set_level(logging.DEBUG)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with serving.ChatServer(serving.status(500), serving.repeats_the_key, serving.refuses_the_key) as server:
        maker = client(server)
        reply = Recording(maker, ledger, f"openai {server.base_url}").reply(QUESTION, Sampling())
        with pytest.raises(Unanswered) as told:
            Recording(maker, ledger, "openai").reply(QUESTION[1:], Sampling())
        assert server.requests[0].key == f"Bearer {KEY}"
    assert "your key is [key]" in reply and "[key]" in str(told.value)
    said = [str(told.value), repr(told.value.__cause__), repr(maker), caplog.text, *capfd.readouterr()]
    written = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    assert caplog.text and len(written) >= 2
    assert not [text for text in said + written if KEY in text]


@pytest.mark.parametrize(
    "address", ["localhost:8000", "ftp://host/v1", f"http://me:{KEY}@host/v1", f"http://host/v1?key={KEY}", "http://"]
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused_without_repeating_it(address):
    with pytest.raises(GroundlabError, match="server's address") as told:
        connection.connection({connection.ADDRESS: address})
    assert KEY not in str(told.value)


@pytest.mark.parametrize("key", [f"{KEY}\nX-Other: 1", f"{KEY} {KEY}", f"{KEY}é"])
def test_a_key_that_is_none_is_refused_without_repeating_it(key):
    with pytest.raises(GroundlabError, match="OPENAI_API_KEY holds characters") as told:
        connection.connection({connection.ADDRESS: "http://host/v1", connection.KEY: key})
    assert KEY not in str(told.value)


def test_the_environment_says_all_there_is_to_reach_a_server():
    given = {
        connection.ADDRESS: "http://host:8000/v1",
        connection.KEY: f" {KEY}\n",
        connection.TIMEOUT: "2.5",
        connection.ATTEMPTS: "3",
        connection.PRICES: "0.15,0.60",
        connection.BUDGET: "tokens=2000, cost=2.5",
    }
    expected = connection.Connection("http://host:8000/v1", KEY, 2.5, 3, connection.Prices(0.15, 0.6))
    assert connection.connection(given) == expected
    assert connection.budget(given) == Budget(tokens=2000, cost=2.5)
    assert connection.budget({}) == Budget()


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        (connection.TIMEOUT, "soon", "GROUNDLAB_LLM_TIMEOUT=soon is no number above 0"),
        (connection.ATTEMPTS, "0", "GROUNDLAB_LLM_ATTEMPTS=0 is no number above 0"),
        (connection.ATTEMPTS, "2.5", "no number above 0"),
        (connection.PRICES, "1,2,3", "are no prices"),
        (connection.PRICES, "-1", "are no prices"),
        (connection.BUDGET, "token=5", "unknown budget 'token'; did you mean 'tokens'"),
        (connection.BUDGET, "tokens=many", "'tokens=many' is no number above 0"),
        (connection.BUDGET, "cost=5", "a budget of cost needs prices"),
    ],
)
def test_a_mistake_in_the_environment_is_told(variable, value, told):
    given = {connection.ADDRESS: "http://host/v1", variable: value}
    with pytest.raises(GroundlabError, match=told):
        connection.connection(given)
        connection.budget(given)
