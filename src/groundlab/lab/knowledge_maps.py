"""Potentials over a room: what phi says of an agent that has just walked to a cell, for every cell and heading.

    cells = room("BabyAI-Text-GoToLocal-RedBall-S10", layout=3)
    phi = potential_map(potential, cells)        # [W, H, 4], NaN where nobody can stand
    draw_map(axes, phi, cells)

phi is a function of the last steps, so a place needs a past: the agent came straight ahead, as many steps as the window
holds and the room lets it; before those it stood still, as when an episode begins. Called from: knowledge_gallery.py.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from groundlab import worlds
from groundlab.methods.knowledge.potentials import Potential
from groundlab.methods.knowledge.windows import Windows
from groundlab.worlds.codes import COLOURS, DONE, EMPTY, FORWARD, STEP_X, STEP_Y, TYPES, WALL
from groundlab.worlds.view import draw_view

_VIEW = 7
_EMPTY_HAND = np.zeros(4, np.uint8)
_INK = {"red": "#c0392b", "green": "#1e8449", "blue": "#1f4ed8", "purple": "#7d3c98", "yellow": "#b7950b"}
_CORNERS = ((0.5, -0.5), (0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5))  # of a cell; heading h looks at the edge h to h + 1
_COLOURS = "viridis"


def room(world: str, layout: int) -> np.ndarray:
    """The cells of a level, uint8 [W, H, 3], without the agent."""
    envs = worlds.GridVectorEnv(worlds.find(world), 1)
    envs.reset(seed=[layout])
    width, height = envs.grids.sizes[0]
    return np.ascontiguousarray(envs.grids.cells[0, :width, :height])


def poses(cells: np.ndarray) -> np.ndarray:
    """Where an agent can stand and look, int64 [P, 3]: x, y, heading."""
    free = np.argwhere(cells[..., 0] == EMPTY)
    return np.concatenate([np.insert(free, 2, heading, axis=1) for heading in range(4)])


def arrivals(cells: np.ndarray, standing: np.ndarray, horizon: int) -> Windows:
    """The windows of agents [P, 3] that have just walked straight to where they stand, in `horizon` steps or fewer."""
    steps = np.array([STEP_X, STEP_Y]).T[standing[:, 2]]
    walked, clear = np.zeros(len(standing), np.int64), np.ones(len(standing), bool)
    for back in range(1, horizon + 1):
        x, y = (standing[:, :2] - back * steps).T
        clear = clear & (cells[np.clip(x, 0, len(cells) - 1), np.clip(y, 0, cells.shape[1] - 1), 0] == EMPTY)
        walked += clear
    behind = np.minimum(np.arange(horizon, -1, -1), walked[:, None])  # steps back at each view, the oldest first
    views = np.stack([_views(cells, standing, steps, behind[:, place]) for place in range(horizon + 1)], axis=1)
    moved = np.diff(behind, axis=1) != 0
    return Windows(views, np.where(moved, FORWARD, DONE), walked[:, None] - behind)


def _views(cells: np.ndarray, standing: np.ndarray, steps: np.ndarray, back: np.ndarray) -> np.ndarray:
    """What agents [P] saw so many steps before, uint8 [P, 7, 7, 3]."""
    images = np.zeros((len(standing), _VIEW, _VIEW, 3), np.uint8)
    for image, pose, step, number in zip(images, standing, steps, back, strict=True):
        draw_view(cells, np.array([*(pose[:2] - number * step), pose[2]], np.int64), _EMPTY_HAND, image)
    return images


def potential_map(potential: Potential, cells: np.ndarray) -> np.ndarray:
    """phi [W, H, 4] of agents that walked to each cell with each heading; NaN where nobody can stand."""
    standing = poses(cells)
    phi = np.full((*cells.shape[:2], 4), np.nan)
    phi[tuple(standing.T)] = potential(arrivals(cells, standing, potential.horizon))
    return phi


def draw_map(axes: Axes, phi: np.ndarray, cells: np.ndarray, targets: list[tuple[str, str]]) -> PolyCollection:
    """Each cell as four triangles, one a heading, on the side that the agent looks to; things by their first letters.

    targets: (type, colour) by name; such things are ringed. Returns what a colour bar is made of.
    """
    draw_room(axes, cells, targets)
    where = np.argwhere(np.isfinite(phi))
    triangles = PolyCollection([_triangle(*each) for each in where.tolist()], cmap=_COLOURS, linewidth=0)
    values = phi[tuple(where.T)]
    triangles.set_array(values)
    triangles.set_clim(*((0, 1) if np.ptp(values) == 0 else (None, None)))
    axes.add_collection(triangles)
    return triangles


def _triangle(x: int, y: int, heading: int) -> list[tuple[float, float]]:
    """From the middle of a cell to the edge that a heading looks at."""
    first, second = _CORNERS[heading], _CORNERS[(heading + 1) % 4]
    return [(x, y), (x + first[0], y + first[1]), (x + second[0], y + second[1])]


def draw_room(axes: Axes, cells: np.ndarray, targets: list[tuple[str, str]]) -> None:
    """Walls grey, things as a letter in their colour (K key, B ball, X box), the targets ringed."""
    walls = np.where(cells[..., 0].T == WALL, 0.72, 1.0)
    axes.imshow(np.dstack([walls] * 3), interpolation="nearest")
    axes.grid(False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    for x, y in np.argwhere(cells[..., 0] > WALL).tolist():
        kind, colour = TYPES[cells[x, y, 0]], COLOURS[cells[x, y, 1]]
        letter = {"key": "K", "ball": "B", "box": "X"}.get(kind, "?")
        ink = _INK.get(colour, "#555555")
        axes.text(x, y, letter, ha="center", va="center", color=ink, fontsize=8, fontweight="bold")
        if (kind, colour) in targets:
            axes.plot(x, y, "o", markersize=15, markerfacecolor="none", markeredgecolor=ink, markeredgewidth=1.8)
