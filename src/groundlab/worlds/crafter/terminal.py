"""Crafter at a terminal: keys, and what the player sees in two characters per cell."""

import numpy as np

from groundlab.worlds.crafter.rules import NAMES, VIEW_HEIGHT, VIEW_WIDTH

_MARKS = {
    **{"water": "~~", "grass": "..", "stone": "##", "sand": "::", "tree": "TT", "lava": "%%", "coal": "co"},
    **{"iron": "ir", "diamond": "di", "table": "ta", "furnace": "fu", "player": "@@", "cow": "Co", "zombie": "Zo"},
    **{"skeleton": "Sk", "arrow": "->", "plant": "pl"},
}
LEGEND = ", ".join(f"{mark} {name}" for name, mark in _MARKS.items())
_WAYS = {"a": "left", "d": "right", "w": "up", "s": "down"}
_TOOLS = ("wood pickaxe", "stone pickaxe", "iron pickaxe", "wood sword", "stone sword", "iron sword")
KEYS = {
    **{key: (f"move {way}", f"move_{way}") for letter, way in _WAYS.items() for key in (letter, way)},
    **{"c": ("collect", "do"), "e": ("eat", "do"), "k": ("drink", "do"), "f": ("attack", "do"), "z": ("sleep",)},
    **{"n": ("do nothing", "noop"), "r": ("place stone", "place_stone"), "g": ("place plant", "place_plant")},
    **{"b": ("place crafting table", "place_table"), "o": ("place furnace", "place_furnace")},
    **{str(number): (f"make {tool}", f"make_{tool.replace(' ', '_')}") for number, tool in enumerate(_TOOLS, 1)},
}
"""Keys with the name of their action in the text variant, and in the game."""


def characters(codes: np.ndarray) -> str:
    """Return the cells that the player sees, two characters each."""
    cells = codes[: VIEW_WIDTH * VIEW_HEIGHT].reshape(VIEW_WIDTH, VIEW_HEIGHT)
    return "\n".join("".join(_MARKS.get(NAMES[code], "  ") for code in row) for row in cells.T.tolist())
