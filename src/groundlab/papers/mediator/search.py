"""What is read from a memory image: objects and their text; compiled, the cell ahead, what is explored, and paths.

`Translator` makes the line that the planner reads, with the coordinates that its reply may name. Each world has its own
wording, oddities included (docs/papers/mediator-method.md#s3): the planner's examples match them to the letter.

Paths are shortest ones over the map seen so far, with the original's choice among equally short ones. The original
keeps its open nodes in a Python `set` and expands the first one of minimal cost in the set's iteration order, so which
path it takes depends on CPython's hash table. The functions on `table` below are a copy of that table (of CPython 3.10
to 3.13), held equal by `test_compiled_search_equals_a_search_with_a_real_python_set`: the paper's "always" row needs it
to be exact, and a real set takes ten times as long, an eighth of an iteration. `ties="fifo"` is plain breadth-first
search instead (docs/papers/mediator-reference.md#a9: the mean path then differs by 0.04 steps).
"""

import numpy as np

from groundlab.core.compiled import compiled
from groundlab.worlds.codes import (
    BOX,
    COLOURS,
    DOOR,
    EMPTY,
    FORWARD,
    GOAL,
    KEY,
    LEFT,
    OPEN,
    RIGHT,
    STEP_X,
    STEP_Y,
    TYPES,
    UNSEEN,
    WALL,
)
from groundlab.worlds.view import NOT_HERE, agent_pose

Coordinates = dict[str, tuple[int, int]]

_BOX_WORLDS = ("KeyInBox", "RandomBoxKey")
OBJECT_CODES = {"key": KEY, "door": DOOR, "box": BOX}


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
    """Whether the seen walls and doors close a loop and their bounding box holds no unseen cell
    (docs/papers/mediator-method.md#s2-2).
    """
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


ORIGINAL, FIFO = 0, 1
TIES = {"original": ORIGINAL, "fifo": FIFO}

_SIZE = 10  # cells a side
_NODES = _SIZE * _SIZE * 4
_UNUSED, _DUMMY = -1, -2
_LINEAR_PROBES, _PERTURB_SHIFT, _SMALLEST_TABLE = 9, np.uint64(5), 8


