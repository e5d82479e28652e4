"""A language model as planner, in this process and behind servers: the same episodes either way.

The model is the one of the golden runs: a Llama of one layer that writes plans in braces.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import chat_server as serving
import pytest
from transformers import AutoTokenizer
from transformers.utils.import_utils import is_serve_available

from groundlab.language.chat import Ledger
from groundlab.papers.mediator.planner import ATTEMPTS, REMINDER, perfect_reply

GOLDEN = Path(__file__).parents[2] / "golden"
WORLD = "SimpleDoorKey"
KEY = "sk-d0-n0t-te11-Anyb0dy"
SEEN = ("nothing", "a key", "a door", "a key, observed a door", "nothing, carry key", "a door, carry key")
TEXTS = [f"observation: {{observed {seen}}} " for seen in SEEN]


@pytest.fixture
def groundlab(groundlab, monkeypatch):
    """The command line with a key and little patience."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GROUNDLAB_LLM_ATTEMPTS", "2")
    return groundlab


@pytest.fixture
def evaluate(groundlab, tmp_path):
    """Play `always` on ten layouts: evaluate("--planner", "openai", ...) -> the rows."""

    def call(*arguments: object) -> list[dict]:
        file = tmp_path / "rows.json"
        code, _, err = groundlab("evaluate", "always", "--world", WORLD, "--layouts", "0-9", "--json", file, *arguments)
        assert code == 0, err
        return json.loads(file.read_text())["rows"]

    return call


