"""`groundlab label` as a user meets it: told what it takes, kept to a budget, continued, and nothing paid twice."""

import json
import shlex

import chat_server
import pytest

from groundlab.language.chat import Ledger
from groundlab.papers.knowledge import bk_goal, bk_pref

LIST = "- Go to the red ball.\n- Look around."


@pytest.fixture
def ask(groundlab, data, tmp_path):
    """Label the little dataset with the model of a server: ask(server, "goals", "--budget", ...)."""

    def call(server, form, *more):
        where = ("--dataset", data.folder, "--out", tmp_path / "out")
        maker = ("--maker", "openai", "--model", "M", "--base-url", server.base_url)
        return groundlab("label", form, *where, *maker, *more)

    return call


def one_line(answer, *parts):
    code, _, said = answer
    assert code == 2 and said.startswith("groundlab: ") and said.count("\n") == 1
    for part in parts:
        assert part in said
    return said


def test_what_it_takes_is_told_before_and_what_it_took_after(ask, tmp_path):
    with chat_server.ChatServer(chat_server.answer(LIST)) as server:
        code, said, _ = ask(server, "goals", "--set", "rounds=5", "--prices", "1000,2000")
    before, made, after = said.splitlines()
    assert code == 0 and before.startswith("goals: about 5 questions, ") and "no budget" in before
    assert made.startswith("goals: 2 goals for 5 stretches of play (0 without a list)")
    assert after.startswith(f"5 replies now, 245 tokens, cost {5 * (40 * 1000 + 9 * 2000) / 1e6:.4f}")
    assert bk_goal.load(tmp_path / "out").goals == [["Go to the red ball.", "Look around."]] * 5


def test_the_estimate_is_near_what_is_sent(ask):
    with chat_server.ChatServer(chat_server.answer(LIST)) as server:
        _, said, _ = ask(server, "goals", "--set", "rounds=6")
        sent = [sum(len(message["content"]) for message in request.body["messages"]) / 4 for request in server.requests]
    told = int(said.split(" questions, ")[1].split(" prompt")[0].replace(",", ""))
    assert 0.8 < told / sum(sent) < 1.3


def test_a_budget_ends_it_in_one_line_and_nothing_is_lost_or_paid_twice(ask, tmp_path):
    with chat_server.ChatServer(chat_server.answer(LIST)) as server:
        stopped = ask(server, "goals", "--set", "rounds=6", "--budget", "tokens=100")
        one_line(stopped, "the budget of 100 tokens is used up", "raise --budget and run the same command")
        assert "it stops at 100 tokens" in stopped[1] and len(server.requests) == 3
        assert ask(server, "goals", "--set", "rounds=6", "--budget", "tokens=1000")[0] == 0
        assert len(server.requests) == 6
        assert ask(server, "goals", "--set", "rounds=6", "--budget", "tokens=1")[0] == 0
        assert len(server.requests) == 6
    assert Ledger(tmp_path / "out" / "ledger.jsonl").account().replies == 6


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("goals", "M gave no list of goals in 2 replies; try another model"),
        ("code", "M wrote no working program in 2 replies; try another model"),
        ("preferences", "no reply of 3 names a preference; try another model"),
    ],
)
def test_a_model_that_never_says_anything_is_one_clear_line(ask, form, said):
    given = ("--set", "pairs=3") if form == "preferences" else ("--set", "rounds=2", "--set", "attempts=2")
    with chat_server.ChatServer(chat_server.answer("no")) as server:
        one_line(ask(server, form, *given), said)


def test_a_missing_reply_names_the_command_that_fills_it_and_that_command_does(groundlab, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a line with four long paths would be cut
    with chat_server.ChatServer(chat_server.answer(LIST)) as server:
        asked = ["label", "goals", "--dataset", "data", "--ledger", "replies.jsonl", "--model", "M"]
        some = [*asked, "--maker", "openai", "--base-url", server.base_url, "--out", "some"]
        assert groundlab(*some, "--set", "rounds=2")[0] == 0
        more = [*asked, "--set", "rounds=3", "--set", "chat.temperature=0.5"]
        said = one_line(groundlab(*more, "--out", "more"), "holds no reply of 'M' to question 3")
        fill = shlex.split(said.split("a model fills it: ")[1].replace("URL", server.base_url))
        assert fill[0] == "groundlab" and groundlab(*fill[1:])[0] == 0
        assert len(server.requests) == 3
    assert groundlab(*more, "--out", "again")[0] == 0
    for name in ("goal_library", "trajectory_text"):
        assert len(json.loads((tmp_path / "again" / f"{name}.json").read_text())) == 3


def test_a_ledger_that_is_not_there_names_the_command_that_makes_it(groundlab, data, tmp_path):
    where = ("--dataset", data.folder, "--ledger", tmp_path / "none.jsonl", "--model", "M", "--out", tmp_path / "out")
    said = one_line(groundlab("label", "goals", *where), "there is no ledger", "or use --maker scripted")
    assert f"groundlab label goals --dataset {data.folder} --maker openai --model M" in said


def test_one_folder_holds_one_labelling(groundlab, data, tmp_path):
    asked = ("label", "goals", "--maker", "scripted", "--dataset", data.folder, "--out", tmp_path / "out")
    assert groundlab(*asked, "--set", "rounds=3")[0] == 0
    before = (tmp_path / "out" / "goal_library.json").read_bytes()
    one_line(groundlab(*asked, "--set", "rounds=4"), "holds another labelling (settings differs); choose another --out")
    assert (tmp_path / "out" / "goal_library.json").read_bytes() == before
    assert json.loads((tmp_path / "out" / "labelling.json").read_text())["knowledge"] == "by a stated rule"


@pytest.mark.parametrize("form", ["code", "goals", "preferences"])
def test_rules_label_without_any_model(groundlab, data, tmp_path, form):
    size = ("--set", "pairs=40", "--error", "0.2") if form == "preferences" else ("--set", "rounds=2")
    more = ("--set", "train.network=small") if form == "preferences" else ()
    where = ("--dataset", data.folder, "--out", tmp_path / "out")
    code, said, _ = groundlab("label", form, "--maker", "scripted", *where, *size, *more)
    assert code == 0 and "nobody is paid" in said and not (tmp_path / "out" / "ledger.jsonl").exists()
    assert form != "preferences" or bk_pref.load(tmp_path / "out").config["size"] == "small"
