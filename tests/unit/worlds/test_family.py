"""One interface to all families of worlds, and the worlds that installed packages add by entry points."""

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest

from groundlab import worlds
from groundlab.cli import play
from groundlab.core import plugins
from groundlab.core.errors import GroundlabError
from groundlab.papers import method, registry
from groundlab.worlds import family as family_module
from groundlab.worlds.codes import BOX, PURPLE

BOX_ROOM = worlds.World(
    "Test-GoToPurpleBox-S6-v0",
    (worlds.Rules(room_size=6, objects=2, target_type=BOX, target_colour=PURPLE),),
    "go to the purple box",
    "a purple box and 2 objects, in a room of 6 x 6",
)


class Corridor(worlds.WorldFamily):
    """A game of another package: walk east until the end of a corridor, in Gymnasium's own vector interface."""

    name, title, image = "corridor", "corridors (test)", "uint8 [5]: the cells, 1 where one stands"

    @dataclass(frozen=True)
    class Row:
        name: str = "Corridor-v0"
        mission: str = "go east"
        summary: str = "five cells"
        width: int = 5
        height: int = 1
        max_steps: int = 20

    worlds = {"Corridor-v0": Row()}  # noqa: RUF012

    class _Env(gym.Env):
        observation_space = gym.spaces.Dict(image=gym.spaces.Box(0, 1, (5,), np.uint8))
        action_space = gym.spaces.Discrete(2)

        def _observation(self):
            return {"image": (np.arange(5) == self.cell).astype(np.uint8)}

        def reset(self, *, seed=None, options=None):
            self.cell = 0
            return self._observation(), {}

        def step(self, action):
            self.cell = min(4, max(0, self.cell + (1 if action else -1)))
            return self._observation(), float(self.cell == 4), self.cell == 4, False, {}

    def make(self, world, num_envs, seed=None, **options):
        return gym.vector.SyncVectorEnv([self._Env] * num_envs)

    def actions(self, world):
        return ("west", "east")


@pytest.fixture
def installed(monkeypatch):
    """Make packages offer worlds: installed(name=object, ...), as entry points of `groundlab.worlds` would."""
    load = plugins.load

    def offer(**objects) -> None:
        monkeypatch.setattr(plugins, "load", lambda group: objects if group == plugins.WORLDS else load(group))
        family_module.families.cache_clear()

    yield offer
    family_module.families.cache_clear()


def test_a_packages_grid_level_is_found_made_stepped_and_listed(installed, capsys):
    installed(boxes=(BOX_ROOM,))
    assert worlds.find(BOX_ROOM.name) is BOX_ROOM and BOX_ROOM.name in worlds.names("grid")
    env = worlds.make(BOX_ROOM.name, num_envs=4, seed=0)
    observations, _ = env.reset()
    assert observations["image"].shape == (4, 7, 7, 3)
    assert set(observations["mission"]) <= {"go to the purple box", "go to a purple box"}
    rng = np.random.default_rng(0)
    rewards = sum(env.step(rng.integers(0, 3, 4))[1] for _ in range(200))
    assert (rewards > 0).all()  # the box is met by chance in a room so small
    assert isinstance(worlds.GridEnv(BOX_ROOM.name).reset(seed=1)[0]["mission"], str)
    assert gym.make("groundlab/" + BOX_ROOM.name).reset(seed=1)[0]["image"].shape == (7, 7, 3)
    assert registry.get("random", BOX_ROOM.name).module == "groundlab.papers.worlds.random_agent"
    play.worlds()
    assert {BOX_ROOM.name, *worlds.CRAFTER_WORLDS} <= set(capsys.readouterr().out.split())


def test_a_packages_family_brings_its_own_game(installed, capsys):
    installed(corridors=Corridor())
    family = worlds.family_of("Corridor-v0")
    assert family.name == "corridor" and family.actions(worlds.find("Corridor-v0")) == ("west", "east")
    env = worlds.make("Corridor-v0", 2)
    observations, _ = env.reset()
    assert family.describe(worlds.find("Corridor-v0"), observations) == [[], []]
    for _ in range(4):
        _, rewards, terminated, _, _ = env.step(np.array([1, 0]))
    assert rewards.tolist() == [1, 0] and terminated.tolist() == [True, False]
    with pytest.raises(GroundlabError, match="Corridor-v0 takes autoreset"):
        worlds.make("Corridor-v0", 2, kinds="per-episode")
    others = len(worlds.names("grid"))
    with pytest.raises(GroundlabError, match=f"does not run on Corridor-v0; it runs on {others} others"):
        registry.check_world("bot", "Corridor-v0")
    play.worlds()
    assert "corridors (test): 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("offered", "fix"),
    [
        ({"boxes": BOX_ROOM}, "entry point 'boxes' .groundlab.worlds. is World; give a tuple of groundlab.worlds"),
        ({"boxes": (BOX_ROOM, "GoTo")}, "entry point 'boxes'"),
        ({"a": (BOX_ROOM,), "b": (BOX_ROOM,)}, "two packages offer the world 'Test-GoToPurpleBox-S6-v0'"),
        ({"mine": (worlds.find("SimpleDoorKey"),)}, "two packages offer the world 'SimpleDoorKey'"),
        ({"a": Corridor(), "b": Corridor()}, "two packages offer the family of worlds 'corridor'"),
    ],
)
def test_a_package_that_offers_something_else_is_named(offered, fix, installed):
    installed(**offered)
    with pytest.raises(GroundlabError, match=fix):
        worlds.find("SimpleDoorKey")


@pytest.mark.parametrize("name", ["BabyAI-GoToFrench-v0", "KeyInBox", "Crafter-Text-EatCow"])
def test_every_family_makes_what_it_says(name):
    family, row = worlds.family_of(name), worlds.find(name)
    assert worlds.families()[family.name] is family and name in worlds.names(family.name)
    env = worlds.make(name, 3, seed=0)
    observations, _ = env.reset()
    shape, dtype = observations["image"].shape[1:], observations["image"].dtype
    assert family.image.startswith(f"{dtype} {list(shape)}:")
    assert env.single_action_space.n == len(family.actions(row))
    sentences = family.describe(row, observations)
    assert len(sentences) == 3 and all(bool(each) == (family.name != "door-key") for each in sentences)


def test_the_families_that_methods_name_exist():
    assert {method.GRID, method.DOOR_KEY, method.CRAFTER} == set(worlds.families())
    assert {family for _, each in registry.methods() for family in each.families} <= set(worlds.families())
