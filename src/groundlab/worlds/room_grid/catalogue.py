"""Minigrid's levels as blueprints, by minigrid's ids: what each `gen_mission` of minigrid 3.2 does, step by step.

    Entry("BabyAI-OneRoomS8-v0", Rules(...), "pick up the ball", "one ball")

Kept as it is there: a room and its number are compared as objects in Unlock and GoToImpUnlock, which is never true of
NumPy's integers, so that the key may lie in the room that it unlocks, and distractors lie in every room.
"""

from collections.abc import Iterator
from typing import NamedTuple

from groundlab.worlds.codes import BALL, BLUE, BOX, GREEN, GREY, KEY, RED
from groundlab.worlds.room_grid.blueprint import (
    BY_BOTH,
    BY_TYPE,
    DISTRACTORS,
    DRAWN,
    Step,
    agent,
    agent_outside,
    any_door,
    ask,
    ask_door,
    ball_before,
    choose,
    choose_room,
    colour_of,
    colours,
    connect,
    distractors,
    door,
    draw,
    instruct,
    key_in_box,
    locked_room,
    one_ball,
    open_doors,
    order,
    pair,
    pick_up,
    reachable,
    register,
    remove_wall,
    repaint,
    swap,
    thing,
    told_order,
)
from groundlab.worlds.rules import BEFORE, GO_TO, OPEN, PICK_UP, PUT_NEXT, ROOM_GRID, Rules

_EAST, _SOUTH, _WEST, _NORTH = range(4)
_YES, _NO = 1, 0  # whether a door is locked
_GO, _PICK, _OPEN = "go to a/the C T", "pick up a/the C T", "open a/the C door"
_PUT = "put the C T next to the C T"
_CORRIDORS = ((3, 1), (3, 2), (3, 3), (4, 3), (5, 3), (6, 3))  # size and rows of rooms


class Entry(NamedTuple):
    """One level: minigrid's id, the level itself, and what a list of worlds says about it."""

    name: str
    rules: Rules
    mission: str
    summary: str


def _level(size: int, rooms: tuple[int, int], *blueprint: Step, limit: int = 0, carrying: int = 0) -> Rules:
    """A level of `rooms` (columns, rows) of `size` cells a side."""
    columns, rows = rooms
    return Rules(
        family=ROOM_GRID, room_size=size, columns=columns, rows=rows, time_limit=limit, carrying=carrying,
        blueprint=blueprint,
    )  # fmt: skip


_ONE, _TWO, _NINE = (1, 1), (2, 1), (3, 3)


def _maze(size: int, rooms: tuple[int, int], number: int, verb: int, *more: Step, within: bool = True) -> Rules:
    """Connected rooms and objects, one of which is asked for; `within`: all objects are within reach, or not all."""
    steps = (agent(), connect(), distractors(number, unique=False), reachable(within), draw(0, 0, number))
    return _level(size, rooms, *steps, ask(0, verb, register(0)), *more)


def _locked_maze(number: int, *ends: Step, avoid: int = DRAWN) -> Rules:
    """Nine rooms, one of them locked, its key anywhere, and objects everywhere; the agent outside the locked room."""
    room, elsewhere = (register(0), register(1)), (register(2), register(3))
    lock = (draw(0, 0, 3), draw(1, 0, 3), door(*room, locked=_YES))
    key = (draw(2, 0, 3), draw(3, 0, 3), thing(*elsewhere, KEY, colour_of(0)), connect(avoid))
    everywhere = (distractors(number, column, row, unique=False) for column in range(3) for row in range(3))
    return _level(8, _NINE, *lock, *key, *everywhere, agent_outside(*room), reachable(), *ends)