def _tuple_hashes() -> np.ndarray:
    """CPython's hash of the tuple (x, y, heading) for every node: the xxHash variant of Objects/tupleobject.c."""
    prime_1, prime_2, prime_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
    hashes = np.empty(_NODES, np.uint64)
    for node in range(_NODES):
        value = prime_5
        for item in (node // 4 // _SIZE, node // 4 % _SIZE, node % 4):
            value = (value + item * prime_2) % 2**64
            value = ((value << 31) | (value >> 33)) % 2**64 * prime_1 % 2**64
        hashes[node] = (value + (3 ^ prime_5 ^ 3527539)) % 2**64
    return hashes


_HASHES = _tuple_hashes()


@compiled
def _slot(table, node):
    """Where a node is, or would be put: the last removed entry of its probe sequence, else the first unused slot."""
    mask = np.uint64(table.size - 1)
    perturb = _HASHES[node]
    i = perturb & mask
    removed = -1
    while True:
        run = _LINEAR_PROBES if i + np.uint64(_LINEAR_PROBES) <= mask else 0
        for probe in range(run + 1):
            slot = np.int64(i) + probe
            if table[slot] == node:
                return slot
            if table[slot] == _UNUSED:
                return slot if removed < 0 else removed
            if table[slot] == _DUMMY:
                removed = slot
        perturb >>= _PERTURB_SHIFT
        i = (i * np.uint64(5) + np.uint64(1) + perturb) & mask


@compiled
def _grow(table, used):
    """A table more than four times as large as its content, entries put in again in their old order."""
    size = _SMALLEST_TABLE
    while size <= used * 4:
        size *= 2
    larger = np.full(size, _UNUSED, np.int64)
    for entry in table:
        if entry >= 0:
            larger[_slot(larger, entry)] = entry
    return larger


@compiled
def _insert(table, counts, node):
    """Add a node; `counts` = (fill, used) as CPython counts them. Returns the table, a new one if it had to grow."""
    slot = _slot(table, node)
    if table[slot] == node:
        return table
    counts[0] += table[slot] == _UNUSED
    counts[1] += 1
    table[slot] = node
    if counts[0] * 5 >= (table.size - 1) * 3:
        table = _grow(table, counts[1])
        counts[0] = counts[1]
    return table


@compiled
def _first_cheapest(table, costs):
    """The first node in iteration order among those of least cost, or -1 when there is none."""
    best = -1
    for entry in table:
        if entry >= 0 and (best < 0 or costs[entry] < costs[best]):
            best = entry
    return best


@compiled
def _neighbour(image, node, action):
    """The node that an action leads to, or -1 when the way is blocked or unseen."""
    x, y, heading = node // 4 // _SIZE, node // 4 % _SIZE, node % 4
    if action == LEFT:
        return node - heading + (heading + 3) % 4
    if action == RIGHT:
        return node - heading + (heading + 1) % 4
    x, y = x + STEP_X[heading], y + STEP_Y[heading]
    if not (0 <= x < _SIZE and 0 <= y < _SIZE):
        return -1
    kind = image[x, y, 0]
    if kind in (EMPTY, GOAL) or (kind == DOOR and image[x, y, 2] == OPEN):
        return (x * _SIZE + y) * 4 + heading
    return -1


@compiled
def _is_goal(node, target_x, target_y):
    """Whether the agent, in this pose, stands beside the target and faces it."""
    x, y, heading = node // 4 // _SIZE, node // 4 % _SIZE, node % 4
    return x + STEP_X[heading] == target_x and y + STEP_Y[heading] == target_y


@compiled
def _search_by_set(image, start, target_x, target_y):
    costs = np.full(_NODES, _NODES, np.int64)
    parents, taken = np.full(_NODES, -1, np.int64), np.zeros(_NODES, np.int64)
    table, counts = np.full(_SMALLEST_TABLE, _UNUSED, np.int64), np.zeros(2, np.int64)
    costs[start] = 0
    table = _insert(table, counts, start)
    while True:
        node = _first_cheapest(table, costs)
        if node < 0 or _is_goal(node, target_x, target_y):
            return node, parents, taken
        for action in (LEFT, RIGHT, FORWARD):
            to = _neighbour(image, node, action)
            if to >= 0 and costs[node] + 1 < costs[to]:
                costs[to], parents[to], taken[to] = costs[node] + 1, node, action
                table = _insert(table, counts, to)
        table[_slot(table, node)] = _DUMMY
        counts[1] -= 1


@compiled
def _search_by_queue(image, start, target_x, target_y):
    parents, taken = np.full(_NODES, -1, np.int64), np.zeros(_NODES, np.int64)
    queue, reached = np.empty(_NODES, np.int64), np.zeros(_NODES, np.bool_)
    queue[0], reached[start] = start, True
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        if _is_goal(node, target_x, target_y):
            return node, parents, taken
        for action in (LEFT, RIGHT, FORWARD):
            to = _neighbour(image, node, action)
            if to >= 0 and not reached[to]:
                reached[to], parents[to], taken[to] = True, node, action
                queue[tail] = to
                tail += 1
    return -1, parents, taken


@compiled
def shortest_path(image, x, y, heading, target_x, target_y, ties):
    """Actions (int64 [n]) from a pose to one beside the target and facing it; empty when there or unreachable."""
    start = (x * _SIZE + y) * 4 + heading
    if ties == ORIGINAL:
        node, parents, taken = _search_by_set(image, start, target_x, target_y)
    else:
        node, parents, taken = _search_by_queue(image, start, target_x, target_y)
    if node < 0:
        return np.empty(0, np.int64)
    length, step = 0, node
    while parents[step] >= 0:
        length, step = length + 1, parents[step]
    actions = np.empty(length, np.int64)
    while parents[node] >= 0:
        length -= 1
        actions[length] = taken[node]
        node = parents[node]
    return actions


class Translator:
    """Describes memory images [10, 10, 4] of one world, remembering where each named object was last seen.

    A new episode needs a new translator: the original's coordinates outlive episodes (Q4), ours do not.
    """

    def __init__(self, world: str, carry_inside: bool = False):
        """`carry_inside` writes KeyInBox's carried key inside the braces, as its own examples do (Q17)."""
        self.world, self._carry_inside = world, carry_inside
        self.coordinates: Coordinates = {}

    def describe(self, image: np.ndarray) -> str:
        """The text of an observation; updates `coordinates`."""
        listed, carried = self._read(image)
        seen = ", ".join(f"observed {self._article(name)}" for name in listed) or "observed nothing"
        carry = f", carry {carried}" if carried else ""
        if self.world == "ColoredDoorKey":
            return f"Q: [{seen}{carry}]"
        if self.world == "KeyInBox" and not self._carry_inside:
            return f"observation: {{{seen}}}, {carry}"
        return f"observation: {{{seen}{carry}}} "

    def _read(self, image: np.ndarray) -> tuple[list[str], str | None]:
        """Names of the objects in sight, in the order of mention, and of the key in hand."""
        listed, carried = [], None
        for kind, colour, x, y, here in find_objects(image).tolist():
            name = self._name(kind, colour)
            if kind == BOX and self.world not in _BOX_WORLDS:
                continue
            if kind == KEY and here:
                carried = name
                continue
            listed.append(name)
            self.coordinates[name] = (x, y)
        return listed, carried

    def _name(self, kind: int, colour: int) -> str:
        return f"{COLOURS[colour]} {TYPES[kind]}" if self.world == "ColoredDoorKey" else TYPES[kind]

    def _article(self, name: str) -> str:
        return name if self.world == "ColoredDoorKey" else f"a {name}"


def has_box(world: str) -> bool:
    """Whether boxes exist, for translator and parser, in this world."""
    return world in _BOX_WORLDS
