"""Carries out the steps of a blueprint: the same seed builds minigrid's level.

A step that fails (no free cell, something out of reach, a mission that is not asked) makes the level begin anew, with
the stream going on, as minigrid's rejection sampling does. Where minigrid's own MiniGrid levels would raise an error
instead, so rarely that no test met it, the level begins anew too.
"""

import numpy as np

from groundlab.core.compiled import compiled, compiled_for, inlined
from groundlab.worlds.codes import BALL, BLUE, BOX, DOOR, DRAWN_COLOURS, KEY, RED, STEP_X, STEP_Y
from groundlab.worlds.dynamics import put, take
from groundlab.worlds.missions import (
    ANYWHERE,
    ORDER,
    STRICT,
    describe_object,
    navigations,
    start_part,
    track,
)
from groundlab.worlds.pcg64 import double, integers
from groundlab.worlds.room_grid import blueprint as steps
from groundlab.worlds.room_grid.blueprint import DRAWN, FIRST_COLOUR, FIRST_REGISTER, MOST_THINGS, REGISTERS, STEP
from groundlab.worlds.room_grid.doors import (
    GRID,
    RANDOM,
    ROOMS,
    ROW,
    add_door,
    connect_all,
    draw_door,
    draw_doorways,
    is_outer,
    open_all_doors,
    remove_wall,
)
from groundlab.worlds.room_grid.instructions import NO_ROOM, draw_instruction, is_accepted
from groundlab.worlds.rooms import NOWHERE, all_reachable, build_rooms, draw_object, listed, place_agent, place_object
from groundlab.worlds.rules import (
    AFTER,
    ANY,
    BEFORE,
    BLUEPRINT,
    COLUMNS,
    GO_TO,
    OPEN,
    PICK_UP,
    ROOM_SIZE,
    ROWS,
    TIME_LIMIT,
)

_TYPES = (KEY, BALL, BOX)
# Registers beyond those of a blueprint: how many things are listed, the locked room, whether keys are spared.
_COUNT, _LOCKED, _UNBLOCKING = REGISTERS, REGISTERS + 1, REGISTERS + 3
_KIND, _COLOUR, _X, _Y = range(4)  # columns of `things`, the list
THINGS = "int64[:, ::1]"


@inlined
def _list_thing(things, registers, kind, colour, x, y):
    row = things[registers[_COUNT]]
    row[_KIND], row[_COLOUR], row[_X], row[_Y] = kind, colour, x, y
    registers[_COUNT] += 1


@inlined
def _room(random, number, count):
    return integers(random, 0, count) if number == DRAWN else number


@compiled_for(f"bool_({GRID}, {ROW}, {RANDOM}, {ROW}, {ROW}, {THINGS}, int64, int64, int64, int64)")
def _add_thing(cells, agent, random, rules, registers, things, column, row, kind, colour):
    if kind == DRAWN:
        kind = _TYPES[integers(random, 0, 3)]
    if colour == DRAWN:
        colour = DRAWN_COLOURS[integers(random, 0, 6)]
    x, y = place_object(cells, agent, random, rules, column, row, kind, colour)
    _list_thing(things, registers, kind, colour, x, y)
    return x != NOWHERE


@compiled_for(f"bool_({GRID}, {ROW}, {RANDOM}, {ROW}, {ROW}, {THINGS}, int64, int64, int64, int64)")
def _add_distractors(cells, agent, random, rules, registers, things, number, column, row, unique):
    end = registers[_COUNT] + number
    while registers[_COUNT] < end:
        kind, colour = draw_object(random)
        if unique and listed(things, registers[_COUNT], kind, colour):
            continue
        to_column, to_row = _room(random, column, rules[COLUMNS]), _room(random, row, rules[ROWS])
        if not _add_thing(cells, agent, random, rules, registers, things, to_column, to_row, kind, colour):
            return False
    return True


