"""Missions: what is asked, when it is done, and how it is said. BabyAI's grammar and its verifier's exact behaviour.

A mission is a row of numbers. It has one group of tasks, or two in order; a group is one task, or two joined by "and".
Part g is the first task of group g, part g + 2 the one joined to it. A part is a verb and two descriptions: type or -1
for any, colour or -1 for any, where it lies, whether several objects matched.

`verify` follows it step by step in compiled code; `mission_text` says it. minigrid resolves descriptions at reset, to
certain objects: `Grids.tracked` marks these, and they keep their marks when they are carried about. The verifier's
stale positions are kept (docs/papers/glam-method.md#env-2-2, docs/papers/glam-reference.md#env-q6): where the described
objects lie is noted at reset and at each `drop` only, so an object that was picked up still counts as lying in its old
place.
"""

from functools import lru_cache

import numpy as np

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.codes import COLOURS, DOOR, DROP, EMPTY, PICKUP, STEP_X, STEP_Y, TOGGLE, TYPES
from groundlab.worlds.codes import OPEN as OPENED
from groundlab.worlds.dynamics import is_inside
from groundlab.worlds.rules import ANY, BEFORE, GO_TO, OPEN, PICK_UP, PUT_NEXT, SINGLE

# Where an object lies, seen from where the agent starts and in its room.
ANYWHERE, ON_LEFT, ON_RIGHT, IN_FRONT, BEHIND = range(5)
_PLACES = ("", " on your left", " on your right", " in front of you", " behind you")

# Columns: the order, bits of the groups that have an "and", bits of the parts that fail when the wrong thing is used.
ORDER, JOINED, STRICT, _PARTS = range(4)
PARTS, _PART_WIDTH = 4, 9
VERB, FIRST, SECOND = 0, 1, 5  # within a part: the verb, the description, what to put it next to
COLOUR, PLACE, MANY = 1, 2, 3  # within a description, which begins with the type
WIDTH = _PARTS + PARTS * _PART_WIDTH

# Columns of `Grids.progress`: which group is under way, bits of the parts that are done, and what was in the hand when
# each part was last looked at.
GROUP, DONE, HAND_BEFORE = range(3)
PROGRESS = HAND_BEFORE + PARTS
_FULL = 1 << 8  # a hand that holds something; the lower bits are its marks

CONTINUE, SUCCESS, FAILURE = range(3)


@inlined
def part_column(part):
    """Where a part begins in the row."""
    return _PARTS + part * _PART_WIDTH


@inlined
def description_column(part, slot):
    """Where a description begins in the row: `slot` 0 is what the verb is about, 1 what to put it next to."""
    return part_column(part) + (SECOND if slot else FIRST)


@compiled_for("int64(uint8[:, :, ::1], int64, int64)")
def count_matching(cells, kind, colour):
    """How many objects of the grid `cells` [W, H, 3] have this type and this colour (or ANY)."""
    found = 0
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if cells[x, y, 0] == kind and (colour == ANY or cells[x, y, 1] == colour):
                found += 1
    return found


@inlined
def start_part(mission, part, verb):
    """Write the verb of a part."""
    mission[part_column(part) + VERB] = verb


@inlined
def describe_object(mission, part, slot, kind, colour, place):
    """Write a description into a part (`slot` 0 or 1)."""
    column = description_column(part, slot)
    mission[column], mission[column + COLOUR], mission[column + PLACE] = kind, colour, place


@inlined
def lies_at(agent, pitch, place, x, y):
    """Whether (x, y) lies on that side of the agent, in its room of `pitch` + 1 cells a side, walls included."""
    if place == ANYWHERE:
        return True
    left, top = agent[0] // pitch * pitch, agent[1] // pitch * pitch
    if not (left <= x <= left + pitch and top <= y <= top + pitch):
        return False
    away_x, away_y, ahead_x, ahead_y = x - agent[0], y - agent[1], STEP_X[agent[2]], STEP_Y[agent[2]]
    ahead, right = away_x * ahead_x + away_y * ahead_y, away_y * ahead_x - away_x * ahead_y
    if place in (ON_LEFT, ON_RIGHT):
        return right < 0 if place == ON_LEFT else right > 0
    return ahead > 0 if place == IN_FRONT else ahead < 0


@compiled_for("int64(uint8[:, :, ::1], int64[::1], int64[::1], uint8[:, :, ::1], int64, int64, int64)")
def _mark(cells, agent, mission, tracked, column, pitch, mark):
    """Mark what one description means now; returns how much that is. As in minigrid, "grey object" means walls too."""
    kind, colour, place, found = mission[column], mission[column + COLOUR], mission[column + PLACE], 0
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if cells[x, y, 0] == EMPTY or (kind != ANY and cells[x, y, 0] != kind):
                continue
            if (colour == ANY or cells[x, y, 1] == colour) and lies_at(agent, pitch, place, x, y):
                tracked[x, y, 0] |= mark
                found += 1
    return found


@inlined
def _note_places(tracked):
    """The verifier looks again where everything lies."""
    for x in range(tracked.shape[0]):
        for y in range(tracked.shape[1]):
            tracked[x, y, 1] = tracked[x, y, 0]


