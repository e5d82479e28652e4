"""Labellers without a conversation: judges and advisers by a stated rule, and a judge that only scores words.

    scripted_judge(error=0.1, seed=0)      which of two segments has the higher score by common sense
    scoring_judge("quick-t5-s0")           which of two segments has the likelier actions
    LikelierRank(Local(NAME))              which rank a causal model would rather begin to write
    programmer(), grid_adviser(), crafter_adviser()

A labelling by rule (`groundlab label goals --maker scripted --out DIR`) is what language models are compared with.
Each of these is a chat model that answers the same prompts.
"""

import re
from functools import cache
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import torch

from groundlab.core.seeding import generator
from groundlab.core.storage import digest_bytes
from groundlab.language import models
from groundlab.language.chat import Messages, Reply, Sampling, Scripted, Tokens
from groundlab.language.chat.local_client import Local
from groundlab.language.scoring import score_actions
from groundlab.papers.knowledge.bk_pref import FIRST, SECOND, TIE
from groundlab.papers.knowledge.captions import MINIGRID_ACTIONS, latest_observation, parse_steps
from groundlab.papers.knowledge.observations import CRAFTER, GRID, ObservationAdapter
from groundlab.worlds.crafter.rules import FULL

# --- Judges

_RANKS = {FIRST: "A > B", SECOND: "B > A", TIE: "A = B"}
_BEGUN = "[Rank]\n"


def scripted_judge(error: float, seed: int, adapter: ObservationAdapter = GRID) -> Scripted:
    """A judge by score, which gives the opposite answer to a share `error` of the questions, drawn by seed.

    adapter: whose descriptions it reads.
    """
    score = score_crafter_segment if adapter is CRAFTER else score_grid_segment

    def rule(text: str, sampling: Sampling) -> str:
        scores = [score(part) for part in text.split("Description of Trajectory Segment B:")]
        label = TIE if scores[0] == scores[1] else float(scores[1] > scores[0])
        wrong = generator(seed, "judge", int(digest_bytes(text.encode())[:8], 16)).random() < error
        return f"[Thoughts]\nmerits {scores[0]} and {scores[1]}\n\n[Rank]\n{_RANKS[1 - label if wrong else label]}"

    return Scripted(f"scripted judge, error {error:g}, seed {seed}", rule)


def score_grid_segment(caption: str) -> int:
    """What a stretch of play is worth by common sense, read from its description.

    +1 for a step forward into a free cell, -1 for one against a wall or an object, -1 for a turn that takes back the
    turn before, -1 for any other action, +2 for an object right ahead at the end.
    """
    total, before = 0, ""
    for observation, action in parse_steps(caption):
        if action == "forward":
            total += -1 if re.search(r"(?<!and )\b1 step forward", observation) else 1
        elif action in ("turn left", "turn right"):
            total -= {action, before} == {"turn left", "turn right"}
        else:
            total -= 1
        before = action
    ahead = re.search(r"You see a \w+ (?:key|ball|box) 1 step forward", latest_observation(caption))
    return total + 2 * bool(ahead)


_QUESTION = "something {place}, \n which words bring you to face it?"
_WORDS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")  # "do nothing" has no word: 0
_WORD_OF: dict[str, str] = dict(zip(MINIGRID_ACTIONS, _WORDS, strict=False))
_POSITION = re.compile(r"You see a \w+ (?:key|ball|box) ([^.]+)")
_TIE_BELOW = 1e-4  # difference of plausibility


def scoring_judge(name: str) -> Scripted:
    """A judge by the likelihood of each action's words. Raises GroundlabError for a model that is not on this machine.

    name: a sequence-to-sequence model; it is asked how to face each thing in view, and cannot hold a conversation.
    """
    model, tokenizer = models.load(name, kind="seq2seq")

    @cache
    def likelihoods(position: str) -> dict[str, float]:
        with torch.inference_mode():
            scores = score_actions(model, tokenizer, [_QUESTION.format(place=position)], _WORDS)
        return dict(zip(_WORDS, scores.softmax(-1)[0].tolist(), strict=True))

    def plausibility(caption: str) -> float:
        steps = []
        for observation, action in parse_steps(caption):
            word = _WORD_OF.get(action, "")
            each = [likelihoods(position).get(word, 0.0) for position in _POSITION.findall(observation)]
            steps.append(max(each, default=1 / len(_WORDS)))
        return float(np.mean(steps))

    def rule(text: str, sampling: Sampling) -> str:
        first, second = (plausibility(part) for part in text.split("Description of Trajectory Segment B:"))
        rank = "A = B" if abs(first - second) < _TIE_BELOW else "A > B" if first > second else "B > A"
        return f"[Thoughts]\nplausible to {first:.4f} and {second:.4f}\n\n[Rank]\n{rank}"

    return Scripted(f"{name}, scoring", rule)


