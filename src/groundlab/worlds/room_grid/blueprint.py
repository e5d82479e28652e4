"""The steps in which a level is built, as numbers that compiled code reads; `build.py` carries them out.

    Rules(family=ROOM_GRID, columns=3, rows=3, blueprint=(agent(), connect(), distractors(18), reachable(), ...))

They follow minigrid's `gen_mission` line by line, since every draw must come in its order. Each object and each door
that a step names is listed, from 0 on; connecting doors are not. A number may be DRAWN, `register(k)` (what an earlier
step drew) or `colour_of(k)` (the colour of listed thing k).
"""

from groundlab.worlds.rules import ANY, PICK_UP, PUT_NEXT

STEP = 6  # numbers a step: which one, and its arguments
REGISTERS, MOST_THINGS = 8, 40
DRAWN = ANY
PACKED = 10
FIRST_REGISTER, FIRST_COLOUR = -10, -20

(
    END, AGENT, AGENT_OUTSIDE, DOOR, BALL_BEFORE, THING, KEY_IN_BOX, DISTRACTORS, LOCKED_ROOM,
    CONNECT, REMOVE_WALL, REACHABLE, DRAW, CHOOSE, CHOOSE_ROOM, COLOURS, PAIR, SWAP, REPAINT, ONE_BALL, OPEN_DOORS,
    ANY_DOOR, ASK, ASK_DOOR, ORDER, TOLD_ORDER, INSTRUCT,
) = range(27)  # fmt: skip

# What a mission says of a thing, in the order in which PickupDist draws it.
BY_TYPE, BY_COLOUR, BY_BOTH = range(3)

Step = tuple[int, ...]


def _step(code: int, *arguments: int) -> Step:
    return (code, *arguments, *[0] * (STEP - 1 - len(arguments)))


def register(k: int) -> int:
    """What an earlier step drew into register `k`."""
    return FIRST_REGISTER - k


def colour_of(k: int) -> int:
    """The colour of listed thing `k`."""
    return FIRST_COLOUR - k


def agent(column: int = DRAWN, row: int = DRAWN) -> Step:
    """Put the agent into a room."""
    return _step(AGENT, column, row)


def agent_outside(column: int = DRAWN, row: int = DRAWN) -> Step:
    """Put the agent into any room but this one (DRAWN: but the locked one, if any)."""
    return _step(AGENT_OUTSIDE, column, row)


def door(column: int, row: int, wall: int = DRAWN, colour: int = DRAWN, locked: int = DRAWN) -> Step:
    """Put a door into a wall of a room: 0 east, 1 south, 2 west, 3 north."""
    return _step(DOOR, column, row, wall, colour, locked)


def ball_before(column: int, row: int, wall: int, colour: int) -> Step:
    """Put a ball into a room, right before the door in this wall, whatever lies there. It is not listed."""
    return _step(BALL_BEFORE, column, row, wall, colour)


def thing(column: int, row: int, kind: int = DRAWN, colour: int = DRAWN) -> Step:
    """Put an object into a room."""
    return _step(THING, column, row, kind, colour)


def key_in_box(column: int, row: int, box: int, key: int) -> Step:
    """Put a box of one colour into a room, with a key of another in it."""
    return _step(KEY_IN_BOX, column, row, box, key)


def distractors(number: int, column: int = DRAWN, row: int = DRAWN, unique: bool = True) -> Step:
    """Put drawn objects into a room, or each into a drawn one; `unique`: unlike each other and all that lie there."""
    return _step(DISTRACTORS, number, column, row, int(unique))


def connect(avoid: int = DRAWN) -> Step:
    """Add doors until every room can be reached; with a colour to avoid, a coin says whether it is avoided."""
    return _step(CONNECT, avoid)


def remove_wall(column: int, row: int, wall: int) -> Step:
    """Take a wall between two rooms away."""
    return _step(REMOVE_WALL, column, row, wall)


