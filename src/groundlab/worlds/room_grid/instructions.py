"""Missions drawn from BabyAI's whole grammar (minigrid's LevelGen), and which of them are accepted."""

from groundlab.core.compiled import compiled_for
from groundlab.worlds.codes import BALL, BOX, DOOR, DRAWN_COLOURS, EMPTY, KEY, LOCKED
from groundlab.worlds.missions import (
    ANYWHERE,
    COLOUR,
    JOINED,
    ORDER,
    PARTS,
    VERB,
    describe_object,
    description_column,
    has_part,
    lies_at,
    part_column,
    start_part,
)
from groundlab.worlds.pcg64 import integers
from groundlab.worlds.room_grid.blueprint import DRAWN
from groundlab.worlds.room_grid.doors import GRID, RANDOM, ROW
from groundlab.worlds.rules import AFTER, ANY, BEFORE, GO_TO, OPEN, PUT_NEXT, ROOM_SIZE

_TYPES = (BOX, BALL, KEY, DOOR)
_ANYTHING, _NO_DOOR, _DOOR_ONLY = range(3)
_TRIES = 101
NO_ROOM = -1


@compiled_for(f"bool_({GRID}, {ROW}, {ROW}, {ROW}, int64, int64, int64, bool_)")
def _is_meant(cells, agent, rules, locked, kind, colour, place, outside):
    """Whether a description means anything, or anything outside the locked room."""
    pitch = rules[ROOM_SIZE] - 1
    left, top = locked[0] * pitch, locked[1] * pitch
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if cells[x, y, 0] != kind or (colour != ANY and cells[x, y, 1] != colour):
                continue
            if outside and left <= x <= left + pitch and top <= y <= top + pitch:
                continue
            if lies_at(agent, pitch, place, x, y):
                return True
    return False


@compiled_for(f"bool_({GRID}, {ROW}, {ROW}, {RANDOM}, {ROW}, {ROW}, {ROW}, int64, int64, int64)")
def _draw_description(cells, agent, mission, random, rules, locked, options, part, slot, types):
    """Draw descriptions until one means something; False after too many."""
    while_locked = locked[0] != NO_ROOM and not options[4]
    for _ in range(_TRIES):
        number = integers(random, 0, 7)
        colour = ANY if number == 0 else DRAWN_COLOURS[number - 1]
        kind = DOOR if types == _DOOR_ONLY else _TYPES[integers(random, 0, 3 if types == _NO_DOOR else 4)]
        place = ANYWHERE
        if options[2] and integers(random, 0, 2) == 0:
            place = 1 + integers(random, 0, 4)
        if _is_meant(cells, agent, rules, locked, kind, colour, place, while_locked):
            describe_object(mission, part, slot, kind, colour, place)
            return True
    return False


@compiled_for(f"bool_({GRID}, {ROW}, {ROW}, {RANDOM}, {ROW}, {ROW}, {ROW}, int64)")
def _draw_part(cells, agent, mission, random, rules, locked, options, part):
    verb = integers(random, 0, 4) if options[0] == DRAWN else options[0]
    types = _ANYTHING if verb == GO_TO else _DOOR_ONLY if verb == OPEN else _NO_DOOR
    start_part(mission, part, verb)
    if not _draw_description(cells, agent, mission, random, rules, locked, options, part, 0, types):
        return False
    if verb != PUT_NEXT:
        return True
    return _draw_description(cells, agent, mission, random, rules, locked, options, part, 1, _ANYTHING)


@compiled_for(f"bool_({GRID}, {ROW}, {ROW}, {RANDOM}, {ROW}, {ROW}, {ROW}, int64, bool_)")
def _draw_group(cells, agent, mission, random, rules, locked, options, group, joined):
    """One task, or two joined by "and"."""
    mission[JOINED] |= joined << group
    if not _draw_part(cells, agent, mission, random, rules, locked, options, group):
        return False
    return not joined or _draw_part(cells, agent, mission, random, rules, locked, options, group + 2)


@compiled_for(f"void({ROW})")
def _reverse(mission):
    """Swap the two groups."""
    width = part_column(1) - part_column(0)
    for column in range(part_column(0), part_column(0) + width):
        for start in (column, column + 2 * width):
            mission[start], mission[start + width] = mission[start + width], mission[start]
    mission[JOINED] = (mission[JOINED] >> 1) | ((mission[JOINED] & 1) << 1)


@compiled_for(f"bool_({GRID}, {ROW}, {ROW}, {RANDOM}, {ROW}, {ROW}, {ROW})")
def draw_instruction(cells, agent, mission, random, rules, locked, options):
    """Draw a mission; False when no description fits.

    locked: the locked room (column, row) or NO_ROOM; options: the arguments of `blueprint.instruct`.
    """
    kind = 0 if options[1] else integers(random, 0, 3)  # a task, two joined, two groups in order
    if kind < 2:
        return _draw_group(cells, agent, mission, random, rules, locked, options, 0, kind == 1)
    for group in range(2):
        joined = integers(random, 0, 2) == 1
        if not _draw_group(cells, agent, mission, random, rules, locked, options, group, joined):
            return False
    if integers(random, 0, 2) == 0:
        mission[ORDER] = BEFORE
    else:
        mission[ORDER] = AFTER
        _reverse(mission)
    return True


@compiled_for(f"bool_({GRID}, int64)")
def _locks(cells, colour):
    """Whether a door of this colour is locked."""
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if cells[x, y, 0] == DOOR and cells[x, y, 1] == colour and cells[x, y, 2] == LOCKED:
                return True
    return False


@compiled_for(f"bool_({GRID}, {GRID}, int64)")
def _is_next_already(cells, tracked, part):
    """Whether something that is to be put down lies beside its goal, or is its goal."""
    moved, goal = 2 * part, 2 * part + 1
    for x in range(1, cells.shape[0] - 1):
        for y in range(1, cells.shape[1] - 1):
            if cells[x, y, 0] == EMPTY or not (tracked[x, y, 0] >> moved) & 1:
                continue
            around = tracked[x - 1, y, 0] | tracked[x + 1, y, 0] | tracked[x, y - 1, 0] | tracked[x, y + 1, 0]
            if ((tracked[x, y, 0] | around) >> goal) & 1:
                return True
    return False


@compiled_for(f"bool_({GRID}, {GRID}, {ROW}, bool_)")
def is_accepted(cells, tracked, mission, unblocking):
    """Whether BabyAI asks such a thing: nothing done already and, with `unblocking`, of no key that fits a door."""
    for part in range(PARTS):
        if not has_part(mission, part):
            continue
        puts = mission[part_column(part) + VERB] == PUT_NEXT
        if puts and _is_next_already(cells, tracked, part):
            return False
        for slot in range(1 + puts):
            column = description_column(part, slot)
            if unblocking and mission[column] == KEY and _locks(cells, mission[column + COLOUR]):
                return False
    return True
