"""Rooms built by hand, seen whole: the memory image that skills and translator read."""

import numpy as np

from groundlab.worlds.codes import COLOURS, TYPES


def room_image(objects=(), agent=(3, 3), heading=0, carry=None, size=(10, 10)) -> np.ndarray:
    """uint8 [10, 10, 4] of a room; objects are (type, colour, x, y[, state]) as the golden file lists them."""
    image = np.zeros((10, 10, 4), np.uint8)
    image[:, :, 3] = 4
    width, height = size
    image[:width, :height, :3] = (2, 5, 0)
    image[1 : width - 1, 1 : height - 1, :3] = (1, 0, 0)
    for kind, colour, x, y, *state in objects:
        image[x, y, :3] = (TYPES.index(kind), COLOURS.index(colour), *(state or [0]))
    x, y = agent
    image[x, y, :3] = (TYPES.index(carry[0]), COLOURS.index(carry[1]), 0) if carry else (1, 0, 0)
    image[x, y, 3] = heading
    return image