def reachable(wanted: bool = True) -> Step:
    """Begin anew unless the agent can come beside everything (or, if not `wanted`, when it can)."""
    return _step(REACHABLE, int(wanted))


def draw(into: int, low: int, high: int) -> Step:
    """Draw an integer in [low, high) into a register."""
    return _step(DRAW, into, low, high)


def choose(into: int, first: int, second: int) -> Step:
    """Write one of two numbers into a register, by a coin."""
    return _step(CHOOSE, into, first, second)


def choose_room(into: int, rooms: tuple[tuple[int, int], ...]) -> Step:
    """Write one of up to four rooms into two registers: its column and its row."""
    packed = [PACKED * column + row for column, row in rooms]
    return _step(CHOOSE_ROOM, into, *packed, *[-1] * (4 - len(packed)))


def colours(number: int) -> Step:
    """Draw different colours into the registers from 0 on."""
    return _step(COLOURS, number)


def pair(into: int, low: int, high: int) -> Step:
    """Draw two different integers in [low, high) into two registers."""
    return _step(PAIR, into, low, high)


def swap(first: int, second: int) -> Step:
    """Swap two registers, or not, by a coin."""
    return _step(SWAP, first, second)


def repaint(first: int, colour: int) -> Step:
    """Give all listed things from the first on another colour."""
    return _step(REPAINT, first, colour)


def one_ball() -> Step:
    """Begin anew when a red or blue ball is listed."""
    return _step(ONE_BALL)


def open_doors() -> Step:
    """Open all doors."""
    return _step(OPEN_DOORS)


def any_door(into: int) -> Step:
    """List one of all doors, drawn room by room as minigrid does, and write its number into a register."""
    return _step(ANY_DOOR, into)


def locked_room(percent: int) -> Step:
    """So often: a room with a locked door, its key in another room."""
    return _step(LOCKED_ROOM, percent)


def ask(part: int, verb: int, about: int, how: int = BY_BOTH, strict: bool = False, slot: int = 0) -> Step:
    """Ask for a listed thing in a part of the mission; verb DRAWN: to go there, or to open or pick it up, by a coin."""
    return _step(ASK, 2 * part + slot, verb, about, how, int(strict))


def ask_door(by_place: int, strict: bool = False) -> Step:
    """Ask for listed door 0 by its colour (0), for a door at a drawn place (1), or draw which."""
    return _step(ASK_DOOR, by_place, int(strict))


def order(which: int) -> Step:
    """Tell parts 0 and 1 in this order (missions.BEFORE, AFTER)."""
    return _step(ORDER, which)


def told_order(strict: bool) -> Step:
    """Draw what is asked of the doors in registers 0 and 1: open the first, both in order, or both in reverse."""
    return _step(TOLD_ORDER, int(strict))


def instruct(verb: int = DRAWN, single: bool = False, places: bool = True, unblocking: bool = True,
             implicit_unlock: bool = True) -> Step:  # fmt: skip
    """Draw a mission from the whole grammar, with its options (minigrid's LevelGen)."""
    return _step(INSTRUCT, verb, int(single), int(places), int(unblocking), int(implicit_unlock))


def pick_up(about: int, how: int = BY_BOTH) -> Step:
    """Ask to pick up a listed thing."""
    return ask(0, PICK_UP, about, how)


def most_walks(blueprint: tuple[Step, ...]) -> int:
    """How many walks its longest mission is granted, as `missions.navigations` counts them."""
    total = 0
    for code, a, b, *_ in blueprint:
        if code == ASK and a % 2 == 0:
            total += 2 if b == PUT_NEXT else 1
        elif code == INSTRUCT:
            total += (2 if a in (DRAWN, PUT_NEXT) else 1) * (1 if b else 4)
        elif code in (ASK_DOOR, TOLD_ORDER):
            total += 1 + (code == TOLD_ORDER)
    return total