@compiled_for(f"bool_({GRID}, {ROW}, {RANDOM}, {ROW}, int64, int64)")
def _place_agent_outside(cells, agent, random, rules, column, row):
    pitch = rules[ROOM_SIZE] - 1
    while True:
        to_column, to_row = integers(random, 0, rules[COLUMNS]), integers(random, 0, rules[ROWS])
        if not place_agent(cells, agent, random, rules, to_column, to_row):
            return False
        if agent[0] // pitch != column or agent[1] // pitch != row:
            return True


@compiled_for(f"bool_({GRID}, {ROW}, {RANDOM}, {ROW}, {ROOMS}, {ROW}, {THINGS})")
def _add_locked_room(cells, agent, random, rules, rooms, registers, things):
    """A room with a locked door, and its key in another."""
    columns, rows = rules[COLUMNS], rules[ROWS]
    while True:
        column, row = integers(random, 0, columns), integers(random, 0, rows)
        wall = integers(random, 0, 4)
        if not is_outer(rooms, column, row, wall):
            break
    colour, _, _ = add_door(cells, random, rooms, column, row, wall, DRAWN, 1)
    registers[_LOCKED], registers[_LOCKED + 1] = column, row
    while True:
        to_column, to_row = integers(random, 0, columns), integers(random, 0, rows)
        if to_column != column or to_row != row:
            return _add_thing(cells, agent, random, rules, registers, things, to_column, to_row, KEY, colour)


@inlined
def _draw_two(random, registers, into, low, high):
    """Two different numbers in [low, high)."""
    first, second = integers(random, low, high), integers(random, low, high - 1)
    registers[into], registers[into + 1] = first, second + (second >= first)


@compiled_for(f"void({RANDOM}, {ROW}, int64)")
def _draw_colours(random, registers, number):
    """Different colours, each drawn from those that are left, in alphabetical order."""
    left = np.empty(6, np.int64)
    for k in range(6):
        left[k] = DRAWN_COLOURS[k]
    for k in range(number):
        place = integers(random, 0, 6 - k)
        registers[k] = left[place]
        left[place:5] = left[place + 1 :].copy()


@compiled_for(f"void({ROW}, {RANDOM}, {THINGS}, int64, int64, int64, int64, int64)")
def _ask(mission, random, things, place, verb, about, how, strict):
    """Write what is asked of a listed thing."""
    part, slot, kind, colour = place // 2, place % 2, things[about, _KIND], things[about, _COLOUR]
    if verb == DRAWN:
        other = OPEN if kind == DOOR else PICK_UP
        verb = GO_TO if integers(random, 0, 2) == 0 else other
    start_part(mission, part, verb)
    mission[STRICT] |= strict << part
    by_colour, by_type = how != steps.BY_TYPE, how != steps.BY_COLOUR
    describe_object(mission, part, slot, kind if by_type else ANY, colour if by_colour else ANY, ANYWHERE)


@compiled_for(f"void({ROW}, {RANDOM}, {THINGS}, int64, int64)")
def _ask_door(mission, random, things, by_place, strict):
    """Ask to open the first door by its colour, or any by its place."""
    if by_place == DRAWN:
        by_place = integers(random, 0, 2)
    start_part(mission, 0, OPEN)
    mission[STRICT] |= strict
    if by_place:
        describe_object(mission, 0, 0, DOOR, ANY, 1 + integers(random, 0, 4))
    else:
        describe_object(mission, 0, 0, DOOR, things[0, _COLOUR], ANYWHERE)


@compiled_for(f"void({ROW}, {RANDOM}, {ROW}, {THINGS}, int64)")
def _draw_told_order(mission, random, registers, things, strict):
    """The first of two doors, the first and then the second, or the first after the second."""
    mode = integers(random, 0, 3)
    reverse = 1 if mode == 2 else 0
    for part in range(2 if mode else 1):
        _ask(mission, random, things, 2 * part, OPEN, registers[part ^ reverse], steps.BY_BOTH, strict)
    mission[ORDER] = (0, BEFORE, AFTER)[mode]


@inlined
def _told(number, registers, things):
    """A number of a step: itself, what a register holds, or the colour of a listed thing."""
    if number > FIRST_REGISTER:
        return number
    if number > FIRST_COLOUR:
        return registers[FIRST_REGISTER - number]
    return things[FIRST_COLOUR - number, _COLOUR]


