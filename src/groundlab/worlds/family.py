"""One interface to every family of worlds: grid levels, door-key rooms, Crafter, and what installed packages add.

    worlds.find("Crafter-Text-EatCow").max_steps           # the row of a world
    worlds.family_of("SimpleDoorKey").image                # what its observations are
    worlds.make("BabyAI-GoToLocal-v0", num_envs=64, seed=0)

A package adds worlds by an entry point of the group `groundlab.worlds`, which names a tuple of `World` rows (new levels
of the grid engine) or a `WorldFamily` (another game). They are then found, made and listed like all others.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from groundlab.core import plugins
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.worlds.codes import ACTIONS
from groundlab.worlds.crafter import terminal as crafter
from groundlab.worlds.crafter.rules import CRAFTER_WORLDS, CrafterWorld
from groundlab.worlds.registry import ALIASES, WORLDS, World, register_worlds

if TYPE_CHECKING:
    import numpy as np
    from gymnasium.vector import VectorEnv

    from groundlab.worlds.state import Grids


class WorldFamily(ABC):
    """Worlds that share a game, its actions and its observations.

    A row of `worlds` is a dataclass with at least `name`, `mission`, `summary`, `width`, `height` (in cells) and
    `max_steps`; its fields and the family's `behaviour` are part of what names a run, as is the code of
    another package that adds the family.
    """

    name: str
    title: str
    """What lists call it."""
    behaviour: int = 1
    """Goes up when results in its worlds change, which renames their runs (docs/artifact.md)."""
    image: str
    """What "image" in its observations is."""
    options: tuple[str, ...] = ("autoreset",)
    """What `make` takes besides."""
    words_about: str = ""
    """Which part of its observations `describe` puts into words, an array [B, ...]; empty where it has no words."""
    keys: Mapping[str, tuple[str, ...]] = {}
    """Keys of `groundlab play`, each with the names that its action has in the family's worlds; numbers if empty."""
    legend: str = ""
    """Meaning of the characters of `render`."""

    @property
    @abstractmethod
    def worlds(self) -> Mapping[str, Any]:
        """Its rows by name."""

    @abstractmethod
    def make(self, world: Any, num_envs: int, seed: int | None = None, **options: Any) -> "VectorEnv":
        """A vector environment of `num_envs` copies of a row; its observations are a dict of batches."""

    @abstractmethod
    def actions(self, world: Any) -> tuple[str, ...]:
        """Names of the actions of a row, in order."""

    def describe(self, world: Any, observations: dict[str, Any]) -> list[list[str]]:
        """Sentences about each of B observations; none for a family without words of its own."""
        return [[] for _ in observations["image"]]

    def render(self, grids: "Grids | Any", image: "np.ndarray", mode: str) -> "np.ndarray | str | None":
        """Draw one environment, which observes `image`; `grids` is that of the grid engine.

        A picture uint8 [H * 32, W * 32, 3] for mode "rgb_array", two characters per cell for "ansi" and "terminal".
        """
        return None


class GridFamily(WorldFamily):
    """Levels of the grid engine that show the agent's own view."""

    name, title = "grid", "levels with the agent's view (GLAM, reasoning agents, background knowledge)"
    image = "uint8 [7, 7, 3]: type, colour and state of the cells in view"
    options = ("autoreset", "kinds", "num_dists")
    words_about = "image"
    keys: Mapping[str, tuple[str, ...]] = {
        **{"a": ("left",), "left": ("left",), "d": ("right",), "right": ("right",), "w": ("forward",)},
        **{"up": ("forward",), "p": ("pickup",), "x": ("drop",), "t": ("toggle",), "n": ("done",)},
    }
    legend = (
        ">> you, K key, A ball, B box, G goal, V lava, F floor, _ open door, d closed door, L locked door, ## wall; "
        "then its colour: R red, G green, B blue, P purple, Y yellow, E grey"
    )

    def __init__(self, added: Iterable[World] = ()):
        self._added = tuple(added)

    @property
    def worlds(self) -> Mapping[str, World]:
        """Those of `registry.WORLDS` as it is now, and those that packages add."""
        return {row.name: row for row in (*WORLDS.values(), *self._added) if row.family == self.name}

    def make(self, world: World, num_envs: int, seed: int | None = None, **options: Any) -> "VectorEnv":
        from groundlab.worlds.vector import GridVectorEnv  # here, because it loads the compiled engine

        return GridVectorEnv(world, num_envs, seed, **options)

    def actions(self, world: World) -> tuple[str, ...]:
        return ACTIONS

    def describe(self, world: World, observations: dict[str, Any]) -> list[list[str]]:
        """BabyAI-Text's sentences, in the world's language."""
        from groundlab.worlds.text import describe_batch  # here, because it is compiled

        return describe_batch(observations["image"], world.language)

    def render(self, grids: "Grids | Any", image: "np.ndarray", mode: str) -> "np.ndarray | str | None":
        """The whole level, its view lit; at a terminal, floor out of view is blank."""
        from groundlab.worlds import render  # here, because it is compiled

        if mode == "rgb_array":
            return render.level_picture(grids)
        return render.level_text(grids, lit=mode == "terminal")


