"""The BabyAI levels: one room with objects, or two with a locked door, and a mission about what lies there.

One generator for GoToLocal and its kin, the mixed, sequence, reasoning and knowledge levels; `Rules` says which. It
draws in the order of minigrid and of BabyAI-Text (docs/papers/glam-method.md#env-2-3 to #env-2-6,
docs/papers/knowledge-method.md#s1-1), so the same seed gives the same level.
"""

import numpy as np

from groundlab.core.compiled import compiled, compiled_for, inlined
from groundlab.worlds.codes import BALL, BLUE, BOX, DOOR, GREEN, GREY, KEY, LOCKED, PURPLE, RED, YELLOW
from groundlab.worlds.dynamics import put
from groundlab.worlds.missions import (
    ANYWHERE,
    COLOUR,
    FIRST,
    ORDER,
    SECOND,
    VERB,
    count_matching,
    describe_object,
    navigations,
    part_column,
    start_part,
    track,
)
from groundlab.worlds.pcg64 import integers, skip_double
from groundlab.worlds.rooms import add_object, all_reachable, build_rooms, draw_object, listed, place_agent
from groundlab.worlds.rules import (
    ACCEPTED,
    AFTER,
    AFTER_YOU,
    AGENT_FIRST,
    ALL,
    ANY,
    BEFORE,
    COLUMNS,
    DRAWN,
    EITHER,
    GO_TO,
    GO_TO_AND_GO_TO,
    LENIENT,
    OBJECTS,
    OPEN,
    PICK_UP,
    PICK_UP_AND_PICK_UP,
    PLACEMENT,
    PRETRAINING,
    PUT_NEXT,
    ROOM_SIZE,
    SECOND_COLOUR,
    SECOND_TYPE,
    TARGET_COLOUR,
    TARGET_TYPE,
    TASK,
    TEST,
    UNIQUE,
)
from groundlab.worlds.rules import ORDER as ORDER_RULE

_TRAIN_DOORS = (YELLOW, GREEN, BLUE, PURPLE)
_TEST_DOORS = (RED, GREY)
_PRETRAINING_COLOURS = (RED, GREEN, BLUE)
_PRETRAINING_TYPES = (BALL, BOX)


@inlined
def is_held_out(kind, colour):
    """The five objects that training missions never name (docs/papers/glam-method.md#env-2-3)."""
    return (
        (kind == BOX and colour == YELLOW)
        or (kind == KEY and colour == RED)
        or (kind == BALL and colour == GREEN)
        or (kind == DOOR and colour in (RED, GREY))
    )


@inlined
def _may_name(rules, kind, colour):
    accepted = rules[ACCEPTED]
    return accepted == ALL or colour == ANY or is_held_out(kind, colour) == (accepted == TEST)


@inlined
def _single(mission, verb, kind, colour):
    start_part(mission, 0, verb)
    describe_object(mission, 0, 0, kind, colour, ANYWHERE)


@compiled_for("bool_(uint8[:, :, ::1], int64[::1], uint64[::1], int64[::1], int64, int64[:, ::1], int64, int64)")
def _add_drawn_objects(cells, agent, random, rules, room, things, count, number):
    """Add `number` random objects to a room, listed in `things` from `count` on; False when one finds no place."""
    end = count + number
    while count < end:
        kind, colour = draw_object(random)
        if rules[UNIQUE] and listed(things, count, kind, colour):
            continue
        if not add_object(cells, agent, random, rules, room, kind, colour):
            return False
        things[count, 0], things[count, 1] = kind, colour
        count += 1
    return True


@compiled_for("bool_(uint8[:, :, ::1], int64[::1], uint64[::1], int64[::1], int64[:, ::1])")
def _furnish(cells, agent, random, rules, things):
    """Fixed targets, then drawn objects, with the agent before or after them; False when something finds no place."""
    fixed = 0
    if rules[PLACEMENT] == AGENT_FIRST and not place_agent(cells, agent, random, rules, 0, 0):
        return False
    if rules[TARGET_TYPE] != DRAWN:
        things[0, 0], things[0, 1] = rules[TARGET_TYPE], rules[TARGET_COLOUR]
        fixed = 1
    if rules[SECOND_TYPE] != DRAWN:
        things[1, 0], things[1, 1] = rules[SECOND_TYPE], rules[SECOND_COLOUR]
        fixed = 2
    for k in range(fixed):
        if not add_object(cells, agent, random, rules, 0, things[k, 0], things[k, 1]):
            return False
    if not _add_drawn_objects(cells, agent, random, rules, 0, things, fixed, rules[OBJECTS]):
        return False
    return rules[PLACEMENT] == AGENT_FIRST or place_agent(cells, agent, random, rules, 0, 0)


