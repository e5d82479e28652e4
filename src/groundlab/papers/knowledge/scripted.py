"""Advisers by rule: what a labelling leaves when nobody is asked, to compare language models with.

    labelling.label(..., maker="scripted")      groundlab label goals --maker scripted --out DIR

`judging.scripted_judge` is the third one; for Crafter see `survival.py`. Called from: `labelling.py`.
"""

import re
from typing import NamedTuple

from groundlab.language.chat import Sampling, Scripted
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


_PROGRAM = """def compute_reward(obs, past_obs, past_actions):
    things = np.isin(obs[0], [OBJECT_TO_IDX["key"], OBJECT_TO_IDX["ball"], OBJECT_TO_IDX["box"]])
    seen, ahead = 0.5 * float(things.any()), 0.5 * float(things[3, 5])
    return seen + ahead, {"a thing in view": seen, "a thing ahead": ahead}
"""
_THING = re.compile(r"You see a (\w+ (?:key|ball|box)) ")


def programmer() -> Scripted:
    """Always the same program: half a point while a thing is in view, another half while one is right ahead."""
    return Scripted("scripted programmer", lambda text, sampling: f"```python\n{_PROGRAM}```\n")


def adviser() -> Scripted:
    """Goes to each thing in view, in the order of the last description; looks around when there is none."""

    def rule(text: str, sampling: Sampling) -> str:
        now = text.rpartition("Current observation: ")[2]
        things = dict.fromkeys(_THING.findall(now))
        return "\n".join(f"- Go to the {thing}." for thing in things) or "- Look around."

    return Scripted("scripted adviser", rule)


def survivor() -> Scripted:
    """The adviser for Crafter."""

    def rule(text: str, sampling: Sampling) -> str:
        return "\n".join(f"- {goal}" for goal in goals(text.rpartition("Current observation: ")[2]))

    return Scripted("scripted survivor", rule)
