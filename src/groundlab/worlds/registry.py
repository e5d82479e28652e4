"""The worlds by name: what each is, how large, and what its mission says.

`find(name)` is the only way from a name to a world, so every unknown name gets the same helpful error.
Read next: `vector.py` and `single.py`, the two fronts.
"""

from dataclasses import dataclass

from groundlab.core.errors import unknown_name
from groundlab.worlds import doorkey


@dataclass(frozen=True)
class World:
    """One registered world: `level` is its number in the compiled loops, `image_shape` one observation's."""

    name: str
    level: int
    mission: str
    summary: str
    width: int = doorkey.GRID_SIZE
    height: int = doorkey.GRID_SIZE
    max_steps: int = doorkey.MAX_STEPS

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """[W, H, 4]: type, colour, state, heading."""
        return self.width, self.height, 4

    @property
    def gym_id(self) -> str:
        """The id under which `gymnasium.make` knows it."""
        return f"groundlab/{self.name}-v0"


_OPEN_THE_DOOR = "open the door"

WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        World("SimpleDoorKey", doorkey.SIMPLE_DOOR_KEY, _OPEN_THE_DOOR, "the key lies in the room"),
        World("KeyInBox", doorkey.KEY_IN_BOX, _OPEN_THE_DOOR, "the key lies in a box"),
        World("RandomBoxKey", doorkey.RANDOM_BOX_KEY, _OPEN_THE_DOOR, "the key lies in a box, or beside an empty one"),
        World(
            "ColoredDoorKey", doorkey.COLORED_DOOR_KEY, _OPEN_THE_DOOR, "two keys, the one of the door's colour fits"
        ),
        World(
            "MovingObstacle",
            doorkey.MOVING_OBSTACLE,
            _OPEN_THE_DOOR,
            "SimpleDoorKey with two wandering balls (our own definition)",
        ),
    )
}


def find(name: str) -> World:
    """The world of that name. Raises GroundlabError naming the nearest one."""
    if name not in WORLDS:
        raise unknown_name("world", name, WORLDS, "groundlab worlds lists all")
    return WORLDS[name]
