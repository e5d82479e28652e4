"""The words of the corpus: colours, things, their synonyms and French names, and words that nobody knows.

Core words are those of the grid worlds; rare ones widen the vocabulary. The invented words of GLAM's tests
(docs/papers/glam.md#env-4-4) are reserved: they appear in no sample, so those tests stay meaningful.
"""

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