def _go_to() -> Iterator[Entry]:
    steps = (agent(), thing(0, 0, BALL, RED), distractors(7, unique=False), repaint(1, GREY), reachable())
    grey = _level(8, _ONE, *steps, ask(0, GO_TO, 0))
    yield Entry("BabyAI-GoToRedBallGrey-v0", grey, "go to the red ball", "a red ball and 7 grey objects")
    steps = (agent(), distractors(7, unique=False), one_ball(), choose(0, RED, BLUE), thing(0, 0, BALL, register(0)))
    two = _level(8, _ONE, *steps, reachable(), ask(0, GO_TO, 7))
    yield Entry("BabyAI-GoToRedBlueBall-v0", two, "go to the red ball; ... blue ball", "that ball and 7 objects")
    mazes = [("GoTo", 8, _NINE, 18), ("GoToObjMaze", 8, _NINE, 1), ("GoToObjMazeS4R2", 4, (2, 2), 1)]
    mazes += [(f"GoToObjMazeS{size}", size, _NINE, 1) for size in (4, 5, 6, 7)]
    for name, size, rooms, number in mazes:
        words = f"{rooms[0] * rooms[1]} rooms, {number} object{'s' * (number > 1)}"
        yield Entry(f"BabyAI-{name}-v0", _maze(size, rooms, number, GO_TO), _GO, words)
    for name, number in (("GoToOpen", 18), ("GoToObjMazeOpen", 1)):
        opened = _maze(8, _NINE, number, GO_TO, open_doors())
        yield Entry(f"BabyAI-{name}-v0", opened, _GO, f"9 rooms, {number} object{'s' * (number > 1)}, open doors")
    four = (door(1, 1), door(1, 1), door(1, 1), door(1, 1))
    doors = _level(7, _NINE, *four, agent(1, 1), draw(0, 0, 4), ask(0, GO_TO, register(0)))
    yield Entry("BabyAI-GoToDoor-v0", doors, "go to a/the C door", "a room with 4 doors")
    steps = (agent(1, 1), distractors(8, 1, 1, unique=False), *four, reachable(), draw(0, 0, 12))
    both = _level(8, _NINE, *steps, ask(0, GO_TO, register(0)))
    yield Entry("BabyAI-GoToObjDoor-v0", both, _GO, "a room with 4 doors and 8 objects")
    inside = (distractors(1, register(0), register(1), unique=False), ask(0, GO_TO, 20))
    locked = _locked_maze(2, *inside)
    yield Entry("BabyAI-GoToImpUnlock-v0", locked, _GO, "9 rooms, one locked, the target in it")


def _open() -> Iterator[Entry]:
    steps = (agent(), connect(), distractors(18, unique=False), reachable(), any_door(0), ask(0, OPEN, register(0)))
    yield Entry("BabyAI-Open-v0", _level(8, _NINE, *steps), _OPEN, "9 rooms, 18 objects")
    steps = (door(0, 0, _EAST, RED, _NO), agent(0, 0), ask(0, OPEN, 0))
    yield Entry("BabyAI-OpenRedDoor-v0", _level(5, _TWO, *steps), "open the red door", "2 rooms")
    four = tuple(door(1, 1, wall, register(wall), _NO) for wall in range(4))
    for name, by_place, strict in (("", DRAWN, 0), ("Debug", DRAWN, 1), ("Color", 0, 0), ("Loc", 1, 0)):
        level = _level(8, _NINE, colours(4), *four, ask_door(by_place, bool(strict)), agent(1, 1))
        mission = ("open the C door", "open a/the door on your left|...", "open the C door; ... on your left|...")
        words = "a room with 4 doors" + "; another door fails" * strict
        yield Entry(f"BabyAI-OpenDoor{name}-v0", level, mission[by_place], words)
    for name, first, second, strict in (
        ("TwoDoors", register(0), register(1), 0), ("RedBlueDoors", RED, BLUE, 0), ("RedBlueDoorsDebug", RED, BLUE, 1)
    ):  # fmt: skip
        doors = (door(1, 1, _WEST, first, _NO), door(1, 1, _EAST, second, _NO), agent(1, 1))
        asked = (ask(0, OPEN, 0, strict=bool(strict)), ask(1, OPEN, 1), order(BEFORE))
        words = "a room with 2 doors" + "; another door fails at first" * strict
        level = _level(6, _NINE, colours(2), *doors, *asked, limit=720)
        mission = "open the red door, then open the blue door" if "Red" in name else "open the C door, then the other"
        yield Entry(f"BabyAI-Open{name}-v0", level, mission, words)
    for number in (2, 4):
        for name, strict in (("", False), ("Debug", True)):
            doors = (door(1, 1, DRAWN, register(k), _NO) for k in range(number))
            steps = (colours(number), *doors, agent(1, 1), pair(0, 0, number), told_order(strict))
            words = f"a room with {number} doors" + "; another door fails" * strict
            mission = "open X; open X, then open Y; open X after you open Y"
            level = _level(6, _NINE, *steps, limit=720)
            yield Entry(f"BabyAI-OpenDoorsOrderN{number}{name}-v0", level, mission, words)


