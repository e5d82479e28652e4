"""What a view says is what the original said, and what its rules say."""

import numpy as np
import pytest
from golden_facts import facts
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from groundlab.core.errors import GroundlabError
from groundlab.worlds import text
from groundlab.worlds.codes import COLOURS, DOOR, DOOR_STATES, TYPES, WALL
from groundlab.worlds.text import GLAM, KNOWLEDGE, Wording, describe, describe_batch, joined

CASES = {case["id"]: case for case in facts("babyai_text")["cases"]}
KNOWLEDGE_STATES = facts("background_knowledge")["minigrid"]["minigrid_synthetic_captions"]
CELL = st.tuples(st.integers(0, 10), st.integers(0, 5), st.integers(0, 2))
# Mostly empty views: in a view of random cells no ray is ever free.
VIEWS = arrays.arrays(
    np.dtype("u1,u1,u1"), (7, 7), elements=CELL, fill=st.just((1, 0, 0))
).map(lambda view: view.view(np.uint8).reshape(7, 7, 3))  # fmt: skip


def empty_view(*cells: tuple[int, int, int, int, int]) -> np.ndarray:
    """A view of empty cells but for (column, row, type, colour, state)."""
    view = np.zeros((7, 7, 3), np.uint8)
    view[:, :, 0] = 1
    for x, y, *codes in cells:
        view[x, y] = codes
    return view


def english_by_the_rules(view: np.ndarray) -> list[str]:
    """The rules of the captioner, one sentence at a time, in another way than the code under test."""

    def steps(n: int, where: str) -> str:
        return f"{n} step{'s' * (n > 1)} {where}"

    rays = {"forward": view[3, 5::-1], "left": view[2::-1, 6], "right": view[4:, 6]}
    hand = view[3, 6]
    sentences = [f"You carry a {COLOURS[hand[1]]} {TYPES[hand[0]]}"] if hand[0] > 2 else []
    for where, ray in rays.items():
        first = next((n for n, cell in enumerate(ray, 1) if cell[0] > 1), None)
        if first and ray[first - 1][0] == WALL:
            sentences.append(f"You see a wall {steps(first, where)}")
    for x, y in np.ndindex(7, 7):
        kind, colour, state = (int(code) for code in view[x, y])
        if kind > 2 and (x, y) != (3, 6):
            aside = steps(abs(x - 3), "left" if x < 3 else "right")
            way = [aside] * (x != 3) + [steps(6 - y, "forward")] * (y < 6)
            door = f"{DOOR_STATES[state]} " if kind == DOOR else ""
            sentences.append(f"You see a {door}{COLOURS[colour]} {TYPES[kind]} {' and '.join(way)}")
    return sentences


def test_every_recorded_state_is_described_as_the_original_did():
    states = [(case["language"], step) for case in CASES.values() for step in case["steps"]]
    assert len(states) == 543
    assert sum(language == "french" for language, _ in states) > 0
    for language, step in states:
        thing = step["carrying"]
        hand = (thing["type"], thing["color"]) if thing else None
        assert describe(np.array(step["image"], np.uint8), hand, language) == step["descriptions"]
    for language in text.LANGUAGES:
        steps = [step for spoken, step in states if spoken == language]
        images = np.array([step["image"] for step in steps], np.uint8)
        assert describe_batch(images, language) == [step["descriptions"] for step in steps]


def test_every_recorded_view_of_the_knowledge_paper_is_one_line():
    assert {state["description"] for state in KNOWLEDGE_STATES} >= {"You see nothing in front."}
    for state in KNOWLEDGE_STATES:
        carrying = (state["carrying"][1], state["carrying"][0]) if state["carrying"] else None
        assert joined(describe(np.array(state["image"]), carrying, wording=KNOWLEDGE)) == state["description"]


def test_the_article_before_open_is_a_unless_corrected():
    image = np.array(CASES["c-door-open-ahead1"]["steps"][0]["image"], np.uint8)
    assert "You see a open red door 1 step forward" in describe(image, None)
    corrected = describe(image, None, wording=Wording(article="correct"))
    assert corrected == [line.replace("a open", "an open") for line in describe(image, None)]
    closed = empty_view((3, 5, DOOR, 0, 1))
    assert describe(closed, None, wording=Wording(article="correct")) == ["You see a closed red door 1 step forward"]
    opened = empty_view((3, 5, DOOR, 0, 0))
    said = describe(opened, None, "french", Wording(article="correct"))
    assert said == ["Tu vois une porte rouge ouverte 1 pas devant"]


@pytest.mark.parametrize("thing", [(6, 0, 0), (DOOR, 0, 0), (DOOR, 0, 2)])
def test_what_stands_before_a_wall_hides_it_unless_walls_are_always_named(thing):
    cells = [(3, 0), (0, 6), (6, 6)]
    view = empty_view(*((x, y, 2, 5, 0) for x, y in cells), (3, 4, *thing), (2, 6, *thing), (5, 6, *thing))
    walls = ["You see a wall 6 steps forward", "You see a wall 3 steps left", "You see a wall 3 steps right"]
    original = describe(view, None)
    assert len(original) == 3 and not any("wall" in line for line in original)
    assert describe(view, None, wording=Wording(walls="always")) == walls + original