@compiled_for("void(uint8[:, :, ::1], int64[::1], int64[::1], uint8[:, :, ::1], int64)")
def track(cells, agent, mission, tracked, pitch):
    """Resolve the mission's descriptions in the grid `cells` [W, H, 3] as it is now, into `tracked` [W, H, 2].

    pitch: cells from one room to the next, for descriptions that say where.
    """
    tracked[:] = 0
    for part in range(PARTS):
        for slot in range(2):
            column = description_column(part, slot)
            if mission[column] != 0:
                mark = 1 << (2 * part + slot)
                mission[column + MANY] = _mark(cells, agent, mission, tracked, column, pitch, mark) > 1
    _note_places(tracked)


@inlined
def _is_believed(tracked, x, y, bit):
    return is_inside(tracked.shape[0], tracked.shape[1], x, y) and (tracked[x, y, 1] >> bit) & 1 == 1


@inlined
def _lies_beside(tracked, x, y, bit):
    return (
        _is_believed(tracked, x + 1, y, bit)
        or _is_believed(tracked, x - 1, y, bit)
        or _is_believed(tracked, x, y + 1, bit)
        or _is_believed(tracked, x, y - 1, bit)
    )


@inlined
def _part_status(cells, mission, carried, progress, tracked, x, y, part, action):
    """What this action makes of a part; also notes what is carried, for the next look. (x, y) is the faced cell."""
    verb, strict, bit = mission[part_column(part) + VERB], (mission[STRICT] >> part) & 1, 2 * part
    if verb == GO_TO:
        return SUCCESS if _is_believed(tracked, x, y, bit) else CONTINUE
    if verb == OPEN:
        if action != TOGGLE or cells[x, y, 0] != DOOR:
            return CONTINUE
        if cells[x, y, 2] == OPENED and (tracked[x, y, 0] >> bit) & 1:
            return SUCCESS
        return FAILURE if strict else CONTINUE
    before, held = progress[HAND_BEFORE + part], carried[0] != 0
    progress[HAND_BEFORE + part] = _FULL + carried[4] if held else 0
    if verb == PICK_UP:
        if action != PICKUP:
            return CONTINUE
        if before == 0 and (carried[4] >> bit) & 1:
            return SUCCESS
        return FAILURE if strict and held else CONTINUE
    dropped = action == DROP and (before >> bit) & 1 and not held
    return SUCCESS if dropped and _lies_beside(tracked, x, y, bit + 1) else CONTINUE


@inlined
def verify(cells, agent, carried, mission, progress, tracked, action):
    """What this action, already carried out, makes of the mission: CONTINUE, SUCCESS or FAILURE."""
    if action == DROP:
        _note_places(tracked)
    x, y = agent[0] + STEP_X[agent[2]], agent[1] + STEP_Y[agent[2]]
    if not is_inside(tracked.shape[0], tracked.shape[1], x, y):
        return CONTINUE
    group = progress[GROUP]
    while True:
        joined, status = (mission[JOINED] >> group) & 1, CONTINUE
        for part in range(group, group + 2 * joined + 1, 2):
            if not (progress[DONE] >> part) & 1:
                status = _part_status(cells, mission, carried, progress, tracked, x, y, part, action)
                if status == SUCCESS:
                    progress[DONE] |= 1 << part
        if joined:
            both = (1 << group) | (1 << (group + 2))
            status = SUCCESS if progress[DONE] & both == both else CONTINUE
        if status != SUCCESS or group == 1 or mission[ORDER] == SINGLE:
            return status
        progress[GROUP] = group = 1  # and the second group is looked at in the same step


@inlined
def has_part(mission, part):
    """Whether the mission has this part."""
    group = part % 2
    return (group == 0 or mission[ORDER] != SINGLE) and (part < 2 or (mission[JOINED] >> group) & 1 == 1)


@compiled_for("int64(int64[::1])")
def navigations(row):
    """How many walks BabyAI grants a mission: two to put a thing next to another, one for all else."""
    total = 0
    for part in range(PARTS):
        if has_part(row, part):
            total += 2 if row[part_column(part) + VERB] == PUT_NEXT else 1
    return total


def _noun(kind: int, colour: int, place: int, many: int) -> str:
    name = "object" if kind == ANY else TYPES[kind]
    return f"{'a' if many else 'the'} {'' if colour == ANY else COLOURS[colour] + ' '}{name}{_PLACES[place]}"


def _clause(row: tuple[int, ...], part: int) -> str:
    verb, *numbers = row[_PARTS + part * _PART_WIDTH :][:_PART_WIDTH]
    noun = _noun(*numbers[:4])
    if verb == PUT_NEXT:
        return f"put {noun} next to {_noun(*numbers[4:])}"
    return f"{('go to', 'pick up', 'open')[verb]} {noun}"


@lru_cache(maxsize=65536)
def _text(row: tuple[int, ...]) -> str:
    parts = [[group, group + 2] if (row[JOINED] >> group) & 1 else [group] for group in range(2)]
    first, second = (" and ".join(_clause(row, part) for part in group) for group in parts)
    if row[ORDER] == SINGLE:
        return first
    return f"{first}, then {second}" if row[ORDER] == BEFORE else f"{second} after you {first}"


def mission_text(row: np.ndarray) -> str:
    """The sentence of a mission row [39], e.g. `go to a red ball after you pick up the grey key`
    (docs/papers/glam-method.md#env-2-2).
    """
    return _text(tuple(row.tolist()))
