"""What the tasks of MixedTrainLocal ask for, told about scenes with doors and full hands: never which action to take.

    errand = draw_errand(rng, breadth)      # a goal, what is seen and carried, and the thing that comes next
    TASKS["task_places"](rng, breadth)      # one pair of texts

A goal of two parts names two things, and hands and locks decide which of them comes next. These topics say which
(`targets`), where that is (`task_places`, `task_sides`, `reach`) and what it is for (`purposes`, `hands`); `uses` and
`effects` say what each verb is for and what comes of it, where no goal is given. Only recipes that name these topics
read them.
Source: the kinds of goals are docs/papers/glam-method.md#env-2-3, the sentences #env-1-3 to #env-1-6.
"""

from collections.abc import Callable
from dataclasses import dataclass

from numpy.random import Generator

from groundlab.language.corpus import scenes
from groundlab.language.corpus.scenes import (
    CORE_COLOURS,
    CORE_THINGS,
    SIGHT_AHEAD,
    SIGHT_ASIDE,
    SYNONYMS,
    Thing,
    one_of,
    steps,
)
from groundlab.language.corpus.topics import UNSEEN, Breadth

AT_HAND, FAR = "at hand", "too far"
FREE, NEEDED, FULL = "free", "full of what it needs", "full of something else"
HAVE, BE, OPEN_IT, LEAVE = "to have it", "to be there", "to see it open", "to leave it there"
_ROOM = 6  # free cells a side
_SEEN = 0.8  # share of the things that come next which are in the room's visible part
_NEAR = 0.2  # share of those that are at hand
_DOORS = 0.25  # share of the scenes of other goals that have a door


@dataclass(frozen=True)
class Errand:
    """A goal, and what the agent sees and carries."""

    goal: str
    told: str
    target: str
    """The name of the thing that comes next: "blue key", or "door" where no colour is known."""
    place: tuple[int, int] | None
    """Cells to the right and ahead of it; None out of sight."""
    purpose: str
    """What that thing is for."""
    hands: str
    """What is in the hands: nothing, what the goal needs there, or something else."""

    @property
    def where(self) -> str:
        return scenes.place(*self.place) if self.place else UNSEEN

    @property
    def side(self) -> str:
        return Thing("", "", *self.place).side if self.place else UNSEEN

    @property
    def reach(self) -> str:
        return UNSEEN if self.place is None else AT_HAND if self.place == (0, 1) else FAR


@dataclass(frozen=True)
class _Room:
    """The free cells around an agent: ahead, to the left and to the right."""

    ahead: int
    left: int
    right: int

    @classmethod
    def draw(cls, rng: Generator) -> "_Room":
        left = int(rng.random() * _ROOM)
        return cls(int(rng.random() * _ROOM), left, _ROOM - 1 - left)

    def cells(self) -> list[tuple[int, int]]:
        """The cells in sight but the agent's own, as (right, ahead)."""
        aside = range(-min(SIGHT_ASIDE, self.left), min(SIGHT_ASIDE, self.right) + 1)
        return [(right, ahead) for right in aside for ahead in range(self.ahead + 1) if right or ahead]

    def door_cells(self) -> list[tuple[int, int]]:
        """The cells of walls in sight that can hold a door."""
        aside = range(-min(SIGHT_ASIDE, self.left), min(SIGHT_ASIDE, self.right) + 1)
        found = [(right, self.ahead + 1) for right in aside] if self.ahead < SIGHT_AHEAD else []
        for wall in (-self.left - 1, self.right + 1):
            if abs(wall) <= SIGHT_ASIDE:
                found += [(wall, ahead) for ahead in range(self.ahead + 1)]
        return found

    def captions(self, things: list[Thing], carried: str) -> list[str]:
        """The worlds' sentences: what is carried, walls on the three rays, things from left to right."""
        blocked = {thing.side for thing in things if thing.right == 0 or thing.ahead == 0}
        rays = (
            ("forward", self.ahead, SIGHT_AHEAD),
            ("left", self.left, SIGHT_ASIDE),
            ("right", self.right, SIGHT_ASIDE),
        )
        walls = [
            f"You see a wall {steps(free + 1)} {side}"
            for side, free, sight in rays
            if free < sight and side not in blocked
        ]
        in_order = sorted(things, key=lambda thing: (thing.right, -thing.ahead))
        seen = [f"You see a {thing.name} {scenes.place(thing.right, thing.ahead)}" for thing in in_order]
        return [*([f"You carry a {carried}"] if carried else []), *walls, *seen]


def _kind(rng: Generator) -> str:
    return f"{one_of(rng, CORE_COLOURS)} {one_of(rng, CORE_THINGS)}"


def _another(rng: Generator, *names: str) -> str:
    while (name := _kind(rng)) in names:
        pass
    return name