class LikelierRank:
    """A judge by a causal model's next word: odds of "A" to "B" where its rank begins, and the rank that they make.

    For models that write no rank themselves. They write no thoughts before it; a tie begins with "A" as well, so ask in
    both orders. What two prompts in a row begin with is read once.
    """

    def __init__(self, local: Local):
        self.model, self._local, self._read = f"{local.model}, likelier rank", local, (list[int](), None)

    @torch.inference_mode()
    def reply(self, messages: Messages, sampling: Sampling) -> Reply:
        """The odds, as a difference of logarithms, and the rank, in the form that the prompt asks for."""
        either = [self._local.tokens(messages, _BEGUN + letter) for letter in "AB"]
        tokens = _shared(*either)
        before, states = self._read
        known = len(_shared(before, tokens[:-1]))
        if known < len(before):
            states.crop(known - len(before))
        rest = torch.tensor([tokens[known:]], device=self._local.device)
        output = self._local.loaded[0](input_ids=rest, past_key_values=states, use_cache=True, logits_to_keep=1)
        self._read = tokens, output.past_key_values
        first, second = (output.logits[0, -1, each[len(tokens)]].item() for each in either)
        rank = "A > B" if first > second else "B > A"
        return Reply(f"[Odds]\n{first - second:.4f}\n\n{_BEGUN}{rank}", Tokens(len(tokens), 1))


def _shared(one: list[int], other: list[int]) -> list[int]:
    """Return the tokens with which both begin."""
    return [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))]


# --- Crafter: scores and goals

_NEAR = re.compile(r"(\w+) at (\d+) steps to your")
_FACED = re.compile(r"You face (\w+) at your front")
_VITAL = re.compile(r"(\w+): (\d+)/9")
_ITEM = re.compile(r"(\d+) (\w+)")
_PLACES = {"place stone": "stone", "place crafting table": "table", "place furnace": "furnace", "place plant": "plant"}
_BLOWS = ("eat", "drink", "attack", "collect")  # one act under four names
_CREATURES = ("cow", "zombie", "skeleton")
_USEFUL = ("tree", "water", "cow", "plant", "stone", "coal", "iron", "diamond", "table", "furnace")
_BEYOND = 9  # steps, farther than anything in view
_A_DEED = 10  # more than any nearness


class Sight(NamedTuple):
    """A description, taken apart."""

    near: dict[str, int]
    """Steps to the nearest of each kind."""
    facing: str
    has: dict[str, int]
    """Health, food, drink, energy, and the inventory; empty where the description is of nothing."""
    asleep: bool


def parse_sight(description: str) -> Sight:
    near = {kind: int(steps) for kind, steps in _NEAR.findall(description)}
    vitals = {name: int(number) for name, number in _VITAL.findall(description)}
    items = {name: int(number) for number, name in _ITEM.findall(description.partition("Your have ")[2])}
    facing = _FACED.search(description)
    return Sight(near, facing[1] if facing else "", vitals | items, "You are sleeping" in description)


def score_crafter_segment(caption: str) -> int:
    """What a stretch of play is worth: ten for a deed, less ten for a health lost, less the steps to something useful.

    Deeds: something more in the inventory, a drink, a ripe plant eaten, a thing placed, a creature gone under a blow
    (a cow, too), waking up. The steps, 0 to 9, are those to the nearest useful thing at the end.
    """
    steps = parse_steps(caption)
    sights = [parse_sight(text) for text in (*(observation for observation, _ in steps), latest_observation(caption))]
    deeds = sum(_deeds(sights[at], action, sights[at + 1]) for at, (_, action) in enumerate(steps))
    return _A_DEED * deeds - min((sights[-1].near.get(kind, _BEYOND) for kind in _USEFUL), default=_BEYOND)