@compiled_for(f"bool_({GRID}, {GRID}, {ROW}, {RANDOM}, {ROW}, {ROOMS}, {ROW}, {THINGS}, {ROW})")
def _furnish(cells, contents, agent, random, rules, rooms, registers, things, step):
    """One step that puts something into rooms; False when the level must begin anew."""
    code, a, b, c, d, e = step[0], step[1], step[2], step[3], step[4], step[5]
    if code == steps.AGENT:
        column, row = _room(random, a, rules[COLUMNS]), _room(random, b, rules[ROWS])
        return place_agent(cells, agent, random, rules, column, row)
    if code == steps.AGENT_OUTSIDE:
        column, row = (registers[_LOCKED], registers[_LOCKED + 1]) if a == DRAWN else (a, b)
        return _place_agent_outside(cells, agent, random, rules, column, row)
    if code == steps.DOOR:
        colour, x, y = add_door(cells, random, rooms, a, b, c, d, e)
        _list_thing(things, registers, DOOR, colour, x, y)
    elif code == steps.BALL_BEFORE:
        x, y = rooms[b, a, c, 1] - STEP_X[c], rooms[b, a, c, 2] - STEP_Y[c]
        put(cells, x, y, BALL, DRAWN_COLOURS[integers(random, 0, 6)] if d == DRAWN else d, 0)
        contents[x, y, :] = 0
    elif code == steps.THING:
        return _add_thing(cells, agent, random, rules, registers, things, a, b, c, d)
    elif code == steps.KEY_IN_BOX:
        placed = _add_thing(cells, agent, random, rules, registers, things, a, b, BOX, c)
        box = things[registers[_COUNT] - 1]
        contents[box[_X], box[_Y], 0], contents[box[_X], box[_Y], 1] = KEY, d
        return placed
    elif code == steps.DISTRACTORS:
        return _add_distractors(cells, agent, random, rules, registers, things, a, b, c, d)
    elif code == steps.LOCKED_ROOM and double(random) < a / 100:
        return _add_locked_room(cells, agent, random, rules, rooms, registers, things)
    return True


@compiled_for(f"bool_({GRID}, {ROW}, {RANDOM}, {ROW}, {ROOMS}, {ROW}, {THINGS}, {ROW})")
def _alter(cells, agent, random, rules, rooms, registers, things, step):
    """One step that changes walls, doors or the list, draws numbers, or refuses the level (False)."""
    code, a, b, c = step[0], step[1], step[2], step[3]
    if code == steps.CONNECT:
        avoid = a if a != DRAWN and integers(random, 0, 2) == 0 else DRAWN
        return connect_all(cells, agent, random, rules, rooms, avoid)
    if code == steps.REACHABLE:
        return all_reachable(cells, agent) == a
    if code == steps.REMOVE_WALL:
        remove_wall(cells, rules, rooms, a, b, c)
    elif code == steps.DRAW:
        registers[a] = integers(random, b, c)
    elif code == steps.CHOOSE:
        registers[a] = b if integers(random, 0, 2) == 0 else c
    elif code == steps.CHOOSE_ROOM:
        among = 1
        while among < 4 and step[2 + among] >= 0:
            among += 1
        packed = step[2 + integers(random, 0, among)]
        registers[a], registers[a + 1] = packed // steps.PACKED, packed % steps.PACKED
    elif code == steps.COLOURS:
        _draw_colours(random, registers, a)
    elif code == steps.PAIR:
        _draw_two(random, registers, a, b, c)
    elif code == steps.SWAP:
        if integers(random, 0, 2) == 0:
            registers[a], registers[b] = registers[b], registers[a]
    elif code == steps.REPAINT:
        for k in range(a, registers[_COUNT]):
            things[k, _COLOUR] = cells[things[k, _X], things[k, _Y], 1] = b
    elif code == steps.ONE_BALL:
        count = registers[_COUNT]
        return not (listed(things, count, BALL, RED) or listed(things, count, BALL, BLUE))
    elif code == steps.OPEN_DOORS:
        open_all_doors(cells)
    elif code == steps.ANY_DOOR:
        x, y = draw_door(random, rules, rooms)
        registers[a] = registers[_COUNT]
        _list_thing(things, registers, DOOR, cells[x, y, 1], x, y)
    return True


