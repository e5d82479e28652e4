"""The levels once more, in plain Python on the public minigrid package: what the compiled engine is measured against.

    env = reference("BabyAI-MixedTrainLocal-v0/open")       # a minigrid environment
    env.reset(seed=3); env.reset()                          # the level of seed 3, then the next of its stream

A level that minigrid registers is minigrid's own. The others are written here from their descriptions on minigrid's
base classes, one small class a family, and share nothing with the engine: not its tables, not its draws. `played_by`
gives minigrid's bot for such an environment.
"""

from dataclasses import dataclass

import gymnasium
import minigrid  # noqa: F401 - registers its levels
from gymnasium.utils import seeding
from minigrid.core.constants import COLOR_NAMES
from minigrid.core.roomgrid import RoomGrid
from minigrid.core.world_object import Ball, Box, WorldObj
from minigrid.envs.babyai.core import roomgrid_level, verifier
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
from minigrid.envs.babyai.core.verifier import AfterInstr, BeforeInstr, GoToInstr, ObjDesc, OpenInstr, PickupInstr

from groundlab.worlds.adapters.minigrid_bot import PatientBot

roomgrid_level.print = lambda *words: None  # type: ignore[attr-defined] - it announces every rejected draw on stdout

HELD_OUT = ("yellow box", "red key", "red door", "green ball", "grey door")
KINDS = ("goto", "pickup", "open", "putnext", "pick_up_seq_go_to")
DOORS = {"train": ("yellow", "green", "blue", "purple"), "test": ("red", "grey")}


def _desc(thing: WorldObj) -> ObjDesc:
    return ObjDesc(thing.type, thing.color)


def _alike(one: WorldObj, other: WorldObj) -> bool:
    return (one.type, one.color) == (other.type, other.color)


class LocalLevel(RoomGridLevel):
    """The mixed, sequence and reasoning levels: draw a level and a mission until the mission may be asked for.

    `order` is how a sequence is told ("drawn", "then", "after"), `asks` which missions are accepted.
    """

    def __init__(self, kind: str, asks: str = "train", num_dists: int = 8, order: str = "drawn"):
        self.kind, self.asks, self.num_dists, self.order = kind, asks, num_dists, order
        super().__init__(room_size=8, num_rows=1, num_cols=2 if kind == "open" else 1)

    def gen_mission(self):
        while True:
            RoomGrid._gen_grid(self, self.width, self.height)
            reachable = self._draw_level()
            if reachable and self._accepts(self.instrs.surface(self)):
                return

    def _accepts(self, mission: str) -> bool:
        """Train missions name nothing held out; test missions name nothing else."""
        if self.asks == "train":
            return not any(name in mission for name in HELD_OUT)
        things = [f"{colour} {kind}" for colour in COLOR_NAMES for kind in ("key", "ball", "box", "door")]
        return not any(name in mission for name in things if name not in HELD_OUT)

    def _draw_level(self) -> bool:
        """Objects, agent and mission; whether everything can be reached, which the original asks before the mission
        but heeds after it, so that a mission is drawn either way."""
        if self.kind == "open":
            return self._draw_open()
        self.place_agent()
        pair = self.kind not in ("goto", "pickup")
        things = self.add_distractors(num_distractors=self.num_dists + 1 + pair, all_unique=False)
        reachable = self.check_objs_reachable(raise_exc=False)
        self.instrs = self._about_two(things) if pair else self._about_one(things)
        return reachable

    def _about_one(self, things: list[WorldObj]) -> verifier.Instr:
        target = _desc(self._rand_elem(things))
        return GoToInstr(target) if self.kind == "goto" else PickupInstr(target)

    def _about_two(self, things: list[WorldObj]) -> verifier.Instr:
        first, second = self._rand_elem(things), self._rand_elem(things)
        if _alike(first, second) and sum(_alike(first, thing) for thing in things) < 2:
            while _alike(first, second):
                second = self._rand_elem(things)
        if self.kind == "putnext":
            return verifier.PutNextInstr(_desc(first), _desc(second))
        pick_up = PickupInstr(_desc(first))
        then = (PickupInstr if self.kind == "pick_up_seq_pick_up" else GoToInstr)(_desc(second))
        order = self._rand_elem(["then", "after"]) if self.order == "drawn" else self.order
        return BeforeInstr(pick_up, then) if order == "then" else AfterInstr(then, pick_up)

    def _draw_open(self) -> bool:
        colour = self._rand_elem(DOORS[self.asks])
        locked = self._lock_a_room(colour)
        while True:
            i, j = self._rand_int(0, self.num_cols), self._rand_int(0, self.num_rows)
            if self.get_room(i, j) is not locked:
                break
        self.add_object(i, j, "key", colour)
        self.connect_all()
        self.add_distractors(i, j, num_distractors=self.num_dists, all_unique=False)
        while True:
            self.place_agent()
            if self.room_from_pos(*self.agent_pos) is not locked:
                break
        reachable = self.check_objs_reachable(raise_exc=False)
        named = self._rand_elem([None, colour]) if self.asks == "train" else colour
        self.instrs = OpenInstr(ObjDesc("door", named))
        return reachable

    def _lock_a_room(self, colour: str):
        while True:
            i, j, wall = self._rand_int(0, self.num_cols), self._rand_int(0, self.num_rows), self._rand_int(0, 4)
            room = self.get_room(i, j)
            if room.neighbors[wall] is not None:
                self.add_door(i, j, wall, colour, locked=True)
                return room