def _deeds(before: Sight, action: str, after: Sight) -> int:
    if not before.has or not after.has:
        return 0
    rises = {name: number - before.has.get(name, 0) for name, number in after.has.items()}
    gains = sum(rise > 0 for name, rise in rises.items() if name not in ("health", "food", "energy"))
    eats = rises["food"] > 0 and before.facing == "plant"
    places = action in _PLACES and after.facing == _PLACES[action] != before.facing
    beats = action in _BLOWS and before.facing in _CREATURES and after.facing != before.facing
    return gains + eats + places + beats + (before.asleep and not after.asleep) + min(0, rises["health"])


_GATHER = (
    ("cow", "Eat a cow."),
    ("water", "Drink water."),
    ("zombie", "Attack the zombie."),
    ("skeleton", "Attack the skeleton."),
    ("tree", "Collect wood."),
    *((ore, f"Collect {ore}.") for ore in ("diamond", "iron", "coal", "stone")),
)
_NEEDS = {"stone": "wood_pickaxe", "coal": "wood_pickaxe", "iron": "stone_pickaxe", "diamond": "iron_pickaxe"}


def crafter_goals(description: str) -> list[str]:
    """What to do next, the nearest first, from what is in view, missing and at hand."""
    sight = parse_sight(description)
    if not sight.has:
        return ["Explore the map."]
    has, near = sight.has, sight.near
    gather = [goal for kind, goal in _GATHER if kind in near and _can_gather(kind, has)]
    make = [f"Make a {tool.replace('_', ' ')}." for tool in _tools(has, near)]
    place = ["Place a crafting table."] if has.get("wood", 0) > 1 and "table" not in near else []
    place += ["Place a plant."] if has.get("sapling") else []
    rest = ["Sleep until energy is full."] if has["energy"] < FULL // 2 else []
    return [*make, *place, *gather, *rest] or ["Explore the map."]


def _can_gather(kind: str, has: dict[str, int]) -> bool:
    return has["drink"] < FULL if kind == "water" else kind not in _NEEDS or _NEEDS[kind] in has


def _tools(has: dict[str, int], near: dict[str, int]) -> list[str]:
    """Tools that one lacks and has the materials for, beside a table."""
    costs = {"wood": ("wood",), "stone": ("wood", "stone")}
    if "furnace" in near:
        costs["iron"] = ("wood", "coal", "iron")
    able = [kind for kind, items in costs.items() if "table" in near and all(has.get(item) for item in items)]
    return [f"{kind}_{tool}" for kind in able for tool in ("pickaxe", "sword") if f"{kind}_{tool}" not in has]


# --- Advisers and the programmer

_PROGRAM = """def compute_reward(obs, past_obs, past_actions):
    things = np.isin(obs[0], [OBJECT_TO_IDX["key"], OBJECT_TO_IDX["ball"], OBJECT_TO_IDX["box"]])
    seen, ahead = 0.5 * float(things.any()), 0.5 * float(things[3, 5])
    return seen + ahead, {"a thing in view": seen, "a thing ahead": ahead}
"""
_THING = re.compile(r"You see a (\w+ (?:key|ball|box)) ")


def programmer() -> Scripted:
    """Always the same program: half a point while a thing is in view, another half while one is right ahead."""
    return Scripted("scripted programmer", lambda text, sampling: f"```python\n{_PROGRAM}```\n")


def grid_adviser() -> Scripted:
    """Goes to each thing in view, in the order of the last description; looks around when there is none."""

    def rule(text: str, sampling: Sampling) -> str:
        things = dict.fromkeys(_THING.findall(latest_observation(text)))
        return "\n".join(f"- Go to the {thing}." for thing in things) or "- Look around."

    return Scripted("scripted adviser", rule)


def crafter_adviser() -> Scripted:
    def rule(text: str, sampling: Sampling) -> str:
        return "\n".join(f"- {goal}" for goal in crafter_goals(latest_observation(text)))

    return Scripted("scripted survivor", rule)
