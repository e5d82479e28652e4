"""Drawn scenes say on which side the named thing is."""

from groundlab.core.seeding import generator
from groundlab.language.probes import random_prompts
from groundlab.papers.glam import turns


def prompt(goal: str, *places: str) -> str:
    seen = "".join(f"You see a {place}, " for place in places)
    return f"Goal of the agent: go to the {goal} \n Observation 0: You see a wall 2 steps left, {seen}\n Action 0: "


def test_a_scene_has_a_side_where_all_things_of_that_name_lie_on_it_and_nothing_else_counts():
    for side, *places in (
        ("left", "red ball 1 step left", "red key 2 steps right"),
        ("right", "blue ball 1 step left", "red ball 2 steps right and 1 step forward"),
        ("left", "red ball 1 step left", "red ball 3 steps left and 1 step forward"),
        (None, "red ball 1 step left", "red ball 1 step right"),
        (None, "red ball 1 step left", "red ball 1 step forward"),
        (None, "red ball 1 step forward"),
        (None, "red key 1 step left"),
    ):
        assert turns.side_of(prompt("red ball", *places)) == side


def test_drawn_scenes_lie_on_both_sides_about_equally_often():
    sides = [turns.side_of(each) for each in random_prompts(generator(0, "scenes with a side"), turns.PROMPTS)]
    assert sides.count("left") + sides.count("right") > turns.PROMPTS / 3
    assert 0.4 < sides.count("left") / (sides.count("left") + sides.count("right")) < 0.6