class OneObject(RoomGridLevel):
    """minigrid's GoToLocal with another number of objects, or with another verb."""

    def __init__(self, num_dists: int = 8, verb: type[GoToInstr] | type[PickupInstr] = GoToInstr):
        self.num_dists, self.verb = num_dists, verb
        super().__init__(room_size=8, num_rows=1, num_cols=1)

    def gen_mission(self):
        self.place_agent()
        things = self.add_distractors(num_distractors=self.num_dists, all_unique=False)
        self.check_objs_reachable()
        self.instrs = self.verb(_desc(self._rand_elem(things)))


_ONE_OBJECT = {"GoToLocalS8N16": {"num_dists": 16}, "GoToFrench": {}, "PickupLocal": {"verb": PickupInstr}}


@dataclass(frozen=True)
class Target:
    """An object that a knowledge level fixes."""

    color: str
    type: str

    @classmethod
    def named(cls, name: str) -> "Target":
        """From the way the ids write it: RedBall."""
        kind = next(kind for kind in ("Ball", "Box", "Key") if name.endswith(kind))
        return cls(name.removesuffix(kind).lower(), kind.lower())

    @property
    def desc(self) -> ObjDesc:
        return ObjDesc(self.type, self.color)


class GoToTarget(RoomGridLevel):
    """Knowledge levels that go to one fixed object: agent, object, distractors.

    Without a target this is Pretraining. The original drew its target from NumPy's global generator; here the level's
    own stream gives it, after everything else, which leaves the layout as the original's.
    """

    def __init__(self, room_size: int, num_dists: int, target: Target | None):
        self.num_dists, self.target = num_dists, target
        super().__init__(room_size=room_size, num_rows=1, num_cols=1)

    def gen_mission(self):
        self.place_agent()
        placed = self.target or Target("red", "ball")
        thing, place = self.add_object(0, 0, placed.type, placed.color)
        self.add_distractors(num_distractors=self.num_dists, all_unique=False)
        self.check_objs_reachable()
        if self.target is None:
            thing = self._draw_target(*place)
        self.instrs = GoToInstr(_desc(thing))

    def _draw_target(self, x: int, y: int) -> WorldObj:
        colour = self._rand_elem(["red", "green", "blue"])
        target = Ball(colour) if self._rand_elem(["ball", "box"]) == "ball" else Box(colour)
        target.init_pos = target.cur_pos = (x, y)
        self.grid.set(x, y, target)
        return target


class LevelGenTask(RoomGridLevel):
    """Knowledge levels on minigrid's LevelGen: its unused draw for a locked room, the objects, then the agent."""

    def __init__(self, task: str, targets: tuple[Target, ...], num_dists: int):
        self.task, self.targets, self.num_dists = task, targets, num_dists
        super().__init__(room_size=20, num_rows=1, num_cols=1)

    def gen_mission(self):
        self._rand_float(0, 1)
        for target in self.targets:
            self.add_object(0, 0, target.type, target.color)
        self.add_distractors(num_distractors=self.num_dists, all_unique=False)
        self.place_agent()
        self.check_objs_reachable()
        if self.task == "PickUp":
            self.instrs = PickupInstr(self.targets[0].desc)
            return
        first, second = (GoToInstr(target.desc) for target in self.targets)
        before = self._rand_elem(["before", "after"]) == "before"
        self.instrs = BeforeInstr(first, second) if before else AfterInstr(second, first)


