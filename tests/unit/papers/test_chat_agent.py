"""A language model in a conversation: what it reads, what its replies lead to, and that nothing is asked twice."""

import json

import chat_server as serving
import pytest
from fixed_replies import FixedReplies

from groundlab.core.errors import GroundlabError
from groundlab.language.chat import Ledger, Recording, Sampling
from groundlab.papers import registry
from groundlab.papers.method import Request
from groundlab.papers.worlds import chat_agent
from groundlab.papers.worlds.chat_agent import Conversation, Reflex, parse_reply

GOTO = "BabyAI-MixedTrainLocal-v0/goto"


def play(monkeypatch, maker, world: str = GOTO, **settings) -> dict:
    monkeypatch.setattr(chat_agent, "_maker", lambda settings: maker)
    given = registry.resolve_settings("chat", world, {"layouts": "0", "num_dists": 0, **settings})
    (result,) = registry.evaluate(Request("chat", world, 0, given))
    return result["rows"][0]


@pytest.mark.parametrize(
    ("reply", "thinks", "action"),
    [
        ("go forward", False, "go forward"),
        ("  turn left\n", False, "turn left"),
        ("Go forward", False, None),
        ("go forward.", False, None),
        ("", False, None),
        ("I see a ball. ACTION: <pick up>", True, "pick up"),
        ("ACTION: drop, no, ACTION: toggle", True, "toggle"),
        ("pick up", True, "pick up"),
        ("ACTION: jump", True, None),
    ],
)
def test_a_reply_is_an_action_to_the_letter_or_none(reply, thinks, action):
    assert parse_reply(reply, thinks) == action


def test_a_conversation_holds_the_instructions_the_last_turns_and_one_request():
    talk = Conversation("play", "Action:", history=2)
    for number in range(4):
        talk.observe(f"view {number}")
        talk.reply("turn left")
    talk.observe("view 4")
    contents = [message["content"] for message in talk.messages]
    last = ["Observation:\nview 2", "turn left", "Observation:\nview 3", "turn left"]
    assert contents == ["play", *last, "Current observation:\nview 4\n\nAction:"]
    assert [message["role"] for message in talk.messages] == ["user", "user", "assistant", "user", "assistant", "user"]


def test_a_reply_that_is_no_action_goes_forward_and_is_told(monkeypatch):
    forward, silent = FixedReplies(["go forward"]), FixedReplies(["I would go forward"])
    ahead, counted = play(monkeypatch, forward), play(monkeypatch, silent)
    assert counted == {**ahead, "invalid": counted["steps"]} and ahead["invalid"] == 0 and ahead["steps"] == 64
    told = [asked[-1]["content"] for asked in silent.prompts]
    assert "valid action" not in told[0] and all("a valid action" in each for each in told[1:])
    instructions = silent.prompts[0][0]["content"]
    assert "Your goal is to go to the" in instructions and "{mission}" not in instructions


def test_the_ledger_is_asked_first_and_a_recording_replays_the_episode(monkeypatch, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    first = play(monkeypatch, Recording(Reflex(), Ledger(ledger), "scripted"))
    assert first["success"] and len(ledger.read_text().splitlines()) == first["steps"]
    monkeypatch.undo()
    given = {"maker": "recorded", "ledger": str(ledger), "chat": {"model": "reflex"}, "layouts": "0", "num_dists": 0}
    settings = registry.resolve_settings("chat", GOTO, given)
    (again,) = registry.evaluate(Request("chat", GOTO, 0, settings))
    assert again["rows"] == [first]
    with pytest.raises(GroundlabError, match="holds no reply"):
        registry.evaluate(Request("chat", GOTO, 0, {**settings, "layouts": "1"}))


def test_draws_above_temperature_zero_are_told_apart_by_layout_and_step(monkeypatch):
    parrot = FixedReplies(["turn left"])
    play(monkeypatch, parrot, chat={"temperature": 1.0}, layouts="0-1")
    assert len({each.seed for each in parrot.samplings}) == len(parrot.samplings) == 128


def test_a_prompt_that_is_no_file_is_one_line_with_those_that_ship(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = registry.resolve_settings("chat", GOTO, {"prompt": "no such file"})
    with pytest.raises(GroundlabError, match="balrog, balrog-corrected") as error:
        registry.evaluate(Request("chat", GOTO, 0, settings))
    assert "\n" not in str(error.value)


def test_a_prompt_of_ones_own_must_hold_the_mission(tmp_path):
    file = tmp_path / "prompt.txt"
    settings = registry.resolve_settings("chat", GOTO, {"prompt": str(file), "layouts": "0"})
    file.write_text("play")
    with pytest.raises(GroundlabError, match=r"does not hold \{mission\}"):
        registry.evaluate(Request("chat", GOTO, 0, settings))
    file.write_text("Your goal is to {mission}. Go.")
    assert registry.evaluate(Request("chat", GOTO, 0, settings))[0]["rows"][0]["success"]


def test_a_server_plays_the_protocol_and_the_same_command_asks_it_nothing_again(tmp_path, groundlab):
    """End to end over the loopback: the server answers by the rule; the second time everything is in the ledger."""

    def answer(connection, request):
        serving.answer(Reflex().reply(request.body["messages"], Sampling()))(connection, request)

    ledger, out = tmp_path / "ledger.jsonl", tmp_path / "out.json"
    with serving.ChatServer(answer) as server:
        words = ["evaluate", "chat", "--protocol", "balrog-corrected", "--layouts", "0", "--set", "maker=openai"]
        words += ["--model", "m", "--base-url", server.base_url, "--ledger", ledger, "--json", out]
        outcomes = []
        for _ in range(2):
            code, printed, _ = groundlab(*words)
            assert code == 0
            outcomes.append((json.loads(out.read_text()), len(server.requests)))
    (first, asked), (second, asked_again) = outcomes
    assert first == second and asked == asked_again == sum(row["steps"] for row in first["policies"][0]["rows"])
    assert first["policies"][0]["in_all"]["success"] == 100
    assert "must be empty" in server.requests[0].body["messages"][0]["content"]
    assert "balrog-corrected, chat (chat), putnext: 100.0 %" in printed
