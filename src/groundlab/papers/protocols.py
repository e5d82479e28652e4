"""Benchmarks of other people, for any agent of this package: `groundlab evaluate METHOD --protocol balrog`.

    outcome = play("balrog", "random", layouts="0-49")
    outcome["policies"][0]["kinds"]        # success by kind of task, each with its interval

BALROG (Paglieri et al., ICLR 2025), task BabyAI: five kinds of task of BabyAI-MixedTrainLocal-v0, the kind fixed, no
distractors, ten episodes a kind, each to its level's own time limit (64 steps, or 128). "balrog-corrected" is the same
with a prompt that does not mislead (docs/papers/worlds.md#later-work).

LLM-BabyBench's tasks are "babybench-predict", "babybench-plan" and "babybench-decompose" (`papers/babybench`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.run import Checkpoint
from groundlab.papers import babybench, registry
from groundlab.papers.method import Request
from groundlab.report.statistics import success_of


@dataclass(frozen=True)
class Protocol:
    """One test: kinds of task, each in the first of its worlds that an agent runs on."""

    name: str
    kinds: dict[str, tuple[str, ...]]
    """By kind, the names that one and the same level has in different papers."""
    num_dists: int | None = None
    layouts: str = ""
    prompt: str = ""
    """The prompt of agents that are given the rules; others have prompts of their own."""
    task: str = ""
    """Of babybench's, whose questions no agent plays as its own."""


_LEVELS = {
    "goto": "GoTo",
    "pickup": "Pickup",
    "open": "Open",
    "putnext": "PutNext",
    "pick_up_seq_go_to": "PickUpSeqGoTo",
}
_KINDS = {kind: (f"BabyAI-MixedTrainLocal-v0/{kind}", f"Reasoning-{level}-v0") for kind, level in _LEVELS.items()}
_ACTIONS = {"goto": 3, "pickup": 4, "open": 6, "putnext": 5, "pick_up_seq_go_to": 4}  # of the first six, that it takes
PROTOCOLS = {
    name: Protocol(name, _KINDS, num_dists=0, layouts="0-9", prompt=name) for name in ("balrog", "balrog-corrected")
}
PROTOCOLS |= {
    f"babybench-{task}": Protocol(f"babybench-{task}", {level: (level,) for level in levels}, task=task)
    for task, levels in babybench.WORLDS.items()
}
_PLAIN: dict[str, Any] = {"tests": [], "first_finished": 0, "fixed_mission": "", "swapped": False}  # no other tests


def check(protocol: str, method: str) -> Protocol:
    """The protocol of that name. Raises GroundlabError, one line, where an agent cannot play it, whatever its settings.

    It must run on a world of each kind, leave out distractors, and get the prompt where that is the point.
    """
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    test = PROTOCOLS[protocol]
    if test.task:
        babybench.check_method(protocol, method)
        return test
    for kind in test.kinds:
        known = registry.schema_of(registry.get(method, _world(test, method, kind))).model_fields
        if missing := [name for name in ("layouts", "num_dists") if name not in known]:
            raise GroundlabError(f"{method} cannot play {protocol}: it has no setting {missing[0]}")
        if protocol == "balrog-corrected" and "prompt" not in known:
            raise GroundlabError(f"{method} does not read BALROG's prompt: nothing to correct; give --protocol balrog")
    return test


def play(
    protocol: str,
    method: str,
    settings: dict[str, Any] | None = None,
    layouts: str | None = None,
    seed: int = 0,
    checkpoint: Checkpoint | None = None,
    world: str | None = None,
    record: Path | None = None,
) -> dict[str, Any]:
    """Play a protocol: what was played, and for each policy of the agent success by kind and in all, with intervals.

    layouts: of each kind, "first-last". Kinds that an agent lacks the actions for are in "left_out", with the reason.
    world, record: for babybench (`babybench.play`).
    Raises GroundlabError, one line, where the agent cannot play it at all.
    """
    test = check(protocol, method)
    if test.task:
        return babybench.play(test.task, method, settings, layouts, seed, world, record)
    plans = {kind: _settings(test, method, _world(test, method, kind), settings or {}, layouts) for kind in test.kinds}
    left_out = {kind: reason for kind, plan in plans.items() if (reason := _lacks(kind, plan))}
    if len(left_out) == len(plans):
        raise GroundlabError(f"{method} cannot play {protocol}: {next(iter(left_out.values()))}")
    policies: dict[str, list[dict[str, Any]]] = {}
    for kind in [each for each in plans if each not in left_out]:
        world = _world(test, method, kind)
        for result in registry.evaluate(Request(method, world, seed, plans[kind], checkpoint)):
            rows = [{**row, "kind": kind} for row in result["rows"]]
            policies.setdefault(result["policy"], []).append({"world": world, **_measured(rows), "rows": rows})
    about = {"protocol": protocol, "method": method, "num_dists": test.num_dists, "seed": seed, "left_out": left_out}
    played = []
    for name, kinds in policies.items():
        rows = [row for each in kinds for row in each.pop("rows")]
        played.append({"policy": name, "in_all": {**_measured(rows), "kind": "in all"}, "kinds": kinds, "rows": rows})
    return {**about, "policies": played}


def _world(test: Protocol, method: str, kind: str) -> str:
    """The world in which an agent plays a kind. Raises GroundlabError where it runs on none of them."""
    for world in test.kinds[kind]:
        if world in registry.worlds_of(registry.get(method, world)):
            return world
    raise GroundlabError(f"{method} cannot play {test.name}: it does not run on {' or '.join(test.kinds[kind])}")


def _settings(test: Protocol, method: str, world: str, given: dict[str, Any], layouts: str | None) -> dict[str, Any]:
    """The settings of an agent for one kind: its own, but for what the protocol says."""
    known = registry.schema_of(registry.get(method, world)).model_fields
    own = {name: value for name, value in _PLAIN.items() if name in known}
    own |= {"layouts": test.layouts if layouts is None else layouts, "num_dists": test.num_dists}
    if "prompt" in known:
        own["prompt"] = given.get("prompt", test.prompt)
    return registry.resolve_settings(method, world, {**given, **own})


def _lacks(kind: str, settings: dict[str, Any]) -> str:
    """Why an agent has too few actions for a kind; empty where it has enough."""
    space = settings.get("action_space", settings.get("actions", 6))
    count = space if isinstance(space, int) else 6
    return f"{kind} takes {_ACTIONS[kind]} actions, and it has {count}" if count < _ACTIONS[kind] else ""


def _measured(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Success in percent with its 95 % interval, and the means of steps and return."""
    success = success_of(rows)
    means = {name: float(np.mean([row[name] for row in rows])) for name in ("steps", "return")}
    ends = {"success": success.value, "low": success.low, "high": success.high}
    return {"kind": rows[0]["kind"], "episodes": len(rows), **ends, **means}
