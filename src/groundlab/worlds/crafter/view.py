"""What the player sees: the package's picture of 64 x 64 pixels, the view in codes, and its caption.

Every cell is one of few pictures, so all of them are drawn once, by the package's own code; a picture is then copied
together, and darkened with the package's arithmetic. By night it contains noise from the world's own stream, so
drawing is part of a step. Source: crafter 1.8.3, `engine.py`.

A caption is a pure function of the view in codes. Its strings are the original's to the letter: "Your have", no space
before "You face", and one sentence for all that goes wrong near the border (docs/papers/knowledge-method.md#s1-2 and
docs/papers/knowledge-reference.md#q23).
"""

from functools import cache, lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from crafter import constants, engine
from PIL import Image

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.crafter.creatures import RIPE
from groundlab.worlds.crafter.mersenne import uniform
from groundlab.worlds.crafter.rules import (
    ARROW,
    COW,
    HEALTH,
    ITEMS,
    MATERIALS,
    NAMES,
    OUTSIDE,
    PLANT,
    PLAYER,
    SIZE,
    VIEW_HEIGHT,
    VIEW_WIDTH,
    VITALS,
)
from groundlab.worlds.crafter.state import CLOCK, KIND, SLEEPING, WAY_X, WAY_Y, X, Y, inside, material_at, occupant_at

PIXELS = 64
UNIT = 7  # pixels of a cell
WIDE, HIGH = VIEW_WIDTH * UNIT, VIEW_HEIGHT * UNIT
_BEYOND = 127  # the grey of what lies outside the map
_WAYS = ("left", "right", "up", "down")
_TEXTURES = (
    *(f"player-{way}" for way in _WAYS),
    "player-sleep",
    *("cow", "zombie", "skeleton"),
    *(f"arrow-{way}" for way in _WAYS),
    *("plant", "plant-ripe"),
)
_LAYERS = len(_TEXTURES) + 1
_ASLEEP, _COW_TEXTURE, _ARROW_TEXTURE, _PLANT_TEXTURE = (
    _TEXTURES.index(name) for name in ("player-sleep", "cow", "arrow-left", "plant")
)
# fields of a view in codes, after its cells (column by column)
VIEW_CELLS = VIEW_WIDTH * VIEW_HEIGHT
FACING_X, FACING_Y, ASLEEP, DEAD, FIRST_ITEM = range(VIEW_CELLS, VIEW_CELLS + 5)
CODES = FIRST_ITEM + len(ITEMS)


class Drawings(NamedTuple):
    """Everything that a picture is copied together from."""

    tiles: np.ndarray  # uint8 [13 * 15, 7, 7, 3]: a material, alone or under one of 14 textures, by x and y
    items: np.ndarray  # uint8 [16, 10, 7, 7, 3]: an item and how many one has
    pale: np.ndarray  # uint8 [256, 256]: from a grey, 0.4 of the way to a colour
    vignette: np.ndarray  # float64 [63, 49]: how much of the night's noise is seen where


@cache
def drawings() -> Drawings:
    """The drawings, by the package's own code and from its own textures."""
    textures = engine.Textures(constants.root / "assets")
    layers = list(product((None, *MATERIALS), (None, *_TEXTURES)))
    tiles = np.zeros((len(layers), UNIT, UNIT, 3), np.uint8)
    for tile, (material, above) in zip(tiles, layers, strict=True):
        engine._draw(tile, (0, 0), textures.get(material, (UNIT, UNIT)))
        if above:
            engine._draw_alpha(tile, (0, 0), textures.get(above, (UNIT, UNIT)))
    show = engine.ItemView(textures, [1, 1])
    items = np.stack([[show({item: number}, (UNIT, UNIT)) for number in range(10)] for item in ITEMS])
    grey, colour = (Image.fromarray(table) for table in np.indices((256, 256)).astype(np.uint8))
    view: Any = engine.LocalView(engine.World((SIZE, SIZE), [], (1, 1)), textures, [VIEW_WIDTH, VIEW_HEIGHT])
    vignette = np.ascontiguousarray(view._vignette((WIDE, HIGH, 3), 0.5))
    return Drawings(tiles, items, np.array(Image.blend(grey, colour, 0.4)), vignette)


@cache
def daylights(length: int) -> np.ndarray:
    """float64 [length + 1]: the daylight after so many steps, in the package's own arithmetic."""
    progress = [(step / 300) % 1 + 0.3 for step in range(length + 1)]
    return np.array([1 - np.abs(np.cos(np.pi * each)) ** 3 for each in progress])


