"""The words of the corpus, and random scenes: things at relative positions in a walled room, and sentences of them.

Core words are those of the grid worlds; rare ones widen the vocabulary. The invented words of GLAM's tests
(docs/papers/glam-method.md#env-4-4) are reserved: they appear in no sample, so those tests stay meaningful.

A scene is what an agent sees from one cell: `right` cells to the right (negative: left) and `ahead` cells forward.
Sentences follow the captions of the worlds (docs/papers/glam-method.md#env-1-3 to #env-1-6: walls on the three rays
first, then things from left to right, farthest first), but no world is imported: positions, room and things are drawn
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.random import Generator

CORE_COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
RARE_COLOURS = ("orange", "pink", "brown", "white", "black")
CORE_THINGS = ("key", "ball", "box")
RARE_THINGS = ("door", "chair", "table", "car", "lamp", "cup")

SYNONYMS = {
    "red": ("vermilion", "scarlet"),
    "green": ("jade", "emerald"),
    "blue": ("cyan", "azure"),
    "purple": ("violet", "mauve"),
    "yellow": ("golden", "amber"),
    "grey": ("silver", "gray"),
    "box": ("crate", "chest"),
    "ball": ("sphere", "orb"),
    "left": ("leftward",),
    "right": ("rightward",),
    "forward": ("ahead", "in front"),
    "turn left": ("rotate left", "shift left"),
    "turn right": ("rotate right", "shift right"),
    "go forward": ("move ahead", "go ahead", "walk forward"),
    "pick up": ("take", "grab"),
    "drop": ("release", "put down"),
    "toggle": ("switch",),
    "go to": ("walk to", "reach"),
    "see": ("notice", "observe"),
}
FRENCH = {
    "red": "rouge",
    "green": "verte",
    "blue": "bleue",
    "purple": "violette",
    "yellow": "jaune",
    "grey": "grise",
    "key": "clef",
    "ball": "balle",
    "box": "boîte",
    "door": "porte",
    "wall": "mur",
    "left": "gauche",
    "right": "droite",
    "forward": "devant",
    "step": "pas",
    "turn left": "tourner à gauche",
    "turn right": "tourner à droite",
    "go forward": "aller tout droit",
    "pick up": "attraper",
    "drop": "lâcher",
    "toggle": "basculer",
    "go to": "aller à",
    "open": "ouverte",
    "closed": "fermée",
}
RESERVED = frozenset(["dax", "xolo", "afze", "faze", "jatu", "croh", "vurst", "gakul", "sil"])

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
"""GLAM's six actions."""

ACTION_PHRASES = frozenset(phrase for action in ACTIONS for phrase in (action, *SYNONYMS[action], FRENCH[action])) | {
    "turn",
    "sleep",
    "do nothing",
    "think",
    "eat",
    "dance",
    "cut",
    "done",
}
"""Every way in which the project says an action: what no target may be beside a goal and a scene."""

_ONSETS = ("b", "br", "d", "f", "g", "gl", "k", "l", "m", "n", "p", "pl", "r", "s", "t", "tr", "v", "w", "z")
_VOWELS = ("a", "e", "i", "o", "u", "oo", "ai")
_CODAS = ("", "", "k", "l", "m", "n", "p", "r", "t", "x")


def one_of(rng: Generator, options):
    """One of `options` with equal chances (much cheaper than `rng.choice` on short tuples)."""
    return options[int(rng.random() * len(options))]


def any_name(rng: Generator) -> str:
    """The name of a thing, of any core colour and kind."""
    return f"{one_of(rng, CORE_COLOURS)} {one_of(rng, CORE_THINGS)}"


def invented(rng: Generator) -> str:
    """A word of one to three syllables that means nothing; never a reserved one."""
    syllables = 1 + int(rng.random() * 3)
    word = "".join(one_of(rng, _ONSETS) + one_of(rng, _VOWELS) for _ in range(syllables)) + one_of(rng, _CODAS)
    return invented(rng) if word in RESERVED else word


