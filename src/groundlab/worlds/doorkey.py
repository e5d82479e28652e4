"""The door-key worlds of the mediator paper: one room, one locked door, and where its key may be.

    SimpleDoorKey   the key lies in the room
    KeyInBox        the key lies in a box
    RandomBoxKey    one or the other (then an empty box stands by), by a coin
    ColoredDoorKey  two keys of different colours, one fits
    MovingObstacle  SimpleDoorKey with two balls that wander. The paper names such a world without defining it
                    (docs/papers/mediator-method.md#s1-3): this one is our own definition, and its figures compare with
                    no published one.

The order of random draws is the original's (docs/papers/mediator-method.md#s1-2), so a seed gives the same layout.
"""

import numpy as np

from groundlab.core.compiled import compiled, compiled_for
from groundlab.worlds.codes import BALL, BOX, DOOR, DRAWN_COLOURS, EAST, EMPTY, GREY, KEY, LOCKED, SOUTH, WALL, WEST
from groundlab.worlds.dynamics import put
from groundlab.worlds.missions import ANYWHERE, describe_object, start_part, track
from groundlab.worlds.pcg64 import draw_other, integers
from groundlab.worlds.rules import (
    ANY,
    COLORED_DOOR_KEY,
    DOOR_KEY_SIZE,
    DOOR_KEY_STEPS,
    KEY_IN_BOX,
    MOVING_OBSTACLE,
    OPEN,
    RANDOM_BOX_KEY,
    VARIANT,
)

SMALLEST_ROOM = 5
OBSTACLES = 2
NOWHERE = -1
_TRIES = 100  # as MiniGrid's moving obstacles: after so many occupied draws an obstacle stays


@compiled_for("void(uint8[:, :, ::1], int64, int64)")
def _build_room(cells, width, height):
    for x in range(DOOR_KEY_SIZE):
        for y in range(DOOR_KEY_SIZE):
            inside = x < width and y < height
            if inside and (x in (0, width - 1) or y in (0, height - 1)):
                put(cells, x, y, WALL, GREY, 0)
            else:
                put(cells, x, y, EMPTY, 0, 0)


@compiled_for("UniTuple(int64, 3)(uint8[:, :, ::1], uint64[::1], int64, int64)")
def _build_door(cells, random, width, height):
    """Draw wall, place and colour of the locked door; returns (colour, x, y of the cell in front of it)."""
    wall = integers(random, 0, 4)
    offset = integers(random, 1, height - 1 if wall in (EAST, WEST) else width - 1)
    if wall == EAST:
        x, y, front_x, front_y = width - 1, offset, width - 2, offset
    elif wall == SOUTH:
        x, y, front_x, front_y = offset, height - 1, offset, height - 2
    elif wall == WEST:
        x, y, front_x, front_y = 0, offset, 1, offset
    else:
        x, y, front_x, front_y = offset, 0, offset, 1
    colour = DRAWN_COLOURS[integers(random, 0, 6)]
    put(cells, x, y, DOOR, colour, LOCKED)
    return colour, front_x, front_y


@compiled_for("UniTuple(int64, 2)(uint8[:, :, ::1], int64[::1], uint64[::1], int64, int64, int64, int64)")
def _free_cell(cells, agent, random, width, height, reject_x, reject_y):
    """Draw cells of the room until one is empty, not the agent's and not the rejected one."""
    while True:
        x = integers(random, 0, width)
        y = integers(random, 0, height)
        if cells[x, y, 0] != EMPTY or (x == agent[0] and y == agent[1]):
            continue
        if not (x == reject_x and y == reject_y):
            return x, y


@compiled_for("UniTuple(int64, 2)(uint8[:, :, ::1], int64[::1], uint64[::1], int64, int64, int64, int64, int64, int64)")
def _place(cells, agent, random, width, height, kind, colour, reject_x, reject_y):
    x, y = _free_cell(cells, agent, random, width, height, reject_x, reject_y)
    put(cells, x, y, kind, colour, 0)
    return x, y


@compiled_for("void(uint8[:, :, ::1], uint8[:, :, ::1], int64[::1], uint64[::1], int64, int64, int64, int64, int64)")
def _place_box_with_key(cells, contents, agent, random, width, height, colour, reject_x, reject_y):
    x, y = _place(cells, agent, random, width, height, BOX, colour, reject_x, reject_y)
    contents[x, y, 0], contents[x, y, 1] = KEY, colour