@inlined
def _texture(objects, body, row):
    """Which texture shows an object, counted from 1."""
    kind = objects[row, KIND]
    x, y = objects[row, WAY_X], objects[row, WAY_Y]
    way = 0 if x < 0 else 1 if x > 0 else 2 if y < 0 else 3
    if kind == PLAYER:
        return 1 + (_ASLEEP if body[SLEEPING] else way)
    if kind == ARROW:
        return 1 + _ARROW_TEXTURE + way
    if kind == PLANT:
        return 1 + _PLANT_TEXTURE + (objects[row, CLOCK] > RIPE)
    return 1 + _COW_TEXTURE + kind - COW


@compiled_for("void(uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[:, ::1])")
def _find_tiles(materials, occupants, objects, body, found):
    """Which tile each cell [9, 7] of the view shows, a material and what is above it as one number; -1 outside."""
    for column in range(VIEW_WIDTH):
        for line in range(VIEW_HEIGHT):
            x, y = objects[0, X] + column - VIEW_WIDTH // 2, objects[0, Y] + line - VIEW_HEIGHT // 2
            row = occupant_at(occupants, x, y)
            above = _texture(objects, body, row) if row >= 0 else 0
            found[column, line] = material_at(materials, x, y) * _LAYERS + above if inside(x, y) else -1


@inlined
def _grey(red, green, blue):
    """Pillow's luminance."""
    return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16


@inlined
def _put(image, x, y, colour, seen, daylight, asleep, pale):
    """Write a pixel: its colour by day, mixed with what is seen of it by night, greyed for one who sleeps."""
    grey = _grey(seen[0], seen[1], seen[2])
    dark = 1 - daylight
    red = np.int64(daylight * colour[0] + dark * (0.5 * pale[grey, seen[0]]))
    green = np.int64(daylight * colour[1] + dark * (0.5 * pale[grey, seen[1]] + 8.0))
    blue = np.int64(daylight * colour[2] + dark * (0.5 * pale[grey, seen[2]] + 32.0))
    if asleep:
        grey = _grey(red, green, blue)
        red, green, blue = grey // 2, grey // 2, grey // 2 + 8
    image[y, x, 0], image[y, x, 1], image[y, x, 2] = red, green, blue


@inlined
def _colour(tiles, tile, x, y):
    if tile < 0:
        return _BEYOND, _BEYOND, _BEYOND
    red, green, blue = tiles[tile, x, y, 0], tiles[tile, x, y, 1], tiles[tile, x, y, 2]
    return np.int64(red), np.int64(green), np.int64(blue)


@compiled_for("void(int64[:, ::1], float64, bool_, uint8[:, :, :, ::1], uint8[:, ::1], uint8[:, :, ::1])")
def _draw_day(found, daylight, asleep, tiles, pale, image):
    """Without noise equal tiles look the same: each is lit where it is met first, and copied from there."""
    first = np.full((tiles.shape[0] + 1, 2), -1)
    for column in range(VIEW_WIDTH):
        for line in range(VIEW_HEIGHT):
            tile, left, top = found[column, line], column * UNIT, line * UNIT
            at_x, at_y = first[tile, 0], first[tile, 1]  # -1, outside, is the last row
            if at_x < 0:
                first[tile, 0], first[tile, 1] = left, top
            for y in range(UNIT):
                for x in range(UNIT):
                    if at_x < 0:
                        colour = _colour(tiles, tile, x, y)
                        _put(image, left + x, top + y, colour, colour, daylight, asleep, pale)
                    else:
                        for channel in range(3):
                            image[top + y, left + x, channel] = image[at_y + y, at_x + x, channel]


@inlined
def _noisy(channel, mask, noise):
    return np.int64((1 - mask) * channel + mask * noise)


