"""What lives in Crafter besides the player: how each creature moves and hurts, and how they come and go.

Draws come in the package's order. In one place the package itself does not repeat: which of several creatures of a
part of the map disappears follows the order of a Python set of objects, so their addresses in memory; here it is the
order in which they appeared. Source: crafter 1.8.3, `objects.py` and `env.py`.
"""

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.crafter.mersenne import below, uniform
from groundlab.worlds.crafter.rules import ARROW, COW, FURNACE, GRASS, PATH, PLANT, SIZE, SKELETON, TABLE, ZOMBIE
from groundlab.worlds.crafter.state import (
    CHUNK,
    CHUNKS_ACROSS,
    CHUNKS_USED,
    CLOCK,
    KIND,
    LIFE,
    OBJECTS_USED,
    ORDER,
    SLEEPING,
    WAY_X,
    WAY_Y,
    X,
    Y,
    add,
    distance,
    hurt,
    is_free,
    material_at,
    move,
    occupant_at,
    remove,
    walkable,
)
from groundlab.worlds.crafter.terrain import LIVES

RIPE = 300  # steps after which a plant can be eaten
_COW_LIFE, _ZOMBIE_LIFE, _SKELETON_LIFE = LIVES[COW], LIVES[ZOMBIE], LIVES[SKELETON]
_BITE, _BITE_ASLEEP, _ARROW_DAMAGE = 2, 7, 2
_ZOMBIE_RESTS, _SKELETON_RELOADS = 5, 4  # steps
_MAP = "uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[:, ::1], uint32[::1]"


@inlined
def _way(number):
    """Left, right, up, down, as the package numbers them."""
    return (-1, 0) if number == 0 else (1, 0) if number == 1 else (0, -1) if number == 2 else (0, 1)


@inlined
def _sign(value):
    return 1 if value > 0 else -1 if value < 0 else 0


@compiled_for("UniTuple(int64, 2)(int16[:, ::1], int64, bool_)")
def _toward(objects, row, long_axis):
    """One step to the player along the longer or the shorter axis; (0, 0) when that axis has none to go."""
    x, y = objects[0, X] - objects[row, X], objects[0, Y] - objects[row, Y]
    along_x = abs(x) > abs(y) if long_axis else abs(x) <= abs(y)
    return (_sign(x), 0) if along_x else (0, _sign(y))


@compiled_for(f"void({_MAP}, int64, int64)")
def _wander(materials, occupants, objects, counters, chunks, random, row, kind):
    way_x, way_y = _way(below(random, 4))
    move(materials, occupants, objects, counters, chunks, row, kind, way_x, way_y)


@compiled_for(f"void({_MAP}, int64)")
def _update_cow(materials, occupants, objects, counters, chunks, random, row):
    if objects[row, LIFE] <= 0:
        remove(occupants, objects, counters, row)
    if uniform(random) < 0.5:
        _wander(materials, occupants, objects, counters, chunks, random, row, COW)


@compiled_for(f"void({_MAP}, int64[::1], int64[::1], int64)")
def _update_zombie(materials, occupants, objects, counters, chunks, random, inventory, body, row):
    if objects[row, LIFE] <= 0:
        remove(occupants, objects, counters, row)
    if distance(objects, row, objects[0, X], objects[0, Y]) <= 8 and uniform(random) < 0.9:
        way_x, way_y = _toward(objects, row, uniform(random) < 0.8)
        move(materials, occupants, objects, counters, chunks, row, ZOMBIE, way_x, way_y)
    else:
        _wander(materials, occupants, objects, counters, chunks, random, row, ZOMBIE)
    if distance(objects, row, objects[0, X], objects[0, Y]) <= 1:
        if objects[row, CLOCK]:
            objects[row, CLOCK] -= 1
        else:
            hurt(objects, inventory, 0, _BITE_ASLEEP if body[SLEEPING] else _BITE)
            objects[row, CLOCK] = _ZOMBIE_RESTS


@compiled_for(f"void({_MAP}, int64)")
def _shoot(materials, occupants, objects, counters, chunks, random, row):
    way_x, way_y = _toward(objects, row, True)
    if objects[row, CLOCK] > 0 or (way_x == 0 and way_y == 0):
        return
    x, y = objects[row, X] + way_x, objects[row, Y] + way_y
    if is_free(materials, occupants, x, y, ARROW):
        arrow = add(occupants, objects, counters, chunks, ARROW, x, y, 0)
        objects[arrow, WAY_X], objects[arrow, WAY_Y] = way_x, way_y
        objects[row, CLOCK] = _SKELETON_RELOADS


@compiled_for(f"void({_MAP}, int64)")
def _update_skeleton(materials, occupants, objects, counters, chunks, random, row):
    if objects[row, LIFE] <= 0:
        remove(occupants, objects, counters, row)
    objects[row, CLOCK] = max(0, objects[row, CLOCK] - 1)
    far = distance(objects, row, objects[0, X], objects[0, Y])
    if far <= 3:
        way_x, way_y = _toward(objects, row, uniform(random) < 0.6)
        if move(materials, occupants, objects, counters, chunks, row, SKELETON, -way_x, -way_y):
            return
    if far <= 5 and uniform(random) < 0.5:
        _shoot(materials, occupants, objects, counters, chunks, random, row)
    elif far <= 8 and uniform(random) < 0.3:
        way_x, way_y = _toward(objects, row, uniform(random) < 0.6)
        move(materials, occupants, objects, counters, chunks, row, SKELETON, way_x, way_y)
    elif uniform(random) < 0.2:
        _wander(materials, occupants, objects, counters, chunks, random, row, SKELETON)


