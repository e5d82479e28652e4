"""The rule that plays by the words of one observation."""

import numpy as np
import pytest

from groundlab.papers.episodes import play_layouts
from groundlab.papers.worlds.published import TRAIN
from groundlab.papers.worlds.reflex import ReflexPlayer, Sight, Thing, read, reflex


def test_an_observation_is_read_with_or_without_you_see():
    door = "You see a locked red door 1 step right and 2 steps forward"
    sights, hand = read(["You carry a blue ball", "a wall 2 steps left", door])
    assert hand == Thing("blue", "ball")
    assert sights == [Sight(Thing(None, "wall"), 0, -2), Sight(Thing("red", "door"), 2, 1)]


@pytest.mark.parametrize(
    ("mission", "sentences", "past", "action"),
    [
        ("go to the red ball", ["a red ball 2 steps left"], [], "turn left"),
        ("go to the red ball", ["a red ball 2 steps forward"], [], "go forward"),
        ("go to the red ball", ["a blue ball 2 steps forward"], [], "turn right"),
        ("pick up a grey key", ["a grey key 1 step forward"], [], "pick up"),
        ("open the door", ["a locked red door 1 step forward", "a red key 1 step left"], [], "turn left"),
        ("open the door", ["You carry a red key", "a locked red door 1 step forward"], [], "toggle"),
        ("put the red ball next to a box", ["You carry a red ball", "a grey box 1 step forward"], [], "turn right"),
        ("put the red ball next to a box", ["You carry a red ball", "a grey box 2 steps forward"], [], "drop"),
        ("go to the key after you pick up the ball", ["a red ball 1 step forward"], [], "pick up"),
    ],
)
def test_it_does_what_the_mission_takes_next(mission, sentences, past, action):
    assert reflex(mission, sentences, past) == action


def test_it_puts_things_down_on_free_cells_only():
    words = ["You carry a red ball", "a wall 1 step forward", "a grey box 1 step left and 1 step forward"]
    assert reflex("put the red ball next to the grey box", words, []) != "drop"
    assert reflex("put the red ball next to the grey box", [words[0], words[2]], []) == "drop"


@pytest.mark.parametrize("kind", ["goto", "pickup", "open", "putnext", "pick_up_seq_go_to"])
def test_it_solves_nearly_every_level_without_distractors(kind):
    rows = play_layouts(f"{TRAIN}/{kind}", list(range(40)), ReflexPlayer(40), 0)
    assert np.mean([row["success"] for row in rows]) >= 0.9
