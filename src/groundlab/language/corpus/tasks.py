"""What the missions of MixedTrainLocal ask for, told about views with doors and full hands.

    situation = draw_situation(rng, breadth)    # a mission, what is seen and carried, and the thing that comes next
    TASKS["task_places"](rng, breadth)          # one pair of texts

A mission of two parts names two things, and hands and locks decide which of them comes next. These topics say which
(`targets`), where it is (`task_places`, `task_sides`), what it is for (`purposes`), whether that can be done now
(`reach`), and how the hands are (`hands`): a mission and a view, never an action. `uses` says which verb serves a
purpose, and which leads left, right or ahead, the latter also behind a view: an action, never a mission. `effects` says
what comes of a verb. Only recipes that name these topics teach them. Source: the missions are those of
docs/papers/glam-method.md#env-2-3, the sentences those of #env-1-3 to #env-1-6, the verbs' rules those of #env-2-2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from numpy.random import Generator

from groundlab.language.corpus import scenes
from groundlab.language.corpus.scenes import CORE_COLOURS, SYNONYMS, Room, Scene, Thing, any_name, one_of, steps
from groundlab.language.corpus.topics import UNSEEN, Breadth

Cell = tuple[int, int]
"""Cells to the right and ahead of the agent."""

HAVE, BE, OPEN, LEAVE = "to have it", "to be there", "to see it open", "to leave something beside it"
NOW, NOT_YET = "now", "not yet"
FREE, NEEDED, FULL = "free", "full of what it takes", "full of something else"
READY: dict[str, tuple[Cell, ...]] = {HAVE: ((0, 1),), OPEN: ((0, 1),), LEAVE: ((0, 2), (-1, 1), (1, 1)), BE: ()}
"""Purpose -> where a thing must be for it; whoever is to be there is there as soon as the thing is one step ahead."""
_SEEN = 0.8  # share of the things that come next, and of the others that a mission names, which are in sight
_READY = 0.25  # share of those that are where their purpose can be served
_DOORS = 0.25  # share of the views with a door that no mission names
_STATES = ("open", "closed", "locked")


@dataclass(frozen=True)
class Situation:
    """A mission, and what the agent that has it sees and carries."""

    mission: str
    captions: str
    subject: str
    """The name of the thing that comes next: "blue key", or "door" where its colour is not known."""
    cell: Cell | None
    """Where that is; None out of sight."""
    purpose: str
    hands: str
    blocked: bool
    """Whether the cell ahead is taken."""

    @property
    def place(self) -> str:
        return scenes.place(*self.cell) if self.cell else UNSEEN

    @property
    def side(self) -> str:
        return Thing("", "", *self.cell).side if self.cell else UNSEEN

    @property
    def reach(self) -> str:
        if self.cell is None:
            return UNSEEN
        hindered = self.hands == FULL if self.purpose == HAVE else self.blocked and self.purpose == LEAVE
        return NOW if self.cell in READY[self.purpose] and not hindered else NOT_YET


_ONE = (("go to the {}", BE), ("go to a {}", BE), ("pick up the {}", HAVE), ("pick up a {}", HAVE))
_TWO = (
    ("put the {} next to the {}", LEAVE),
    ("put a {} next to a {}", LEAVE),
    ("pick up the {}, then go to the {}", BE),
    ("pick up a {}, then go to a {}", BE),
    ("go to the {1} after you pick up the {0}", BE),
    ("go to a {1} after you pick up a {0}", BE),
)


def draw_situation(rng: Generator, breadth: Breadth) -> Situation:
    """A mission of any kind, in a random view."""
    kind, first, room = rng.random(), any_name(rng), Room.draw(rng)
    second, wrong = _another(rng, first), _another(rng, first)
    if kind < 0.3:
        mission, purpose = one_of(rng, _ONE)
        carried = (wrong, FULL) if rng.random() < 0.15 else ("", FREE)
        return _situation(rng, breadth, room, mission.format(first), first, purpose, carried)
    if kind < 0.75:
        mission, purpose = one_of(rng, _TWO)
        if rng.random() < 0.5:
            return _situation(rng, breadth, room, mission.format(first, second), second, purpose, (first, NEEDED))
        carried = (wrong, FULL) if rng.random() < 0.15 else ("", FREE)
        return _situation(rng, breadth, room, mission.format(first, second), first, HAVE, carried, also=[second])
    return _before_a_door(rng, breadth, room)


def _before_a_door(rng: Generator, breadth: Breadth, room: Room) -> Situation:
    """A door to open. One out of sight is locked; a locked one takes its key."""
    colour, walls = one_of(rng, CORE_COLOURS), room.wall_cells()
    is_seen, is_named = bool(walls) and rng.random() < _SEEN, rng.random() < 0.5
    mission, key = f"open the {colour} door" if is_named else "open the door", f"{colour} key"
    if not is_seen and not is_named:
        return _situation(rng, breadth, room, mission, "door", OPEN, ("", FREE))
    is_closed, wrong = is_seen and rng.random() < 0.15, rng.random() < 0.15
    other = (_another(rng, key), FULL) if wrong else ("", FREE)
    door = Thing(f"{'closed' if is_closed else 'locked'} {colour}", "door", *one_of(rng, walls)) if is_seen else None
    if is_closed or rng.random() < 0.5:
        carried = other if is_closed else (key, NEEDED)
        return _situation(rng, breadth, room, mission, f"{colour} door", OPEN, carried, door)
    return _situation(rng, breadth, room, mission, key, HAVE, other, door)


def _situation(
    rng: Generator,
    breadth: Breadth,
    room: Room,
    mission: str,
    subject: str,
    purpose: str,
    carried: tuple[str, str],
    door: Thing | None = None,
    also: Sequence[str] = (),
) -> Situation:
    """The view of a mission. carried: a thing, and how the hands are with it; also: names of what else may be seen."""
    cells = room.cells()
    free = [cells[index] for index in rng.permutation(len(cells))]
    walls, things, cell = room.wall_cells(), [], None
    if walls and not mission.startswith("open") and rng.random() < _DOORS:
        things.append(Thing(f"{one_of(rng, _STATES)} {one_of(rng, CORE_COLOURS)}", "door", *one_of(rng, walls)))
    if door is not None:
        things.append(door)
    if subject.endswith("door"):
        cell = (door.right, door.ahead) if door else None
    elif rng.random() < _SEEN and (cell := _cell_for(rng, free, purpose)):
        free.remove(cell)
        things.append(_thing(subject, cell))
    names = [name for name in also if rng.random() < _SEEN]
    count = breadth.fewest + int(rng.random() * (breadth.most - breadth.fewest + 1))
    names += [_distractor(rng, subject, breadth.similar) for _ in range(count - 1 - len(names))]
    things += [_thing(name, at) for name, at in zip(names, free, strict=False)]
    in_order = tuple(sorted(things, key=lambda thing: (thing.right, -thing.ahead)))
    seen = scenes.captions(Scene(in_order, room.walls(in_order)))
    captions = ", ".join([f"You carry a {carried[0]}", *seen] if carried[0] else seen)
    blocked = room.ahead == 0 or any((thing.right, thing.ahead) == (0, 1) for thing in things)
    return Situation(mission, captions, subject, cell, purpose, carried[1], blocked)


def _cell_for(rng: Generator, free: list[Cell], purpose: str) -> Cell | None:
    """A free cell for the thing that comes next, in a share of all cases one where its purpose can be served."""
    ready = [cell for cell in free if cell in READY[purpose]]
    if ready and rng.random() < _READY:
        return one_of(rng, ready)
    return next((cell for cell in free if purpose != BE or cell != (0, 1)), None)


def _thing(name: str, cell: Cell) -> Thing:
    colour, noun = name.split()
    return Thing(colour, noun, *cell)


def _another(rng: Generator, name: str) -> str:
    while (other := any_name(rng)) == name:
        pass
    return other


def _distractor(rng: Generator, subject: str, similar: float) -> str:
    """Another thing than the subject, in `similar` of all cases with its colour or its noun."""
    while True:
        colour, noun = any_name(rng).split()
        if rng.random() < similar and not subject.endswith("door"):
            own_colour, own_noun = subject.split()
            colour, noun = (own_colour, noun) if rng.random() < 0.5 else (colour, own_noun)
        if f"{colour} {noun}" != subject:
            return f"{colour} {noun}"


_QUESTIONS = {
    "targets": ("subject", ("what comes next?", "which thing now?", "what matters now?")),
    "task_places": ("place", ("where?", "place:", "how far is it?")),
    "task_sides": ("side", ("which side?", "direction:", "left, right or forward?")),
    "reach": ("reach", ("now or not yet?", "can it be done now?")),
    "hands": ("hands", ("the hands are:", "how are the hands?")),
    "purposes": ("purpose", ("what for?", "why that?")),
}
"""Topic -> what of a situation answers it, and the questions for that."""


def _ask(topic: str, rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """A mission, a view and a question about them; the answer."""
    situation, (answer, questions) = draw_situation(rng, breadth), _QUESTIONS[topic]
    pause = one_of(rng, (" \n ", ". ", ": "))
    text = f"{situation.mission}{pause}{situation.captions}, \n {one_of(rng, questions)}"
    return text, getattr(situation, answer)


_TURNS = {"left": "turn left", "right": "turn right", "forward": "go forward"}
_SERVES = {HAVE: "pick up", OPEN: "toggle", LEAVE: "drop"}
_MOVES = ("action:", "which move?", "the move for that:")


def uses(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Which verb serves a purpose, of something nameless; or, without a purpose, which one leads there: half of the
    time behind a view that says nothing of it."""
    draw, question = rng.random(), one_of(rng, _MOVES)
    if draw < 0.2:
        purpose = one_of(rng, tuple(_SERVES))
        return f"{purpose}, {NOW}, \n {question}", _SERVES[purpose]
    if draw < 0.7:
        side = one_of(rng, tuple(_TURNS))
        said, action = one_of(rng, (f"it is {side}", f"it is {side}, {NOT_YET}")), _TURNS[side]
    elif draw < 0.85:
        said, action = f"it is {UNSEEN}", one_of(rng, tuple(_TURNS.values()))
    elif draw < 0.93:
        said, action = "it is forward, the way is blocked", one_of(rng, ("turn left", "turn right"))
    else:
        said, action = f"the hands are {FULL}", "drop"
    before = f"{draw_situation(rng, breadth).captions}. " if rng.random() < 0.5 else ""
    return f"{before}{said}, \n {question}", action


