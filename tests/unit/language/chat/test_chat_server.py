"""What is sent to a server, how long it is waited for, and what it costs."""

import json

import chat_server as serving
import pytest

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Budget, Ledger, Recording, Sampling, connection
from groundlab.language.chat.openai_client import Server

QUESTION = [{"role": "system", "content": "s"}, {"role": "user", "content": "what now?"}]
KEY = "sk-d0-n0t-te11-Anyb0dy"


def client(server: serving.ChatServer, **changes) -> Server:
    values = {"key": KEY, "timeout": 20.0, **changes}
    return Server("tiny", connection.Connection(server.base_url, **values))


def test_the_pause_that_a_server_asks_for_is_kept():
    with serving.ChatServer(serving.status(429, Retry_After="1"), serving.answer("here")) as server:
        assert client(server).reply(QUESTION, Sampling()) == "here"
        first, second = server.requests
    assert second.at - first.at >= 1.0


def test_the_request_says_exactly_what_was_asked_for():
    with serving.ChatServer(serving.answer()) as server:
        client(server).reply(QUESTION, Sampling())
        client(server, key=None).reply(QUESTION, Sampling(0.7, seed=5, max_tokens=64))
    plain, drawn = server.requests
    assert plain.body == {"model": "tiny", "messages": QUESTION, "temperature": 0.0}
    assert drawn.body == {"model": "tiny", "messages": QUESTION, "temperature": 0.7, "seed": 5, "max_tokens": 64}
    assert plain.key == f"Bearer {KEY}" and KEY not in drawn.key


def test_a_question_is_paid_once_and_the_ledger_says_what_for(tmp_path):
    file = tmp_path / "ledger.jsonl"
    with serving.ChatServer(serving.status(500), serving.answer("here")) as server:
        for _ in range(3):
            recording = Recording(client(server, prices=connection.Prices(1.0, 2.0)), Ledger(file), "openai")
            assert recording.reply(QUESTION, Sampling()) == "here"
        assert len(server.requests) == 2
    record = json.loads(file.read_text())
    assert {"key", "messages_sha256", "sampling", "created"} <= record.keys()
    assert record["tokens"] == {"prompt": 40, "completion": 9} and record["cost"] == pytest.approx(58e-6)
    assert record["model"] == "tiny" and record["source"] == "openai" and record["reply"] == "here"


def test_nothing_is_asked_once_the_budget_is_used_up(tmp_path):
    file, other = tmp_path / "ledger.jsonl", [{"role": "user", "content": "and then?"}]
    with serving.ChatServer(serving.answer("here", (40, 9))) as server:
        prices = connection.Prices(1e4, 0.0)  # 0.4 a reply
        for budget in (Budget(tokens=49), Budget(cost=0.4)):
            recording = Recording(client(server, prices=prices), Ledger(file), "openai", budget)
            assert recording.reply(QUESTION, Sampling()) == "here"
            with pytest.raises(GroundlabError, match=r"budget of .* is used up .*49 tokens.*raise --budget"):
                recording.reply(other, Sampling())
        assert len(server.requests) == 1
        raised = Recording(client(server), Ledger(file), "openai", Budget(tokens=50))
        assert raised.reply(other, Sampling()) == "here" and len(server.requests) == 2


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
    given = {connection.ADDRESS: "http://host:8000/v1", connection.KEY: f" {KEY}\n", connection.TIMEOUT: "2.5"}
    given |= {connection.ATTEMPTS: "3", connection.PRICES: "0.15,0.60", connection.BUDGET: "tokens=2000, cost=2.5"}
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