@compiled_for(
    "void(int64[:, ::1], float64, bool_, uint32[::1], uint8[:, :, :, ::1], uint8[:, ::1], float64[:, ::1], "
    "uint8[:, :, ::1])"
)
def _draw_night(found, daylight, asleep, random, tiles, pale, vignette, image):
    """Every pixel has its own noise, drawn column by column."""
    amount = 2 * (0.5 - daylight)
    for x in range(WIDE):
        for y in range(HIGH):
            red, green, blue = _colour(tiles, found[x // UNIT, y // UNIT], x % UNIT, y % UNIT)
            mask, noise = amount * vignette[x, y], 32 + 95 * uniform(random)
            seen = _noisy(red, mask, noise), _noisy(green, mask, noise), _noisy(blue, mask, noise)
            _put(image, x, y, (red, green, blue), seen, daylight, asleep, pale)


@compiled_for("void(int64[::1], uint8[:, :, :, :, ::1], uint8[:, :, ::1])")
def _draw_items(inventory, items, image):
    for item in range(inventory.shape[0]):
        left, top = item % VIEW_WIDTH * UNIT, HIGH + item // VIEW_WIDTH * UNIT
        for y in range(UNIT):
            for x in range(UNIT):
                for channel in range(3):
                    image[top + y, left + x, channel] = items[item, inventory[item], x, y, channel]


_DRAW = "uint8[:, ::1], int16[:, ::1], int16[:, ::1], uint32[::1], int64[::1], int64[::1], float64"


@compiled_for(
    f"void({_DRAW}, uint8[:, :, :, ::1], uint8[:, :, :, :, ::1], uint8[:, ::1], float64[:, ::1], uint8[:, :, ::1])"
)
def draw(materials, occupants, objects, random, inventory, body, daylight, tiles, items, pale, vignette, image):
    """Draw the picture [64, 64, 3] that the player sees now; by night this draws noise from `random`."""
    found = np.empty((VIEW_WIDTH, VIEW_HEIGHT), np.int64)
    _find_tiles(materials, occupants, objects, body, found)
    if daylight < 0.5:
        _draw_night(found, daylight, body[SLEEPING] != 0, random, tiles, pale, vignette, image)
    else:
        _draw_day(found, daylight, body[SLEEPING] != 0, tiles, pale, image)
    _draw_items(inventory, items, image)


@compiled_for("void(uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[::1], uint8[::1])")
def draw_codes(materials, occupants, objects, inventory, body, codes):
    """Write the view in codes [83]: cells (0 outside the map), facing + 1, whether asleep, whether dead, inventory."""
    for column in range(VIEW_WIDTH):
        for line in range(VIEW_HEIGHT):
            x, y = objects[0, X] + column - VIEW_WIDTH // 2, objects[0, Y] + line - VIEW_HEIGHT // 2
            row = occupant_at(occupants, x, y)
            codes[column * VIEW_HEIGHT + line] = objects[row, KIND] if row >= 0 else material_at(materials, x, y)
    codes[FACING_X], codes[FACING_Y] = objects[0, WAY_X] + 1, objects[0, WAY_Y] + 1
    codes[ASLEEP], codes[DEAD] = body[SLEEPING], inventory[HEALTH] <= 0
    for item in range(inventory.shape[0]):
        codes[FIRST_ITEM + item] = inventory[item]


_CENTRE = np.array([VIEW_WIDTH // 2, VIEW_HEIGHT // 2])
_STEPS = np.abs(np.moveaxis(np.indices((VIEW_WIDTH, VIEW_HEIGHT)), 0, -1) - _CENTRE).sum(-1)  # [9, 7], to each cell
_LOST = "Error, you are out of the map."
_SLEEPING_CAPTION = "You are sleeping, and will not be able take actions until energy is full."
_REMEMBERED = 100_000  # captions; a view repeats often


def describe(codes: np.ndarray) -> str:
    """The caption of a view in codes, uint8 [83] (`draw_codes`)."""
    return _describe(codes.tobytes())


@lru_cache(_REMEMBERED)
def _describe(data: bytes) -> str:
    codes = np.frombuffer(data, np.uint8)
    cells = codes[:VIEW_CELLS].reshape(VIEW_WIDTH, VIEW_HEIGHT)
    faced = cells[tuple(_CENTRE + codes[[FACING_X, FACING_Y]] - 1)]
    # the original cuts the map with negative indices here, and tells of its own failure
    if cells[0, _CENTRE[1]] == OUTSIDE or cells[_CENTRE[0], 0] == OUTSIDE or faced == OUTSIDE:
        return _LOST
    state = _SLEEPING_CAPTION if codes[ASLEEP] else "You died." if codes[DEAD] else ""
    return f"{state} {_surroundings(cells)}You face {NAMES[faced]} at your front. {_belongings(codes)}".strip()


def _surroundings(cells: np.ndarray) -> str:
    things = [_nearest(cells, kind) for kind in np.unique(cells).tolist() if kind not in (OUTSIDE, PLAYER)]
    return f"You see: {', '.join(things)}." if things else "You see nothing away from you."


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