def several_invented(rng: Generator, count: int) -> tuple[str, ...]:
    """`count` different invented words."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[invented(rng)] = None
    return tuple(found)


SIGHT_AHEAD, SIGHT_ASIDE = 6, 3  # cells; the partial view of the worlds


@dataclass(frozen=True)
class Thing:
    """Something in sight."""

    colour: str
    noun: str
    right: int
    ahead: int

    @property
    def name(self) -> str:
        return f"{self.colour} {self.noun}"

    @property
    def side(self) -> str:
        """The one word that says which way it is."""
        return "forward" if self.right == 0 else "left" if self.right < 0 else "right"


@dataclass(frozen=True)
class Scene:
    """Things in view, and the distance in cells to the wall on each ray (0: none in sight)."""

    things: tuple[Thing, ...]
    walls: tuple[int, int, int]  # ahead, left, right


@dataclass(frozen=True)
class Room:
    """The free cells around an agent in a walled room: ahead, to the left and to the right."""

    ahead: int
    left: int
    right: int

    @classmethod
    def draw(cls, rng: Generator) -> "Room":
        """An agent anywhere in a room of six by six, facing any wall."""
        ahead, left = int(rng.random() * 6), int(rng.random() * 6)
        return cls(ahead, left, 5 - left)

    def _aside(self) -> range:
        return range(-min(SIGHT_ASIDE, self.left), min(SIGHT_ASIDE, self.right) + 1)

    def cells(self) -> list[tuple[int, int]]:
        """The cells in sight but the agent's own, as (right, ahead)."""
        return [(right, ahead) for right in self._aside() for ahead in range(self.ahead + 1) if right or ahead]

    def wall_cells(self) -> list[tuple[int, int]]:
        """The cells of walls in sight, which can hold a door."""
        found = [(right, self.ahead + 1) for right in self._aside()] if self.ahead < SIGHT_AHEAD else []
        sides = [side for side in (-self.left - 1, self.right + 1) if abs(side) <= SIGHT_ASIDE]
        return found + [(side, ahead) for side in sides for ahead in range(self.ahead + 1)]

    def walls(self, things: Sequence[Thing]) -> tuple[int, int, int]:
        """Distances to the walls in sight: within reach of the eye, and with nothing on the ray."""
        blocked = {thing.side for thing in things if thing.right == 0 or thing.ahead == 0}
        reach = (
            ("forward", self.ahead, SIGHT_AHEAD),
            ("left", self.left, SIGHT_ASIDE),
            ("right", self.right, SIGHT_ASIDE),
        )
        near = [free + 1 if free < sight and side not in blocked else 0 for side, free, sight in reach]
        return near[0], near[1], near[2]


@dataclass(frozen=True)
class Vocabulary:
    """The colours and nouns that a scene draws from."""

    colours: Sequence[str] = CORE_COLOURS
    nouns: Sequence[str] = CORE_THINGS


def steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def place(right: int, ahead: int) -> str:
    """Where something is, sideways first: "1 step left and 2 steps forward"."""
    parts = [f"{steps(abs(right))} {'left' if right < 0 else 'right'}"] if right else []
    return " and ".join(parts + ([f"{steps(ahead)} forward"] if ahead else []))


def place_french(right: int, ahead: int) -> str:
    """The same in French: "1 pas à gauche et 2 pas devant"."""
    parts = [f"{abs(right)} pas à {'gauche' if right < 0 else 'droite'}"] if right else []
    return " et ".join(parts + ([f"{ahead} pas devant"] if ahead else []))


def _similar(rng: Generator, target: tuple[str, str], vocabulary: Vocabulary) -> tuple[str, str]:
    """Another kind that shares the target's colour or its noun: the distractors that make binding hard."""
    colour, noun = target
    if rng.random() < 0.5:
        return colour, one_of(rng, [other for other in vocabulary.nouns if other != noun])
    return one_of(rng, [other for other in vocabulary.colours if other != colour]), noun


def draw(rng: Generator, count: int, vocabulary: Vocabulary, similar: float) -> tuple[Scene, Thing]:
    """A scene of up to `count` things and one of them, the only one of its kind.

    similar: the share of the other things that share the colour or the noun of that one.
    """
    room = Room.draw(rng)
    cells = room.cells()
    order = rng.permutation(len(cells))[:count]
    kinds = [(one_of(rng, vocabulary.colours), one_of(rng, vocabulary.nouns))]
    while len(kinds) < len(order):
        kind = (one_of(rng, vocabulary.colours), one_of(rng, vocabulary.nouns))
        kind = _similar(rng, kinds[0], vocabulary) if rng.random() < similar else kind
        if kind != kinds[0]:
            kinds.append(kind)
    things = [Thing(*kind, *cells[cell]) for kind, cell in zip(kinds, order, strict=True)]
    things_in_order = tuple(sorted(things, key=lambda thing: (thing.right, -thing.ahead)))
    return Scene(things_in_order, room.walls(things)), things[0]


OPENINGS = ("you see a", "there is a", "a", "you notice a", "you observe a")


def captions(scene: Scene, opening: str = "You see a") -> list[str]:
    """The sentences of a scene; `opening` other than the worlds' own gives a paraphrase."""
    sides = zip(scene.walls, ("forward", "left", "right"), strict=True)
    told = [f"{opening} wall {steps(distance)} {side}" for distance, side in sides if distance]
    return told + [f"{opening} {thing.name} {place(thing.right, thing.ahead)}" for thing in scene.things]


def captions_french(scene: Scene) -> list[str]:
    """The sentences of a scene in French; its words must be in `FRENCH`."""
    sides = zip(scene.walls, ("devant", "à gauche", "à droite"), strict=True)
    told = [f"Tu vois un mur à {distance} pas {side}" for distance, side in sides if distance]
    return told + [
        f"Tu vois une {name_french(thing)} {place_french(thing.right, thing.ahead)}" for thing in scene.things
    ]


def name_french(thing: Thing) -> str:
    return f"{FRENCH[thing.noun]} {FRENCH[thing.colour]}"
