"""What the player sees, in the knowledge paper's words: a pure function of the view in codes.

Strings are the original's to the letter: "Your have", no space before "You face", and one sentence for all that goes
wrong near the border (docs/papers/knowledge.md#s1-2 and #q23).
"""

from functools import lru_cache

import numpy as np

from groundlab.worlds.crafter.picture import ASLEEP, DEAD, FACING_X, FACING_Y, FIRST_ITEM, VIEW_CELLS
from groundlab.worlds.crafter.rules import ITEMS, NAMES, OUTSIDE, PLAYER, VIEW_HEIGHT, VIEW_WIDTH, VITALS

_CENTRE = np.array([VIEW_WIDTH // 2, VIEW_HEIGHT // 2])
_STEPS = np.abs(np.moveaxis(np.indices((VIEW_WIDTH, VIEW_HEIGHT)), 0, -1) - _CENTRE).sum(-1)  # [9, 7], to each cell
_LOST = "Error, you are out of the map."
_ASLEEP = "You are sleeping, and will not be able take actions until energy is full."
_REMEMBERED = 100_000  # captions; a view repeats often


def describe(codes: np.ndarray) -> str:
    """The caption of a view in codes, uint8 [83] (`picture.draw_codes`)."""
    return _describe(codes.tobytes())


@lru_cache(_REMEMBERED)
def _describe(data: bytes) -> str:
    codes = np.frombuffer(data, np.uint8)
    cells = codes[:VIEW_CELLS].reshape(VIEW_WIDTH, VIEW_HEIGHT)
    faced = cells[tuple(_CENTRE + codes[[FACING_X, FACING_Y]] - 1)]
    # the original cuts the map with negative indices here, and tells of its own failure
    if cells[0, _CENTRE[1]] == OUTSIDE or cells[_CENTRE[0], 0] == OUTSIDE or faced == OUTSIDE:
        return _LOST
    state = _ASLEEP if codes[ASLEEP] else "You died." if codes[DEAD] else ""
    return f"{state} {_surroundings(cells)}You face {NAMES[faced]} at your front. {_belongings(codes)}".strip()


def _surroundings(cells: np.ndarray) -> str:
    told = [_nearest(cells, kind) for kind in np.unique(cells).tolist() if kind not in (OUTSIDE, PLAYER)]
    return f"You see: {', '.join(told)}." if told else "You see nothing away from you."


def _nearest(cells: np.ndarray, kind: int) -> str:
    """Of several equally near, the first by column, then by line."""
    x, y = np.unravel_index(np.argmin(np.where(cells == kind, _STEPS, np.inf)), cells.shape)
    ways = [
        "up" if y < _CENTRE[1] else "down" if y > _CENTRE[1] else "",
        "left" if x < _CENTRE[0] else "right" if x > _CENTRE[0] else "",
    ]
    return f"{NAMES[kind]} at {_STEPS[x, y]} steps to your {'-'.join(filter(None, ways))}"


def _belongings(codes: np.ndarray) -> str:
    numbers = dict(zip(ITEMS, codes[FIRST_ITEM:].tolist(), strict=True))
    vitals = ", ".join(f"{name}: {numbers.pop(name)}/9" for name in VITALS)
    owned = ", ".join(f"{number} {name}" for name, number in numbers.items() if number)
    return f"Your status: {vitals}. " + (f"Your have {owned}" if owned else "You have nothing in your inventory.")
