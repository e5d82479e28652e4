"""Faults of a chat server as a user meets them: exit code 2, one line, a whole ledger, and the same command goes on."""

import re

import pytest
from chat_faults import FAULTS
from faulty_server import Answer, FaultyServer, ok

from groundlab.language.chat import Ledger
from groundlab.papers.knowledge import bk_goal

KEY = "sk-d0-n0t-te11-Anyb0dy"
SAMPLE = ("headers for ever", "gzip in gzip", "redirect 307", "100,000 brackets", "the key in a refusal")
"""Of those that tests/unit/language/chat puts to the client itself, all of them."""
LIST = ok("- Go to the red ball.\n- Look around.")


@pytest.fixture
def ask(groundlab, monkeypatch, tmp_path):
    """Run a command with a server of such answers: ask(answers, "label", ...) -> (exit code, stdout, stderr)."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GROUNDLAB_LLM_TIMEOUT", "1.5")
    monkeypatch.setenv("GROUNDLAB_LLM_ATTEMPTS", "1")

    def call(answers: tuple[Answer, ...], *arguments: object) -> tuple[int, str, str]:
        with FaultyServer(*answers) as server:
            where = ("--model", "M", "--base-url", server.base_url, "--ledger", tmp_path / "ledger.jsonl")
            return groundlab(*arguments, *where)

    return call


@pytest.fixture
def evaluate(ask):
    """Play one episode with a planner behind a server."""
    command = ("evaluate", "always", "--world", "SimpleDoorKey", "--layouts", "0-0", "--planner", "openai")
    return lambda *answers: ask(answers, *command)


@pytest.fixture
def label(ask, data, tmp_path):
    """Have a server suggest goals for three stretches of play."""
    command = ("label", "goals", "--maker", "openai", "--set", "rounds=3", "--dataset", data.folder)
    return lambda *answers: ask(answers, *command, "--out", tmp_path / "out")


def check(answer: tuple[int, str, str], line: str, folder) -> None:
    code, _, said = answer
    assert code == 2 and said.startswith("groundlab: ") and said.count("\n") == 1 and len(said) < 500
    assert "asked once" in said and re.search(line, said.replace("1.5 s", "1 s")), said
    written = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert not [text for text in [said.encode(), *written] if KEY.lower().encode() in text.lower()]


@pytest.mark.parametrize("name", SAMPLE)
def test_an_evaluation_ends_in_one_line(evaluate, tmp_path, name):
    check(evaluate(*FAULTS[name].answers), FAULTS[name].line, tmp_path)
    assert Ledger(tmp_path / "ledger.jsonl").account().replies == 0


@pytest.mark.parametrize("name", SAMPLE[::3])
def test_a_labelling_ends_in_one_line_and_the_same_command_goes_on(label, tmp_path, name):
    """The first reply is kept, the second question meets the fault, and then the server has come to its senses."""
    check(label(LIST, *FAULTS[name].answers), FAULTS[name].line, tmp_path)
    first = (tmp_path / "ledger.jsonl").read_bytes()
    assert first.count(b"\n") == 1 and not (tmp_path / "out" / "labelling.json").exists()
    code, said, _ = label(LIST)
    assert code == 0 and "2 replies now" in said
    assert (tmp_path / "ledger.jsonl").read_bytes().startswith(first)


def test_a_labelling_takes_no_key_from_an_echo(label, tmp_path):
    answer = ok(f"- Go to the {KEY.upper()}.\n- Look for {KEY[:-1]}.")
    assert label(answer)[0] == 0
    assert bk_goal.load(tmp_path / "out").goals == [["Go to the [key].", "Look for [key]."]] * 3
    assert KEY[:-1].lower() not in (tmp_path / "ledger.jsonl").read_text().lower()


@pytest.mark.parametrize("name", ["tokens -5000000", "tokens 1e400", 'usage "lots"'])
def test_a_server_that_counts_nonsense_does_not_stretch_a_budget(label, tmp_path, monkeypatch, name):
    monkeypatch.setenv("GROUNDLAB_LLM_BUDGET", "tokens=1000")
    answers = [answer.replace(b'"{explore}"', b'"- Look."  ') for answer in FAULTS[name].answers]
    code, _, said = label(*answers)
    assert code == 2 and said.count("\n") == 1 and "1 replies that nobody counted" in said