@compiled_for(
    "void(uint8[:, :, ::1], uint8[:, :, ::1], int64[::1], uint64[::1], int64, int64, int64, int64, int64, int64)"
)
def _place_objects(cells, contents, agent, random, level, width, height, colour, front_x, front_y):
    if level == KEY_IN_BOX:
        _place_box_with_key(cells, contents, agent, random, width, height, colour, NOWHERE, NOWHERE)
    elif level == RANDOM_BOX_KEY:
        if integers(random, 0, 2) == 0:
            _place(cells, agent, random, width, height, KEY, colour, NOWHERE, NOWHERE)
            _place(cells, agent, random, width, height, BOX, colour, front_x, front_y)
        else:
            _place_box_with_key(cells, contents, agent, random, width, height, colour, front_x, front_y)
    elif level == COLORED_DOOR_KEY:
        _place(cells, agent, random, width, height, KEY, colour, front_x, front_y)
        _place(cells, agent, random, width, height, KEY, draw_other(random, DRAWN_COLOURS, colour), front_x, front_y)
    else:
        _place(cells, agent, random, width, height, KEY, colour, NOWHERE, NOWHERE)
    if level == MOVING_OBSTACLE:
        for _ in range(OBSTACLES):
            _place(cells, agent, random, width, height, BALL, GREY, front_x, front_y)


@compiled_for("void(uint8[:, :, ::1], uint8[:, :, ::1], int64[::1], int64[::1], uint64[::1], int64)")
def _draw_level(cells, contents, agent, mission, random, level):
    """Draw a new layout (docs/papers/mediator-method.md#s1-2)."""
    width = integers(random, SMALLEST_ROOM, DOOR_KEY_SIZE + 1)
    height = integers(random, SMALLEST_ROOM, DOOR_KEY_SIZE + 1)
    _build_room(cells, width, height)
    colour, front_x, front_y = _build_door(cells, random, width, height)
    agent[0], agent[1] = NOWHERE, NOWHERE
    agent[0], agent[1] = _free_cell(cells, agent, random, width, height, NOWHERE, NOWHERE)
    agent[2] = integers(random, 0, 4)
    _place_objects(cells, contents, agent, random, level, width, height, colour, front_x, front_y)
    mission[:] = 0
    start_part(mission, 0, OPEN)
    describe_object(mission, 0, 0, DOOR, ANY, ANYWHERE)


@compiled
def draw_levels(cells, contents, agents, missions, tracked, random, max_steps, sizes, levels, kind, mask):
    """Draw a new layout of each environment where `mask` [B] is true, from its own stream."""
    for env in range(mask.shape[0]):
        if mask[env]:
            variant = levels[kind[env], VARIANT]
            _draw_level(cells[env], contents[env], agents[env], missions[env], random[env], variant)
            track(cells[env], agents[env], missions[env], tracked[env], DOOR_KEY_SIZE)
            max_steps[env] = DOOR_KEY_STEPS


@compiled_for("void(uint8[:, :, ::1], int64[::1], uint64[::1], int64, int64)")
def _move_obstacle(cells, agent, random, x, y):
    """Move one ball to a random free cell among its eight neighbours; it stays when a hundred draws find none."""
    for _ in range(_TRIES):
        to_x = x - 1 + integers(random, 0, 3)
        to_y = y - 1 + integers(random, 0, 3)
        if cells[to_x, to_y, 0] == EMPTY and not (to_x == agent[0] and to_y == agent[1]):
            put(cells, to_x, to_y, BALL, cells[x, y, 1], 0)
            put(cells, x, y, EMPTY, 0, 0)
            return


@compiled_for("void(uint8[:, :, ::1], int64[::1], uint64[::1])")
def _move_obstacles(cells, agent, random):
    """Every ball wanders, before the agent acts (as MiniGrid's DynamicObstacles); touching one ends nothing."""
    places = np.empty((DOOR_KEY_SIZE * DOOR_KEY_SIZE, 2), np.int64)
    found = 0
    for x in range(1, DOOR_KEY_SIZE - 1):
        for y in range(1, DOOR_KEY_SIZE - 1):
            if cells[x, y, 0] == BALL:
                places[found, 0], places[found, 1] = x, y
                found += 1
    for k in range(found):
        _move_obstacle(cells, agent, random, places[k, 0], places[k, 1])


@compiled
def move_obstacles_of(cells, agents, random, mask):
    """The balls of each environment where `mask` [B] is true wander."""
    for env in range(mask.shape[0]):
        if mask[env]:
            _move_obstacles(cells[env], agents[env], random[env])
