"""Common sense about Crafter as a stated rule, read from descriptions: what a stretch of play came to, what to do next.

    merit(caption)             of a stretch of play, for the scripted judge (`judging.py`)
    goals(description)         for the scripted adviser (`scripted.py`)

All 22 achievements count alike, so the rule knows the game and no task. Source: spec background-knowledge 1.2, 1.3.
"""

import re
from typing import NamedTuple

from groundlab.worlds.crafter.rules import FULL

_STEP = re.compile(r"Step \d+: (.*) You choose the action: (.*)\.$", re.MULTILINE)
_SEEN = re.compile(r"(\w+) at (\d+) steps to your")
_FACED = re.compile(r"You face (\w+) at your front")
_VITAL = re.compile(r"(\w+): (\d+)/9")
_OWNED = re.compile(r"(\d+) (\w+)")
_PLACED = {"place stone": "stone", "place crafting table": "table", "place furnace": "furnace", "place plant": "plant"}
_BLOWS = ("eat", "drink", "attack", "collect")  # one act under four names
_CREATURES = ("cow", "zombie", "skeleton")
_USEFUL = ("tree", "water", "cow", "plant", "stone", "coal", "iron", "diamond", "table", "furnace")
_BEYOND = 9  # steps, farther than anything in view
_A_DEED = 10  # more than any nearness


class Sight(NamedTuple):
    """A description, taken apart."""

    near: dict[str, int]
    """Steps to the nearest of each kind."""
    faced: str
    has: dict[str, int]
    """Health, food, drink, energy, and the inventory; empty where the description is of nothing."""
    asleep: bool


def read(description: str) -> Sight:
    """What a description says."""
    near = {kind: int(steps) for kind, steps in _SEEN.findall(description)}
    vitals = {name: int(number) for name, number in _VITAL.findall(description)}
    owned = {name: int(number) for number, name in _OWNED.findall(description.partition("Your have ")[2])}
    faced = _FACED.search(description)
    return Sight(near, faced[1] if faced else "", vitals | owned, "You are sleeping" in description)


def merit(caption: str) -> int:
    """What a stretch of play is worth: ten for a deed, less ten for a health lost, less the steps to something useful.

    Deeds: something more in the inventory, a drink, a ripe plant eaten, a thing placed, a creature gone under a blow
    (a cow, too), waking up. The steps, 0 to 9, are those to the nearest useful thing at the end.
    """
    steps = _STEP.findall(caption)
    views = [read(seen) for seen, _ in steps] + [read(caption.rpartition("Current observation: ")[2])]
    deeds = sum(_deeds(views[at], action, views[at + 1]) for at, (_, action) in enumerate(steps))
    return _A_DEED * deeds - min((views[-1].near.get(kind, _BEYOND) for kind in _USEFUL), default=_BEYOND)


def _deeds(before: Sight, action: str, after: Sight) -> int:
    if not before.has or not after.has:
        return 0
    rises = {name: number - before.has.get(name, 0) for name, number in after.has.items()}
    gained = sum(rise > 0 for name, rise in rises.items() if name not in ("health", "food", "energy"))
    eaten = rises["food"] > 0 and before.faced == "plant"
    placed = action in _PLACED and after.faced == _PLACED[action] != before.faced
    beaten = action in _BLOWS and before.faced in _CREATURES and after.faced != before.faced
    return gained + eaten + placed + beaten + (before.asleep and not after.asleep) + min(0, rises["health"])


def goals(description: str) -> list[str]:
    """What to do next, the nearest first, from what is in view, missing and at hand."""
    sight = read(description)
    if not sight.has:
        return ["Explore the map."]
    has, near = sight.has, sight.near
    found = [goal for kind, goal in _GATHER if kind in near and _may(kind, has)]
    made = [f"Make a {tool.replace('_', ' ')}." for tool in _makeable(has, near)]
    placed = ["Place a crafting table."] if has.get("wood", 0) > 1 and "table" not in near else []
    placed += ["Place a plant."] if has.get("sapling") else []
    rest = ["Sleep until energy is full."] if has["energy"] < FULL // 2 else []
    return [*made, *placed, *found, *rest] or ["Explore the map."]


_GATHER = (
    ("cow", "Eat a cow."),
    ("water", "Drink water."),
    ("zombie", "Attack the zombie."),
    ("skeleton", "Attack the skeleton."),
    ("tree", "Collect wood."),
    *((ore, f"Collect {ore}.") for ore in ("diamond", "iron", "coal", "stone")),
)
_NEEDS = {"stone": "wood_pickaxe", "coal": "wood_pickaxe", "iron": "stone_pickaxe", "diamond": "iron_pickaxe"}


def _may(kind: str, has: dict[str, int]) -> bool:
    return has["drink"] < FULL if kind == "water" else kind not in _NEEDS or _NEEDS[kind] in has


def _makeable(has: dict[str, int], near: dict[str, int]) -> list[str]:
    """Tools that one lacks and has the materials for, beside a table."""
    costs = {"wood": ("wood",), "stone": ("wood", "stone")}
    if "furnace" in near:
        costs["iron"] = ("wood", "coal", "iron")
    able = [kind for kind, items in costs.items() if "table" in near and all(has.get(item) for item in items)]
    return [f"{kind}_{tool}" for kind in able for tool in ("pickaxe", "sword") if f"{kind}_{tool}" not in has]
