"""What the player sees: the package's picture of 64 x 64 pixels, and the view in codes that captions are read from.

Every cell is one of few pictures, so all of them are drawn once, by the package's own code; a picture is then copied
together, and darkened with the package's arithmetic. By night it contains noise from the world's own stream, so
drawing is part of a step. Source: crafter 1.8.3, `engine.py`. Read next: `captions.py`, `vector.py`.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from crafter import constants, engine
from PIL import Image

from groundlab.core.compiled import called, inlined
from groundlab.worlds.crafter.creatures import RIPE
from groundlab.worlds.crafter.mersenne import uniform
from groundlab.worlds.crafter.rules import (
    ARROW,
    COW,
    HEALTH,
    ITEMS,
    MATERIALS,
    PLANT,
    PLAYER,
    SIZE,
    VIEW_HEIGHT,
    VIEW_WIDTH,
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
_ASLEEP, _COW_TEXTURE, _ARROW_TEXTURE, _PLANT_TEXTURE = (
    _TEXTURES.index(name) for name in ("player-sleep", "cow", "arrow-left", "plant")
)
# fields of a view in codes, after its cells (column by column)
VIEW_CELLS = VIEW_WIDTH * VIEW_HEIGHT
FACING_X, FACING_Y, ASLEEP, DEAD, FIRST_ITEM = range(VIEW_CELLS, VIEW_CELLS + 5)
CODES = FIRST_ITEM + len(ITEMS)


class Drawings(NamedTuple):
    """Everything that a picture is copied together from."""

    tiles: np.ndarray  # uint8 [13, 15, 7, 7, 3]: a material, alone or under a texture, by x and y
    items: np.ndarray  # uint8 [16, 10, 7, 7, 3]: an item and how many one has
    pale: np.ndarray  # uint8 [256, 256]: from a grey, 0.4 of the way to a colour
    vignette: np.ndarray  # float64 [63, 49]: how much of the night's noise is seen where


@cache
def drawings() -> Drawings:
    """The drawings, by the package's own code and from its own textures."""
    textures = engine.Textures(constants.root / "assets")
    tiles = np.zeros((len(MATERIALS) + 1, len(_TEXTURES) + 1, UNIT, UNIT, 3), np.uint8)
    for material, name in enumerate((None, *MATERIALS)):
        for above, texture in enumerate((None, *_TEXTURES)):
            engine._draw(tiles[material, above], (0, 0), textures.get(name, (UNIT, UNIT)))
            if texture:
                engine._draw_alpha(tiles[material, above], (0, 0), textures.get(texture, (UNIT, UNIT)))
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


@called(
    "void(uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], uint8[:, :, :, :, ::1], uint8[:, :, ::1])"
)  # fmt: skip
def _draw_map(materials, occupants, objects, body, tiles, canvas):
    for column in range(VIEW_WIDTH):
        for line in range(VIEW_HEIGHT):
            x, y = objects[0, X] + column - VIEW_WIDTH // 2, objects[0, Y] + line - VIEW_HEIGHT // 2
            left, top = column * UNIT, line * UNIT
            if not inside(x, y):
                canvas[left : left + UNIT, top : top + UNIT] = _BEYOND
                continue
            row = occupant_at(occupants, x, y)
            above = _texture(objects, body, row) if row >= 0 else 0
            canvas[left : left + UNIT, top : top + UNIT] = tiles[materials[x, y], above]


@inlined
def _grey(red, green, blue):
    """Pillow's luminance."""
    return (np.int64(red) * 19595 + np.int64(green) * 38470 + np.int64(blue) * 7471 + 0x8000) >> 16


@inlined
def _tint(channel, of_night):
    """The colour that night, or sleep, lays over a picture."""
    if channel == 0:
        return 0
    if channel == 1:
        return 16 if of_night else 0
    return 64 if of_night else 16


@called("void(uint8[:, :, ::1], float64, bool_, uint32[::1], uint8[:, ::1], float64[:, ::1], uint8[:, :, ::1])")
def _light(canvas, daylight, asleep, random, pale, vignette, image):
    """Darken a map [63, 49, 3] and write it into a picture [64, 64, 3], whose first axis is y."""
    seen, amount = np.empty(3, np.uint8), 2 * (0.5 - daylight)
    for x in range(WIDE):
        for y in range(HIGH):
            seen[:] = canvas[x, y]
            if daylight < 0.5:
                mask, noise = amount * vignette[x, y], 32 + 95 * uniform(random)
                for channel in range(3):
                    seen[channel] = np.uint8(np.int64((1 - mask) * canvas[x, y, channel] + mask * noise))
            grey = _grey(seen[0], seen[1], seen[2])
            for channel in range(3):
                night = 0.5 * pale[grey, seen[channel]] + 0.5 * _tint(channel, True)
                lit = daylight * canvas[x, y, channel] + (1 - daylight) * night
                image[y, x, channel] = np.uint8(np.int64(lit))
            if asleep:
                grey = _grey(image[y, x, 0], image[y, x, 1], image[y, x, 2])
                for channel in range(3):
                    image[y, x, channel] = np.uint8(np.int64(0.5 * grey + 0.5 * _tint(channel, False)))


@called("void(int64[::1], uint8[:, :, :, :, ::1], uint8[:, :, ::1])")
def _draw_items(inventory, items, image):
    for item in range(inventory.shape[0]):
        left, top = item % VIEW_WIDTH * UNIT, HIGH + item // VIEW_WIDTH * UNIT
        for x in range(UNIT):
            for y in range(UNIT):
                image[top + y, left + x] = items[item, inventory[item], x, y]


_DRAW = "uint8[:, ::1], int16[:, ::1], int16[:, ::1], uint32[::1], int64[::1], int64[::1], float64"


@called(
    f"void({_DRAW}, uint8[:, :, :, :, ::1], uint8[:, :, :, :, ::1], uint8[:, ::1], float64[:, ::1], uint8[:, :, ::1])"
)
def draw(materials, occupants, objects, random, inventory, body, daylight, tiles, items, pale, vignette, image):
    """Draw the picture [64, 64, 3] that the player sees now; by night this draws noise from `random`."""
    canvas = np.empty((WIDE, HIGH, 3), np.uint8)
    _draw_map(materials, occupants, objects, body, tiles, canvas)
    _light(canvas, daylight, body[SLEEPING] != 0, random, pale, vignette, image)
    _draw_items(inventory, items, image)


@called("void(uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[::1], uint8[::1])")
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