def _pick_up() -> Iterator[Entry]:
    yield Entry("BabyAI-Pickup-v0", _maze(8, _NINE, 18, PICK_UP), _PICK, "9 rooms, 18 objects")
    blocked = _maze(8, _NINE, 20, PICK_UP, within=False)
    yield Entry("BabyAI-UnblockPickup-v0", blocked, _PICK, "9 rooms, 20 objects, not all within reach")
    steps = (locked_room(0), connect(), distractors(8, unique=False), agent_outside(), reachable())
    places = _level(8, _ONE, *steps, instruct(PICK_UP, single=True, unblocking=False))
    yield Entry("BabyAI-PickupLoc-v0", places, "pick up a/the C T on your left|...", "one room, 8 objects")
    for name, strict in (("", False), ("Debug", True)):
        steps = (distractors(5), agent(0, 0), draw(0, 0, 5), draw(1, 0, 3))
        level = _level(7, _ONE, *steps, ask(0, PICK_UP, register(0), register(1), strict))
        words = "one room, 5 objects" + "; another object fails" * strict
        yield Entry(f"BabyAI-PickupDist{name}-v0", level, "pick up a/the C T|T|C object", words)
    steps = (thing(1, 0), door(1, 1, _NORTH, DRAWN, _NO), agent(1, 1), connect(), pick_up(0))
    yield Entry("BabyAI-PickupAbove-v0", _level(6, _NINE, *steps, limit=288), "pick up the C T", "9 rooms, one object")
    for size in (8, 12, 16, 20):
        level = _level(size, _ONE, thing(0, 0, BALL), agent(), pick_up(0, BY_TYPE))
        yield Entry(f"BabyAI-OneRoomS{size}-v0", level, "pick up the ball", "a ball alone")
    for size in (5, 6, 7):
        steps = (draw(0, 0, 3), draw(1, 0, 3), thing(register(0), register(1)), agent(1, 1), connect())
        level = _level(size, _NINE, *steps, pick_up(0, BY_TYPE), limit=20 * size**2)
        yield Entry(f"BabyAI-FindObjS{size}-v0", level, "pick up the T", "9 rooms, one object")
    steps = (distractors(5, 1, 1), *[door(1, 1, locked=_NO)] * 4, agent(1, 1), draw(0, 0, 9))
    level = _level(7, _NINE, *steps, ask(0, DRAWN, register(0)))
    mission = "go to X; open X; pick up X"
    yield Entry("BabyAI-ActionObjDoor-v0", level, mission, "a room with 4 doors and 5 objects")


