"""What there is in Crafter, by code, and the six worlds made of it. Light: imports nothing of the game.

    Crafter-Reward                  the public game: 17 actions, 22 achievements, health counts
    Crafter-Text-Reward             the knowledge paper's variant of it, in which its episodes are collected
    Crafter-Text-PlaceCraftingTable, -MakeWoodPickAxe, -CollectDrink, -EatCow      one achievement is paid, once

The text variant is an easier game, and its scores compare with no published one: it has 20 verbs of which four are
the public game's `do`, every blow does at least 5 damage, so that every creature dies of one, and what does not fit
the bag is not collected. Numbers and recipes are those of the crafter package 1.8.3 (a test compares them). Source:
docs/papers/knowledge-method.md#s1-2 and #s1-3.
"""

from dataclasses import dataclass

import numpy as np

SIZE = 64  # cells a side
VIEW_WIDTH, VIEW_HEIGHT = 9, 7  # cells that the player sees
LENGTH = 10_000  # steps of an episode at most
FULL = 9  # the most one can have of anything

MATERIALS = ("water", "grass", "stone", "path", "sand", "tree", "lava", "coal", "iron", "diamond", "table", "furnace")
OBJECTS = ("player", "cow", "zombie", "skeleton", "arrow", "plant")
NAMES = ("None", *MATERIALS, *OBJECTS)
"""What a code of a cell means."""
OUTSIDE, WATER, GRASS, STONE, PATH, SAND, TREE, LAVA, COAL, IRON, DIAMOND, TABLE, FURNACE = range(13)
PLAYER, COW, ZOMBIE, SKELETON, ARROW, PLANT = range(13, 19)

VITALS = ("health", "food", "drink", "energy")
BAG = ("sapling", "wood", "stone", "coal", "iron", "diamond")
TOOLS = ("wood_pickaxe", "stone_pickaxe", "iron_pickaxe", "wood_sword", "stone_sword", "iron_sword")
ITEMS = (*VITALS, *BAG, *TOOLS)
PLACES = ("stone", "table", "furnace", "plant")
HEALTH, FOOD, DRINK, ENERGY = range(4)
SAPLING, WOOD = ITEMS.index("sapling"), ITEMS.index("wood")
WOOD_SWORD, STONE_SWORD, IRON_SWORD = (ITEMS.index(f"{kind}_sword") for kind in ("wood", "stone", "iron"))
FIRST_TOOL = ITEMS.index(TOOLS[0])

ACHIEVEMENTS = tuple(
    sorted(
        [
            *(f"collect_{what}" for what in ("drink", *BAG)),
            *("defeat_skeleton", "defeat_zombie", "eat_cow", "eat_plant"),
            *(f"make_{tool}" for tool in TOOLS),
            *(f"place_{what}" for what in PLACES),
            "wake_up",
        ]
    )
)
DEFEAT_SKELETON, DEFEAT_ZOMBIE, EAT_COW, EAT_PLANT, PLACE_PLANT, WAKE_UP = (
    ACHIEVEMENTS.index(name)
    for name in ("defeat_skeleton", "defeat_zombie", "eat_cow", "eat_plant", "place_plant", "wake_up")
)

_MOVES = ("left", "right", "up", "down")
GAME_ACTIONS = (
    "noop",
    *(f"move_{way}" for way in _MOVES),
    "do",
    "sleep",
    *(f"place_{what}" for what in PLACES),
    *(f"make_{tool}" for tool in TOOLS),
)
NOOP, LEFT, RIGHT, UP, DOWN, DO, SLEEP, FIRST_PLACE = range(8)
FIRST_MAKE = FIRST_PLACE + len(PLACES)

VERBS = {
    "do nothing": "noop",
    **{f"move {way}": f"move_{way}" for way in _MOVES},
    **dict.fromkeys(("eat", "drink", "attack", "collect"), "do"),
    "sleep": "sleep",
    "place stone": "place_stone",
    "place crafting table": "place_table",
    "place furnace": "place_furnace",
    "place plant": "place_plant",
    **{f"make {tool.replace('_', ' ')}": f"make_{tool}" for tool in TOOLS},
}
"""The text variant's 20 actions, in order, and what each does in the game."""