@compiled_for(f"bool_({GRID}, {ROW}, {ROW}, {RANDOM}, {ROW}, {ROW}, {THINGS}, {ROW})")
def _instruct(cells, agent, mission, random, rules, registers, things, step):
    """One step that writes the mission; False when none can be drawn."""
    code, a, b = step[0], step[1], step[2]
    if code == steps.ASK:
        _ask(mission, random, things, a, b, step[3], step[4], step[5])
    elif code == steps.ASK_DOOR:
        _ask_door(mission, random, things, a, b)
    elif code == steps.ORDER:
        mission[ORDER] = a
    elif code == steps.TOLD_ORDER:
        _draw_told_order(mission, random, registers, things, a)
    else:
        registers[_UNBLOCKING] = step[4]
        return draw_instruction(cells, agent, mission, random, rules, registers[_LOCKED:], step[1:])
    return True


@compiled_for(f"bool_({GRID}, {GRID}, {ROW}, {ROW}, {RANDOM}, {ROW}, {ROOMS}, {ROW}, {THINGS})")
def _carry_out(cells, contents, agent, mission, random, rules, rooms, registers, things):
    """All steps of a blueprint; False when the level must begin anew."""
    step, at, done = np.empty(STEP, np.int64), BLUEPRINT, True
    while done and rules[at] != steps.END:
        step[0] = rules[at]
        for k in range(1, STEP):
            step[k] = _told(rules[at + k], registers, things)
        if step[0] >= steps.ASK:
            done = _instruct(cells, agent, mission, random, rules, registers, things, step)
        elif step[0] <= steps.LOCKED_ROOM:
            done = _furnish(cells, contents, agent, random, rules, rooms, registers, things, step)
        else:
            done = _alter(cells, agent, random, rules, rooms, registers, things, step)
        at += STEP
    return done


@compiled_for(f"void({GRID}, {GRID}, {ROW}, {ROW}, {GRID}, {RANDOM}, {ROW})")
def _draw_level(cells, contents, agent, mission, tracked, random, rules):
    """Build the level again and again until it is accepted."""
    rooms = np.empty((rules[ROWS], rules[COLUMNS], 5, 3), np.int64)
    registers, things = np.empty(REGISTERS + 4, np.int64), np.empty((MOST_THINGS, 4), np.int64)
    while True:
        build_rooms(cells, agent, rules)
        draw_doorways(random, rules, rooms)
        contents[:], mission[:], registers[:] = 0, 0, 0
        registers[_LOCKED] = NO_ROOM
        if not _carry_out(cells, contents, agent, mission, random, rules, rooms, registers, things):
            continue
        track(cells, agent, mission, tracked, rules[ROOM_SIZE] - 1)
        if is_accepted(cells, tracked, mission, registers[_UNBLOCKING] != 0):
            break


@compiled
def draw_levels(cells, contents, agents, missions, tracked, random, max_steps, sizes, levels, kind, mask):
    """Draw a new level of each environment where `mask` [B] is true, from its own stream."""
    for env in range(mask.shape[0]):
        if mask[env]:
            rules = levels[kind[env]]
            _draw_level(cells[env], contents[env], agents[env], missions[env], tracked[env], random[env], rules)
            cells_of_rooms = rules[ROOM_SIZE] * rules[ROOM_SIZE] * rules[COLUMNS] * rules[ROWS]
            limit = rules[TIME_LIMIT]
            max_steps[env] = limit if limit else navigations(missions[env]) * cells_of_rooms


@compiled_for(f"void({GRID}, {GRID}, {GRID}, uint8[::1])")
def take_up(cells, contents, tracked, carried):
    """The mission's object passes into the agent's hand, after the first view was shown, as minigrid does."""
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if tracked[x, y, 0] & 1:
                take(cells, contents, tracked, carried, x, y)
                return