def _put_next() -> Iterator[Entry]:
    for size, number in ((4, 1), (5, 1), (5, 2), (6, 3), (7, 4)):
        both = (agent(0, 0), distractors(number, 0, 0), distractors(number, 1, 0), remove_wall(0, 0, _EAST))
        drawn = (draw(0, 0, number), draw(1, number, 2 * number), swap(0, 1))
        asked = (ask(0, PUT_NEXT, register(0)), ask(0, PUT_NEXT, register(1), slot=1))
        words = f"a long room, {number} object{'s' * (number > 1)} on either side"
        for name, carrying in (("", 0), ("Carrying", 1)):
            if number > 1 or not carrying:
                level = _level(size, _TWO, *both, *drawn, *asked, limit=8 * size**2, carrying=carrying)
                what = words + ", one in the hand" * carrying
                yield Entry(f"BabyAI-PutNextS{size}N{number}{name}-v0", level, _PUT, what)
    for size, number in ((5, 2), (8, 9)):
        both = (agent(0, 0), distractors(number, 0, 0), distractors(number, 1, 0), remove_wall(0, 0, _EAST))
        drawn = (pair(0, 0, number), pair(2, number, 2 * number), order(BEFORE))
        first = (ask(0, PUT_NEXT, register(0)), ask(0, PUT_NEXT, register(2), slot=1))
        second = (ask(1, PUT_NEXT, register(3)), ask(1, PUT_NEXT, register(1), slot=1))
        level = _level(size, _TWO, *both, *drawn, *first, *second, limit=16 * size**2)
        words = f"a long room, {number} objects on either side"
        yield Entry(f"BabyAI-MoveTwoAcrossS{size}N{number}-v0", level, f"{_PUT}, then put ...", words)


def _unlock() -> Iterator[Entry]:
    words = "9 rooms, 27 objects and a key"
    yield Entry("BabyAI-Unlock-v0", _locked_maze(3, ask(0, OPEN, 0), avoid=colour_of(0)), _OPEN, words)
    for name, number in (("", 0), ("Dist", 3)):
        steps = (door(1, 1, locked=_YES), thing(1, 1, KEY, colour_of(0)), distractors(number, 1, 1), agent(1, 1))
        words = "a locked door, its key" + f" and {number} objects" * (number > 0)
        level = _level(8, _NINE, *steps, ask(0, OPEN, 0, BY_TYPE))
        yield Entry(f"BabyAI-UnlockLocal{name}-v0", level, "open the door", words)
    steps = (door(1, 1, locked=_YES), key_in_box(1, 1, DRAWN, colour_of(0)), agent(1, 1), ask(0, OPEN, 0, BY_TYPE))
    yield Entry("BabyAI-KeyInBox-v0", _level(8, _NINE, *steps), "open the door", "the key lies in a box")
    for name, number in (("", 0), ("Dist", 4)):
        lock = (thing(1, 0, BOX), door(0, 0, _EAST, locked=_YES), thing(0, 0, KEY, colour_of(1)))
        level = _level(6, _TWO, *lock, distractors(number), agent(0, 0), pick_up(0))
        words = "2 rooms, the box in the locked one" + f", {number} more objects" * (number > 0)
        yield Entry(f"BabyAI-UnlockPickup{name}-v0", level, "pick up the C box", words)
    words = "2 rooms, the box in the locked one, a ball before the door"
    yield Entry("BabyAI-BlockedUnlockPickup-v0", _blocked(BY_TYPE), "pick up the box", words)
    keys = (door(0, 0, _EAST, register(0), _YES), thing(2, 0, KEY, register(0)))
    keys += (door(1, 0, _EAST, register(1), _YES), thing(1, 0, KEY, register(1)), thing(0, 0, BALL))
    level = _level(6, (3, 1), colours(2), *keys, agent(1, 0), pick_up(4, BY_TYPE), limit=1080)
    yield Entry("BabyAI-UnlockToUnlock-v0", level, "pick up the ball", "3 rooms, one key behind the other's door")
    for name, (size, rows) in (("", (6, 3)), *((f"S{size}R{rows}", (size, rows)) for size, rows in _CORRIDORS)):
        level, words = _key_corridor(size, rows, BY_TYPE), f"{3 * rows} rooms, the key in one of them"
        yield Entry(f"BabyAI-KeyCorridor{name}-v0", level, "pick up the ball", words)


