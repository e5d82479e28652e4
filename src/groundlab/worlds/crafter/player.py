"""What the player does and how its body fares. Source: crafter 1.8.3, `objects.py`; the text variant:
docs/papers/knowledge-method.md#s1-2.
"""

from groundlab.core.compiled import compiled_for, inlined
from groundlab.worlds.crafter.creatures import RIPE
from groundlab.worlds.crafter.mersenne import uniform
from groundlab.worlds.crafter.rules import (
    COLLECT,
    COLLECT_ACHIEVEMENT,
    COLLECT_ITEM,
    COLLECT_LEAVES,
    COLLECT_TOOL,
    COW,
    DEFEAT_SKELETON,
    DEFEAT_ZOMBIE,
    DO,
    DOWN,
    DRINK,
    EAT_COW,
    EAT_PLANT,
    ENERGY,
    FIRST_MAKE,
    FIRST_PLACE,
    FIRST_TOOL,
    FOOD,
    FULL,
    FURNACE,
    GRASS,
    HEALTH,
    IRON_SWORD,
    LAVA,
    LEFT,
    MAKE_ACHIEVEMENT,
    MAKE_NEEDS_FURNACE,
    MAKE_USES,
    NOTHING,
    PLACE,
    PLACE_ACHIEVEMENT,
    PLACE_AMOUNT,
    PLACE_ITEM,
    PLACE_ONTO,
    PLACED,
    PLANT,
    PLAYER,
    RIGHT,
    SAPLING_CHANCE,
    SIZE,
    SKELETON,
    SLEEP,
    STONE_SWORD,
    TABLE,
    UP,
    WAKE_UP,
    WATER,
    WOOD_SWORD,
    ZOMBIE,
)
from groundlab.worlds.crafter.state import (
    CLOCK,
    FATIGUE,
    FELT_HEALTH,
    HALF_HUNGER,
    HALF_RECOVERY,
    HALF_THIRST,
    KIND,
    LIFE,
    SLEEPING,
    WAY_X,
    WAY_Y,
    X,
    Y,
    add,
    hurt,
    material_at,
    move,
    occupant_at,
)

TEXT_DAMAGE = 5  # at least, in the text variant
_PLANT_FOOD, _COW_FOOD = 4, 6
_MAP = "uint8[:, ::1], int16[:, ::1], int16[:, ::1], int64[::1], int64[:, ::1]"


@inlined
def _walk(materials, occupants, objects, counters, chunks, inventory, action):
    objects[0, WAY_X] = -1 if action == LEFT else 1 if action == RIGHT else 0
    objects[0, WAY_Y] = -1 if action == UP else 1 if action == DOWN else 0
    move(materials, occupants, objects, counters, chunks, 0, PLAYER, objects[0, WAY_X], objects[0, WAY_Y])
    if materials[objects[0, X], objects[0, Y]] == LAVA:
        inventory[HEALTH] = 0


@inlined
def _damage(inventory, text):
    damage = TEXT_DAMAGE if text else 1
    if inventory[WOOD_SWORD]:
        damage = max(damage, 2)
    if inventory[STONE_SWORD]:
        damage = max(damage, 3)
    return max(damage, 5) if inventory[IRON_SWORD] else damage


@compiled_for("void(int16[:, ::1], int64[::1], int64[::1], int64[::1], int64, bool_)")
def _touch(objects, inventory, body, achievements, row, text):
    """Eat what is ripe, hit what lives."""
    kind = objects[row, KIND]
    if kind == PLANT:
        if objects[row, CLOCK] > RIPE:
            objects[row, CLOCK] = 0
            inventory[FOOD] += _PLANT_FOOD
            achievements[EAT_PLANT] += 1
    elif COW <= kind <= SKELETON:
        hurt(objects, inventory, row, _damage(inventory, text))
        if objects[row, LIFE] > 0:
            return
        achievements[EAT_COW if kind == COW else DEFEAT_ZOMBIE if kind == ZOMBIE else DEFEAT_SKELETON] += 1
        if kind == COW:
            inventory[FOOD] += _COW_FOOD
            body[HALF_HUNGER] = 0


@compiled_for("void(uint8[:, ::1], uint32[::1], int64[::1], int64[::1], int64[::1], int64, int64, bool_)")
def _collect(materials, random, inventory, body, achievements, x, y, text):
    material = material_at(materials, x, y)
    if material == WATER:
        body[HALF_THIRST] = 0
    tool, item = COLLECT[material, COLLECT_TOOL], COLLECT[material, COLLECT_ITEM]
    if item == NOTHING or (tool != NOTHING and inventory[tool] < 1):
        return
    materials[x, y] = COLLECT[material, COLLECT_LEAVES]
    if uniform(random) > (SAPLING_CHANCE if material == GRASS else 1.0):
        return
    if text and inventory[item] == FULL:
        return
    inventory[item] += 1
    achievements[COLLECT[material, COLLECT_ACHIEVEMENT]] += 1


@compiled_for(f"void({_MAP}, int64[::1], int64[::1], int64, int64, int64)")
def _place(materials, occupants, objects, counters, chunks, inventory, achievements, what, x, y):
    item, amount = PLACE[what, PLACE_ITEM], PLACE[what, PLACE_AMOUNT]
    if occupant_at(occupants, x, y) >= 0 or not PLACE_ONTO[what, material_at(materials, x, y)]:
        return
    if inventory[item] < amount:
        return
    inventory[item] -= amount
    if PLACED[what] == PLANT:
        add(occupants, objects, counters, chunks, PLANT, x, y, 1)
    else:
        materials[x, y] = PLACED[what]
    achievements[PLACE[what, PLACE_ACHIEVEMENT]] += 1


