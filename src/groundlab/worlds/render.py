"""Pictures: RGB tiles drawn by minigrid, or two characters a cell for a terminal.

`as_picture` and `as_text` draw what a door-key agent has seen (unseen cells are grey, or blank). `level_picture` and
`level_text` draw a whole BabyAI level with the agent's view lit; `view_picture` draws the 7x7 view alone.
"""

from typing import TYPE_CHECKING

import numpy as np

from groundlab.worlds.codes import AGENT, COLOURS, DOOR, EMPTY, NORTH, TYPES, UNSEEN, WALL
from groundlab.worlds.registry import VIEW
from groundlab.worlds.state import Grids
from groundlab.worlds.view import agent_pose, remember_view

if TYPE_CHECKING:
    from minigrid.core.grid import Grid

TILE = 32  # pixels
VIEW_SIZE = VIEW[0]
_FOG = 200  # grey level of unseen cells
_LETTERS = {"door": "D", "key": "K", "ball": "A", "box": "B", "goal": "G", "lava": "V", "floor": "F"}
_ARROWS = (">", "V", "<", "^")
_DOOR_LETTERS = ("_", "d", "L")  # open, closed, locked
_INITIALS = {colour: "E" if colour == "grey" else colour[0].upper() for colour in COLOURS}  # G is green


def _as_minigrid(cells: np.ndarray, agent: tuple[int, int]) -> "Grid":
    """Minigrid's grid of `cells` [W, H, 3 or more], without what lies under the agent."""
    from minigrid.core.grid import Grid  # here, because minigrid takes a third of a second to import
    from minigrid.core.world_object import WorldObj

    grid = Grid(*cells.shape[:2])
    for x, y in np.argwhere(cells[:, :, 0] > EMPTY).tolist():
        if cells[x, y, 0] != AGENT and (x, y) != agent:
            grid.set(x, y, WorldObj.decode(*cells[x, y, :3].tolist()))
    return grid


def as_picture(image: np.ndarray, tile: int = TILE) -> np.ndarray:
    """uint8 [H * tile, W * tile, 3] of a memory image [W, H, 4]; the agent stands on what it carries."""
    x, y, heading = agent_pose(image)
    picture = _as_minigrid(image, (x, y)).render(tile, (x, y), heading)
    fog = np.kron((image[:, :, 0] == UNSEEN).T, np.ones((tile, tile), bool))
    picture[fog] = _FOG
    return picture


def _cell_text(kind: int, colour: int, state: int) -> str:
    if kind in (UNSEEN, EMPTY):
        return "  " if kind == UNSEEN else ". "
    if kind == WALL:
        return "##"
    initial = _INITIALS[COLOURS[colour]]
    if kind == DOOR:
        return _DOOR_LETTERS[state] + initial
    return _LETTERS.get(TYPES[kind], "?") + initial


def as_text(image: np.ndarray) -> str:
    """The picture in characters: `##` wall, `KG` green key, `KE` grey key, `LR` locked red door, `^^` the agent."""
    return _in_characters(image, agent_pose(image))


def _in_characters(cells: np.ndarray, agent: tuple[int, int, int]) -> str:
    x, y, heading = agent
    rows = [[_cell_text(*cell[:3]) for cell in row] for row in cells.transpose(1, 0, 2).tolist()]
    rows[y][x] = _ARROWS[heading] * 2
    return "\n".join("".join(row).rstrip() for row in rows)


def lit_cells(grids: Grids, env: int = 0) -> np.ndarray:
    """bool [w, h]: what the agent sees of one environment's level."""
    seen = np.zeros(grids.seen.shape[1:], np.bool_)
    remember_view(grids.cells[env], grids.agents[env], VIEW_SIZE, seen)
    width, height = grids.sizes[env]
    return seen[:width, :height]


def _level(grids: Grids, env: int) -> tuple[np.ndarray, tuple[int, int, int]]:
    width, height = grids.sizes[env]
    x, y, heading = grids.agents[env].tolist()
    return grids.cells[env, :width, :height], (x, y, heading)


def level_picture(grids: Grids, env: int = 0, tile: int = TILE) -> np.ndarray:
    """uint8 [h * tile, w * tile, 3] of one environment's whole level, with the cells that the agent sees lit."""
    cells, (x, y, heading) = _level(grids, env)
    return _as_minigrid(cells, (x, y)).render(tile, (x, y), heading, highlight_mask=lit_cells(grids, env))


def level_text(grids: Grids, env: int = 0, lit: bool = False) -> str:
    """The whole level in characters, as `as_text`; if `lit`, floor out of view is blank."""
    cells, agent = _level(grids, env)
    if lit:
        cells = np.where(((cells[:, :, 0] == EMPTY) & ~lit_cells(grids, env))[:, :, None], UNSEEN, cells)
    return _in_characters(cells, agent)


def view_picture(image: np.ndarray, tile: int = TILE) -> np.ndarray:
    """uint8 [7 * tile, 7 * tile, 3] of a view [7, 7, 3]: hidden cells grey, the agent looking up, its hand above it."""
    size = len(image)
    agent = (size // 2, size - 1)
    picture = _as_minigrid(image, (-1, -1)).render(tile, agent, NORTH)
    picture[np.kron((image[:, :, 0] == UNSEEN).T, np.ones((tile, tile), bool))] = _FOG
    return picture