def _blocked(how: int) -> Rules:
    """Two rooms, a box in the second, and a ball before the locked door."""
    lock = (thing(1, 0, BOX), door(0, 0, _EAST, locked=_YES), ball_before(0, 0, _EAST, DRAWN))
    key = (thing(0, 0, KEY, colour_of(1)), agent(0, 0))
    return _level(6, _TWO, *lock, *key, pick_up(0, how), limit=576)


def _key_corridor(size: int, rows: int, how: int) -> Rules:
    """A corridor with rooms on either side: a ball in a locked one, the key in another."""
    corridor = (*(remove_wall(1, row, _NORTH) for row in range(1, rows)), draw(0, 0, rows))
    lock = (door(2, register(0), _WEST, locked=_YES), thing(2, register(0), BALL), draw(1, 0, rows))
    key = (thing(0, register(1), KEY, colour_of(0)), agent(1, rows // 2), connect())
    return _level(size, (3, rows), *corridor, *lock, *key, pick_up(1, how), limit=30 * size**2)


def _grammar(size: int, rooms: tuple[int, int], number: int, percent: int, *ends: Step) -> Rules:
    """minigrid's LevelGen: perhaps a locked room, objects everywhere, a drawn mission."""
    steps = (locked_room(percent), connect(), distractors(number, unique=False), agent_outside())
    return _level(size, rooms, *steps, *ends)


def _whole_grammar() -> Iterator[Entry]:
    within = (reachable(), instruct(GO_TO, places=False, unblocking=False))
    one = instruct(places=False, single=True, implicit_unlock=False)
    one_place, several = instruct(single=True, implicit_unlock=False), instruct(implicit_unlock=False)
    go, do = "go to X [and Y][, then ... | after you ...]", "a task [and a task][, then ... | after you ...]"
    for name, level, mission in (
        ("GoToSeq", _grammar(8, _NINE, 18, 0, *within), go),
        ("GoToSeqS5R2", _grammar(5, (2, 2), 4, 0, *within), go),
        ("Synth", _grammar(8, _NINE, 18, 50, one), "one of the four tasks"),
        ("SynthS5R2", _grammar(5, (3, 2), 18, 50, one), "one of the four tasks"),
        ("SynthLoc", _grammar(8, _NINE, 18, 50, one_place), "one of the four tasks, on your left|..."),
        ("SynthSeq", _grammar(8, _NINE, 18, 50, several), do),
        ("MiniBossLevel", _grammar(5, (2, 2), 7, 25, instruct()), do),
        ("BossLevel", _grammar(8, _NINE, 18, 50, instruct()), do),
        ("BossLevelNoUnlock", _grammar(8, _NINE, 18, 0, several), do),
    ):
        number = next(step[1] for step in level.blueprint if step[0] == DISTRACTORS)
        words = f"{level.columns * level.rows} rooms, {number} objects" + "; no locked room" * ("Unlock" in name)
        yield Entry(f"BabyAI-{name}-v0", level, mission, words)


def _minigrid() -> Iterator[Entry]:
    """MiniGrid's own levels, which end as BabyAI's do: the door is open, or the thing in the hand."""
    lock = (door(0, 0, _EAST, locked=_YES), thing(0, 0, KEY, colour_of(0)), agent(0, 0))
    level = _level(6, _TWO, *lock, ask(0, OPEN, 0, BY_TYPE), limit=288)
    yield Entry("MiniGrid-Unlock-v0", level, "open the door", "2 rooms, a locked door, its key")
    lock = (thing(1, 0, BOX), door(0, 0, _EAST, locked=_YES), thing(0, 0, KEY, colour_of(1)), agent(0, 0))
    level, inside = _level(6, _TWO, *lock, pick_up(0), limit=288), "2 rooms, the box in the locked one"
    yield Entry("MiniGrid-UnlockPickup-v0", level, "pick up the C box", inside)
    words = inside + ", a ball before the door"
    yield Entry("MiniGrid-BlockedUnlockPickup-v0", _blocked(BY_BOTH), "pick up the C box", words)
    for size, rows in _CORRIDORS:
        level, words = _key_corridor(size, rows, BY_BOTH), f"{3 * rows} rooms, the key in one of them"
        yield Entry(f"MiniGrid-KeyCorridorS{size}R{rows}-v0", level, "pick up the C ball", words)
    for name, boxed, blocked in (("1Dl", False, False), ("1Dlh", True, False), ("1Dlhb", True, True)):
        door_and_key = _obstructed(0, 0, _EAST, register(0), boxed, blocked)
        find = (thing(1, 0, BALL, BLUE), agent(0, 0), pick_up(2))
        level = _level(6, _TWO, colours(6), *door_and_key, *find, limit=288)
        yield Entry(f"MiniGrid-ObstructedMaze-{name}-v0", level, "pick up the blue ball", _hidden(2, boxed, blocked))
    for name, room, boxed, blocked, quarters, visited in (
        ("2Dl", (2, 1), False, False, 1, 4), ("2Dlh", (2, 1), True, False, 1, 4), ("2Dlhb", (2, 1), True, True, 1, 4),
        ("1Q", (1, 1), True, True, 1, 5), ("2Q", (2, 1), True, True, 2, 11), ("Full", (1, 1), True, True, 4, 25),
    ):  # fmt: skip
        for version in range(1 + blocked):
            level = _obstructed_maze(room, boxed, blocked, quarters, 144 * visited, keys_last=version == 1)
            words = _hidden(9, boxed, blocked) + ", keys put last" * version
            yield Entry(f"MiniGrid-ObstructedMaze-{name}-v{version}", level, "pick up the blue ball", words)


def _hidden(rooms: int, boxed: bool, blocked: bool) -> str:
    return f"{rooms} rooms, locked doors" + ", keys in boxes" * boxed + ", balls before doors" * blocked


def _key(column: int, row: int, colour: int, boxed: bool) -> Step:
    return key_in_box(column, row, GREY, colour) if boxed else thing(column, row, KEY, colour)


def _obstructed(column: int, row: int, wall: int, colour: int, boxed: bool, blocked: bool, keyed: bool = True
                ) -> tuple[Step, ...]:  # fmt: skip
    """A locked door, perhaps with a ball before it, and its key."""
    steps = [door(column, row, wall, colour, _YES)]
    steps += [ball_before(column, row, wall, GREEN)] * blocked + [_key(column, row, colour, boxed)] * keyed
    return tuple(steps)


def _obstructed_maze(
    room: tuple[int, int], boxed: bool, blocked: bool, quarters: int, limit: int, keys_last: bool
) -> Rules:
    """Nine rooms: doors from the middle to side rooms, locked ones from there to the corners, a ball in a corner.

    `keys_last`: the keys are placed after the balls, which otherwise may take their place (minigrid's v0).
    """
    steps, listed = [colours(6)], 0
    for side, (column, row) in enumerate(((2, 1), (1, 2), (0, 1), (1, 0))[:quarters]):
        steps.append(door(1, 1, side, register(side), _NO))
        walls = [((side + turn) % 4, register((side + turn) % 6)) for turn in (-1, 1)]
        for wall, colour in walls:
            steps += _obstructed(column, row, wall, colour, boxed, blocked, keyed=not keys_last)
        steps += [_key(column, row, colour, boxed) for _, colour in walls] * keys_last
        listed += 5
    corners = ((2, 0), (2, 2), (0, 2), (0, 0))[:quarters]
    steps += [choose_room(6, corners), thing(register(6), register(7), BALL, BLUE), agent(*room), pick_up(listed)]
    return _level(6, _NINE, *steps, limit=limit)


CATALOGUE = tuple(
    entry for levels in (_go_to, _open, _pick_up, _put_next, _unlock, _whole_grammar, _minigrid) for entry in levels()
)
