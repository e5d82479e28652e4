"""What an agent sees: the cells ahead that nothing hides, and the picture of all it has ever seen.

The door-key worlds show the whole room, in world coordinates, with unseen cells left out ("fog of war"); a cell once
seen shows its present content (spec mediator 1.4). Sight is MiniGrid's: it starts at the agent, spreads row by row
away from it, and stops behind walls and doors that are not open.
Read next: `vector.py`, which delivers these pictures.
"""

import numpy as np

from groundlab.core.compiled import compiled, inlined
from groundlab.worlds.codes import DOOR, EAST, EMPTY, OPEN, SOUTH, WALL, WEST

NOT_HERE = 4  # heading channel of every cell but the agent's


@inlined
def is_transparent(kind, state):
    """Whether one sees past such a cell."""
    return kind != WALL and (kind != DOOR or state == OPEN)


@inlined
def _rectangle(grids, env, size):
    """The view's cells as (first x, end x, first y, end y), clipped to the grid; the agent is at the near edge."""
    x, y, heading = grids.agents[env]
    half = size // 2
    x0, y0 = x - half, y - half
    if heading == EAST:
        x0 = x
    elif heading == WEST:
        x0 = x - size + 1
    elif heading == SOUTH:
        y0 = y
    else:
        y0 = y - size + 1
    width, height = grids.cells.shape[1], grids.cells.shape[2]
    return max(x0, 0), min(x0 + size, width), max(y0, 0), min(y0 + size, height)


@inlined
def _lines(heading, x0, x1, y0, y1):
    """Sight spreads over lines across the heading: (number, length, first x, first y, step between lines x, y)."""
    if heading == EAST:
        return x1 - x0, y1 - y0, x0, y0, 1, 0
    if heading == WEST:
        return x1 - x0, y1 - y0, x1 - 1, y0, -1, 0
    if heading == SOUTH:
        return y1 - y0, x1 - x0, x0, y0, 0, 1
    return y1 - y0, x1 - x0, x0, y1 - 1, 0, -1


@inlined
def visible_cells(grids, env, size, visible):
    """Mark in `visible` [W, H] what the agent sees in its size x size view; other cells are left as they were.

    Returns the view's rectangle (first x, end x, first y, end y).
    """
    agent = grids.agents[env]
    x0, x1, y0, y1 = _rectangle(grids, env, size)
    visible[x0:x1, y0:y1] = False
    visible[agent[0], agent[1]] = True
    lines, length, x, y, line_x, line_y = _lines(agent[2], x0, x1, y0, y1)
    along_x, along_y = 1 - abs(line_x), 1 - abs(line_y)
    for line in range(lines):
        for sweep in range(2):
            for k in range(length - 1):
                here = k if sweep == 0 else length - 1 - k
                there = here + 1 if sweep == 0 else here - 1
                hx, hy = x + here * along_x, y + here * along_y
                cell = grids.cells[env, hx, hy]
                if not (visible[hx, hy] and is_transparent(cell[0], cell[2])):
                    continue
                tx, ty = x + there * along_x, y + there * along_y
                visible[tx, ty] = True
                if line < lines - 1:
                    visible[hx + line_x, hy + line_y] = True
                    visible[tx + line_x, ty + line_y] = True
        x, y = x + line_x, y + line_y
    return x0, x1, y0, y1


@inlined
def remember_view(grids, env, size, visible):
    """Add what the agent sees now to what it has seen; `visible` [W, H] is scratch space."""
    x0, x1, y0, y1 = visible_cells(grids, env, size, visible)
    seen = grids.seen[env]
    for x in range(x0, x1):
        for y in range(y0, y1):
            seen[x, y] |= visible[x, y]


@inlined
def draw_memory(grids, env, image):
    """Write the remembered picture into `image` [W, H, 4]: type, colour, state, heading (4 where the agent is not)."""
    seen, cells = grids.seen[env], grids.cells[env]
    for x in range(seen.shape[0]):
        for y in range(seen.shape[1]):
            if seen[x, y]:
                image[x, y, 0], image[x, y, 1], image[x, y, 2] = cells[x, y, 0], cells[x, y, 1], cells[x, y, 2]
            else:
                image[x, y, 0], image[x, y, 1], image[x, y, 2] = 0, 0, 0
            image[x, y, 3] = NOT_HERE
    agent, carried = grids.agents[env], grids.carried[env]
    here = image[agent[0], agent[1]]
    here[0], here[1], here[2] = (carried[0], carried[1], 0) if carried[0] != 0 else (EMPTY, 0, 0)
    here[3] = agent[2]


@compiled
def agent_pose(image) -> tuple[int, int, int]:
    """(x, y, heading) of the agent in a memory image [W, H, 4]."""
    for x in range(image.shape[0]):
        for y in range(image.shape[1]):
            if image[x, y, 3] != NOT_HERE:
                return x, y, np.int64(image[x, y, 3])  # type: ignore[return-value] - an int outside compiled code
    return 0, 0, 0
