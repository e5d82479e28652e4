"""The view of an agent: the cells ahead that nothing hides, and the picture of all cells seen so far.

Sight is MiniGrid's: it starts at the agent, spreads row by row away from it, and stops behind walls and doors that are
not open. A row of the view is a bit mask, column 0 on the agent's left. The BabyAI levels show the view itself, turned
so that the agent looks up (`draw_view`). The door-key worlds show the whole room in world coordinates with unseen cells
left out ("fog of war"); a cell once seen shows its present content (docs/papers/mediator-method.md#s1-4;
`draw_memory`).
"""

import numpy as np

from groundlab.core.compiled import compiled, compiled_for, inlined
from groundlab.worlds.codes import DOOR, EMPTY, GREY, OPEN, STEP_X, STEP_Y, WALL
from groundlab.worlds.dynamics import is_inside

NOT_HERE = 4  # heading channel of every cell but the agent's


@inlined
def is_transparent(kind, state):
    """Whether one sees past such a cell (without branches: they made the view three times slower)."""
    return (kind != WALL) & ((kind != DOOR) | (state == OPEN))


@inlined
def _axes(agent, size):
    """The agent's row of the view: (x, y of its leftmost cell, step ahead x, y); a step to the right is (-y, x)."""
    ahead_x, ahead_y, half = STEP_X[agent[2]], STEP_Y[agent[2]], size // 2
    return agent[0] + half * ahead_y, agent[1] - half * ahead_x, ahead_x, ahead_y


@inlined
def _spread(lit, clear, size):
    """Light passes sideways through the clear cells of a row: (its lit cells, those lit in the next row)."""
    passing = lit & clear
    while True:
        wider = (passing | (passing << 1) | (passing >> 1)) & clear
        if wider == passing:
            break
        passing = wider
    beyond = (passing | (passing << 1) | (passing >> 1)) & ((1 << size) - 1)
    return lit | beyond, beyond


@inlined
def _clear_cells(cells, size, x, y, right_x, right_y):
    """The mask of a row's clear cells, from its leftmost cell (x, y) on; beyond the grid all is wall."""
    clear = 0
    for column in range(size):
        if is_inside(cells.shape[0], cells.shape[1], x, y):
            clear |= np.int64(is_transparent(cells[x, y, 0], cells[x, y, 2])) << column
        x, y = x + right_x, y + right_y
    return clear


@compiled_for("void(uint8[:, :, ::1], int64[::1], int64, bool_[:, ::1])")
def remember_view(cells, agent, size, seen):
    """Add what the agent sees in its size x size view to `seen` [W, H]."""
    x, y, ahead_x, ahead_y = _axes(agent, size)
    lit = 1 << (size // 2)
    for _ in range(size):
        shown, lit = _spread(lit, _clear_cells(cells, size, x, y, -ahead_y, ahead_x), size)
        for column in range(size):
            to_x, to_y = x - column * ahead_y, y + column * ahead_x
            if (shown >> column) & 1 and is_inside(seen.shape[0], seen.shape[1], to_x, to_y):
                seen[to_x, to_y] = True
        x, y = x + ahead_x, y + ahead_y


@inlined
def _copy_lit(cells, image, row, shown, x, y, right_x, right_y):
    """Write the cells of a row that are in the mask `shown`, zeros elsewhere; beyond the grid is wall."""
    for column in range(image.shape[0]):
        lit = np.uint8((shown >> column) & 1)
        if is_inside(cells.shape[0], cells.shape[1], x, y):
            image[column, row, 0] = cells[x, y, 0] * lit
            image[column, row, 1] = cells[x, y, 1] * lit
            image[column, row, 2] = cells[x, y, 2] * lit
        else:
            image[column, row, 0], image[column, row, 1] = WALL * lit, GREY * lit
        x, y = x + right_x, y + right_y


@inlined
def _draw_carried(carried, pixel):
    """The agent's own cell shows what it carries, or nothing."""
    if carried[0] != 0:
        pixel[0], pixel[1], pixel[2] = carried[0], carried[1], 0
    else:
        pixel[0], pixel[1], pixel[2] = EMPTY, 0, 0


@compiled_for("void(uint8[:, :, ::1], int64[::1], uint8[::1], uint8[:, :, ::1])")
def draw_view(cells, agent, carried, image):
    """Write the agent's view into `image` [size, size, 3] (column, row; the agent in the middle of the last row)."""
    size = image.shape[0]
    x, y, ahead_x, ahead_y = _axes(agent, size)
    image[:] = 0
    lit, row = 1 << (size // 2), size - 1
    while row >= 0 and lit != 0:  # without light nothing further away is seen: half of all rows in a small room
        shown, lit = _spread(lit, _clear_cells(cells, size, x, y, -ahead_y, ahead_x), size)
        _copy_lit(cells, image, row, shown, x, y, -ahead_y, ahead_x)
        x, y, row = x + ahead_x, y + ahead_y, row - 1
    _draw_carried(carried, image[size // 2, size - 1])


@compiled_for("void(uint8[:, :, ::1], int64[::1], uint8[::1], bool_[:, ::1], uint8[:, :, ::1])")
def draw_memory(cells, agent, carried, seen, image):
    """Write the remembered picture into `image` [W, H, 4]: type, colour, state, heading (4 where the agent is not)."""
    for x in range(seen.shape[0]):
        for y in range(seen.shape[1]):
            if seen[x, y]:
                image[x, y, 0], image[x, y, 1], image[x, y, 2] = cells[x, y, 0], cells[x, y, 1], cells[x, y, 2]
            else:
                image[x, y, 0], image[x, y, 1], image[x, y, 2] = 0, 0, 0
            image[x, y, 3] = NOT_HERE
    here = image[agent[0], agent[1]]
    _draw_carried(carried, here)
    here[3] = agent[2]


@compiled
def agent_pose(image) -> tuple[int, int, int]:
    """(x, y, heading) of the agent in a memory image [W, H, 4]."""
    for x in range(image.shape[0]):
        for y in range(image.shape[1]):
            if image[x, y, 3] != NOT_HERE:
                return x, y, np.int64(image[x, y, 3])  # type: ignore[return-value] - an int outside compiled code
    return 0, 0, 0
