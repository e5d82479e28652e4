"""A language model as planner, in this process and behind servers: the same episodes as the scripted planner's.

The model is a tiny Llama that is trained here, in seconds, to answer SimpleDoorKey's six texts as the tables do.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import chat_server as serving
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.import_utils import is_serve_available

from groundlab.language.chat import Ledger
from groundlab.papers.mediator.planner import ATTEMPTS, REMINDER, perfect_reply

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


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte pairs of the six texts and replies; its chat template writes the last message only."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<pad>", "</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([*TEXTS, *(perfect_reply(WORLD, text) for text in TEXTS)], trainer)
    names = {"pad_token": "<pad>", "eos_token": "</s>", "model_input_names": ["input_ids", "attention_mask"]}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    fast.chat_template = "{{ messages[-1]['content'] }}"
    return fast


def lessons(tokenizer: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor]:
    """(inputs, labels) [6, T]: each text with its reply; labels -100 where nothing is to be learnt."""
    pairs = [(tokenizer(text).input_ids, tokenizer(perfect_reply(WORLD, text)).input_ids) for text in TEXTS]
    pairs = [(prompt, [*reply, tokenizer.eos_token_id]) for prompt, reply in pairs]
    inputs = torch.full((len(pairs), max(len(prompt) + len(reply) for prompt, reply in pairs)), 0)
    labels = torch.full_like(inputs, -100)
    for row, (prompt, reply) in enumerate(pairs):
        both = torch.tensor([*prompt, *reply])
        inputs[row, : len(both)] = both
        labels[row, len(prompt) : len(both)] = both[len(prompt) :]
    return inputs, labels


def teach(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Train until every reply is right, token by token."""
    inputs, labels = lessons(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(400):
        output = model(inputs, labels=labels)
        wrong = (output.logits[:, :-1].argmax(-1) != labels[:, 1:]) & (labels[:, 1:] != -100)
        if not wrong.any() and output.loss < 0.02:
            return
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
    raise AssertionError("the tiny model has not learnt its six replies")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """The folder of a model that plans as the tables do."""
    folder = tmp_path_factory.mktemp("models") / "tiny-planner"
    tokenizer = make_tokenizer()
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=4096, **sizes, **ends)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
        teach(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_model_in_this_process_gives_the_scripted_planners_episodes(tiny, evaluate, tmp_path):
    asked = evaluate("--planner", "local", "--model", tiny, "--ledger", tmp_path / "ledger.jsonl")
    assert asked == evaluate()
    account = Ledger(tmp_path / "ledger.jsonl").account()
    assert 3 <= account.replies <= len(TEXTS) and account.prompt_tokens > 0


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


def test_a_real_server_gives_the_scripted_planners_episodes_and_is_paid_once(
    tiny, transformers_serve, evaluate, groundlab, tmp_path
):
    ledger = tmp_path / "ledger.jsonl"
    asked = ("--planner", "openai", "--model", tiny, "--ledger", ledger)
    scripted = evaluate()
    assert evaluate(*asked, "--base-url", transformers_serve, "--prices", "1,2") == scripted
    written, account = ledger.read_bytes(), Ledger(ledger).account()
    assert account.uncounted == 0 and 3 <= account.replies <= len(TEXTS)
    assert account.cost == pytest.approx((account.prompt_tokens + 2 * account.completion_tokens) / 1e6)
    assert evaluate(*asked, "--base-url", "http://127.0.0.1:9/v1") == scripted  # nobody is there, nobody is asked
    assert evaluate("--planner", "recorded", "--model", tiny, "--ledger", ledger) == scripted
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
    assert "asked 2 times: status 500 (" in err and "out of memory" in err and "the same command continues" in err
    with serving.ChatServer(plan) as server:
        assert evaluate(*asked, "--base-url", server.base_url) == evaluate()
        questions = [request.body["messages"][1]["content"] for request in server.requests]
    assert len(set(questions)) == len(questions) <= len(TEXTS) - 2


def test_the_budget_stops_an_evaluation_and_a_higher_one_lets_it_go_on(groundlab, tmp_path):
    arguments = ("evaluate", "always", "--world", WORLD, "--layouts", "0-1", "--planner", "openai", "--model", "m")
    with serving.ChatServer(serving.rule(lambda text: perfect_reply(WORLD, text))) as server:
        reached = (*arguments, "--ledger", tmp_path / "l", "--base-url", server.base_url)
        code, _, err = groundlab(*reached, "--budget", "tokens=90")
        assert code == 2 and "the budget of 90 tokens is used up" in err and len(server.requests) == 2
        assert groundlab(*reached, "--budget", "tokens=100000")[0] == 0
    assert Ledger(tmp_path / "l").account().tokens > 90


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