class DoorKeyFamily(GridFamily):
    """Rooms of the grid engine that show what has been seen so far; their words are the mediator paper's own."""

    name, title = "door-key", "door-key worlds (mediator)"
    image = "uint8 [10, 10, 4]: type, colour and state of the remembered cells, and the agent's heading"
    words_about = ""

    def describe(self, world: World, observations: dict[str, Any]) -> list[list[str]]:
        return WorldFamily.describe(self, world, observations)

    def render(self, grids: "Grids | Any", image: "np.ndarray", mode: str) -> "np.ndarray | str | None":
        """What the agent has seen of the room, as a picture or as text."""
        from groundlab.worlds import render

        return render.as_picture(image) if mode == "rgb_array" else render.as_text(image)


class CrafterFamily(WorldFamily):
    """The open world of Crafter."""

    name, title = "crafter", "Crafter (knowledge paper)"
    image = "uint8 [64, 64, 3]: a picture"
    options = ("autoreset", "success", "length")
    words_about = "codes"
    keys, legend = crafter.KEYS, crafter.LEGEND

    @property
    def worlds(self) -> Mapping[str, CrafterWorld]:
        return CRAFTER_WORLDS

    def make(self, world: Any, num_envs: int, seed: int | None = None, **options: Any) -> "VectorEnv":
        from groundlab.worlds.crafter.vector import CrafterVectorEnv  # here, because it loads the crafter package

        return CrafterVectorEnv(world, num_envs, seed, **options)

    def actions(self, world: Any) -> tuple[str, ...]:
        return world.actions

    def describe(self, world: Any, observations: dict[str, Any]) -> list[list[str]]:
        """The knowledge paper's caption, one sentence or more in one string."""
        from groundlab.worlds.crafter.view import describe

        return [[describe(codes)] for codes in observations["codes"]]

    def render(self, grids: Any, image: "np.ndarray", mode: str) -> str | None:
        """Return the player's view as codes."""
        return None if mode == "rgb_array" else crafter.characters(image)


@cache
def families() -> dict[str, WorldFamily]:
    """All families by name: our own, whose grid rows include those of installed packages, then those of packages.

    Raises GroundlabError naming the entry point that offers something else, or a name that is taken.
    """
    rows, others = [], []
    for point, offer in plugins.load(plugins.WORLDS).items():
        if isinstance(offer, WorldFamily):
            others.append(offer)
        elif isinstance(offer, tuple) and all(isinstance(row, World) for row in offer):
            rows += offer
        else:
            wanted = "a tuple of groundlab.worlds.World rows, or a groundlab.worlds.WorldFamily"
            raise GroundlabError(f"entry point {point!r} ({plugins.WORLDS}) is {type(offer).__name__}; give {wanted}")
    everything = [GridFamily(rows), DoorKeyFamily(rows), CrafterFamily(), *others]
    taken = [*WORLDS, *(row.name for row in rows), *(name for family in everything[2:] for name in family.worlds)]
    for kind, names in (("family of worlds", [family.name for family in everything]), ("world", taken)):
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise GroundlabError(f"two packages offer the {kind} {twice[0]!r}; uninstall one, or rename it")
    register_worlds(rows)
    return {family.name: family for family in everything}


def names(family: str | None = None) -> tuple[str, ...]:
    """The names of all worlds, or of those of one family."""
    chosen = families().values() if family is None else [families()[family]]
    return tuple(name for each in chosen for name in each.worlds)


def family_of(name: str) -> WorldFamily:
    """The family of a world. Raises GroundlabError for an unknown one, naming the nearest."""
    name, known = ALIASES.get(name, name), families()
    if name in WORLDS:
        return known[WORLDS[name].family]
    for family in known.values():
        if name in family.worlds:
            return family
    raise unknown_name("world", name, names(), "groundlab worlds lists all")


def find(name: str) -> Any:
    """The row of a world of any family: a `World` of the grid engine, a `CrafterWorld`, or a package's own.

    Raises GroundlabError for an unknown name, naming the nearest.
    """
    name, family = ALIASES.get(name, name), family_of(name)
    return WORLDS[name] if name in WORLDS else family.worlds[name]


def package_of(name: str) -> str:
    """Return the top-level package that a world comes from."""
    row, family = find(name), family_of(name)
    offers = ((point, offer) for point, offer in plugins.load(plugins.WORLDS).items() if isinstance(offer, tuple))
    point = next((point for point, offer in offers if row in offer), None)
    return plugins.package_of(plugins.WORLDS, point) if point else type(family).__module__.partition(".")[0]


def make(id: str, num_envs: int, seed: int | None = None, **options: Any) -> "VectorEnv":
    """A vector environment of `num_envs` copies of the world `id`.

    options: `autoreset`, `kinds`, `num_dists` (see GridVectorEnv); Crafter's worlds take `autoreset`, `success` and
    `length` (see CrafterVectorEnv). Ids that only the minigrid package has run through it, slower (adapters/).
    Raises GroundlabError for an unknown world or option, naming the nearest or all.
    """
    if not isinstance(num_envs, int):
        raise GroundlabError(f"num_envs is {num_envs!r}; give a whole number")
    if ALIASES.get(id, id) in names():
        family = family_of(id)
        _check_options(id, options, family.options)
        return family.make(find(id), num_envs, seed, **options)
    from groundlab.worlds.adapters import minigrid_package  # here, because minigrid takes a second to import

    if id not in minigrid_package.package_ids():
        raise unknown_name("world", id, names(), "groundlab worlds lists all")
    _check_options(id, options, ("autoreset",))
    return minigrid_package.PackageVectorEnv(id, num_envs, seed, **options)


def _check_options(id: str, options: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for option in options:
        if option not in allowed:
            raise unknown_name("option", option, allowed, f"{id} takes {', '.join(allowed)}")