_ONE = (("go to the {}", BE), ("go to a {}", BE), ("pick up the {}", HAVE), ("pick up a {}", HAVE))
_TWO = (
    ("put the {} next to the {}", LEAVE),
    ("put a {} next to a {}", LEAVE),
    ("pick up the {}, then go to the {}", BE),
    ("pick up a {}, then go to a {}", BE),
    ("go to the {1} after you pick up the {0}", BE),
    ("go to a {1} after you pick up a {0}", BE),
)


def draw_errand(rng: Generator, breadth: Breadth) -> Errand:
    """A goal of any kind in a random scene."""
    draw, other = rng.random(), rng.random()
    first = _kind(rng)
    second = _another(rng, first)
    if draw < 0.3:
        wish, purpose = one_of(rng, _ONE)
        return _errand(rng, breadth, wish.format(first), first, purpose, _another(rng, first) if other < 0.15 else "")
    if draw < 0.75:
        wish, purpose = one_of(rng, _TWO)
        goal = wish.format(first, second)
        if other < 0.45:
            return _errand(rng, breadth, goal, second, purpose, first, needed=first)
        return _errand(rng, breadth, goal, first, HAVE, _another(rng, first) if other < 0.55 else "", second)
    return _opening(rng, breadth, other)


def _opening(rng: Generator, breadth: Breadth, draw: float) -> Errand:
    """Doors that are locked need their key in hand, others are opened as they are."""
    colour = one_of(rng, CORE_COLOURS)
    named = rng.random() < 0.5
    goal = f"open the {colour} door" if named else "open the door"
    key, wrong = f"{colour} key", _another(rng, f"{colour} key")
    if draw < 0.15:
        return _errand(
            rng, breadth, goal, f"{colour} door", OPEN_IT, wrong if draw < 0.03 else "", state="closed", named=named
        )
    if draw < 0.55:
        return _errand(rng, breadth, goal, f"{colour} door", OPEN_IT, key, state="locked", named=named, needed=key)
    return _errand(
        rng, breadth, goal, key, HAVE, wrong if draw < 0.65 else "", state="locked", door=colour, named=named
    )


def _errand(
    rng: Generator,
    breadth: Breadth,
    goal: str,
    target: str,
    purpose: str,
    carried: str,
    *also: str,
    state: str = "",
    door: str = "",
    named: bool = True,
    needed: str = "",
) -> Errand:
    """The scene of a goal. also: names of other things that may lie in it; door: the colour of a door that is not the
    target; state: of the goal's door; named: whether the goal tells the door's colour; needed: what the hands need."""
    room, colour = _Room.draw(rng), target.removesuffix(" door")
    cells, walls = room.cells(), room.door_cells()
    order, things, place = list(rng.permutation(len(cells))), [], None
    seen = rng.random() < _SEEN
    if colour != target:  # the target is a door
        if seen and walls:
            place = one_of(rng, walls)
            things.append(Thing(f"{state} {colour}", "door", *place))
        elif not named:
            target = "door"
    else:
        if seen and order:
            at = cells.index((0, 1)) if (0, 1) in cells and rng.random() < _NEAR else order[-1]
            order.remove(at)
            place = cells[at]
            things.append(Thing(*target.split(), *place))
        shows = rng.random()
        if walls and (shows < 0.6 if door else shows < _DOORS):
            things.append(
                Thing(
                    f"{state or one_of(rng, _STATES)} {door or one_of(rng, CORE_COLOURS)}", "door", *one_of(rng, walls)
                )
            )
        elif door and not named:
            target, place, purpose = "door", None, OPEN_IT  # which key is not known yet
    names = [name for name in also if rng.random() < _SEEN]
    count = breadth.fewest + int(rng.random() * (breadth.most - breadth.fewest + 1))
    while len(names) < count - 1:
        names.append(_distractor(rng, target, breadth.similar))
    for name in names[: len(order)]:
        things.append(Thing(*name.split(), *cells[order.pop()]))
    things = [thing for thing in things if thing.name != target or (thing.right, thing.ahead) == place]
    hands = FREE if not carried else NEEDED if carried == needed else FULL
    return Errand(goal, ", ".join(room.captions(things, carried)), target, place, purpose, hands)


_STATES = ("open", "closed", "locked")


def _distractor(rng: Generator, target: str, similar: float) -> str:
    """Something else, in `similar` of all cases with the target's colour or its noun."""
    colour, _, noun = target.rpartition(" ")
    while True:
        name = _kind(rng)
        if rng.random() < similar:
            own_colour, own_noun = name.split()
            name = f"{colour} {own_noun}" if colour in CORE_COLOURS and rng.random() < 0.5 else f"{own_colour} {noun}"
        if name != target and not name.endswith("door"):
            return name


def _about(rng: Generator, errand: Errand, questions: tuple[str, ...]) -> str:
    pause = one_of(rng, (" \n ", ". ", ": "))
    return f"{errand.goal}{pause}{errand.told}, \n {one_of(rng, questions)}"


