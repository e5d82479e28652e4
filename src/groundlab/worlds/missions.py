"""Missions: what is asked, when it is done, and how it is said. BabyAI's grammar and its verifier's exact behaviour.

A mission is a row of numbers: the order of its two parts, then for each part a verb and two descriptions (type, colour
or -1 for any, whether several objects matched). `verify` follows it step by step in compiled code; `mission_text` says
it. The verifier's stale positions are kept (docs/papers/glam.md#env-2-2, #env-q6): where the described objects lie is
noted at reset and after each `drop` only, so an object that was picked up still counts as lying in its old place.
"""

from functools import lru_cache

import numpy as np

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.codes import COLOURS, DOOR, DROP, EMPTY, PICKUP, STEP_X, STEP_Y, TOGGLE, TYPES, WALL
from groundlab.worlds.codes import OPEN as OPENED
from groundlab.worlds.dynamics import is_inside

SINGLE, BEFORE, AFTER = range(3)  # one part; "A, then B"; "B after you A" (A is always done first)
GO_TO, PICK_UP, OPEN, PUT_NEXT = range(4)
ANY = -1  # any colour

ORDER, _PARTS, _PART_WIDTH = 0, 1, 7
VERB, FIRST, SECOND = 0, 1, 4  # within a part: the verb, the description, what to put it next to
MANY = 2  # within a description: type, colour, whether several objects match
WIDTH = _PARTS + 2 * _PART_WIDTH

# Columns of `Grids.progress`: which part is under way, and what was carried when each part was last looked at.
PART, CARRIED_BEFORE = 0, 1
PROGRESS = 3
_COLOUR_SHIFT = 16


@inlined
def part_column(part):
    """Where a part begins in the row."""
    return _PARTS + part * _PART_WIDTH


@compiled_for("int64(uint8[:, :, ::1], int64, int64)")
def count_matching(cells, kind, colour):
    """How many objects of the grid `cells` [W, H, 3] match a description."""
    found = 0
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if cells[x, y, 0] == kind and (colour == ANY or cells[x, y, 1] == colour):
                found += 1
    return found


@compiled_for("void(uint8[:, :, ::1], int64[::1], int64, int64, int64, int64)")
def describe_object(cells, mission, part, slot, kind, colour):
    """Write a description into a part (`slot` FIRST or SECOND) and note whether several objects match it now."""
    column = part_column(part) + slot
    mission[column], mission[column + 1] = kind, colour
    mission[column + MANY] = count_matching(cells, kind, colour) > 1


@inlined
def _matches(row, column, kind, colour):
    return row[column] == kind and (row[column + 1] == ANY or row[column + 1] == colour)


@compiled_for("void(uint8[:, :, ::1], int64[::1], uint8[:, ::1])")
def track(cells, mission, tracked):
    """Note where the described objects lie: bit 2 * part + slot of `tracked` [W, H] for each cell of `cells`."""
    for x in range(tracked.shape[0]):
        for y in range(tracked.shape[1]):
            kind, colour, bits = cells[x, y, 0], cells[x, y, 1], 0
            if kind != EMPTY and kind != WALL:
                for part in range(2):
                    column = part_column(part)
                    bits |= _matches(mission, column + FIRST, kind, colour) << (2 * part)
                    bits |= _matches(mission, column + SECOND, kind, colour) << (2 * part + 1)
            tracked[x, y] = bits


@inlined
def _is_tracked(tracked, x, y, bit):
    return is_inside(tracked.shape[0], tracked.shape[1], x, y) and (tracked[x, y] >> bit) & 1 == 1


@inlined
def _lies_beside(tracked, x, y, bit):
    return (
        _is_tracked(tracked, x + 1, y, bit)
        or _is_tracked(tracked, x - 1, y, bit)
        or _is_tracked(tracked, x, y + 1, bit)
        or _is_tracked(tracked, x, y - 1, bit)
    )


@inlined
def _part_done(mission, carried, progress, tracked, faced, x, y, part, action):
    """Whether this action completes a part; also notes what is carried, for the next look.

    `faced` is the cell in front of the agent, at (x, y).
    """
    column = part_column(part)
    verb = mission[column + VERB]
    if verb == GO_TO:
        return _is_tracked(tracked, x, y, 2 * part)
    if verb == OPEN:
        opened = action == TOGGLE and faced[0] == DOOR and faced[2] == OPENED
        return opened and _is_tracked(tracked, x, y, 2 * part)
    before = progress[CARRIED_BEFORE + part]
    progress[CARRIED_BEFORE + part] = carried[0] + _COLOUR_SHIFT * carried[1]
    if verb == PICK_UP:
        return action == PICKUP and before == 0 and _matches(mission, column + FIRST, carried[0], carried[1])
    dropped = action == DROP and before != 0 and carried[0] == 0
    right = _matches(mission, column + FIRST, before % _COLOUR_SHIFT, before // _COLOUR_SHIFT)
    return dropped and right and _lies_beside(tracked, x, y, 2 * part + 1)


@inlined
def verify(cells, agent, carried, mission, progress, tracked, action):
    """Whether this action, already carried out, completes the mission of one environment."""
    if action == DROP:
        track(cells, mission, tracked)
    x, y = agent[0] + STEP_X[agent[2]], agent[1] + STEP_Y[agent[2]]
    if not is_inside(tracked.shape[0], tracked.shape[1], x, y):
        return False
    faced, part = cells[x, y], progress[PART]
    done = _part_done(mission, carried, progress, tracked, faced, x, y, part, action)
    if done and part == 0 and mission[ORDER] != SINGLE:
        progress[PART] = 1  # and the second part is looked at in the same step
        return _part_done(mission, carried, progress, tracked, faced, x, y, 1, action)
    return done


@compiled_for("int64(int64[::1])")
def navigations(row):
    """How many walks BabyAI grants a mission: two to put a thing next to another, one for all else."""
    total = 0
    for part in range(1 if row[ORDER] == SINGLE else 2):
        total += 2 if row[part_column(part) + VERB] == PUT_NEXT else 1
    return total


def _noun(kind: int, colour: int, many: int) -> str:
    name = TYPES[kind] if colour == ANY else f"{COLOURS[colour]} {TYPES[kind]}"
    return f"a {name}" if many else f"the {name}"


def _clause(verb: int, kind: int, colour: int, many: int, *other: int) -> str:
    noun = _noun(kind, colour, many)
    if verb == PUT_NEXT:
        return f"put {noun} next to {_noun(*other)}"
    return f"{('go to', 'pick up', 'open')[verb]} {noun}"


@lru_cache(maxsize=65536)
def _text(row: tuple[int, ...]) -> str:
    first, second = (row[start : start + _PART_WIDTH] for start in (_PARTS, _PARTS + _PART_WIDTH))
    if row[ORDER] == SINGLE:
        return _clause(*first)
    if row[ORDER] == BEFORE:
        return f"{_clause(*first)}, then {_clause(*second)}"
    return f"{_clause(*second)} after you {_clause(*first)}"


def mission_text(row: np.ndarray) -> str:
    """The sentence of a mission row [15], e.g. `go to a red ball after you pick up the grey key`
    (docs/papers/glam.md#env-2-2).
    """
    return _text(tuple(row.tolist()))
