"""What skills and translator read off a memory image [10, 10, 4]: the agent's pose, the objects, whether all is seen.

Compiled, as is `agent_pose` (worlds/view.py), since every option asks at every step.
Read next: `search.py` (paths), `skills.py` (who asks).
"""

import numpy as np

from groundlab.core.compiled import compiled
from groundlab.worlds.codes import BOX, DOOR, KEY, STEP_X, STEP_Y, UNSEEN, WALL
from groundlab.worlds.view import NOT_HERE, agent_pose


@compiled
def cell_ahead(image):
    """Type of the cell in front of the agent; at the grid's edge the index is held at it, as in the original."""
    x, y, heading = agent_pose(image)
    ahead_x = min(max(x + STEP_X[heading], 0), image.shape[0] - 1)
    ahead_y = min(max(y + STEP_Y[heading], 0), image.shape[1] - 1)
    return np.int64(image[ahead_x, ahead_y, 0])


@compiled
def find_objects(image):
    """Keys, boxes and doors, in this order and row by row: int64 [n, 5] = type, colour, x, y, is the agent's cell."""
    found = np.empty((image.shape[0] * image.shape[1], 5), np.int64)
    count = 0
    for kind in (KEY, BOX, DOOR):
        for x in range(image.shape[0]):
            for y in range(image.shape[1]):
                if image[x, y, 0] == kind:
                    found[count, 0], found[count, 1] = kind, image[x, y, 1]
                    found[count, 2], found[count, 3] = x, y
                    found[count, 4] = image[x, y, 3] != NOT_HERE
                    count += 1
    return found[:count]


@compiled
def has_loop(border):
    """Whether the 4-neighbour component of the first cell (row by row) of `border` bool [W, H] holds a cycle.

    A connected graph has one exactly if it has at least as many edges as nodes.
    """
    width, height = border.shape
    reached = np.zeros_like(border)
    stack = np.empty((width * height, 2), np.int64)
    depth = 0
    for k in range(width * height):
        if border[k // height, k % height]:
            stack[0, 0], stack[0, 1] = k // height, k % height
            reached[k // height, k % height] = True
            depth = 1
            break
    nodes, half_edges = 0, 0
    while depth > 0:
        depth -= 1
        x, y = stack[depth, 0], stack[depth, 1]
        nodes += 1
        for heading in range(4):
            to_x, to_y = x + STEP_X[heading], y + STEP_Y[heading]
            if 0 <= to_x < width and 0 <= to_y < height and border[to_x, to_y]:
                half_edges += 1
                if not reached[to_x, to_y]:
                    reached[to_x, to_y] = True
                    stack[depth, 0], stack[depth, 1] = to_x, to_y
                    depth += 1
    return nodes > 0 and half_edges >= 2 * nodes


@compiled
def is_explored(image):
    """Whether the seen walls and doors close a loop and their bounding box holds no unseen cell (spec 2.2)."""
    width, height = image.shape[:2]
    border = np.zeros((width, height), np.bool_)
    x0, x1, y0, y1 = width, -1, height, -1
    for x in range(width):
        for y in range(height):
            if image[x, y, 0] == WALL or image[x, y, 0] == DOOR:
                border[x, y] = True
                x0, x1, y0, y1 = min(x0, x), max(x1, x), min(y0, y), max(y1, y)
    for x in range(x0, x1 + 1):
        for y in range(y0, y1 + 1):
            if image[x, y, 0] == UNSEEN:
                return False
    return has_loop(border)
