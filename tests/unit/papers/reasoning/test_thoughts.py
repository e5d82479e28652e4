"""Measures of thoughts, against the examples of the published report and cases counted by hand (A16)."""

import pytest

from groundlab.papers.reasoning.policy import Reply
from groundlab.papers.reasoning.rollouts import Step
from groundlab.papers.reasoning.text_env import extract_thought
from groundlab.papers.reasoning.thoughts import is_echo, is_grounded, things, thought_stats, word_count

COLLAPSED = "Go forward.\nfinal answer: go forward"
NORMAL = "I should go forward to get slightly closer to the blue key.\nfinal answer: go forward"
SEEN = "You see a wall 2 steps left\nYou see a blue key 3 steps forward"


def step(text, valid=True, goal="go to the blue key", seen=SEEN, before=""):
    earlier = [{"role": "user", "content": before}, {"role": "assistant", "content": "a green box"}] if before else []
    messages = [{"role": "system", "content": goal}, *earlier, {"role": "user", "content": seen}]
    return Step([1], Reply([2], text, True, [0.0], [0.0]), 0.0, valid, None, messages)


@pytest.mark.parametrize(
    ("reply", "words", "echo", "grounded"), [(COLLAPSED, 2, True, False), (NORMAL, 12, False, True)]
)
def test_the_published_examples(reply, words, echo, grounded):
    thought = extract_thought(reply)
    assert word_count(reply) == words
    assert is_echo(thought, "go forward") == echo
    assert is_grounded(thought, "go to the blue key", "") == grounded


@pytest.mark.parametrize("told", ["", "Turn left!", "I should turn left.", "i will  turn left", "To turn left..."])
def test_an_echo_says_its_action_and_nothing_else(told):
    assert is_echo(told, "turn left")
    assert is_echo(told, "turn right") == (told == "")


def test_walls_ground_a_thought_only_where_they_are_seen():
    assert is_grounded("a wall is ahead", "go to the red ball", SEEN)
    assert not is_grounded("a wall is ahead", "go to the red ball", "You see a key")


def test_things_are_colours_with_types():
    assert things("Red ball, blue  key, grey door; a box, yellow wall, green boxes") == {"red ball", "grey door"}


def test_a_batch_is_measured_where_each_measure_applies():
    steps = [
        step(COLLAPSED),
        step(NORMAL),
        step("i see a green box.\nfinal answer: toggle"),  # named by the agent alone
        step("i see a red door.\nfinal answer: toggle", before="You see a red door 1 step left"),
        step("no marker here", valid=False),
        step("one two three final answer: fly", valid=False),  # counts for words, not for shares
    ]
    record = thought_stats(steps)
    assert record["thought_words"] == pytest.approx((2 + 12 + 5 + 5 + 3) / 5)
    assert record["thought_words_median"] == 5
    assert record["echo_rate"] == 1 / 4
    assert record["grounded_rate"] == 1 / 4
    assert record["hallucination_rate"] == 1 / 4


def test_a_batch_without_answers_has_no_measures():
    assert thought_stats([step("nothing", valid=False)]) == {}