def test_only_the_first_wall_of_a_ray_is_named():
    view = empty_view((3, 1, 2, 5, 0), (3, 3, 2, 5, 0), (1, 6, 2, 5, 0), (0, 6, 2, 5, 0))
    for wording in (GLAM, Wording(walls="always")):
        walls = ["You see a wall 3 steps forward", "You see a wall 2 steps left"]
        assert describe(view, None, wording=wording) == walls


def test_a_french_hand_speaks_english_unless_corrected():
    assert describe(empty_view(), ("ball", "blue"), "french") == ["Tu portes une ball blue"]
    correct = Wording(french="correct")
    assert describe(empty_view(), ("ball", "blue"), "french", correct) == ["Tu portes une balle bleue"]
    assert describe(empty_view(), ("ball", "blue"), wording=correct) == ["You carry a blue ball"]


def test_the_hand_is_what_the_caller_says_for_one_view_and_what_the_image_shows_for_many():
    view = empty_view((3, 6, 5, 4, 0))
    assert describe(view, None) == []
    assert describe(view, ("box", "grey")) == ["You carry a grey box"]
    assert describe_batch(view[None]) == [["You carry a yellow key"]]
    assert view[3, 6].tolist() == [5, 4, 0]


@settings(max_examples=300, deadline=None)
@given(views=st.lists(VIEWS, max_size=5))
def test_any_views_are_described_by_the_rules_alone_and_together(views):
    batch = np.array(views, np.uint8).reshape(-1, 7, 7, 3)
    expected = [english_by_the_rules(view) for view in batch]
    assert describe_batch(batch) == expected
    for view, sentences in zip(batch, expected, strict=True):
        hand = view[3, 6]
        carrying = (TYPES[hand[0]], COLOURS[hand[1]]) if hand[0] > 2 else None
        assert describe(view, carrying) == sentences


@pytest.mark.parametrize("place", [(0, 0), (3, 5), (2, 6), (4, 6), (6, 3)])
def test_every_type_colour_and_state_is_described_everywhere(place):
    codes = list(np.ndindex(len(TYPES), len(COLOURS), len(DOOR_STATES)))
    batch = np.stack([empty_view((*place, *code)) for code in codes])
    assert describe_batch(batch) == [english_by_the_rules(view) for view in batch]


def test_every_type_colour_and_state_has_its_french():
    things = {3: "sol", 5: "clef", 6: "balle", 7: "boîte", 8: "but", 9: "lave", 10: "agent"}
    colours = ("rouge", "verte", "bleue", "violette", "jaune", "grise")
    for hue, colour in enumerate(colours):
        for kind, thing in things.items():
            said = describe(empty_view((3, 4, kind, hue, 0)), None, "french")
            assert said == [f"Tu vois une {thing} {colour} 2 pas devant"]
        for state, word in enumerate(("ouverte", "fermée", "fermée à clef")):
            said = describe(empty_view((2, 5, DOOR, hue, state)), None, "french")
            assert said == [f"Tu vois une porte {colour} {word} 1 pas à gauche et 1 pas devant"]
    walls = empty_view((3, 5, 2, 5, 0), (0, 6, 2, 5, 0), (5, 6, 2, 5, 0))
    places = ("1 pas devant", "3 pas à gauche", "2 pas à droite")
    assert describe(walls, None, "french") == [f"Tu vois un mur à {place}" for place in places]


def test_memory_order_layout_and_integer_type_of_the_views_do_not_matter():
    views = np.array([step["image"] for step in CASES["train-open-bot-1"]["steps"]])
    expected = describe_batch(views.astype(np.uint8))
    assert describe_batch(views) == expected
    assert describe_batch(np.asfortranarray(views.astype(np.uint8))) == expected


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: describe(empty_view(), None, "german"),
        lambda: describe(empty_view(), ("bal", "blue")),
        lambda: describe(empty_view(), ("ball", "pink")),
        lambda: Wording(walls="alwys"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_an_unknown_name_is_answered_by_the_known_ones(mistake):
    with pytest.raises(GroundlabError, match=r"did you mean|known: "):
        mistake()


@pytest.mark.parametrize(
    "image",
    [
        empty_view().astype(np.float32) / 10,
        np.ones((3, 7, 7), np.uint8),
        np.ones((10, 10, 4), np.uint8),
        empty_view((0, 0, 11, 0, 0)),
        empty_view((0, 0, 6, 6, 0)),
        empty_view((0, 0, DOOR, 0, 3)),
    ],
)
def test_an_image_that_is_no_view_is_refused(image):
    with pytest.raises(GroundlabError, match="give"):
        describe(image, None)
    with pytest.raises(GroundlabError, match="give"):
        describe_batch(np.stack([image, image]))