def targets(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """The thing that comes next."""
    errand = draw_errand(rng, breadth)
    return _about(rng, errand, ("what comes next?", "which thing now?", "what matters now?")), errand.target


def task_places(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Where that is."""
    errand = draw_errand(rng, breadth)
    return _about(rng, errand, ("where?", "place:", "how far is it?")), errand.where


def task_sides(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Which way it is, in one word."""
    errand = draw_errand(rng, breadth)
    return _about(rng, errand, ("which side?", "direction:", "left, right or forward?")), errand.side


def reach(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Whether it is at hand: one step forward."""
    errand = draw_errand(rng, breadth)
    return _about(rng, errand, ("is it at hand?", "how near?")), errand.reach


def hands(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Whether the hands are free, or full of what the goal needs there, or of something else."""
    errand = draw_errand(rng, breadth)
    return _about(rng, errand, ("the hands are:", "how are the hands?")), errand.hands


def purposes(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """What it is for: to be there, to have it, to see it open, to leave it there."""
    errand = draw_errand(rng, breadth)
    return _about(rng, errand, ("what for?", "why that?")), errand.purpose


_SIDEWAYS = {"left": "turn left", "right": "turn right"}
_FOR = {HAVE: "pick up", OPEN_IT: "toggle", LEAVE: "drop"}
_MOVES = ("action:", "which move?", "the move for that:")


def uses(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """Which verb serves a purpose at one word's distance, of something nameless; or, without a purpose, which verb
    leads there: half of the time after a scene that says nothing of it."""
    draw, purpose = rng.random(), one_of(rng, (BE, *_FOR))
    if draw < 0.2:
        return f"it is {AT_HAND}, {purpose}, \n {one_of(rng, _MOVES)}", _FOR.get(purpose, "go forward")
    if draw < 0.7:
        side = one_of(rng, ("left", "right", "forward"))
        said, action = one_of(rng, (f"it is {side}", f"it is {side}, {FAR}")), _SIDEWAYS.get(side, "go forward")
    elif draw < 0.85:
        said, action = f"it is {UNSEEN}", one_of(rng, ("turn left", "turn right", "go forward"))
    elif draw < 0.93:
        said, action = f"it is forward, {FAR}, the way is blocked", one_of(rng, ("turn left", "turn right"))
    else:
        said, action = f"the hands are {FULL}", "drop"
    before = f"{draw_errand(rng, breadth).told}. " if rng.random() < 0.5 else ""
    return f"{before}{said}, \n {one_of(rng, _MOVES)}", action


def _said(rng: Generator, action: str) -> str:
    return one_of(rng, (action, *SYNONYMS[action]))


def effects(rng: Generator, breadth: Breadth) -> tuple[str, str]:
    """What comes of a verb beside one thing: what is carried then, or how a door is."""
    draw, thing, distance = rng.random(), _kind(rng), 1 if rng.random() < 0.6 else 2 + int(rng.random() * 3)
    question = one_of(rng, ("what then?", "then:", "what comes of it?"))
    before = f"a {thing} is {steps(distance)} forward"
    if draw < 0.35:
        carried = _another(rng, thing) if rng.random() < 0.3 else ""
        told = f"you carry a {carried}. {before}" if carried else before
        after = f"you carry a {thing}" if distance == 1 and not carried else "nothing"
        return f"{told}. you {_said(rng, 'pick up')}, \n {question}", after
    if draw < 0.55:
        said = f"you carry a {thing}" if rng.random() < 0.7 else "you carry nothing"
        after = f"a {thing} is 1 step forward" if said.endswith(thing) else "nothing"
        return f"{said}. you {_said(rng, 'drop')}, \n {question}", after
    if draw < 0.7:
        blocked = f"a {one_of(rng, ('wall', thing))} is {steps(distance)} forward"
        after = "nothing, the way is blocked" if distance == 1 else f"it is {steps(distance - 1)} forward"
        return f"{blocked}. you {_said(rng, 'go forward')}, \n {question}", after
    colour, state = one_of(rng, CORE_COLOURS), one_of(rng, _STATES)
    carried = one_of(rng, ("", f"{colour} key", _another(rng, f"{colour} key")))
    opened = {"open": "closed", "closed": "open", "locked": "open" if carried == f"{colour} key" else "locked"}[state]
    told = f"{f'you carry a {carried}. ' if carried else ''}a {state} {colour} door is {steps(distance)} forward"
    after = f"the {colour} door is {opened if distance == 1 else state}"
    return f"{told}. you {_said(rng, 'toggle')}, \n {question}", after


TASKS: dict[str, Callable[[Generator, Breadth], tuple[str, str]]] = {
    "targets": targets,
    "task_places": task_places,
    "task_sides": task_sides,
    "reach": reach,
    "hands": hands,
    "purposes": purposes,
    "uses": uses,
    "effects": effects,
}
"""Topic name -> what draws one sample of it; only recipes that name them teach them."""
