"""B lives in Crafter as arrays: everything that a world remembers between two steps.

Objects are rows in the order in which they appeared, the player first, without gaps between two steps. Chunks are the
12 x 12 parts in which creatures come and go, in the order in which something first stood in them.
"""

from typing import NamedTuple

import numpy as np

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.crafter import mersenne
from groundlab.worlds.crafter.rules import (
    ACHIEVEMENTS,
    ARROW,
    FULL,
    GRASS,
    HEALTH,
    ITEMS,
    LAVA,
    OUTSIDE,
    PATH,
    PLAYER,
    SAND,
    SIZE,
    VITALS,
    WATER,
)

# fields of an object; CLOCK: a zombie's cooldown, a skeleton's reload, a plant's age
KIND, X, Y, LIFE, CLOCK, WAY_X, WAY_Y = range(7)
GONE = 0  # the kind of an object that was removed during this step
MOST_OBJECTS = SIZE * SIZE + SIZE  # one a cell, and room for those removed during a step
# fields of the player's body; "half": counted in halves, because sleep counts half
HALF_HUNGER, HALF_THIRST, FATIGUE, HALF_RECOVERY, SLEEPING, FELT_HEALTH, PAID_HEALTH = range(7)
OBJECTS_USED, CHUNKS_USED, REMOVED = range(3)  # counters
CHUNK = 12
CHUNKS_ACROSS = -(-SIZE // CHUNK)
CHUNKS = CHUNKS_ACROSS**2
ORDER, KNOWN = range(2)


class Lives(NamedTuple):
    """The state of B environments."""

    materials: np.ndarray  # uint8 [B, 64, 64], by x and y
    occupants: np.ndarray  # int16 [B, 64, 64]: row of the object there + 1; 0 for none
    objects: np.ndarray  # int16 [B, MOST_OBJECTS, 7]
    counters: np.ndarray  # int64 [B, 3]
    chunks: np.ndarray  # int64 [B, 2, 36]: the known ones in order, and whether each is known
    inventory: np.ndarray  # int64 [B, 16]
    body: np.ndarray  # int64 [B, 7]
    achievements: np.ndarray  # int64 [B, 22]: how often each was done in this episode
    unlocked: np.ndarray  # bool [B, 22]: which of them were done, as of the last reward
    steps: np.ndarray  # int64 [B]
    random: np.ndarray  # uint32 [B, 625]: an MT19937 each
    seeds: np.ndarray  # int64 [B]
    episodes: np.ndarray  # int64 [B]: episodes since it was seeded


def empty_lives(count: int) -> Lives:
    """Zeroed state of `count` environments."""
    return Lives(
        materials=np.zeros((count, SIZE, SIZE), np.uint8),
        occupants=np.zeros((count, SIZE, SIZE), np.int16),
        objects=np.zeros((count, MOST_OBJECTS, 7), np.int16),
        counters=np.zeros((count, 3), np.int64),
        chunks=np.zeros((count, 2, CHUNKS), np.int64),
        inventory=np.zeros((count, len(ITEMS)), np.int64),
        body=np.zeros((count, 7), np.int64),
        achievements=np.zeros((count, len(ACHIEVEMENTS)), np.int64),
        unlocked=np.zeros((count, len(ACHIEVEMENTS)), np.bool_),
        steps=np.zeros(count, np.int64),
        random=np.zeros((count, mersenne.ROW), np.uint32),
        seeds=np.zeros(count, np.int64),
        episodes=np.zeros(count, np.int64),
    )


def be_born(lives: Lives, env: int) -> None:
    """Forget the last episode; the player stands in the middle, looks down, has nothing and is well."""
    for array in (lives.occupants, lives.counters, lives.chunks, lives.body, lives.achievements, lives.unlocked):
        array[env] = 0
    lives.steps[env] = 0
    lives.inventory[env] = 0
    lives.inventory[env, : len(VITALS)] = FULL
    lives.body[env, FELT_HEALTH] = lives.body[env, PAID_HEALTH] = FULL
    middle = SIZE // 2
    add(lives.occupants[env], lives.objects[env], lives.counters[env], lives.chunks[env], PLAYER, middle, middle, 0)
    lives.objects[env, 0, WAY_Y] = 1


@inlined
def inside(x, y):
    """Whether there is such a cell."""
    return 0 <= x < SIZE and 0 <= y < SIZE


@inlined
def material_at(materials, x, y):
    """The material of a cell; OUTSIDE beyond the map."""
    return np.int64(materials[x, y]) if inside(x, y) else OUTSIDE


@inlined
def occupant_at(occupants, x, y):
    """The row of the object in a cell; -1 for none."""
    return np.int64(occupants[x, y]) - 1 if inside(x, y) else -1


@inlined
def walkable(material, kind):
    """Whether an object of this kind may enter: the player walks into lava, an arrow flies over water and lava."""
    if material in (GRASS, PATH, SAND):
        return True
    return (material == LAVA and kind in (PLAYER, ARROW)) or (material == WATER and kind == ARROW)


@inlined
def is_free(materials, occupants, x, y, kind):
    """Whether an object of this kind may enter the cell now."""
    return occupant_at(occupants, x, y) < 0 and walkable(material_at(materials, x, y), kind)


@inlined
def distance(objects, row, x, y):
    """Steps between an object and a cell."""
    return abs(objects[row, X] - x) + abs(objects[row, Y] - y)


@inlined
def _visit(counters, chunks, x, y):
    chunk = (x // CHUNK) * CHUNKS_ACROSS + y // CHUNK
    if not chunks[KNOWN, chunk]:
        chunks[KNOWN, chunk] = 1
        chunks[ORDER, counters[CHUNKS_USED]] = chunk
        counters[CHUNKS_USED] += 1


@compiled_for("int64(int16[:, ::1], int16[:, ::1], int64[::1], int64[:, ::1], int64, int64, int64, int64)")
def add(occupants, objects, counters, chunks, kind, x, y, life):
    """Put a new object into a cell; returns its row."""
    row = counters[OBJECTS_USED]
    counters[OBJECTS_USED] += 1
    objects[row, :] = 0
    objects[row, KIND], objects[row, X], objects[row, Y], objects[row, LIFE] = kind, x, y, life
    occupants[x, y] = row + 1
    _visit(counters, chunks, x, y)
    return row


@compiled_for("void(int16[:, ::1], int16[:, ::1], int64[::1], int64)")
def remove(occupants, objects, counters, row):
    """Take an object off the map; its row stays until `close_gaps`."""
    occupants[objects[row, X], objects[row, Y]] = 0
    objects[row, KIND] = GONE
    counters[REMOVED] = 1


@compiled_for("void(int16[:, ::1], int16[:, ::1], int64[::1])")
def close_gaps(occupants, objects, counters):
    """Move the remaining objects up to where removed ones were."""
    kept = 0
    for row in range(counters[OBJECTS_USED]):
        if objects[row, KIND] == GONE:
            continue
        if kept < row:
            for field in range(objects.shape[1]):
                objects[kept, field] = objects[row, field]
            occupants[objects[kept, X], objects[kept, Y]] = kept + 1
        kept += 1
    counters[OBJECTS_USED], counters[REMOVED] = kept, 0


@compiled_for(
    "bool_(uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[:, ::1], int64, int64, int64, int64)"
)  # fmt: skip
def move(materials, occupants, objects, counters, chunks, row, kind, way_x, way_y):
    """Move an object one step if it may; returns whether the way was free (for one just removed it can be, too)."""
    x, y = objects[row, X] + way_x, objects[row, Y] + way_y
    if not is_free(materials, occupants, x, y, kind):
        return False
    if objects[row, KIND] != GONE:
        occupants[objects[row, X], objects[row, Y]] = 0
        occupants[x, y] = row + 1
        objects[row, X], objects[row, Y] = x, y
        _visit(counters, chunks, x, y)
    return True


@inlined
def hurt(objects, inventory, row, damage):
    """Take life from an object; the player's is in the inventory."""
    if row == 0:
        inventory[HEALTH] = max(0, inventory[HEALTH] - damage)
    else:
        objects[row, LIFE] = max(0, objects[row, LIFE] - damage)
