"""What a view says in words: BabyAI-Text's captioner (Carta et al. 2023; docs/papers/glam-method.md#env-1), English and
French.

    describe(image, ("ball", "blue"))     ["You carry a blue ball", "You see a wall 2 steps left", ...]
    describe_batch(images, "french")      one such list a view

The order is: what the agent carries, the first wall ahead, to the left, to the right, then every object, by columns
from left to right and from far to near. A compiled scan turns views into sentence numbers; the sentences themselves
are written once and looked up, and the lists of the latest views are remembered.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import Literal, NamedTuple

import numpy as np

from groundlab.core.compiled import compiled, inlined
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.worlds.codes import AGENT, COLOURS, DOOR, DOOR_STATES, EMPTY, FLOOR, TYPES, WALL

VIEW = 7  # cells a side
REMEMBERED = 32_768  # views a language and wording; some 15 MB
_X, _Y = VIEW // 2, VIEW - 1  # the agent's own cell, which shows what it carries
_THINGS = TYPES[FLOOR:]  # what is described: all but unseen, empty and wall
_NOUNS, _HUES, _STATES = len(_THINGS), len(COLOURS), len(DOOR_STATES)

# Sentence numbers: _NOUNS * _HUES for the hand, then (direction, distance) of walls, then (x, y, thing, colour, state).
_FIRST_WALL = _NOUNS * _HUES
_FIRST_OBJECT = _FIRST_WALL + 3 * VIEW
_LONGEST = 1 + 3 + VIEW * VIEW - 1
_VIEW_BYTES = VIEW * VIEW * 3


@dataclass(frozen=True)
class Wording:
    """Where the original's text may be left: its quirks (docs/papers/glam-reference.md#env-9), and one later
    addition."""

    # docs/papers/glam-reference.md#env-q1: "a open red door" | "an open red door"
    article: Literal["original", "correct"] = "original"
    # docs/papers/glam-reference.md#env-q8: an object hides the wall behind it | it does not
    walls: Literal["original", "always"] = "original"
    # docs/papers/glam-reference.md#env-q2: "Tu portes une ball blue" | "une balle bleue"
    french: Literal["original", "correct"] = "original"
    nothing: bool = False  # say so when there is nothing to say, instead of an empty list

    def __post_init__(self):  # type: () -> None
        known = {"article": ("original", "correct"), "walls": ("original", "always"), "french": ("original", "correct")}
        for field, values in known.items():
            if getattr(self, field) not in values:
                raise unknown_name(f"wording of {field}", str(getattr(self, field)), values)


GLAM = Wording()
KNOWLEDGE = Wording(nothing=True)  # the background-knowledge paper's captioner (docs/papers/knowledge-method.md#s1-1)


class _Language(NamedTuple):
    """The words and sentence patterns of one language."""

    things: tuple[str, ...]
    colours: tuple[str, ...]
    states: tuple[str, ...]
    steps: tuple[str, str]  # singular, plural
    directions: tuple[str, str, str]  # forward, left, right
    conjunction: str
    carry: str
    wall: str
    thing: str
    door: str
    nothing: str


_LANGUAGES = {
    "english": _Language(
        things=_THINGS,
        colours=COLOURS,
        states=DOOR_STATES,
        steps=("step", "steps"),
        directions=("forward", "left", "right"),
        conjunction=" and ",
        carry="You carry a {colour} {thing}",
        wall="You see a wall {where}",
        thing="You see a {colour} {thing} {where}",
        door="You see {article} {state} {colour} {thing} {where}",
        nothing="You see nothing in front.",
    ),
    "french": _Language(
        things=("sol", "porte", "clef", "balle", "boîte", "but", "lave", "agent"),
        colours=("rouge", "verte", "bleue", "violette", "jaune", "grise"),
        states=("ouverte", "fermée", "fermée à clef"),
        steps=("pas", "pas"),
        directions=("devant", "à gauche", "à droite"),
        conjunction=" et ",
        carry="Tu portes une {thing} {colour}",
        wall="Tu vois un mur à {where}",
        thing="Tu vois une {thing} {colour} {where}",
        door="Tu vois une {thing} {colour} {state} {where}",
        nothing="Tu ne vois rien devant.",
    ),
}
LANGUAGES = tuple(_LANGUAGES)
_FORWARD, _LEFT, _RIGHT = range(3)


def describe(
    image: np.ndarray,
    carrying: tuple[str, str] | None,
    language: str = "english",
    wording: Wording = GLAM,
) -> list[str]:
    """The sentences about one view: uint8 [7, 7, 3], indexed [column from the left, row from afar, type|colour|state].

    carrying: (type, colour) by name, or None; what the image shows in the agent's own cell (3, 6) is not read.
    Raises GroundlabError for an unknown language, type or colour, and for an image that is no such view.
    """
    view = np.array(image)
    _check(view[None])
    view[_X, _Y] = (EMPTY, 0, 0) if carrying is None else _cell_of(*carrying)
    return describe_batch(view[None], language, wording)[0]


def describe_batch(images: np.ndarray, language: str = "english", wording: Wording = GLAM) -> list[list[str]]:
    """The sentences about B views [B, 7, 7, 3]; what each agent carries is read from its own cell (3, 6).

    Raises GroundlabError as `describe` does. The lists are the caller's to change.
    """
    images = np.asarray(images)
    _check(images)
    return _captioner(language, wording).captions(np.ascontiguousarray(images, np.uint8))


def caption_views(images: np.ndarray, language: str = "english", wording: Wording = GLAM) -> list[tuple[str, ...]]:
    """As `describe_batch`, for callers that remember views themselves: nothing is kept, and nothing looked up."""
    _check(images)
    return _captioner(language, wording).scan(np.ascontiguousarray(images, np.uint8))


def joined(sentences: list[str]) -> str:
    """One line of text, as the background-knowledge paper shows an observation; there is no final period."""
    return ". ".join(sentences)


def _check(images: np.ndarray) -> None:
    if images.shape[1:] != (VIEW, VIEW, 3) or images.dtype.kind not in "ui":
        given = f"{images.dtype} {list(images.shape)}"
        raise GroundlabError(f"{given} holds no views; give MiniGrid's codes, uint8 {VIEW} x {VIEW} x 3 a view")


def _cell_of(thing: str, colour: str) -> tuple[int, int, int]:
    if thing not in _THINGS:
        raise unknown_name("type", thing, _THINGS)
    if colour not in COLOURS:
        raise unknown_name("colour", colour, COLOURS)
    return TYPES.index(thing), COLOURS.index(colour), 0


@inlined
def _wall_distance(image, step_x, step_y, past_objects):
    """Steps to the first wall on the ray from the agent, 0 for none; objects end the ray unless `past_objects`."""
    for distance in range(1, VIEW):
        x, y = _X + distance * step_x, _Y + distance * step_y
        if x < 0 or x >= VIEW or y < 0:
            return 0
        if image[x, y, 0] == WALL:
            return distance
        if image[x, y, 0] > WALL and not past_objects:
            return 0
    return 0


@inlined
def _is_code(cell):
    return cell[0] <= AGENT and (cell[0] <= WALL or cell[1] < _HUES) and (cell[0] != DOOR or cell[2] < _STATES)


@inlined
def _write_sentences(image, past_objects, numbers, count):
    """Write the sentence numbers of one view from place `count` on; returns the place after the last, -1 if broken."""
    hand = image[_X, _Y]
    if hand[0] > WALL and _is_code(hand):
        numbers[count] = (hand[0] - FLOOR) * _HUES + hand[1]
        count += 1
    for direction in range(3):
        step_x, step_y = (0, -1) if direction == _FORWARD else (-1, 0) if direction == _LEFT else (1, 0)
        distance = _wall_distance(image, step_x, step_y, past_objects)
        if distance > 0:
            numbers[count] = _FIRST_WALL + direction * VIEW + distance
            count += 1
    for x in range(VIEW):
        for y in range(VIEW):
            cell = image[x, y]
            if not _is_code(cell):
                return -1
            if cell[0] > WALL and (x != _X or y != _Y):
                state = cell[2] if cell[0] == DOOR else 0
                thing = ((x * VIEW + y) * _NOUNS + cell[0] - FLOOR) * _HUES + cell[1]
                numbers[count] = _FIRST_OBJECT + thing * _STATES + state
                count += 1
    return count


@compiled
def _scan(images, past_objects):
    """(sentence numbers of all views in a row, where each view's end [B]); at a broken view it stops with number -1."""
    numbers = np.empty(len(images) * _LONGEST + 1, np.int64)
    ends = np.empty(len(images), np.int64)
    count = 0
    for b in range(len(images)):
        end = _write_sentences(images[b], past_objects, numbers, count)
        if end < 0:
            numbers[count] = -1
            return numbers[: count + 1], ends[: b + 1]
        ends[b] = count = end
    return numbers[:count], ends


def _steps(words: _Language, count: int, direction: int) -> str:
    return f"{count} {words.steps[count > 1]} {words.directions[direction]}"


def _all_sentences(words: _Language, hand: _Language, wording: Wording) -> np.ndarray:
    """Every sentence there is, by number; `hand` has the words for what is carried."""
    table = [words.carry.format(thing=thing, colour=colour) for thing, colour in product(hand.things, hand.colours)]
    table += [words.wall.format(where=_steps(words, n, direction)) for direction in range(3) for n in range(VIEW)]
    for x, y in product(range(VIEW), range(VIEW)):
        # the way from the agent to a cell of the view: sideways first, then ahead
        sideways, ahead = x - _X, _Y - y
        parts = [_steps(words, abs(sideways), _LEFT if sideways < 0 else _RIGHT)] if sideways else []
        parts += [_steps(words, ahead, _FORWARD)] if ahead else []
        where = words.conjunction.join(parts)
        for (kind, thing), colour, state in product(enumerate(words.things, FLOOR), words.colours, words.states):
            article = "an" if state == "open" and wording.article == "correct" else "a"
            pattern = words.door if kind == DOOR else words.thing
            table.append(pattern.format(thing=thing, colour=colour, state=state, where=where, article=article))
    return np.array(table, dtype=object)


class _Captioner:
    """One language in one wording: its sentences by number, and what it said of the latest views."""

    def __init__(self, words: _Language, hand: _Language, wording: Wording):
        self._sentences = _all_sentences(words, hand, wording)
        self._past_objects = wording.walls == "always"
        self._empty = (words.nothing,) if wording.nothing else ()
        self._known: dict[bytes, tuple[str, ...]] = {}

    def captions(self, images: np.ndarray) -> list[list[str]]:
        """The sentences of each view [B, 7, 7, 3]; views that are not remembered are scanned together."""
        raw = images.tobytes()
        keys = [raw[start : start + _VIEW_BYTES] for start in range(0, len(raw), _VIEW_BYTES)]
        found = [self._known.get(key) for key in keys]
        new = [b for b, sentences in enumerate(found) if sentences is None]
        for b, sentences in zip(new, self.scan(images[new]), strict=True):
            found[b] = self._known[keys[b]] = sentences
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return [list(sentences) for sentences in found if sentences is not None]

    def scan(self, images: np.ndarray) -> list[tuple[str, ...]]:
        """The sentences of each view [B, 7, 7, 3], of none of which anything is remembered."""
        numbers, ends = _scan(images, self._past_objects)
        if numbers.size and numbers[-1] < 0:
            raise GroundlabError(
                "a view holds a type, colour or state that MiniGrid does not know; give it as the world made it"
            )
        flat, bounds = tuple(self._sentences[numbers]), [0, *ends.tolist()]
        return [flat[start:end] or self._empty for start, end in pairwise(bounds)]


@lru_cache(maxsize=16)
def _captioner(language: str, wording: Wording) -> _Captioner:
    if language not in _LANGUAGES:
        raise unknown_name("language", language, _LANGUAGES)
    words = _LANGUAGES[language]
    translates_hand = language == "english" or wording.french == "correct"
    return _Captioner(words, words if translates_hand else _LANGUAGES["english"], wording)