def _verb(rng: Generator, action: str) -> str:
    return one_of(rng, (action, *SYNONYMS[action]))


def effects(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """What comes of a verb beside one thing: what is carried then, or how a door is."""
    draw, thing, distance = rng.random(), any_name(rng), 1 if rng.random() < 0.6 else 2 + int(rng.random() * 3)
    question = one_of(rng, ("what then?", "then:", "what comes of it?"))
    before = f"a {thing} is {steps(distance)} forward"
    if draw < 0.35:
        carried = f"you carry a {_another(rng, thing)}. " if rng.random() < 0.3 else ""
        after = f"you carry a {thing}" if distance == 1 and not carried else "nothing"
        return f"{carried}{before}. you {_verb(rng, 'pick up')}, \n {question}", after
    if draw < 0.55:
        carries, is_blocked = rng.random() < 0.7, rng.random() < 0.3
        ahead = f". a {_another(rng, thing)} is 1 step forward" if is_blocked else ""
        after = f"a {thing} is 1 step forward" if carries and not is_blocked else "nothing"
        return (
            f"you carry {f'a {thing}' if carries else 'nothing'}{ahead}. you {_verb(rng, 'drop')}, \n {question}",
            after,
        )
    if draw < 0.7:
        after = "nothing, the way is blocked" if distance == 1 else f"it is {steps(distance - 1)} forward"
        ahead = f"a {one_of(rng, ('wall', thing))} is {steps(distance)} forward"
        return f"{ahead}. you {_verb(rng, 'go forward')}, \n {question}", after
    colour, state = one_of(rng, CORE_COLOURS), one_of(rng, _STATES)
    carried = one_of(rng, ("", f"{colour} key", _another(rng, f"{colour} key")))
    after = {"open": "closed", "closed": "open", "locked": "open" if carried == f"{colour} key" else "locked"}[state]
    ahead = f"{f'you carry a {carried}. ' if carried else ''}a {state} {colour} door is {steps(distance)} forward"
    then = f"the {colour} door is {after if distance == 1 else state}"
    return f"{ahead}. you {_verb(rng, 'toggle')}, \n {question}", then


TASKS: dict[str, Callable[[Generator, Breadth], tuple[str, str]]] = {
    **{topic: partial(_ask, topic) for topic in _QUESTIONS},
    "uses": uses,
    "effects": effects,
}
"""Topic name -> what draws one sample of it; only recipes that name them teach them."""
