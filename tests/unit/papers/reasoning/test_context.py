"""The model reads the last observations and its own replies, and nothing that a tokenizer chokes on."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from groundlab.language.chat_format import DialogueWriter
from groundlab.papers.reasoning.settings import ReplySettings
from groundlab.papers.reasoning.text_env import HIDDEN, LONGEST_REPLY, Conversations, clean_reply

WRITER = DialogueWriter(AutoTokenizer.from_pretrained(Path(__file__).parents[3] / "golden" / "tiny_t5"))


def talk(window, observations, **options):
    """A conversation of observations u0, u1, ... with the replies a0, a1, ... between them."""
    conversations = Conversations(1, True, ReplySettings(context_window=window, **options))
    conversations.reset(0, "go to the red box", ["u0"])
    for number in range(1, observations):
        conversations.step(0, f"a{number - 1}", [f"u{number}"])
    return conversations


def contents(conversations):
    system, *turns = conversations.messages(0)
    assert system["role"] == "system" and "go to the red box" in system["content"]
    roles = [message["role"] for message in turns]
    assert roles == ["user", *["assistant", "user"] * (len(turns) // 2)]
    return [message["content"] for message in turns]


@pytest.mark.parametrize(
    ("window", "observations", "expected"),
    [
        (5, 6, "u1 a1 u2 a2 u3 a3 u4 a4 u5"),
        (5, 5, "u0 a0 u1 a1 u2 a2 u3 a3 u4"),
        (1, 2, "u1"),
        (2, 6, "u4 a4 u5"),
        (3, 1, "u0"),
    ],
)
def test_the_window_holds_the_last_observations_and_the_replies_between_them(window, observations, expected):
    assert contents(talk(window, observations)) == expected.split()


def test_an_observation_is_its_sentences_one_a_line_and_may_be_empty():
    conversations = talk(2, 1)
    conversations.step(0, "a", ["You see a wall 2 steps left", "You see a red box 1 step forward"])
    conversations.step(0, "b", [])
    assert contents(conversations) == ["You see a wall 2 steps left\nYou see a red box 1 step forward", "b", ""]


@pytest.mark.parametrize(("hidden", "shown"), [(True, HIDDEN), (False, "nonsense")])
def test_an_invalid_reply_is_hidden_or_shown_and_answered_by_the_error(hidden, shown):
    conversations = talk(2, 2, hide_invalid=hidden)
    conversations.reject(0, "nonsense", "Invalid format")
    assert contents(conversations) == ["u1", shown, "Invalid format"]


def test_conversations_do_not_mix_and_go_through_a_checkpoint():
    conversations = Conversations(2, False, ReplySettings(context_window=3))
    for env, mission in enumerate(["go to a key", "pick up a ball"]):
        conversations.reset(env, mission, [f"seen by {env}"])
    conversations.step(1, "go forward", ["moved"])
    other = Conversations(2, False, ReplySettings(context_window=3))
    other.load_state(json.loads(json.dumps(conversations.state())))
    for env in range(2):
        assert other.messages(env) == conversations.messages(env)
    assert len(conversations.messages(0)) == 2 and "pick up a ball" in conversations.messages(1)[0]["content"]
    with pytest.raises(ValueError):
        Conversations(1, False, ReplySettings()).load_state(conversations.state())


@settings(deadline=None)
@given(st.text(st.characters()))
def test_any_reply_can_stay_in_the_context_and_be_tokenised(reply):
    conversations = talk(2, 1)
    conversations.step(0, reply, ["u1"])
    shown = contents(conversations)[1]
    shown.encode()
    assert WRITER.prompt(conversations.messages(0))
    assert not any(ord(character) < 32 and character != "\n" for character in shown)


def test_an_endless_reply_keeps_its_beginning_and_words_stay_as_they_are():
    assert clean_reply("go " * 10**6) == ("go " * 10**6)[:LONGEST_REPLY]
    assert clean_reply("I see it.\nfinal answer: go forward") == "I see it.\nfinal answer: go forward"
    assert clean_reply("a\x00b\tc\ud800d") == "a b c d"
    assert clean_reply("日本語 привет") == "日本語 привет"