_KNOWLEDGE_DISTRACTORS = {10: 7, 20: 7, 23: 12, 25: 15, 28: 20, 30: 25}
_KNOWLEDGE_PAIRS = {
    "RedBallBlueBox": ("RedBall", "BlueBox"),
    "PurpleBallGreenKey": ("PurpleBall", "PurpleBox"),  # the original's id does not say what it does
    "PurpleBallThenGreenKey": ("PurpleBall", "GreenKey"),
}
_REASONING_KINDS = {
    "GoTo": ("goto", "train"), "Pickup": ("pickup", "train"), "Open": ("open", "train"),
    "PutNext": ("putnext", "train"), "PickUpSeqGoTo": ("pick_up_seq_go_to", "train"),
    "GoToTest": ("goto", "test"), "PickupTest": ("pickup", "test"),
}  # fmt: skip
_SEQUENCES = {
    "PickUpSeqPickUpLocal": ("pick_up_seq_pick_up", "drawn"),
    "PickUpSeqGoToLocal": ("pick_up_seq_go_to", "drawn"),
    "PickUpThenGoToLocal": ("pick_up_seq_go_to", "then"),
    "GoToAfterPickUpLocal": ("pick_up_seq_go_to", "after"),
}


def _knowledge(id: str, target: Target | None) -> RoomGridLevel:
    task, what, size = id.removeprefix("BabyAI-Text-").split("-")
    room_size = int(size[1:])
    if task == "GoTo":
        return LevelGenTask(task, tuple(Target.named(name) for name in _KNOWLEDGE_PAIRS[what]), 7)
    if task == "PickUp":
        return LevelGenTask(task, (Target.named(what),), 8)
    fixed = target if what == "Pretraining" else Target.named(what)
    return GoToTarget(room_size, _KNOWLEDGE_DISTRACTORS[room_size], fixed)


def reference(id: str, num_dists: int = 8, target: Target | None = None) -> RoomGridLevel:
    """The level of that id; `num_dists` of the reasoning levels, `target` to force the one of Pretraining.

    Mixed levels are asked for by kind: `BabyAI-MixedTrainLocal-v0/putnext`.
    """
    if id.startswith("BabyAI-Text-"):
        return _knowledge(id, target)
    family, _, name = id.partition("/")[0].removesuffix("-v0").partition("-")
    if family == "Reasoning":
        name = {"goto": "GoTo", "pickup": "Pickup"}.get(id.partition("/")[2], name)
        kind, asks = _REASONING_KINDS[name]
        return LocalLevel(kind, asks, num_dists)
    if name in ("MixedTrainLocal", "MixedTestLocal"):
        return LocalLevel(id.partition("/")[2], name.removeprefix("Mixed").removesuffix("Local").lower())
    if name in _SEQUENCES:
        kind, order = _SEQUENCES[name]
        return LocalLevel(kind, order=order)
    if name in _ONE_OBJECT:
        return OneObject(**_ONE_OBJECT[name])
    return gymnasium.make(id).unwrapped  # type: ignore[return-value]


class Mixture:
    """A mixed world that draws the kind of each episode, from the stream that then draws the episode.

    Everything but `reset` is that of the kind under way.
    """

    def __init__(self, name: str):
        self._levels = [reference(f"{name}/{kind}") for kind in KINDS]
        self._level = self._levels[0]

    def reset(self, seed: int | None = None):
        if seed is not None:
            self._random, _ = seeding.np_random(seed)
        self._level = self._levels[self._random.integers(0, len(self._levels))]
        self._level.np_random = self._random
        return self._level.reset()

    def __getattr__(self, name: str):
        return getattr(self._level, name)


def played_by(env: RoomGridLevel | Mixture) -> PatientBot:
    """The bot for the episode that `env` has just begun.

    MiniGrid's own levels have no instruction, so it is given the one that their mission says.
    """
    if isinstance(env, RoomGrid) and not isinstance(env, RoomGridLevel):
        *_, what = words = env.mission.split()
        env.instrs = OpenInstr(ObjDesc("door")) if words[0] == "open" else PickupInstr(ObjDesc(what, words[-2]))
        env.instrs.reset_verifier(env)
    return PatientBot(env)