@inlined
def _alike(things, first, second):
    return things[first, 0] == things[second, 0] and things[first, 1] == things[second, 1]


@compiled_for("UniTuple(int64, 2)(uint8[:, :, ::1], uint64[::1], int64[::1], int64[:, ::1], int64)")
def _draw_pair(cells, random, rules, things, count):
    """Two listed objects. Mixed levels redraw the second while it is the first; PutNextLocal draws a subset."""
    first = integers(random, 0, count)
    if rules[UNIQUE]:
        second = integers(random, 0, count - 1)
        return first, second + (second >= first)
    second = integers(random, 0, count)
    kind, colour = things[first, 0], things[first, 1]
    if _alike(things, first, second) and count_matching(cells, kind, colour) < 2:
        while _alike(things, first, second):
            second = integers(random, 0, count)
    return first, second


@compiled_for("int64(uint64[::1], int64[::1])")
def _draw_order(random, rules):
    """How a sequence is worded; only levels that allow both ways draw."""
    if rules[ORDER_RULE] == EITHER:
        return BEFORE if integers(random, 0, 2) == 0 else AFTER
    return AFTER if rules[ORDER_RULE] == AFTER_YOU else BEFORE


@compiled_for("bool_(int64[::1], uint64[::1], int64[::1], int64[:, ::1], int64, int64)")
def _say_pair(mission, random, rules, things, first, second):
    """Write the mission about two objects; False when it names an object that the level does not ask for."""
    task = rules[TASK]
    part, slot = (0, 1) if task == PUT_NEXT else (1, 0)
    if task == PUT_NEXT:
        start_part(mission, 0, PUT_NEXT)
    else:
        start_part(mission, 0, GO_TO if task == GO_TO_AND_GO_TO else PICK_UP)
        start_part(mission, 1, PICK_UP if task == PICK_UP_AND_PICK_UP else GO_TO)
        mission[ORDER] = _draw_order(random, rules)
    describe_object(mission, 0, 0, things[first, 0], things[first, 1], ANYWHERE)
    describe_object(mission, part, slot, things[second, 0], things[second, 1], ANYWHERE)
    return _may_name(rules, things[first, 0], things[first, 1]) and _may_name(
        rules, things[second, 0], things[second, 1]
    )


@compiled_for("bool_(uint8[:, :, ::1], int64[::1], uint64[::1], int64[::1], int64[:, ::1], int64)")
def _draw_mission(cells, mission, random, rules, things, count):
    """Draw what is asked about the listed objects; False when the level does not ask for it."""
    mission[:] = 0
    task = rules[TASK]
    if task in (GO_TO, PICK_UP):
        target = 0 if rules[TARGET_TYPE] != DRAWN else integers(random, 0, count)
        kind, colour = things[target, 0], things[target, 1]
        _single(mission, GO_TO if task == GO_TO else PICK_UP, kind, colour)
        return _may_name(rules, kind, colour)
    first, second = 0, 1
    if rules[SECOND_TYPE] == DRAWN:
        first, second = _draw_pair(cells, random, rules, things, count)
    return _say_pair(mission, random, rules, things, first, second)


@compiled_for("bool_(uint8[:, :, ::1], int64, int64, int64, int64)")
def _beside(cells, x, y, kind, colour):
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        if cells[x + dx, y + dy, 0] == kind and cells[x + dx, y + dy, 1] == colour:
            return True
    return False


@compiled_for("bool_(uint8[:, :, ::1], int64[::1])")
def _is_undone(cells, mission):
    """BabyAI refuses to ask for two things to be put together that are alike, or already side by side."""
    column = part_column(0)
    if mission[column + VERB] != PUT_NEXT:
        return True
    kind, colour = mission[column + FIRST], mission[column + FIRST + COLOUR]
    other_kind, other_colour = mission[column + SECOND], mission[column + SECOND + COLOUR]
    if kind == other_kind and colour == other_colour:
        return False
    for x in range(1, cells.shape[0] - 1):
        for y in range(1, cells.shape[1] - 1):
            found = cells[x, y, 0] == kind and cells[x, y, 1] == colour
            if found and _beside(cells, x, y, other_kind, other_colour):
                return False
    return True


@compiled_for("int64(uint64[::1], int64, int64)")
def _other_room(random, columns, room):
    while True:
        other = integers(random, 0, columns)
        if other != room:
            return other