@compiled_for(f"void({_MAP}, int64[::1], int64)")
def _update_arrow(materials, occupants, objects, counters, chunks, random, inventory, row):
    way_x, way_y = objects[row, WAY_X], objects[row, WAY_Y]
    x, y = objects[row, X] + way_x, objects[row, Y] + way_y
    hit, material = occupant_at(occupants, x, y), material_at(materials, x, y)
    if hit >= 0:
        hurt(objects, inventory, hit, _ARROW_DAMAGE)
        remove(occupants, objects, counters, row)
    elif not walkable(material, ARROW):
        remove(occupants, objects, counters, row)
        if material in (TABLE, FURNACE):
            materials[x, y] = PATH
    else:
        move(materials, occupants, objects, counters, chunks, row, ARROW, way_x, way_y)


@compiled_for("void(int16[:, ::1], int16[:, ::1], int64[::1], int64)")
def _update_plant(occupants, objects, counters, row):
    objects[row, CLOCK] += 1
    for number in range(4):
        way_x, way_y = _way(number)
        beside = occupant_at(occupants, objects[row, X] + way_x, objects[row, Y] + way_y)
        if beside >= 0 and COW <= objects[beside, KIND] <= SKELETON:
            objects[row, LIFE] = max(0, objects[row, LIFE] - 1)
            break
    if objects[row, LIFE] <= 0:
        remove(occupants, objects, counters, row)


@compiled_for(f"void({_MAP}, int64[::1], int64[::1], int64)")
def update_creature(materials, occupants, objects, counters, chunks, random, inventory, body, row):
    """One step of an object that is not the player."""
    kind = objects[row, KIND]
    if kind == COW:
        _update_cow(materials, occupants, objects, counters, chunks, random, row)
    elif kind == ZOMBIE:
        _update_zombie(materials, occupants, objects, counters, chunks, random, inventory, body, row)
    elif kind == SKELETON:
        _update_skeleton(materials, occupants, objects, counters, chunks, random, row)
    elif kind == ARROW:
        _update_arrow(materials, occupants, objects, counters, chunks, random, inventory, row)
    elif kind == PLANT:
        _update_plant(occupants, objects, counters, row)


@compiled_for("int64(int16[:, ::1], int64[::1], int64, int64, int64)")
def _nth(objects, counters, chunk, kind, wanted):
    """The row of the wanted-th creature of a kind in a chunk; for -1, how many there are."""
    found = 0
    for row in range(counters[OBJECTS_USED]):
        place = (objects[row, X] // CHUNK) * CHUNKS_ACROSS + objects[row, Y] // CHUNK
        if objects[row, KIND] == kind and place == chunk:
            if found == wanted:
                return row
            found += 1
    return found


@compiled_for("UniTuple(int64, 2)(uint8[:, ::1], int64, int64, int64)")
def _nth_cell(materials, chunk, material, wanted):
    """The wanted-th cell of a material in a chunk, (x, y); for -1, (how many there are, 0)."""
    first_x, first_y = chunk // CHUNKS_ACROSS * CHUNK, chunk % CHUNKS_ACROSS * CHUNK
    found = 0
    for x in range(first_x, min(first_x + CHUNK, SIZE)):
        for y in range(first_y, min(first_y + CHUNK, SIZE)):
            if materials[x, y] == material:
                if found == wanted:
                    return x, y
                found += 1
    return found, 0


@compiled_for(f"void({_MAP}, int64, int64, int64, int64, int64, int64, int64, float64, float64, int64, int64)")
def _balance_kind(
    materials, occupants, objects, counters, chunks, random,
    chunk, kind, life, material, room, spawn_far, despawn_far, spawn_chance, despawn_chance, fewest, most,
):  # fmt: skip
    """Let one creature of a kind appear or disappear in a chunk; `room`: cells of its material that it needs."""
    number = _nth(objects, counters, chunk, kind, -1)
    cells = _nth_cell(materials, chunk, material, -1)[0]
    if number < (0 if cells < room else fewest) and uniform(random) < spawn_chance:
        x, y = _nth_cell(materials, chunk, material, below(random, cells))
        if occupants[x, y] == 0 and distance(objects, 0, x, y) >= spawn_far:
            add(occupants, objects, counters, chunks, kind, x, y, life)
    elif number > most and uniform(random) < despawn_chance:
        row = _nth(objects, counters, chunk, kind, below(random, number))
        if distance(objects, row, objects[0, X], objects[0, Y]) >= despawn_far:
            remove(occupants, objects, counters, row)


@compiled_for(f"void({_MAP}, float64)")
def balance(materials, occupants, objects, counters, chunks, random, daylight):
    """Creatures come and go, part by part of the map: zombies by night, skeletons on paths, cows by day."""
    zombies, cows = int(3.5 - 3 * daylight), int(1.5 + daylight)
    for number in range(counters[CHUNKS_USED]):
        chunk = chunks[ORDER, number]
        _balance_kind(
            materials, occupants, objects, counters, chunks, random,
            chunk, ZOMBIE, _ZOMBIE_LIFE, GRASS, 50, 6, 0, 0.3, 0.4, zombies, zombies,
        )  # fmt: skip
        _balance_kind(
            materials, occupants, objects, counters, chunks, random,
            chunk, SKELETON, _SKELETON_LIFE, PATH, 6, 7, 7, 0.1, 0.1, 1, 2,
        )  # fmt: skip
        _balance_kind(
            materials, occupants, objects, counters, chunks, random,
            chunk, COW, _COW_LIFE, GRASS, 30, 5, 5, 0.01, 0.1, 1, cows,
        )  # fmt: skip
