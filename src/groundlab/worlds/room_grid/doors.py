"""Doors and walls between rooms, as minigrid's RoomGrid has them.

`rooms` int64 [rows, columns, 5, 3] is kept while a level is built: for each wall of a room (east, south, west, north)
what is in it, and the place of its door (-1 on an outer wall); then whether the room counts as locked.
"""

import numpy as np

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.codes import CLOSED, DRAWN_COLOURS, EMPTY, LOCKED, OPEN, STEP_X, STEP_Y
from groundlab.worlds.codes import DOOR as DOOR_CODE
from groundlab.worlds.dynamics import put
from groundlab.worlds.pcg64 import draw_other, integers
from groundlab.worlds.rules import COLUMNS, ROOM_SIZE, ROWS

NOTHING, PASSAGE, DOOR = range(3)
_IS_LOCKED = 4
_OUTSIDE = -1
_MOST_TRIES = 5001
DRAWN = -1

GRID, ROW, RANDOM, ROOMS = "uint8[:, :, ::1]", "int64[::1]", "uint64[::1]", "int64[:, :, :, ::1]"


@compiled_for(f"void({RANDOM}, {ROW}, {ROOMS})")
def draw_doorways(random, rules, rooms):
    """Draw where doors may be, room by room."""
    pitch, columns, rows = rules[ROOM_SIZE] - 1, rules[COLUMNS], rules[ROWS]
    rooms[:] = 0
    rooms[:, :, :_IS_LOCKED, 1:] = _OUTSIDE
    for row in range(rows):
        for column in range(columns):
            room, left, top = rooms[row, column], column * pitch, row * pitch
            if column < columns - 1:
                room[0, 1], room[0, 2] = left + pitch, integers(random, top + 1, top + pitch)
            if row < rows - 1:
                room[1, 1], room[1, 2] = integers(random, left + 1, left + pitch), top + pitch
            if column > 0:
                room[2, 1], room[2, 2] = rooms[row, column - 1, 0, 1], rooms[row, column - 1, 0, 2]
            if row > 0:
                room[3, 1], room[3, 2] = rooms[row - 1, column, 1, 1], rooms[row - 1, column, 1, 2]


@inlined
def is_outer(rooms, column, row, wall):
    """Whether no room lies behind this wall."""
    return rooms[row, column, wall, 1] == _OUTSIDE


@inlined
def _set_wall(rooms, column, row, wall, what):
    rooms[row, column, wall, 0] = what
    rooms[row + STEP_Y[wall], column + STEP_X[wall], (wall + 2) % 4, 0] = what


@compiled_for(f"UniTuple(int64, 3)({GRID}, {RANDOM}, {ROOMS}, int64, int64, int64, int64, int64)")
def add_door(cells, random, rooms, column, row, wall, colour, locked):
    """Put a door into a wall of a room; what is DRAWN is drawn. Returns (colour, x, y)."""
    if wall == DRAWN:
        while True:
            wall = integers(random, 0, 4)
            if not is_outer(rooms, column, row, wall) and rooms[row, column, wall, 0] == NOTHING:
                break
    if colour == DRAWN:
        colour = DRAWN_COLOURS[integers(random, 0, 6)]
    if locked == DRAWN:
        locked = integers(random, 0, 2) == 0
    x, y = rooms[row, column, wall, 1], rooms[row, column, wall, 2]
    put(cells, x, y, DOOR_CODE, colour, LOCKED if locked else CLOSED)
    rooms[row, column, _IS_LOCKED, 0] = locked  # as minigrid: a later door of the room that is not locked unlocks it
    _set_wall(rooms, column, row, wall, DOOR)
    return colour, x, y


@compiled_for(f"void({GRID}, {ROW}, {ROOMS}, int64, int64, int64)")
def remove_wall(cells, rules, rooms, column, row, wall):
    """Take a wall between two rooms away."""
    pitch = rules[ROOM_SIZE] - 1
    left, top = column * pitch, row * pitch
    for k in range(1, pitch):
        if wall == 0 or wall == 2:
            put(cells, left + pitch if wall == 0 else left, top + k, EMPTY, 0, 0)
        else:
            put(cells, left + k, top + pitch if wall == 1 else top, EMPTY, 0, 0)
    _set_wall(rooms, column, row, wall, PASSAGE)


@compiled_for(f"bool_({ROW}, {ROW}, {ROOMS})")
def _all_connected(agent, rules, rooms):
    """Whether a way leads from the agent's room to every other, locked doors included."""
    pitch, columns, rows = rules[ROOM_SIZE] - 1, rules[COLUMNS], rules[ROWS]
    reached = np.zeros(rows * columns, np.bool_)
    queue = np.empty(rows * columns, np.int64)
    queue[0] = agent[1] // pitch * columns + agent[0] // pitch
    reached[queue[0]] = True
    count, done = 1, 0
    while done < count:
        row, column = queue[done] // columns, queue[done] % columns
        done += 1
        for wall in range(4):
            if rooms[row, column, wall, 0] != NOTHING:
                beyond = (row + STEP_Y[wall]) * columns + column + STEP_X[wall]
                if not reached[beyond]:
                    reached[beyond] = True
                    queue[count] = beyond
                    count += 1
    return count == rows * columns


@compiled_for(f"int64({RANDOM}, int64)")
def _draw_colour(random, avoid):
    """A colour, or one of the five that are not to be avoided."""
    if avoid == DRAWN:
        return DRAWN_COLOURS[integers(random, 0, 6)]
    return draw_other(random, DRAWN_COLOURS, avoid)


@compiled_for(f"bool_({GRID}, {ROW}, {RANDOM}, {ROW}, {ROOMS}, int64)")
def connect_all(cells, agent, random, rules, rooms, avoid):
    """Add doors at random until every room can be reached; False when too many tries did not do it."""
    connected = _all_connected(agent, rules, rooms)
    for _ in range(_MOST_TRIES):
        if connected:
            return True
        column, row = integers(random, 0, rules[COLUMNS]), integers(random, 0, rules[ROWS])
        wall = integers(random, 0, 4)
        if is_outer(rooms, column, row, wall) or rooms[row, column, wall, 0] != NOTHING:
            continue
        beyond = rooms[row + STEP_Y[wall], column + STEP_X[wall]]
        if rooms[row, column, _IS_LOCKED, 0] or beyond[_IS_LOCKED, 0]:
            continue
        add_door(cells, random, rooms, column, row, wall, _draw_colour(random, avoid), 0)
        connected = _all_connected(agent, rules, rooms)
    return False


@compiled_for(f"void({GRID})")
def open_all_doors(cells):
    """Open every door."""
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if cells[x, y, 0] == DOOR_CODE:
                cells[x, y, 2] = OPEN


@compiled_for(f"UniTuple(int64, 2)({RANDOM}, {ROW}, {ROOMS})")
def draw_door(random, rules, rooms):
    """One of all doors; a door between two rooms is listed twice, as minigrid does. Returns its cell."""
    found, chosen = 0, _OUTSIDE
    for _ in range(2):  # count, then choose
        left = chosen
        for column in range(rules[COLUMNS]):
            for row in range(rules[ROWS]):
                for wall in range(4):
                    if rooms[row, column, wall, 0] == DOOR:
                        if left == 0:
                            return rooms[row, column, wall, 1], rooms[row, column, wall, 2]
                        left -= 1
                        found += 1
        chosen = integers(random, 0, found)
    return _OUTSIDE, _OUTSIDE
