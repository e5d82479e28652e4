"""The topics of several tasks: what they answer is so in the scene that they tell, and none says what to do."""

import re

import pytest

from groundlab.core.seeding import generator
from groundlab.language import corpus
from groundlab.language.corpus import TASKS, Breadth, tasks
from groundlab.language.corpus.tasks import AT_HAND, BE, FAR, FREE, FULL, HAVE, LEAVE, NEEDED, OPEN_IT
from groundlab.language.corpus.topics import UNSEEN

SEEN = re.compile(r"You see a (.+? (?:key|ball|box|door)) (.+)")
FIRST = re.compile(r"(?:pick up|put) (?:the|a) (\w+ \w+)")
SECOND = re.compile(r"(?:go to|next to) (?:the|a) (\w+ \w+)")


def drawn(count: int, seed: int = 0):
    rng = generator(seed, "errands")
    return [tasks.draw_errand(rng, Breadth(2, 9)) for _ in range(count)]


def what_comes_next(goal: str, carried: str, seen: dict[str, str]) -> tuple[str, str]:
    """The thing that a goal asks for first, and its purpose, worked out from the texts alone."""
    first, second = FIRST.search(goal), SECOND.search(goal)
    if goal.startswith("open"):
        named = re.fullmatch(r"open the (\w+) door", goal)
        doors = [
            name.split() for name in seen if name.endswith("door") and (not named or f" {named[1]} " in f" {name} ")
        ]
        if not named and not doors:
            return "door", OPEN_IT
        colour = named[1] if named else doors[0][1]
        if carried == f"{colour} key" or (doors and doors[0][0] == "closed"):
            return f"{colour} door", OPEN_IT
        return f"{colour} key", HAVE
    if first and carried != first[1]:
        return first[1], HAVE
    return second[1], LEAVE if goal.startswith("put") else BE


def test_what_comes_next_follows_from_goal_hands_and_doors():
    right = 0
    for errand in drawn(3_000):
        sentences = errand.told.split(", ")
        carried = next((told.removeprefix("You carry a ") for told in sentences if told.startswith("You carry")), "")
        seen = {found[1]: found[2] for told in sentences if (found := SEEN.fullmatch(told))}
        if errand.goal.startswith("open") and errand.target.endswith("door") and errand.place is None and carried:
            continue  # whether the door is locked cannot be known
        if errand.goal.startswith("open") and errand.target.endswith("door") and errand.place is None:
            assert errand.where == UNSEEN
            continue
        assert (errand.target, errand.purpose) == what_comes_next(errand.goal, carried, seen), errand
        places = [place for name, place in seen.items() if name.split()[-2:] == errand.target.split()]
        assert ([errand.where] if errand.place else []) == places, errand
        assert errand.side in errand.where
        assert errand.reach == (UNSEEN if not places else AT_HAND if places == ["1 step forward"] else FAR)
        if not carried:
            assert errand.hands == FREE
        elif not errand.goal.startswith("open"):
            first = FIRST.search(errand.goal)
            needed = first and SECOND.search(errand.goal) and carried == first[1]
            assert errand.hands == (NEEDED if needed else FULL), errand
        right += 1
    assert right > 2_500


def test_every_kind_of_goal_every_side_and_every_state_of_the_hands_is_drawn():
    errands = drawn(2_000)
    assert {errand.goal.split()[0] for errand in errands} == {"go", "pick", "put", "open"}
    assert {errand.side for errand in errands} == {"left", "right", "forward", UNSEEN}
    assert {errand.hands for errand in errands} == {FREE, NEEDED, FULL}
    assert {errand.purpose for errand in errands} == {BE, HAVE, LEAVE, OPEN_IT}


def test_no_sample_of_50_000_shows_the_policy_or_the_agents_prompt():
    rng = generator(0, "tasks")
    samples = [corpus.sample(rng, tuple(TASKS), Breadth(rare=0.3)) for _ in range(50_000)]
    assert {(sample.topic, corpus.leaks(sample.input, sample.target)) for sample in samples} == {
        (topic, None) for topic in TASKS
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"^a (\w+ \w+) is 1 step forward\. you (pick up|take|grab)", "you carry a {}"),
        (r"^a (\w+ \w+) is [2-9] steps forward\. you (pick up|take|grab)", "nothing"),
        (r"^you carry a \w+ \w+\. a (\w+ \w+) is 1 step forward\. you (pick up|take|grab)", "nothing"),
        (r"^you carry a (\w+ \w+)\. you (drop|release|put down)", "a {} is 1 step forward"),
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
