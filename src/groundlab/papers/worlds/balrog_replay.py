"""Published language-model agents, played again step by step: whether this is their world, and why they fail.

    groundlab run balrog --world BabyAI-MixedTrainLocal-v0 --out out/balrog

850 episodes of 17 submissions to BALROG's leaderboard are facts that ship (`published.py`). Each starts from its seed
and is given its actions; missions, texts and outcomes must be equal. What a step did is read off the grid:

    new        led to a state that the episode had not met
    again      led back to a state that it had met (wandering, turning to and fro)
    wall       went forward into a wall or a thing; nothing changed
    blocked    dropped a thing onto an occupied cell; nothing changed
    toggled    toggled what cannot be toggled, or lacks its key; nothing changed
    idle       picked up nothing, or dropped with an empty hand; nothing changed

Policies of its evaluation: "facts" and "putnext" of one row, then each submission by kind, then "SUBMISSION, in all"
(percent by kind in one row), then random actions, the rule of `reflex.py` and minigrid's bot on the very same levels.
"""

from typing import Any

import numpy as np

from groundlab import worlds
from groundlab.core.seeding import generator
from groundlab.papers.episodes import Row, play_layouts
from groundlab.papers.method import Request
from groundlab.papers.worlds import bot
from groundlab.papers.worlds.published import (
    TRAIN,
    BalrogSettings,
    Episodes,
    load_episodes,
    observation_text,
    text_hash,
)
from groundlab.papers.worlds.random_agent import RandomPlayer
from groundlab.papers.worlds.reflex import ReflexPlayer
from groundlab.worlds.codes import BOX, DROP, EMPTY, FORWARD, PICKUP, STEP_X, STEP_Y, TOGGLE, WALL
from groundlab.worlds.missions import FIRST, SECOND, part_column
from groundlab.worlds.text import describe_batch

__all__ = ["COUNTS", "EFFECTS", "evaluate", "replay"]

EFFECTS = ("new", "again", "wall", "blocked", "toggled", "idle")
NEW, AGAIN, INTO_WALL, BLOCKED, TOGGLED, IDLE = range(len(EFFECTS))
_WITHOUT_EFFECT = {FORWARD: INTO_WALL, TOGGLE: TOGGLED, PICKUP: IDLE}
_PUTNEXT = "putnext"
_AT_ONCE = 50  # environments in a batch
_DESCRIBED = tuple(part_column(part) + slot for part in range(2) for slot in (FIRST, SECOND))


COUNTS = np.dtype(
    [
        ("episode", np.int64),  # its index among the published ones
        ("mission_differs", np.bool_),
        ("outcome_differs", np.bool_),  # success or the end is not where it was published
        ("texts_differ", np.int64),  # steps whose text has another hash
        ("success", np.bool_),
        ("effects", np.int64, len(EFFECTS)),  # steps by what they did
        ("drops", np.int64, 2),  # of a carried thing onto an occupied cell, and onto a free one
        ("held", np.bool_),  # the mission's first thing was in hand
        ("held_and_blocked", np.bool_),  # and it was dropped onto an occupied cell
        ("broken", np.bool_),  # a box that the mission names was toggled away
    ]
)
"""The counts of an episode."""


def replay(published: Episodes, chosen: np.ndarray, num_dists: int) -> np.ndarray:
    """Play the episodes `chosen` [E] again, all at once, in rooms with `num_dists` further objects: COUNTS [E]."""
    kinds = [published.kinds[kind] for kind in published.kind[chosen]]
    envs = worlds.GridVectorEnv(worlds.find(TRAIN), len(chosen), autoreset="disabled", kinds=kinds, num_dists=num_dists)
    observations, _ = envs.reset(seed=published.seed[chosen].tolist())
    missions = [published.mission[episode] for episode in chosen]
    counts = np.zeros(len(chosen), COUNTS)
    counts["episode"] = chosen
    counts["mission_differs"] = [ours != theirs for ours, theirs in zip(observations["mission"], missions, strict=True)]
    lengths, starts = published.lengths[chosen], np.array([published.steps(each).start for each in chosen])
    met = [{_state(envs, env)} for env in range(len(chosen))]
    for step in range(int(lengths.max(initial=0))):
        active = np.flatnonzero(step < lengths)
        actions = np.zeros(len(chosen), np.int64)
        actions[active] = published.actions[starts[active] + step]
        before = _Before(envs, active)
        observations, _, terminated, truncated, _ = envs.step(actions)
        _note(counts, envs, active, actions, before, met)
        texts = describe_batch(observations["image"][active])
        hashes = np.array([text_hash(observation_text(sentences)) for sentences in texts])
        counts["texts_differ"][active] += hashes != published.texts[starts[active] + step]
        counts["success"][active] |= terminated[active]
        counts["outcome_differs"][active] |= (terminated | truncated)[active] != (step == lengths[active] - 1)
    counts["outcome_differs"] |= counts["success"] != published.success[chosen]
    return counts