@pytest.fixture
def asked_of(evaluate, tmp_path):
    """The same with the model of a server as planner, its replies kept in a ledger: asked_of(server, "l", ...)."""

    def call(server: serving.ChatServer, ledger: str = "l", *more: object) -> list[dict]:
        named = ("--planner", "openai", "--model", "m", "--ledger", tmp_path / ledger)
        return evaluate(*named, "--base-url", server.base_url, *more)

    return call


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """The folder of the golden runs' model, with a chat template, which a server needs."""
    folder = tmp_path_factory.mktemp("models") / "planner"
    shutil.copytree(GOLDEN / "runs" / "planner_llama", folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def transformers_serve(tiny):
    """The base URL of `transformers serve` with the tiny model, on the loopback."""
    if not is_serve_available():
        pytest.skip("transformers serve needs fastapi and uvicorn: pip install transformers[serving]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = Path(sys.executable).with_name("transformers")
    command = [program, "serve", tiny, "--host", "127.0.0.1", "--port", port, "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def wait_for(address: str, process: subprocess.Popen, seconds: float = 400.0) -> None:
    """Until a server answers; fails when its process ends or takes too long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert process.poll() is None, f"the server ended with exit code {process.poll()}"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no answer from {address} in {seconds:.0f} s")


def test_a_real_server_gives_the_same_episodes_as_the_model_in_this_process_and_is_paid_once(
    tiny, transformers_serve, evaluate, groundlab, tmp_path
):
    local = evaluate("--planner", "local", "--model", tiny, "--ledger", tmp_path / "local.jsonl")
    ledger = tmp_path / "ledger.jsonl"
    asked = ("--planner", "openai", "--model", tiny, "--ledger", ledger)
    assert evaluate(*asked, "--base-url", transformers_serve, "--prices", "1,2") == local != evaluate()
    written, account = ledger.read_bytes(), Ledger(ledger).account()
    here = Ledger(tmp_path / "local.jsonl").account()
    assert (account.uncounted, account.replies, account.prompt_tokens) == (0, here.replies, here.prompt_tokens)
    assert account.cost == pytest.approx((account.prompt_tokens + 2 * account.completion_tokens) / 1e6)
    assert evaluate(*asked, "--base-url", "http://127.0.0.1:9/v1") == local  # nobody is there, nobody is asked
    assert evaluate("--planner", "recorded", "--model", tiny, "--ledger", ledger) == local
    assert ledger.read_bytes() == written
    assert f"{account.prompt_tokens:,}" in groundlab("ledger", ledger)[1]


def test_every_request_carries_the_whole_question(evaluate, asked_of):
    """Servers keep no state: the task and its examples come with every text."""
    with serving.ChatServer(serving.rule(lambda text: perfect_reply(WORLD, text))) as server:
        served = asked_of(server)
        bodies = [request.body for request in server.requests]
    assert served == evaluate()
    assert len({body["messages"][1]["content"] for body in bodies}) == len(bodies)
    assert all("You guide an agent" in body["messages"][0]["content"] for body in bodies)
    assert all((body["temperature"], body["max_tokens"]) == (0.0, 128) for body in bodies)


def test_an_illegal_plan_is_corrected_twice_and_then_the_agent_explores(asked_of):
    with serving.ChatServer(serving.answer("I would open the door.")) as server:
        served = asked_of(server)
        conversations = [request.body["messages"] for request in server.requests]
    texts = {conversation[1]["content"] for conversation in conversations}
    assert len(conversations) == ATTEMPTS * len(texts)
    longest = max(conversations, key=len)
    assert [message["role"] for message in longest] == ["system", "user", *["assistant", "user"] * (ATTEMPTS - 1)]
    assert longest[2]["content"] == "I would open the door." and longest[3]["content"].startswith(REMINDER)
    with serving.ChatServer(serving.answer("action: {explore}.")) as server:
        explored = asked_of(server, "e")
    assert served == explored


def test_a_corrected_plan_counts(evaluate, asked_of):
    def second_time(text: str) -> str:
        return perfect_reply(WORLD, text.removeprefix(REMINDER + "\n")) if text.startswith(REMINDER) else "Well."

    with serving.ChatServer(serving.rule(second_time)) as server:
        served = asked_of(server)
    assert served == evaluate()


def test_a_server_that_stays_broken_ends_the_evaluation_in_one_line_and_it_goes_on_later(groundlab, evaluate, tmp_path):
    asked = ("--planner", "openai", "--model", "m", "--ledger", tmp_path / "l")
    plan = serving.rule(lambda text: perfect_reply(WORLD, text))
    with serving.ChatServer(plan, plan, serving.status(500, "out of memory")) as server:
        more = ("--world", WORLD, "--layouts", "0-9", "--base-url", server.base_url)
        code, _, err = groundlab("evaluate", "always", *more, *asked)
        assert len(server.requests) == 4
    assert code == 2 and len(err.strip().splitlines()) == 1
    assert "status 500 (" in err and "out of memory" in err and "the same command continues" in err
    with serving.ChatServer(plan) as server:
        assert evaluate(*asked, "--base-url", server.base_url) == evaluate()
        questions = [request.body["messages"][1]["content"] for request in server.requests]
    assert len(set(questions)) == len(questions) <= len(TEXTS) - 2


def test_no_key_is_in_any_file_of_a_run_nor_in_what_it_prints(groundlab, caplog, tmp_path):
    caplog.set_level("DEBUG")
    out = ("--out", tmp_path / "run", "--ledger", tmp_path / "ledger.jsonl", "--planner", "openai", "--model", "m")
    said = []
    for behaviour, expected in ((serving.refuses_the_key, 2), (serving.repeats_the_key, 0)):
        with serving.ChatServer(behaviour) as server:
            arguments = ("run", "always", "--world", WORLD, "--set", "layouts=0-1", "--base-url", server.base_url)
            code, *printed = groundlab(*arguments, *out)
            said += printed
            assert server.requests[0].key == f"Bearer {KEY}" and code == expected
    assert "status 401" in "".join(said) and "[key]" in (tmp_path / "ledger.jsonl").read_text()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"manifest.json", "config.yaml", "log.txt", "metrics.jsonl", "ledger.jsonl"} <= {file.name for file in files}
    assert not [file.name for file in files if KEY.encode() in file.read_bytes()]
    assert KEY not in "".join(said) + caplog.text
