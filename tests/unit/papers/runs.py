"""Runs with given settings, what they leave, and what learners of all papers are checked by."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from groundlab.core.run import Run
from groundlab.papers import registry


def executed(folder: Path, method: str, world: str, seed: int = 0, **settings: object) -> Path:
    """The folder, in which a run of these settings has come to its end."""
    registry.execute(Run(folder, registry.resolve(method, world, seed, settings)))
    return folder


def records(folder: Path) -> list[dict]:
    """The lines of its metrics."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def evaluations(folder: Path) -> list[dict]:
    """Its evaluation, policy by policy."""
    return json.loads((folder / "evaluation.json").read_text())


def goes_on(make_learner: Callable[[], Any], updates: int = 2) -> None:
    """Check that a new learner goes on from another's state to the last bit.

    tests/contract does this to a whole run of every method, with its smoke settings; here are settings under which
    more is carried from one update to the next.
    """
    straight, resumed = make_learner(), make_learner()
    for number in range(1, updates + 1):
        straight.train_step(number)
    resumed.load_state(straight.state())
    told = [json.dumps(learner.train_step(updates + 1)) for learner in (resumed, straight)]
    assert told[0] == told[1]
    ours, theirs = resumed.state(), straight.state()
    assert [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)] == []


def learns_the_smallest_room(make_learner: Callable[..., Any], updates: int, **settings: object) -> None:
    """Check that in a room of 2 x 2 cells episodes get shorter by a quarter, and more of them succeed."""
    small = {"num_envs": 16, "layouts": "0-99", "fixed_mission": "", **settings}
    learner = make_learner("BabyAI-GoToObjS4-v0", **small)
    before = learner.evaluate()[0]["mean"]
    for number in range(1, updates + 1):
        learner.train_step(number)
    after = learner.evaluate()[0]["mean"]
    assert after["steps"] < 0.75 * before["steps"] and after["success"] > before["success"]
