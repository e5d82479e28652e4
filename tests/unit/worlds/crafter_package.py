"""The public crafter package as the reference of our Crafter: its environment, made repeatable, and what is compared.

    theirs = Package(seed); theirs.reset(); differences(ours, env, theirs)

The package holds the creatures of a part of the map in a set, so which of several disappears depends on addresses in
memory; here they are put in the order in which they appeared. Nothing else is changed.
"""

import crafter
import numpy as np
from crafter import objects

from groundlab.worlds.crafter import rules, state
from groundlab.worlds.crafter.vector import CrafterVectorEnv

NAMES = ("Player", "Cow", "Zombie", "Skeleton", "Arrow", "Plant")
KINDS = {getattr(objects, name): getattr(rules, name.upper()) for name in NAMES}
CLOCKS = {objects.Zombie: "cooldown", objects.Skeleton: "reload", objects.Plant: "grown"}


class Package(crafter.Env):
    """crafter.Env, in which creatures of a part of the map disappear by age."""

    def _balance_chunk(self, chunk, objs):
        super()._balance_chunk(chunk, sorted(objs, key=lambda each: self._world._obj_map[tuple(each.pos)]))

    @property
    def player(self) -> objects.Player:
        return self._player

    @property
    def world(self):
        return self._world

    def row(self, thing) -> list[int]:
        """An object as a row of ours."""
        facing = getattr(thing, "facing", (0, 0))
        life = 0 if isinstance(thing, objects.Player) else thing.health
        clock = getattr(thing, CLOCKS.get(type(thing), ""), 0)
        return [KINDS[type(thing)], *thing.pos, life, clock, *facing]


def differences(ours: CrafterVectorEnv, env: int, theirs: Package) -> list[str]:
    """Which parts of the state differ."""
    lives = ours.lives
    row, theirs_random = lives.random[env], theirs.world.random.get_state()
    rows = [theirs.row(thing) for thing in theirs.world.objects]
    compared = {
        "materials": np.array_equal(lives.materials[env], theirs.world._mat_map),
        "objects": lives.objects[env, : lives.counters[env, state.OBJECTS_USED]].tolist() == rows,
        "occupied": np.array_equal(lives.occupants[env] > 0, theirs.world._obj_map > 0),
        "inventory": lives.inventory[env].tolist() == list(theirs.player.inventory.values()),
        "achievements": lives.achievements[env].tolist() == list(theirs.player.achievements.values()),
        "asleep": bool(lives.body[env, state.SLEEPING]) == theirs.player.sleeping,
        "random": np.array_equal(row[:624], theirs_random[1]) and row[624] == theirs_random[2],
    }
    return [name for name, same in compared.items() if not same]


def shift(ours: CrafterVectorEnv, env: int, theirs: Package, x: int, y: int) -> None:
    """Put the player of both onto another free cell."""
    way = x - int(theirs.player.pos[0]), y - int(theirs.player.pos[1])
    lives = ours.lives
    arrays = (lives.materials, lives.occupants, lives.objects, lives.counters, lives.chunks)
    moved = state.move(*(array[env] for array in arrays), 0, rules.PLAYER, *way)
    assert moved and theirs.player.move(way)


def give(ours: CrafterVectorEnv, env: int, theirs: Package, **items: int) -> None:
    """Give both players so many of some items."""
    for item, number in items.items():
        ours.lives.inventory[env, rules.ITEMS.index(item)] = number
        theirs.player.inventory[item] = number
