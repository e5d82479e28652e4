"""What distinguishes one level from another: a row of numbers that the compiled generators read.

A world is one such row, or several (the five task kinds of the mixed levels). `Rules(...)` is the row as a named tuple,
the upper-case names are its columns inside compiled loops: `grids.levels[grids.kind[env], TASK]`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DOOR_KEY, BABYAI, ROOM_GRID = range(3)

# Tasks of the BabyAI levels; the first four are also the verbs of a mission.
# In the former OPEN builds two rooms with a locked door between them; the others one room.
GO_TO, PICK_UP, OPEN, PUT_NEXT, PICK_UP_AND_GO_TO, PICK_UP_AND_PICK_UP, GO_TO_AND_GO_TO = range(7)

# A mission of one group of tasks; "A, then B"; "B after you A" (A is always done first).
SINGLE, BEFORE, AFTER = range(3)
ANY = -1  # any colour, any type

# How the two parts of a sequence may be worded: either way (drawn), first "A, then B", or "B after you A".
EITHER, FIRST_THEN, AFTER_YOU = range(3)

# Which missions are accepted: all, those without a held-out object, those of held-out objects only.
ALL, TRAIN, TEST = range(3)

# When objects are placed: after the agent, or before it (minigrid's LevelGen, which also draws one float first).
AGENT_FIRST, AGENT_LAST = range(2)

DRAWN = -1  # a target of which nothing is fixed

# The door-key worlds: which one, the side of their grid, and their time limit.
SIMPLE_DOOR_KEY, KEY_IN_BOX, RANDOM_BOX_KEY, COLORED_DOOR_KEY, MOVING_OBSTACLE = range(5)
DOOR_KEY_SIZE = 10
DOOR_KEY_STEPS = DOOR_KEY_SIZE * DOOR_KEY_SIZE


class Rules(NamedTuple):
    """One level. Sizes in cells, walls included; targets are type and colour codes."""

    family: int = BABYAI
    variant: int = 0  # which door-key world
    room_size: int = 8
    columns: int = 1  # rooms side by side
    task: int = GO_TO
    objects: int = 0  # drawn objects; fixed targets come on top
    unique: int = 0  # 1: no two drawn objects alike
    order: int = EITHER
    accepted: int = ALL
    placement: int = AGENT_FIRST
    lenient: int = 0  # 1: an unreachable object is noticed only after the mission is drawn
    target_type: int = DRAWN
    target_colour: int = DRAWN
    second_type: int = DRAWN
    second_colour: int = DRAWN
    pretraining: int = 0  # 1: the target's colour and type are drawn last
    per_episode: int = 0  # 1: each episode draws its kind among the rows of the world
    rows: int = 1  # of rooms, one below the other
    time_limit: int = 0  # in steps; 0: so many for each walk that the mission needs
    carrying: int = 0  # 1: the mission's object is in the hand from the first step on
    blueprint: tuple[tuple[int, ...], ...] = ()  # how a level of several rooms is built (room_grid/blueprint.py)


(
    FAMILY, VARIANT, ROOM_SIZE, COLUMNS, TASK, OBJECTS, UNIQUE, ORDER, ACCEPTED, PLACEMENT, LENIENT,
    TARGET_TYPE, TARGET_COLOUR, SECOND_TYPE, SECOND_COLOUR, PRETRAINING, PER_EPISODE, ROWS,
    TIME_LIMIT, CARRYING, BLUEPRINT,
) = range(len(Rules._fields))  # fmt: skip


def table(levels: Sequence[Rules]) -> np.ndarray:
    """int64 [K, columns]: a row a level; the steps of its blueprint follow one another from column BLUEPRINT on."""
    rows = [[*level[:BLUEPRINT], *(number for step in level.blueprint for number in step), 0] for level in levels]
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows], np.int64)
