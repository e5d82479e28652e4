"""Observation to text: the one line that the planner reads, and the coordinates that its reply may name.

Each world has its own wording, oddities included (docs/papers/mediator.md#s3): the planner's examples match them to the
letter.
"""

import numpy as np

from groundlab.papers.mediator.search import find_objects
from groundlab.worlds.codes import BOX, COLOURS, DOOR, KEY, TYPES

Coordinates = dict[str, tuple[int, int]]

_BOX_WORLDS = ("KeyInBox", "RandomBoxKey")


class Translator:
    """Describes memory images [10, 10, 4] of one world, remembering where each named object was last seen.

    A new episode needs a new translator: the original's coordinates outlive episodes (Q4), ours do not.
    """

    def __init__(self, world: str, carry_inside: bool = False):
        """`carry_inside` writes KeyInBox's carried key inside the braces, as its own examples do (Q17)."""
        self.world, self._carry_inside = world, carry_inside
        self.coordinates: Coordinates = {}

    def describe(self, image: np.ndarray) -> str:
        """The text of an observation; updates `coordinates`."""
        listed, carried = self._read(image)
        seen = ", ".join(f"observed {self._article(name)}" for name in listed) or "observed nothing"
        carry = f", carry {carried}" if carried else ""
        if self.world == "ColoredDoorKey":
            return f"Q: [{seen}{carry}]"
        if self.world == "KeyInBox" and not self._carry_inside:
            return f"observation: {{{seen}}}, {carry}"
        return f"observation: {{{seen}{carry}}} "

    def _read(self, image: np.ndarray) -> tuple[list[str], str | None]:
        """Names of the objects in sight, in the order of mention, and of the key in hand."""
        listed, carried = [], None
        for kind, colour, x, y, here in find_objects(image).tolist():
            name = self._name(kind, colour)
            if kind == BOX and self.world not in _BOX_WORLDS:
                continue
            if kind == KEY and here:
                carried = name
                continue
            listed.append(name)
            self.coordinates[name] = (x, y)
        return listed, carried

    def _name(self, kind: int, colour: int) -> str:
        return f"{COLOURS[colour]} {TYPES[kind]}" if self.world == "ColoredDoorKey" else TYPES[kind]

    def _article(self, name: str) -> str:
        return name if self.world == "ColoredDoorKey" else f"a {name}"


def has_box(world: str) -> bool:
    """Whether boxes exist, for translator and parser, in this world."""
    return world in _BOX_WORLDS


OBJECT_CODES = {"key": KEY, "door": DOOR, "box": BOX}