def _state(envs: worlds.GridVectorEnv, env: int) -> bytes:
    grids = envs.grids
    return grids.cells[env].tobytes() + grids.agents[env].tobytes() + grids.carried[env].tobytes()


class _Before:
    """What the active environments were like before a step."""

    def __init__(self, envs: worlds.GridVectorEnv, active: np.ndarray):
        grids = envs.grids
        x, y, heading = grids.agents[active].T
        self.ahead = grids.cells[active, x + np.array(STEP_X)[heading], y + np.array(STEP_Y)[heading], :2].copy()
        self.carried = grids.carried[active, :2].copy()
        self.states = [_state(envs, env) for env in active]


def _note(
    counts: np.ndarray,
    envs: worlds.GridVectorEnv,
    active: np.ndarray,
    actions: np.ndarray,
    before: _Before,
    met: list[set[bytes]],
) -> None:
    """Count what a step did in each active environment."""
    for place, env in enumerate(active.tolist()):
        action, ahead, hand = int(actions[env]), before.ahead[place], before.carried[place]
        after, mission = _state(envs, env), envs.grids.missions[env]
        drops = action == DROP and hand[0] != 0
        if after == before.states[place]:
            effect = (BLOCKED if drops else IDLE) if action == DROP else _WITHOUT_EFFECT[action]
        else:
            effect = AGAIN if after in met[env] else NEW
        met[env].add(after)
        counts["effects"][env, effect] += 1
        if drops:
            free = ahead[0] == EMPTY
            counts["drops"][env, int(free)] += 1
            counts["held_and_blocked"][env] |= not free and _is_named(mission, _DESCRIBED[0], hand)
        if action == TOGGLE and ahead[0] == BOX:
            counts["broken"][env] |= any(_is_named(mission, column, ahead) for column in _DESCRIBED)
        counts["held"][env] |= _is_named(mission, _DESCRIBED[0], envs.grids.carried[env])


def _is_named(mission: np.ndarray, column: int, thing: np.ndarray) -> bool:
    """Whether a thing (type, colour, ...) is what a mission describes at `column`."""
    return bool(thing[0] > WALL and thing[0] == mission[column] and thing[1] == mission[column + 1])


def _rows_by_kind(published: Episodes, counts: np.ndarray, num_dists: int) -> list[dict[str, Any]]:
    """One row a kind of the episodes of a submission: success and steps as means, everything else as sums."""
    rows = []
    for number, kind in enumerate(published.kinds):
        here = np.flatnonzero(published.kind[counts["episode"]] == number)
        episodes = counts["episode"][here]
        tokens = published.tokens[episodes].sum(axis=0)
        rows.append(
            {
                "layout": number,
                "kind": kind,
                "episodes": len(here),
                "success": float(counts["success"][here].mean()),
                "steps": float(published.lengths[episodes].mean()),
                "num_dists": num_dists,
                **dict(zip(EFFECTS, counts["effects"][here].sum(axis=0).tolist(), strict=True)),
                "invalid": int(published.invalid[episodes].sum()),
                "broken": int(counts["broken"][here].sum()),
                "prompt_tokens": int(tokens[0]),
                "reply_tokens": int(tokens[1]),
            }
        )
    return rows