@compiled_for("bool_(uint8[:, ::1], int64, int64, int64)")
def _is_near(materials, x, y, wanted):
    """Whether a material is among the nine cells around; never at the left and upper border, as in the package."""
    if x < 1 or y < 1:
        return False
    for beside_x in range(x - 1, min(x + 2, SIZE)):
        for beside_y in range(y - 1, min(y + 2, SIZE)):
            if materials[beside_x, beside_y] == wanted:
                return True
    return False


@compiled_for("void(uint8[:, ::1], int16[:, ::1], int64[::1], int64[::1], int64)")
def _make(materials, objects, inventory, achievements, tool):
    x, y = objects[0, X], objects[0, Y]
    if not _is_near(materials, x, y, TABLE):
        return
    if MAKE_NEEDS_FURNACE[tool] and not _is_near(materials, x, y, FURNACE):
        return
    for item in range(inventory.shape[0]):
        if MAKE_USES[tool, item] and inventory[item] < 1:
            return
    for item in range(inventory.shape[0]):
        inventory[item] -= MAKE_USES[tool, item]
    inventory[FIRST_TOOL + tool] += 1
    achievements[MAKE_ACHIEVEMENT[tool]] += 1


@compiled_for("void(int64[::1], int64[::1])")
def _grow_needy(inventory, body):
    """Hunger, thirst and fatigue; asleep, the first two grow half as fast and the third falls."""
    asleep = body[SLEEPING] != 0
    body[HALF_HUNGER] += 1 if asleep else 2
    if body[HALF_HUNGER] > 50:
        body[HALF_HUNGER] = 0
        inventory[FOOD] -= 1
    body[HALF_THIRST] += 1 if asleep else 2
    if body[HALF_THIRST] > 40:
        body[HALF_THIRST] = 0
        inventory[DRINK] -= 1
    body[FATIGUE] = min(body[FATIGUE] - 1, 0) if asleep else body[FATIGUE] + 1
    if body[FATIGUE] < -10:
        body[FATIGUE] = 0
        inventory[ENERGY] += 1
    if body[FATIGUE] > 30:
        body[FATIGUE] = 0
        inventory[ENERGY] -= 1


@compiled_for("void(int64[::1], int64[::1])")
def _recover(inventory, body):
    """Health comes back while nothing is lacking, and goes otherwise."""
    asleep = body[SLEEPING] != 0
    if inventory[FOOD] > 0 and inventory[DRINK] > 0 and (inventory[ENERGY] > 0 or asleep):
        body[HALF_RECOVERY] += 4 if asleep else 2
    else:
        body[HALF_RECOVERY] -= 1 if asleep else 2
    if body[HALF_RECOVERY] > 50:
        body[HALF_RECOVERY] = 0
        inventory[HEALTH] += 1
    if body[HALF_RECOVERY] < -30:
        body[HALF_RECOVERY] = 0
        inventory[HEALTH] = max(0, inventory[HEALTH] - 1)


@compiled_for("int64(int64[::1], int64[::1], int64[::1], int64)")
def _sleep_or(inventory, body, achievements, action):
    """What the player does: who sleeps goes on sleeping until rested, and then does what was chosen."""
    if not body[SLEEPING]:
        return action
    if inventory[ENERGY] < FULL:
        return SLEEP
    body[SLEEPING] = 0
    achievements[WAKE_UP] += 1
    return action


@compiled_for(f"void({_MAP}, uint32[::1], int64[::1], int64[::1], int64[::1], int64, bool_)")
def act(materials, occupants, objects, counters, chunks, random, inventory, body, achievements, action, text):
    """One step of the player; `action` is one of the game's 17, `text` says which variant is played."""
    x, y = objects[0, X] + objects[0, WAY_X], objects[0, Y] + objects[0, WAY_Y]  # the cell it faces
    faced = occupant_at(occupants, x, y)
    action = _sleep_or(inventory, body, achievements, action)
    if LEFT <= action <= DOWN:
        _walk(materials, occupants, objects, counters, chunks, inventory, action)
    elif action == DO and faced >= 0:
        _touch(objects, inventory, body, achievements, faced, text)
    elif action == DO:
        _collect(materials, random, inventory, body, achievements, x, y, text)
    elif action == SLEEP:
        body[SLEEPING] = 1 if inventory[ENERGY] < FULL else body[SLEEPING]
    elif action >= FIRST_MAKE:
        _make(materials, objects, inventory, achievements, action - FIRST_MAKE)
    elif action >= FIRST_PLACE:
        what = action - FIRST_PLACE
        _place(materials, occupants, objects, counters, chunks, inventory, achievements, what, x, y)
    _grow_needy(inventory, body)
    _recover(inventory, body)
    for item in range(inventory.shape[0]):
        inventory[item] = max(0, min(FULL, inventory[item]))
    if inventory[HEALTH] < body[FELT_HEALTH]:
        body[SLEEPING] = 0
    body[FELT_HEALTH] = inventory[HEALTH]
