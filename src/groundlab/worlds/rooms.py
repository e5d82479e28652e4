"""Rooms in rows and columns, as minigrid's RoomGrid builds them: walls, free cells, the agent, what is in reach.

All draws come from the environment's own stream in minigrid's order, so a seed gives minigrid's level.
A placement that finds no cell in 1001 tries returns False, and the caller starts the level afresh.
"""

import numpy as np

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.codes import BALL, BOX, DOOR, DRAWN_COLOURS, EAST, EMPTY, GREY, KEY, STEP_X, STEP_Y, WALL
from groundlab.worlds.dynamics import put
from groundlab.worlds.pcg64 import integers
from groundlab.worlds.rules import COLUMNS, ROOM_SIZE, ROWS

_TRIES = 1001
_DRAWN_TYPES = (KEY, BALL, BOX)
NOWHERE = -1


@compiled_for("void(uint8[:, :, ::1], int64[::1], int64[::1])")
def build_rooms(cells, agent, rules):
    """Empty rooms with shared walls; beyond them the canvas is wall. The agent waits in the middle (RoomGrid)."""
    pitch, columns, rows = rules[ROOM_SIZE] - 1, rules[COLUMNS], rules[ROWS]
    width, height = pitch * columns + 1, pitch * rows + 1
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if x >= width or y >= height or x % pitch == 0 or y % pitch == 0:
                put(cells, x, y, WALL, GREY, 0)
            else:
                put(cells, x, y, EMPTY, 0, 0)
    middle = rules[ROOM_SIZE] // 2
    agent[0], agent[1], agent[2] = columns // 2 * pitch + middle, rows // 2 * pitch + middle, EAST


@compiled_for("UniTuple(int64, 2)(uint8[:, :, ::1], int64[::1], uint64[::1], int64[::1], int64, int64, int64)")
def _draw_free_cell(cells, agent, random, rules, column, row, distance):
    """An empty cell of a room at Manhattan distance >= `distance` from the agent; (-1, -1) when none was found."""
    size = rules[ROOM_SIZE]
    left, top = column * (size - 1), row * (size - 1)
    for _ in range(_TRIES):
        x = integers(random, left, left + size)
        y = integers(random, top, top + size)
        if cells[x, y, 0] != EMPTY:
            continue
        if abs(agent[0] - x) + abs(agent[1] - y) >= distance:
            return x, y
    return NOWHERE, NOWHERE


@compiled_for("UniTuple(int64, 2)(uint8[:, :, ::1], int64[::1], uint64[::1], int64[::1], int64, int64, int64, int64)")
def place_object(cells, agent, random, rules, column, row, kind, colour):
    """Put an object into a room, not beside the agent; its cell, or (-1, -1) when there is no room for it."""
    x, y = _draw_free_cell(cells, agent, random, rules, column, row, 2)
    if x != NOWHERE:
        put(cells, x, y, kind, colour, 0)
    return x, y


@inlined
def add_object(cells, agent, random, rules, column, kind, colour):
    """Put an object into a room of the top row; False when there is no room for it."""
    return place_object(cells, agent, random, rules, column, 0, kind, colour)[0] != NOWHERE


@compiled_for("UniTuple(int64, 2)(uint64[::1])")
def draw_object(random):
    """A random (type, colour): minigrid draws the colour first, from alphabetical names."""
    colour = DRAWN_COLOURS[integers(random, 0, len(DRAWN_COLOURS))]
    return _DRAWN_TYPES[integers(random, 0, len(_DRAWN_TYPES))], colour


@inlined
def listed(things, count, kind, colour):
    """Return True if an object is among the first `count` rows of a list, which begin with type and colour."""
    for k in range(count):  # noqa: SIM110 - compiled code has no generators
        if things[k, 0] == kind and things[k, 1] == colour:
            return True
    return False


@compiled_for("bool_(uint8[:, :, ::1], int64[::1], uint64[::1], int64[::1], int64, int64)")
def place_agent(cells, agent, random, rules, column, row):
    """Put the agent into a room, with nothing but wall or floor in front of it; False when it finds no place."""
    while True:
        agent[0], agent[1] = NOWHERE, NOWHERE
        x, y = _draw_free_cell(cells, agent, random, rules, column, row, 0)
        if x == NOWHERE:
            return False
        agent[0], agent[1], agent[2] = x, y, integers(random, 0, 4)
        faced = cells[x + STEP_X[agent[2]], y + STEP_Y[agent[2]], 0]
        if faced in (EMPTY, WALL):
            return True


@compiled_for("bool_(uint8[:, :, ::1], int64[::1])")
def all_reachable(cells, agent):
    """Whether the agent can come beside every object and door without moving anything (locked doors count as ways)."""
    width, height = cells.shape[0], cells.shape[1]
    reached = np.zeros((width, height), np.bool_)
    queue = np.empty((width * height, 2), np.int64)
    queue[0, 0], queue[0, 1] = agent[0], agent[1]
    reached[queue[0, 0], queue[0, 1]] = True
    count, done = 1, 0
    while done < count:
        x, y = queue[done, 0], queue[done, 1]
        done += 1
        kind = cells[x, y, 0]
        if kind != EMPTY and kind != DOOR:
            continue
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            to_x, to_y = x + dx, y + dy
            if 0 <= to_x < width and 0 <= to_y < height and not reached[to_x, to_y]:
                reached[to_x, to_y] = True
                queue[count, 0], queue[count, 1] = to_x, to_y
                count += 1
    for x in range(width):
        for y in range(height):
            kind = cells[x, y, 0]
            if not reached[x, y] and kind != EMPTY and kind != WALL:
                return False
    return True