def _facts(published: Episodes, counts: np.ndarray) -> dict[str, Any]:
    """Return how much was played again, and how much of it differs."""
    differs = counts["mission_differs"] | counts["outcome_differs"] | (counts["texts_differ"] > 0)
    return {
        "mismatches": int(differs.sum()),
        "replayed_episodes": len(counts["episode"]),
        "replayed_steps": int(published.lengths[counts["episode"]].sum()),
        "mission_mismatches": int(counts["mission_differs"].sum()),
        "outcome_mismatches": int(counts["outcome_differs"].sum()),
        "text_mismatches": int(counts["texts_differ"].sum()),
    }


def _putnext(published: Episodes, counts: np.ndarray) -> dict[str, Any]:
    """Return why putting one thing next to another fails."""
    here = published.kind[counts["episode"]] == published.kinds.index(_PUTNEXT)
    occupied, free = counts["drops"][here].sum(axis=0).tolist()
    return {
        "episodes": int(here.sum()),
        "successes": int(counts["success"][here].sum()),
        "in_hand": int(counts["held"][here].sum()),
        "tried_occupied": int(counts["held_and_blocked"][here].sum()),
        "drops_occupied": occupied,
        "drops_free": free,
    }


def _one_row(policy: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"policy": policy, "mean": row, "rows": [{"layout": 0, **row}]}


def _by_kind(policy: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"policy": policy, "mean": _means(rows), "rows": rows}


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in ("success", "steps")}


def _submission(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A submission by kind, and its percentages in one row, as a leaderboard prints them."""
    percent = {row["kind"]: 100 * row["success"] for row in rows}
    whole = {"in_all": sum(percent.values()) / len(percent), **percent}
    return [_by_kind(name, rows), _one_row(f"{name}, in all", whole)]


def _baselines(published: Episodes, chosen: np.ndarray, seed: int) -> list[dict[str, Any]]:
    """Random actions, a rule and minigrid's bot on the levels `chosen`, by kind."""
    rng, rows = generator(seed, "random actions"), {"random": [], "reflex": [], "bot": []}
    for number, kind in enumerate(published.kinds):
        seeds = published.seed[chosen[published.kind[chosen] == number]].tolist()
        played: dict[str, list[Row]] = {agent: [] for agent in rows}
        for part in (seeds[start : start + _AT_ONCE] for start in range(0, len(seeds), _AT_ONCE)):
            played["random"] += play_layouts(f"{TRAIN}/{kind}", part, RandomPlayer(6, rng), 0)
            played["reflex"] += play_layouts(f"{TRAIN}/{kind}", part, ReflexPlayer(len(part)), 0)
            played["bot"] += bot.play(f"{TRAIN}/{kind}", part, 0)
        for agent, episodes in played.items():
            about = {"layout": number, "kind": kind, "episodes": len(episodes), "num_dists": 0}
            rows[agent].append({**about, **_means(episodes)})
    return [_by_kind(agent, each) for agent, each in rows.items()]


def evaluate(request: Request) -> list[dict[str, Any]]:
    """Play all published episodes, or the first `episodes` of each kind and submission; see the module docstring."""
    settings, published = BalrogSettings(**request.settings), load_episodes()
    options = published.num_dists.tolist()
    groups = [
        replay(published, _first(published, number, settings.episodes), options[number])
        for number in range(len(options))
    ]
    plain = np.concatenate([each for each, option in zip(groups, options, strict=True) if option == 0])
    results = [
        _one_row("facts", _facts(published, np.concatenate(groups))),
        _one_row(_PUTNEXT, _putnext(published, plain)),
    ]
    for name, counts, option in zip(published.submissions, groups, options, strict=True):
        results += _submission(name, _rows_by_kind(published, counts, option))
    return results + _baselines(published, plain["episode"], request.seed)


def _first(published: Episodes, submission: int, count: int) -> np.ndarray:
    """Return the indices of the first `count` episodes of each kind of a submission."""
    mine = published.of(submission)
    return np.concatenate([mine[published.kind[mine] == kind][:count] for kind in range(len(published.kinds))])
