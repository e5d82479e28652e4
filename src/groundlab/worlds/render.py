"""Pictures of an observation: RGB tiles drawn by minigrid, or two characters a cell for a terminal.

Both draw what the agent has seen (unseen cells are grey, or blank), never the hidden truth.
Called from: `single.py`, `methods/mediator/recording.py`, `groundlab play`.
"""

import numpy as np
from minigrid.core.grid import Grid
from minigrid.core.world_object import WorldObj

from groundlab.worlds.codes import AGENT, COLOURS, DOOR, EMPTY, TYPES, UNSEEN, WALL
from groundlab.worlds.view import agent_pose

TILE = 32  # pixels
_FOG = 200  # grey level of unseen cells
_LETTERS = {"door": "D", "key": "K", "ball": "A", "box": "B", "goal": "G", "lava": "V", "floor": "F"}
_ARROWS = (">", "V", "<", "^")
_DOOR_LETTERS = ("_", "d", "L")  # open, closed, locked


def as_picture(image: np.ndarray, tile: int = TILE) -> np.ndarray:
    """uint8 [H * tile, W * tile, 3] of a memory image [W, H, 4]; the agent stands on what it carries."""
    width, height = image.shape[:2]
    grid = Grid(width, height)
    x, y, heading = agent_pose(image)
    for i, j in np.argwhere(image[:, :, 0] > EMPTY):
        if image[i, j, 0] != AGENT and (i, j) != (x, y):
            grid.set(int(i), int(j), WorldObj.decode(*(int(code) for code in image[i, j, :3])))
    picture = grid.render(tile, (x, y), heading)
    fog = np.kron((image[:, :, 0] == UNSEEN).T, np.ones((tile, tile), bool))
    picture[fog] = _FOG
    return picture


def _cell_text(kind: int, colour: int, state: int) -> str:
    if kind in (UNSEEN, EMPTY):
        return "  " if kind == UNSEEN else ". "
    if kind == WALL:
        return "##"
    initial = COLOURS[colour][0].upper()
    if kind == DOOR:
        return _DOOR_LETTERS[state] + initial
    return _LETTERS.get(TYPES[kind], "?") + initial


def as_text(image: np.ndarray) -> str:
    """The picture in characters: `##` wall, `KG` green key, `LR` locked red door, `^^` the agent."""
    width, height = image.shape[:2]
    x, y, heading = agent_pose(image)
    rows = [[_cell_text(*(int(code) for code in image[i, j, :3])) for i in range(width)] for j in range(height)]
    rows[y][x] = _ARROWS[heading] * 2
    return "\n".join("".join(row).rstrip() for row in rows)