_COLLECT = {  # from what: (tool needed, what one gets, what is left)
    "tree": (None, "wood", "grass"),
    "stone": ("wood_pickaxe", "stone", "path"),
    "coal": ("wood_pickaxe", "coal", "path"),
    "iron": ("stone_pickaxe", "iron", "path"),
    "diamond": ("iron_pickaxe", "diamond", "path"),
    "water": (None, "drink", "water"),
    "grass": (None, "sapling", "grass"),
}
SAPLING_CHANCE = 0.1
_PLACE = {  # what: (item, how many, onto what)
    "stone": ("stone", 1, ("grass", "sand", "path", "water", "lava")),
    "table": ("wood", 2, ("grass", "sand", "path")),
    "furnace": ("stone", 4, ("grass", "sand", "path")),
    "plant": ("sapling", 1, ("grass",)),
}
_MAKE = {"wood": ("wood",), "stone": ("wood", "stone"), "iron": ("wood", "coal", "iron")}  # one of each

NOTHING = -1
COLLECT_TOOL, COLLECT_ITEM, COLLECT_LEAVES, COLLECT_ACHIEVEMENT = range(4)
PLACE_ITEM, PLACE_AMOUNT, PLACE_ACHIEVEMENT = range(3)


def _collections() -> np.ndarray:
    """int64 [13, 4]: what collecting a material takes and gives; NOTHING where it cannot be collected."""
    table = np.full((len(MATERIALS) + 1, 4), NOTHING, np.int64)
    for source, (tool, item, leaves) in _COLLECT.items():
        needed = NOTHING if tool is None else ITEMS.index(tool)
        achievement = ACHIEVEMENTS.index(f"collect_{item}")
        table[NAMES.index(source)] = needed, ITEMS.index(item), NAMES.index(leaves), achievement
    return table


COLLECT = _collections()
PLACE = np.array(
    [
        (ITEMS.index(item), amount, ACHIEVEMENTS.index(f"place_{what}"))
        for what, (item, amount, _) in ((what, _PLACE[what]) for what in PLACES)
    ]
)
PLACE_ONTO = np.array([[name in _PLACE[what][2] for name in NAMES[:13]] for what in PLACES])
PLACED = np.array([NAMES.index(what) for what in PLACES])
MAKE_USES = np.array([[item in _MAKE[tool.split("_")[0]] for item in ITEMS] for tool in TOOLS])
MAKE_NEEDS_FURNACE = np.array([tool.startswith("iron") for tool in TOOLS])
MAKE_ACHIEVEMENT = np.array([ACHIEVEMENTS.index(f"make_{tool}") for tool in TOOLS])


@dataclass(frozen=True)
class CrafterWorld:
    """One of the worlds: which game, and what it pays for."""

    name: str
    summary: str
    text: bool
    """Whether it is the text variant."""
    tasks: tuple[str, ...] = ACHIEVEMENTS

    mission = ""  # it is in the summary
    width = height = SIZE
    max_steps = LENGTH

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of its actions, in order."""
        return tuple(VERBS) if self.text else GAME_ACTIONS

    @property
    def action_codes(self) -> np.ndarray:
        """int64 [A]: what each of them does in the game."""
        done = VERBS.values() if self.text else GAME_ACTIONS
        return np.array([GAME_ACTIONS.index(name) for name in done])

    @property
    def paid(self) -> np.ndarray:
        """bool [22]: the achievements that it pays for."""
        return np.array([name in self.tasks for name in ACHIEVEMENTS])


def _task(name: str, achievement: str) -> CrafterWorld:
    return CrafterWorld(f"Crafter-Text-{name}", f"text variant; {achievement} is paid, once", True, (achievement,))


CRAFTER_WORLDS = {
    world.name: world
    for world in (
        CrafterWorld("Crafter-Reward", "the public game, 17 actions; 22 achievements and health are paid", False),
        CrafterWorld("Crafter-Text-Reward", "20 verbs, at least 5 damage; 22 achievements and health are paid", True),
        _task("PlaceCraftingTable", "place_table"),
        _task("MakeWoodPickAxe", "make_wood_pickaxe"),
        _task("CollectDrink", "collect_drink"),
        _task("EatCow", "eat_cow"),
    )
}
