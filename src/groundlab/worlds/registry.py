"""The worlds of the grid engine by name: what each is, how large, and what its missions say.

These are the worlds of the grid engine; `family.find(name)` is the only way from a name to a world of any family. Names
that begin with BabyAI or MiniGrid mean minigrid's level where minigrid has that id; what BabyAI-Text, the reasoning
paper and the knowledge paper add carries their names.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import gymnasium as gym

from groundlab.core.errors import GroundlabError
from groundlab.worlds import rules
from groundlab.worlds.codes import AGENT, BALL, BLUE, BOX, GREEN, KEY, PURPLE, RED
from groundlab.worlds.room_grid import blueprint
from groundlab.worlds.room_grid.catalogue import CATALOGUE
from groundlab.worlds.rules import Rules

TEXT_ENV = "groundlab/TextEnv-v0"
VIEW = (7, 7, 3)  # an image of the agent's own view
KINDS = ("goto", "pickup", "open", "putnext", "pick_up_seq_go_to")


@dataclass(frozen=True)
class World:
    """One registered world: its levels, and what a list of worlds says about it."""

    name: str
    levels: tuple[Rules, ...]
    mission: str
    summary: str
    kinds: tuple[str, ...] = ()
    """Names of the levels of a mixed world."""
    language: str = "english"
    """In which language its agents read what they see."""

    @property
    def is_door_key(self) -> bool:
        """Whether it shows the remembered room instead of the view."""
        return self.levels[0].family == rules.DOOR_KEY

    @property
    def family(self) -> str:
        """Which family of worlds it belongs to, by name."""
        return "door-key" if self.is_door_key else "grid"

    @property
    def width(self) -> int:
        """Width of the canvas in cells: that of the widest level."""
        if self.is_door_key:
            return rules.DOOR_KEY_SIZE
        return max((level.room_size - 1) * level.columns + 1 for level in self.levels)

    @property
    def height(self) -> int:
        """Height of the canvas in cells."""
        if self.is_door_key:
            return rules.DOOR_KEY_SIZE
        return max((level.room_size - 1) * level.rows + 1 for level in self.levels)

    @property
    def max_steps(self) -> int:
        """The longest time limit of its levels, in steps."""
        return rules.DOOR_KEY_STEPS if self.is_door_key else max(_limit(level) for level in self.levels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """[7, 7, 3]: type, colour, state of the view; door-key worlds [W, H, 4]: these and the heading."""
        return (self.width, self.height, 4) if self.is_door_key else VIEW

    @property
    def gym_id(self) -> str:
        """The id under which `gymnasium.make` knows it."""
        return f"groundlab/{self.name}" if self.name.endswith("-v0") else f"groundlab/{self.name}-v0"


def _limit(level: Rules) -> int:
    if level.family == rules.ROOM_GRID:
        walks = blueprint.most_walks(level.blueprint)
        return level.time_limit or walks * level.room_size**2 * level.columns * level.rows
    walks = 1 if level.task in (rules.GO_TO, rules.PICK_UP, rules.OPEN) else 2
    return walks * level.room_size**2 * level.columns


def _door_key_worlds() -> Iterator[World]:
    for name, variant, summary in (
        ("SimpleDoorKey", rules.SIMPLE_DOOR_KEY, "the key lies in the room"),
        ("KeyInBox", rules.KEY_IN_BOX, "the key lies in a box"),
        ("RandomBoxKey", rules.RANDOM_BOX_KEY, "the key lies in a box, or beside an empty one"),
        ("ColoredDoorKey", rules.COLORED_DOOR_KEY, "two keys, the one of the door's colour fits"),
        ("MovingObstacle", rules.MOVING_OBSTACLE, "SimpleDoorKey with two wandering balls (our own definition)"),
    ):
        yield World(name, (Rules(family=rules.DOOR_KEY, variant=variant),), "open the door", summary)


_GO_TO, _PICK_UP, _PUT_NEXT = "go to a/the C T", "pick up a/the C T", "put a/the C T next to a/the C T"
_PICK_UP_GO_TO = "pick up X, then go to Y; go to Y after you pick up X"
_PICK_UP_PICK_UP = "pick up X, then pick up Y; pick up Y after you pick up X"
_ONE_OF = "one room, {} objects, any of them the target"


def _go_to_worlds() -> Iterator[World]:
    """Minigrid's GoTo levels of one room, and BabyAI-Text's two more."""
    ball = Rules(target_type=BALL, target_colour=RED)
    red_ball = "go to a/the red ball"
    yield World("BabyAI-GoToRedBall-v0", (ball._replace(objects=7),), red_ball, "a red ball and 7 objects")
    yield World("BabyAI-GoToRedBallNoDists-v0", (ball,), "go to the red ball", "a red ball alone")
    for name, size in (("GoToObj-v0", 8), ("GoToObjS4-v0", 4), ("GoToObjS6-v1", 6)):
        yield World(f"BabyAI-{name}", (Rules(room_size=size, objects=1),), "go to the C T", "one object")
    sizes = ("S5N2", "S6N2", "S6N3", "S6N4", "S7N4", "S7N5", "S8N2", "S8N3", "S8N4", "S8N5", "S8N6", "S8N7", "S8N16")
    for name in ("", *sizes):
        size, number = (int(part) for part in (name or "S8N8")[1:].split("N"))
        level = Rules(room_size=size, objects=number)
        yield World(f"BabyAI-GoToLocal{name}-v0", (level,), _GO_TO, _ONE_OF.format(number))
    french = World("BabyAI-GoToFrench-v0", (Rules(objects=8),), _GO_TO, "GoToLocal, described in French")
    yield replace(french, language="french")


def _other_local_worlds() -> Iterator[World]:
    level = Rules(task=rules.PICK_UP, objects=8)
    yield World("BabyAI-PickupLocal-v0", (level,), _PICK_UP, "GoToLocal with pick up (our definition)")
    for name, size, number in (("", 8, 8), ("S5N3", 5, 3), ("S6N4", 6, 4)):
        level = Rules(task=rules.PUT_NEXT, room_size=size, objects=number, unique=1)
        yield World(f"BabyAI-PutNextLocal{name}-v0", (level,), _PUT_NEXT, f"one room, {number} different objects")


def _mixed_levels(accepted: int) -> dict[str, Rules]:
    """The five task kinds of the mixed levels (docs/papers/glam-method.md#env-2-3 and #env-2-4), by name."""
    common = Rules(accepted=accepted, lenient=1)
    return {
        "goto": common._replace(task=rules.GO_TO, objects=9),
        "pickup": common._replace(task=rules.PICK_UP, objects=9),
        "open": common._replace(task=rules.OPEN, objects=8, columns=2),
        "putnext": common._replace(task=rules.PUT_NEXT, objects=10),
        "pick_up_seq_go_to": common._replace(task=rules.PICK_UP_AND_GO_TO, objects=10),
    }


def _mixed_worlds() -> Iterator[World]:
    for name, accepted in (("MixedTrainLocal", rules.TRAIN), ("MixedTestLocal", rules.TEST)):
        what = "never held-out objects" if accepted == rules.TRAIN else "held-out objects only"
        yield from _mixture(f"BabyAI-{name}-v0", _mixed_levels(accepted), f"five task kinds; {what}")


def _mixture(name: str, levels: dict[str, Rules], summary: str) -> Iterator[World]:
    """A world of several kinds of task, and one world for each of them."""
    yield World(name, tuple(levels.values()), "one of several kinds", summary, kinds=tuple(levels))
    for kind, level in levels.items():
        yield World(f"{name}/{kind}", (level,), _MISSIONS[level.task], f"kind {kind} of {name}", kinds=(kind,))


_MISSIONS = {
    rules.GO_TO: _GO_TO,
    rules.PICK_UP: _PICK_UP,
    rules.OPEN: "open the door; open the C door",
    rules.PUT_NEXT: _PUT_NEXT,
    rules.PICK_UP_AND_GO_TO: _PICK_UP_GO_TO,
}


def _sequence_worlds() -> Iterator[World]:
    common = Rules(accepted=rules.TRAIN, objects=10, lenient=1)
    go_to = common._replace(task=rules.PICK_UP_AND_GO_TO)
    for name, level, mission in (
        ("PickUpSeqPickUpLocal", common._replace(task=rules.PICK_UP_AND_PICK_UP), _PICK_UP_PICK_UP),
        ("PickUpSeqGoToLocal", go_to, _PICK_UP_GO_TO),
        ("PickUpThenGoToLocal", go_to._replace(order=rules.FIRST_THEN), "pick up X, then go to Y"),
        ("GoToAfterPickUpLocal", go_to._replace(order=rules.AFTER_YOU), "go to Y after you pick up X"),
    ):
        yield World(f"BabyAI-{name}-v0", (level,), mission, "one room, 10 objects, two tasks in order")


def _reasoning_worlds() -> Iterator[World]:
    """The reasoning paper's levels; the option num_dists counts objects besides the mission's own."""
    train, test = _mixed_levels(rules.TRAIN), _mixed_levels(rules.TEST)
    for name, level in (
        ("GoTo", train["goto"]),
        ("Pickup", train["pickup"]),
        ("Open", train["open"]),
        ("PutNext", train["putnext"]),
        ("PickUpSeqGoTo", train["pick_up_seq_go_to"]),
        ("GoToTest", test["goto"]),
        ("PickupTest", test["pickup"]),
    ):
        what = "held-out targets" if level.accepted == rules.TEST else "training targets"
        yield World(f"Reasoning-{name}-v0", (level,), _MISSIONS[level.task], f"reasoning paper, {what}; num_dists=8")
    both = {kind: train[kind] for kind in ("goto", "pickup")}
    yield from _mixture("Reasoning-GoToPickup-v0", both, "what the reasoning paper trains on; num_dists=8")


def _knowledge_worlds() -> Iterator[World]:
    """The 17 levels of the knowledge paper (docs/papers/knowledge-method.md#s1-1), with fixed targets; six of ours."""
    targets = {"RedBall": (BALL, RED), "PurpleBall": (BALL, PURPLE), "RedKey": (KEY, RED), "PurpleKey": (KEY, PURPLE)}
    sizes = {20: (7, tuple(targets)), 23: (12, ("RedBall", "PurpleKey")), 25: (15, ("RedBall", "PurpleKey"))}
    sizes |= {28: (20, ("RedBall", "PurpleKey")), 30: (25, ("RedBall", "PurpleKey"))}
    level = Rules(room_size=20, objects=7, target_type=AGENT, target_colour=RED, pretraining=1)
    drawn = "red, green or blue ball or box as target"
    yield _knowledge("GoToLocal-Pretraining-S20", level, "go to a/the C T", drawn)
    # ours, for laptops: rooms of the same kind with a quarter of the cells
    small = f"{drawn} (our own size)"
    yield _knowledge("GoToLocal-Pretraining-S10", level._replace(room_size=10), "go to a/the C T", small)
    sizes |= {10: (7, tuple(targets))}
    for size, (number, names) in sizes.items():
        for name in names:
            kind, colour = targets[name]
            level = Rules(room_size=size, objects=number, target_type=kind, target_colour=colour)
            own = " (our own size)" if size == 10 else ""
            yield _knowledge(f"GoToLocal-{name}-S{size}", level, _GO_TO, f"a fixed target and {number} objects{own}")
    last = Rules(room_size=20, placement=rules.AGENT_LAST)
    pair = last._replace(task=rules.GO_TO_AND_GO_TO, objects=7, second_type=BOX)
    both = "go to X, then go to Y; go to Y after you go to X"
    red = pair._replace(target_type=BALL, target_colour=RED, second_colour=BLUE)
    yield _knowledge("GoTo-RedBallBlueBox-S20", red, both, "two fixed targets in order")
    # the original's name says green key, its code places a purple box (docs/papers/knowledge-reference.md#q9)
    purple = pair._replace(target_type=BALL, target_colour=PURPLE, second_colour=PURPLE)
    yield _knowledge("GoTo-PurpleBallGreenKey-S20", purple, both, "purple ball and purple box, in order")
    green = purple._replace(second_type=KEY, second_colour=GREEN)
    own = "purple ball and green key, in order: what PurpleBallGreenKey promises (ours)"
    yield _knowledge("GoTo-PurpleBallThenGreenKey-S20", green, both, own)
    for name in ("RedBall", "PurpleKey"):
        kind, colour = targets[name]
        level = last._replace(task=rules.PICK_UP, objects=8, target_type=kind, target_colour=colour)
        yield _knowledge(f"PickUp-{name}-S20", level, _PICK_UP, "a fixed target and 8 objects")


def _room_grid_worlds() -> Iterator[World]:
    """minigrid's levels of several rooms, and its missions of several parts."""
    for entry in CATALOGUE:
        yield World(entry.name, (entry.rules,), entry.mission, entry.summary)


def _knowledge(name: str, level: Rules, mission: str, summary: str) -> World:
    return World(f"BabyAI-Text-{name}", (level,), mission, summary)


WORLDS: dict[str, World] = {
    world.name: world
    for family in (
        _door_key_worlds,
        _go_to_worlds,
        _other_local_worlds,
        _room_grid_worlds,
        _mixed_worlds,
        _sequence_worlds,
        _reasoning_worlds,
        _knowledge_worlds,
    )
    for world in family()
}

# Names that the originals used for a while (docs/papers/glam-reference.md#env-q18).
ALIASES = {
    "BabyAI-MixtTrainLocal-v0": "BabyAI-MixedTrainLocal-v0",
    "BabyAI-MixtTestLocal-v0": "BabyAI-MixedTestLocal-v0",
}


def register_worlds(rows: Iterable[World]) -> None:
    """Make worlds known to `gymnasium.make`."""
    for row in rows:
        if row.gym_id not in gym.registry and "/" not in row.name:
            gym.register(id=row.gym_id, entry_point="groundlab.worlds.single:GridEnv", kwargs={"world": row.name})


def register_text_env() -> None:
    """Make the text environment of any world known to `gymnasium.make` and `make_vec`; `world` is an argument."""
    if TEXT_ENV not in gym.registry:
        folder = "groundlab.worlds.text_env"
        gym.register(
            TEXT_ENV, entry_point=f"{folder}.single:TextEnv", vector_entry_point=f"{folder}.batch:TextVectorEnv"
        )


def with_distractors(world: World, num_dists: int) -> World:
    """The same world with so many objects besides those of the mission. Raises GroundlabError where that is fixed."""
    if not world.name.startswith(("Reasoning-", "BabyAI-Mixed")):
        raise GroundlabError(f"{world.name} has no option num_dists; Reasoning-* and BabyAI-Mixed* have")
    room = (world.levels[0].room_size - 2) ** 2 // 2
    if isinstance(num_dists, bool) or not isinstance(num_dists, int) or not 0 <= num_dists <= room:
        raise GroundlabError(f"num_dists is {num_dists!r}; give a whole number from 0 to {room}")
    own = {rules.GO_TO: 1, rules.PICK_UP: 1, rules.OPEN: 0}
    levels = tuple(level._replace(objects=num_dists + own.get(level.task, 2)) for level in world.levels)
    return replace(world, levels=levels)
