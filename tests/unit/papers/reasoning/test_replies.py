"""Replies mean what the original's parsers say; prompts tell what they must; no reply stops anything."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from groundlab.language.chat_format import DialogueWriter
from groundlab.papers.reasoning.settings import TrainingSettings
from groundlab.papers.reasoning.text_env import (
    ACTIONS,
    LONGEST_REPLY,
    clean_reply,
    error_text,
    extract_thought,
    parse_action,
    system_prompt,
)

WRITER = DialogueWriter(AutoTokenizer.from_pretrained(Path(__file__).parents[3] / "golden" / "tiny_t5"))
PARTS = (*ACTIONS, "final answer:", "Final Answer", "I think", *". \n\x00\u202e", "**", "日本", "ﬁnal")
# halves of characters and control characters too
REPLIES = st.one_of(st.text(st.characters()), st.lists(st.sampled_from(PARTS)).map("".join))


def test_a_direct_reply_is_an_action_to_the_letter():
    for reply in ("go forward", "toggle", "drop", "turn left", "turn right", "pick up"):
        assert ACTIONS[parse_action(reply, thinks=False)] == reply
    for reply in (" go forward", "Go forward", "done", "go forward.", "go  forward", "", "go forward\n"):
        assert parse_action(reply, thinks=False) is None


@pytest.mark.parametrize(
    ("reply", "thinks", "action"),
    [
        ("Go Forward.", False, "go forward"),
        ("**Turn left**", False, "turn left"),
        ("I will pick up the key", False, "pick up"),
        ("turn left or turn right", False, None),
        ("dropped", False, None),
        ("", False, None),
        ("Final Answer: [Go forward].", True, "go forward"),
        ("final answer - `toggle`, since the door is closed", True, "toggle"),
        ("FINAL\nANSWER:\nPick  up", True, "pick up"),
        ("final answer: drop. Final answer: turn right", True, "turn right"),
        ("final answer: I will go forward", True, None),
        ("go forward", True, None),
        ("ﬁnal answer: go forward", True, "go forward"),  # the ligature of f and i
    ],
)
def test_the_lenient_parser_takes_what_a_person_would(reply, thinks, action):
    found = parse_action(reply, thinks, "lenient")
    assert (None if found is None else ACTIONS[found]) == action


@settings(deadline=None)
@given(REPLIES, st.booleans(), st.sampled_from(["strict", "lenient"]))
def test_any_string_is_judged(reply, thinks, parser):
    assert parse_action(reply, thinks, parser) in (None, *range(6))


@settings(deadline=None)
@given(REPLIES, st.booleans())
def test_what_the_strict_parser_takes_the_lenient_takes_alike(reply, thinks):
    strict = parse_action(reply, thinks)
    assert strict is None or parse_action(reply, thinks, "lenient") == strict


@settings(deadline=None)
@given(REPLIES)
def test_any_reply_can_stay_in_the_context_and_be_tokenised(reply):
    shown = clean_reply(reply)
    assert WRITER.prompt([{"role": "assistant", "content": shown}])
    assert not any(ord(character) < 32 and character != "\n" for character in shown)


def test_an_endless_reply_keeps_its_beginning_and_words_stay_as_they_are():
    assert clean_reply("go " * 10**6) == ("go " * 10**6)[:LONGEST_REPLY]
    assert clean_reply("I see it.\nfinal answer: go forward") == "I see it.\nfinal answer: go forward"
    assert clean_reply("a\x00b\tc\ud800d") == "a b c d"
    assert clean_reply("日本語 привет") == "日本語 привет"


def test_a_thought_is_what_comes_before_the_last_answer():
    thought = "It is left.\nfinal answer: x"
    assert extract_thought(f"{thought} final answer: turn left") == thought
    assert extract_thought("It is left.") == ""


def test_a_mission_with_braces_is_told_as_it_is():
    assert "**go to {goal} {0}**" in system_prompt("go to {goal} {0}", True)


@pytest.mark.parametrize("thinks", [False, True])
def test_short_prompts_are_a_line_that_still_names_goal_and_format(thinks):
    text, error = system_prompt("go to the red box", thinks, short=True), error_text(thinks, short=True)
    assert len(text.split()) <= 16 and "go to the red box" in text
    assert len(error.split()) <= 9 and error.startswith("Invalid")
    assert ("final answer:" in text) == ("final answer:" in error) == thinks


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"estimator": "grpo"}, "episodes=whole"),
        ({"estimator": "gigpo", "episodes": "whole", "num_envs": 12}, "no multiple of group_size 8"),
        ({"temperature": 0}, "above 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_with_the_fix(given, message):
    with pytest.raises(ValueError, match=message):
        TrainingSettings(**given)