@compiled_for("bool_(uint8[:, :, ::1], int64[::1], int64[::1], uint64[::1], int64[::1], int64[:, ::1])")
def _try_open_level(cells, agent, mission, random, rules, things):
    """Two rooms, a locked door between them, its key and the objects on the open side
    (docs/papers/glam-method.md#env-2-3)."""
    columns, size = rules[COLUMNS], rules[ROOM_SIZE]
    door_row = integers(random, 1, size - 1)
    test = rules[ACCEPTED] == TEST
    colour = _TEST_DOORS[integers(random, 0, 2)] if test else _TRAIN_DOORS[integers(random, 0, 4)]
    while True:
        locked_room = integers(random, 0, columns)
        wall = integers(random, 0, 4)
        if (locked_room == 0 and wall == 0) or (locked_room == 1 and wall == 2):
            break
    put(cells, size - 1, door_row, DOOR, colour, LOCKED)
    room = _other_room(random, columns, locked_room)
    if not add_object(cells, agent, random, rules, room, KEY, colour):
        return False
    if not _add_drawn_objects(cells, agent, random, rules, room, things, 0, rules[OBJECTS]):
        return False
    while True:
        agent_room = integers(random, 0, columns)
        if not place_agent(cells, agent, random, rules, agent_room, 0):
            return False
        if agent_room != locked_room:
            break
    reachable = all_reachable(cells, agent)
    mission[:] = 0
    named = test or integers(random, 0, 2) == 1
    _single(mission, OPEN, DOOR, colour if named else ANY)
    return reachable


@compiled_for("bool_(uint8[:, :, ::1], int64[::1], int64[::1], uint64[::1], int64[::1], int64[:, ::1])")
def _try_room_level(cells, agent, mission, random, rules, things):
    """One room and a mission about its objects; False when the level must be drawn afresh."""
    count = rules[OBJECTS]
    if rules[PLACEMENT] != AGENT_FIRST:
        skip_double(random)
    if not _furnish(cells, agent, random, rules, things):
        return False
    reachable = all_reachable(cells, agent)
    if not (reachable or rules[LENIENT]):
        return False
    accepted = _draw_mission(cells, mission, random, rules, things, count)
    return reachable and accepted and _is_undone(cells, mission)


@compiled_for("void(uint8[:, :, ::1], int64[::1], uint64[::1], int64[::1])")
def _draw_pretraining_target(cells, mission, random, rules):
    """Recolour the target of a pretraining level, last, so that the layout is the one of the original's seed."""
    colour = _PRETRAINING_COLOURS[integers(random, 0, 3)]
    kind = _PRETRAINING_TYPES[integers(random, 0, 2)]
    for x in range(cells.shape[0]):
        for y in range(cells.shape[1]):
            if cells[x, y, 0] == rules[TARGET_TYPE] and cells[x, y, 1] == rules[TARGET_COLOUR]:
                put(cells, x, y, kind, colour, 0)
    _single(mission, GO_TO, kind, colour)


@compiled_for("void(uint8[:, :, ::1], int64[::1], int64[::1], uint64[::1], int64[::1])")
def _draw_level(cells, agent, mission, random, rules):
    """Draw levels until one is accepted."""
    things = np.empty((rules[OBJECTS] + 2, 2), np.int64)
    if rules[TASK] == OPEN:
        integers(random, 1, rules[ROOM_SIZE] - 1)  # the original builds its rooms once before its loop
    drawn = False
    while not drawn:
        build_rooms(cells, agent, rules)
        if rules[TASK] == OPEN:
            drawn = _try_open_level(cells, agent, mission, random, rules, things)
        else:
            drawn = _try_room_level(cells, agent, mission, random, rules, things)
    if rules[PRETRAINING]:
        _draw_pretraining_target(cells, mission, random, rules)


@compiled
def draw_levels(cells, contents, agents, missions, tracked, random, max_steps, sizes, levels, kind, mask):
    """Draw a new level of each environment where `mask` [B] is true, from its own stream."""
    for env in range(mask.shape[0]):
        if mask[env]:
            rules = levels[kind[env]]
            size, columns = rules[ROOM_SIZE], rules[COLUMNS]
            _draw_level(cells[env], agents[env], missions[env], random[env], rules)
            track(cells[env], agents[env], missions[env], tracked[env], size - 1)
            sizes[env, 0], sizes[env, 1] = (size - 1) * columns + 1, size
            max_steps[env] = navigations(missions[env]) * size * size * columns
