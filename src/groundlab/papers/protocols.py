"""BALROG's benchmark for any agent of this package: `groundlab evaluate METHOD --protocol balrog`.

    outcome = play("balrog", "random", layouts="0-49")
    outcome["policies"][0]["kinds"]        # success by kind of task, each with its interval

BALROG (Paglieri et al., ICLR 2025), task BabyAI: five kinds of task of BabyAI-MixedTrainLocal-v0, the kind fixed, no
distractors, ten episodes a kind, each to its level's own time limit (64 steps, or 128). "balrog-corrected" is the same
with a prompt that does not mislead (docs/papers/worlds.md#later-work).
"""

from typing import Any

import numpy as np

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Checkpoint
from groundlab.papers import registry
from groundlab.papers.method import Request
from groundlab.report.statistics import success_of

PROTOCOLS = ("balrog", "balrog-corrected")
"""Also the names of the prompt of agents that are given the rules; others have prompts of their own."""
_LEVELS = {
    "goto": ("GoTo", 3),
    "pickup": ("Pickup", 4),
    "open": ("Open", 6),
    "putnext": ("PutNext", 5),
    "pick_up_seq_go_to": ("PickUpSeqGoTo", 4),
}
KINDS = {kind: (f"BabyAI-MixedTrainLocal-v0/{kind}", f"Reasoning-{level}-v0") for kind, (level, _) in _LEVELS.items()}
"""Names of the same level in different papers, by kind."""
_ACTIONS = {kind: count for kind, (_, count) in _LEVELS.items()}
"""Number of the first six actions that a kind takes."""
PLAIN: dict[str, Any] = {"tests": [], "first_finished": 0, "fixed_mission": "", "swapped": False}
"""Settings that leave out every other test of an agent."""


def check(protocol: str, method: str) -> None:
    """Raise GroundlabError, one line, where an agent cannot play a protocol, whatever its settings.

    It must run on a world of each kind, leave out distractors, and get the prompt where that is the point.
    """
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    for kind in KINDS:
        known = registry.schema_of(registry.get(method, _world(protocol, method, kind))).model_fields
        if missing := [name for name in ("layouts", "num_dists") if name not in known]:
            raise GroundlabError(f"{method} cannot play {protocol}: it has no setting {missing[0]}")
        if protocol == "balrog-corrected" and "prompt" not in known:
            raise GroundlabError(f"{method} does not read BALROG's prompt: nothing to correct; give --protocol balrog")


def play(
    protocol: str,
    method: str,
    settings: dict[str, Any] | None = None,
    layouts: str | None = None,
    seed: int = 0,
    checkpoint: Checkpoint | None = None,
) -> dict[str, Any]:
    """Play a protocol: what was played, and for each policy of the agent success by kind and in all, with intervals.

    layouts: of each kind, "first-last". Kinds that an agent lacks the actions for are in "left_out", with the reason.
    Raises GroundlabError, one line, where the agent cannot play it at all.
    """
    check(protocol, method)
    worlds = {kind: _world(protocol, method, kind) for kind in KINDS}
    plans = {kind: _settings(protocol, method, world, settings or {}, layouts) for kind, world in worlds.items()}
    left_out = {kind: reason for kind, plan in plans.items() if (reason := _lacks(kind, plan))}
    if len(left_out) == len(plans):
        raise GroundlabError(f"{method} cannot play {protocol}: {next(iter(left_out.values()))}")
    policies: dict[str, list[dict[str, Any]]] = {}
    for kind in [each for each in plans if each not in left_out]:
        for result in registry.evaluate(Request(method, worlds[kind], seed, plans[kind], checkpoint)):
            rows = [{**row, "kind": kind} for row in result["rows"]]
            policies.setdefault(result["policy"], []).append({"world": worlds[kind], **_measured(rows), "rows": rows})
    played = []
    for name, kinds in policies.items():
        rows = [row for each in kinds for row in each.pop("rows")]
        played.append({"policy": name, "in_all": {**_measured(rows), "kind": "in all"}, "kinds": kinds, "rows": rows})
    about = {"protocol": protocol, "method": method, "num_dists": 0, "seed": seed, "left_out": left_out}
    return {**about, "policies": played}


def _world(protocol: str, method: str, kind: str) -> str:
    """Return the world in which an agent plays a kind. Raises GroundlabError where it runs on none of them."""
    for world in KINDS[kind]:
        if world in registry.worlds_of(registry.get(method, world)):
            return world
    raise GroundlabError(f"{method} cannot play {protocol}: it does not run on {' or '.join(KINDS[kind])}")


def _settings(protocol: str, method: str, world: str, given: dict[str, Any], layouts: str | None) -> dict[str, Any]:
    """Return an agent's settings for one kind: its own, except for those that the protocol fixes."""
    known = registry.schema_of(registry.get(method, world)).model_fields
    own = {name: value for name, value in PLAIN.items() if name in known}
    own |= {"layouts": "0-9" if layouts is None else layouts, "num_dists": 0}
    if "prompt" in known:
        own["prompt"] = given.get("prompt", protocol)
    return registry.resolve_settings(method, world, {**given, **own})


def _lacks(kind: str, settings: dict[str, Any]) -> str:
    """Return why an agent has too few actions for a kind; empty where it has enough."""
    space = settings.get("action_space", settings.get("actions", 6))
    count = space if isinstance(space, int) else 6
    return f"{kind} takes {_ACTIONS[kind]} actions, and it has {count}" if count < _ACTIONS[kind] else ""


def _measured(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return success in percent with its 95 % interval, and the means of steps and return."""
    success = success_of(rows)
    means = {name: float(np.mean([row[name] for row in rows])) for name in ("steps", "return")}
    ends = {"success": success.value, "low": success.low, "high": success.high}
    return {"kind": rows[0]["kind"], "episodes": len(rows), **ends, **means}
