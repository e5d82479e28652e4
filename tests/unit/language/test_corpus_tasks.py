"""The topics of several tasks: what they answer is so in the view that they describe, and none says what to do."""

import re

import pytest

from groundlab.core.seeding import generator
from groundlab.language import corpus
from groundlab.language.corpus import TASKS, Breadth, tasks
from groundlab.language.corpus.tasks import BE, FREE, FULL, HAVE, LEAVE, NEEDED, NOT_YET, NOW, OPEN
from groundlab.language.corpus.topics import UNSEEN

SEEN = re.compile(r"You see an? (.+? (?:key|ball|box|door)|wall) (.+)")
FIRST = re.compile(r"(?:pick up|put) (?:the|a) (\w+ \w+)")
SECOND = re.compile(r"(?:go to|next to) (?:the|a) (\w+ \w+)")


def drawn(count: int):
    rng = generator(0, "situations")
    return [tasks.draw_situation(rng, Breadth(2, 9)) for _ in range(count)]


def views(situation) -> tuple[str, dict[str, str]]:
    """What is carried, and name -> place of all that is seen, from the text; of several of a kind the last one."""
    sentences = situation.captions.split(", ")
    carried = sentences[0].removeprefix("You carry a ") if sentences[0].startswith("You carry") else ""
    return carried, {found[1]: found[2] for found in filter(None, map(SEEN.fullmatch, sentences))}


def what_comes_next(mission: str, carried: str, seen: dict[str, str]) -> tuple[str, str, str]:
    """(what a mission asks for next, what for, how the hands are), worked out from the texts alone."""
    hands = FULL if carried else FREE
    if mission.startswith("open"):
        colour = mission.split()[2] if mission != "open the door" else None
        doors = [name.split() for name in seen if name.endswith("door")]
        state, colour = next(((each[0], each[1]) for each in doors), ("locked", colour))
        if colour is None:
            return "door", OPEN, hands
        if carried == f"{colour} key":
            return f"{colour} door", OPEN, NEEDED if state == "locked" else hands
        return (f"{colour} door", OPEN, hands) if state == "closed" else (f"{colour} key", HAVE, hands)
    first, second = FIRST.search(mission), SECOND.search(mission)
    if first and carried != first[1]:
        return first[1], HAVE, hands
    return second[1], LEAVE if mission.startswith("put") else BE, NEEDED if first else hands


def test_what_comes_next_where_it_is_and_how_the_hands_are_follow_from_the_texts():
    for situation in drawn(4_000):
        carried, seen = views(situation)
        subject, purpose, hands = what_comes_next(situation.mission, carried, seen)
        assert (situation.subject, situation.purpose, situation.hands) == (subject, purpose, hands), situation
        places = [place for name, place in seen.items() if f" {name}".endswith(f" {subject}")]
        assert situation.place == (places[0] if places else UNSEEN), situation
        assert situation.side in situation.place


def test_a_purpose_can_be_served_where_the_world_would_let_it():
    """The rules of the verbs: what is picked up or toggled is one step ahead, what is put down needs that cell free."""
    found = set()
    for situation in drawn(8_000):
        carried, _ = views(situation)
        taken = re.search(r"(box|ball|key|door|wall) 1 step forward", situation.captions)
        beside = {"2 steps forward", "1 step left and 1 step forward", "1 step right and 1 step forward"}
        able = {
            HAVE: situation.place == "1 step forward" and not carried,
            OPEN: situation.place == "1 step forward",
            LEAVE: situation.place in beside and not taken,
            BE: False,
        }[situation.purpose]
        assert situation.reach == (UNSEEN if situation.cell is None else NOW if able else NOT_YET), situation
        found.add((situation.purpose, situation.reach))
    assert found == {(each, reach) for each in (HAVE, OPEN, LEAVE, BE) for reach in (NOW, NOT_YET, UNSEEN)} - {
        (BE, NOW)
    }


def test_no_sample_of_50_000_shows_the_policy_or_the_agents_prompt():
    rng = generator(0, "tasks")
    samples = [corpus.sample(rng, tuple(TASKS), Breadth(rare=0.3)) for _ in range(50_000)]
    assert {(sample.topic, corpus.leaks(sample.input, sample.target)) for sample in samples} == {
        (topic, None) for topic in TASKS
    }


@pytest.mark.parametrize(
    ("mission", "action"),
    [("open the red door", "toggle"), ("put a red key next to a blue box", "drop"), ("to see it open", "toggle")],
)
def test_the_rule_knows_the_missions_of_all_tasks(mission, action):
    assert corpus.leaks(f"{mission}. You see a locked red door 1 step forward, \n action:", action)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"^a (\w+ \w+) is 1 step forward\. you (pick up|take|grab)", "you carry a {}"),
        (r"^a (\w+ \w+) is [2-9] steps forward\. you (pick up|take|grab)", "nothing"),
        (r"^you carry a \w+ \w+\. a (\w+ \w+) is 1 step forward\. you (pick up|take|grab)", "nothing"),
        (r"^you carry a (\w+ \w+)\. you (drop|release|put down)", "a {} is 1 step forward"),
        (r"^you carry a (\w+ \w+)\. a \w+ \w+ is 1 step forward\. you (drop|release|put down)", "nothing"),
        (r"^a closed (\w+) door is 1 step forward\. you (toggle|switch)", "the {} door is open"),
        (r"^a locked (\w+) door is 1 step forward\. you (toggle|switch)", "the {} door is locked"),
        (r"^you carry a (\w+) key\. a locked \1 door is 1 step forward\. you (toggle|switch)", "the {} door is open"),
        (
            r"^you carry a \w+ ball\. a locked (\w+) door is 1 step forward\. you (toggle|switch)",
            "the {} door is locked",
        ),
    ],
)
def test_what_comes_of_a_verb(before, after):
    rng, found = generator(0, "effects"), 0
    for _ in range(4_000):
        text, target = tasks.effects(rng, Breadth())
        if match := re.search(before, text):
            assert target == after.format(match[1])
            found += 1
    assert found > 5
