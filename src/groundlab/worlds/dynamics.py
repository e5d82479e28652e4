"""What an action does: MiniGrid's rules for one environment of the batch, compiled.

`act` changes the grid and says what happened; rewards and endings are the level's business (`levels.py`).
Read next: `view.py` (what the agent sees afterwards).
"""

from groundlab.core.compiled import inlined
from groundlab.worlds.codes import (
    BALL,
    BOX,
    CLOSED,
    DOOR,
    DROP,
    EMPTY,
    FLOOR,
    FORWARD,
    GOAL,
    KEY,
    LAVA,
    LEFT,
    LOCKED,
    OPEN,
    PICKUP,
    RIGHT,
    STEP_X,
    STEP_Y,
    TOGGLE,
)


@inlined
def front_of(grids, env):
    """The cell (x, y) that the agent faces."""
    x, y, heading = grids.agents[env]
    return x + STEP_X[heading], y + STEP_Y[heading]


@inlined
def set_cell(grids, env, x, y, kind, colour, state):
    """Put a thing that holds nothing into a cell."""
    cell, content = grids.cells[env, x, y], grids.contents[env, x, y]
    cell[0], cell[1], cell[2] = kind, colour, state
    content[0], content[1] = 0, 0


@inlined
def is_inside(grids, x, y):
    """Whether (x, y) is a cell of the grid."""
    return 0 <= x < grids.cells.shape[1] and 0 <= y < grids.cells.shape[2]


@inlined
def can_enter(kind, state):
    """Whether an agent may stand on such a cell."""
    return kind in (EMPTY, FLOOR, GOAL, LAVA) or (kind == DOOR and state == OPEN)


@inlined
def _pick_up(grids, env, x, y):
    cell, content, carried = grids.cells[env, x, y], grids.contents[env, x, y], grids.carried[env]
    if carried[0] == 0 and cell[0] in (KEY, BALL, BOX):
        carried[0], carried[1], carried[2], carried[3] = cell[0], cell[1], content[0], content[1]
        set_cell(grids, env, x, y, EMPTY, 0, 0)


@inlined
def _drop(grids, env, x, y):
    content, carried = grids.contents[env, x, y], grids.carried[env]
    if carried[0] != 0 and grids.cells[env, x, y, 0] == EMPTY:
        set_cell(grids, env, x, y, carried[0], carried[1], 0)
        content[0], content[1] = carried[2], carried[3]
        carried[:] = 0


@inlined
def _toggle_door(grids, env, x, y):
    cell, carried = grids.cells[env, x, y], grids.carried[env]
    if cell[2] == LOCKED:
        if carried[0] == KEY and carried[1] == cell[1]:
            cell[2] = OPEN
    else:
        cell[2] = CLOSED if cell[2] == OPEN else OPEN


@inlined
def _toggle(grids, env, x, y):
    cell, content = grids.cells[env, x, y], grids.contents[env, x, y]
    if cell[0] == DOOR:
        _toggle_door(grids, env, x, y)
    elif cell[0] == BOX:
        kind, colour = content[0], content[1]
        if kind == 0:
            set_cell(grids, env, x, y, EMPTY, 0, 0)
        else:
            set_cell(grids, env, x, y, kind, colour, 0)


@inlined
def act(grids, env, action):
    """Carry out one action of one environment (its step is counted; `done` changes nothing else)."""
    grids.steps[env] += 1
    agent = grids.agents[env]
    if action == LEFT:
        agent[2] = (agent[2] + 3) % 4
    elif action == RIGHT:
        agent[2] = (agent[2] + 1) % 4
    else:
        x, y = front_of(grids, env)
        if not is_inside(grids, x, y):
            return
        if action == FORWARD:
            if can_enter(grids.cells[env, x, y, 0], grids.cells[env, x, y, 2]):
                agent[0], agent[1] = x, y
        elif action == PICKUP:
            _pick_up(grids, env, x, y)
        elif action == DROP:
            _drop(grids, env, x, y)
        elif action == TOGGLE:
            _toggle(grids, env, x, y)
