"""Stored runs made up for these tests: the files that methods and the laboratory write, with chosen numbers."""

import shutil
from pathlib import Path

import made_up
import numpy as np
import pytest
from made_up import evaluation

from groundlab.core import storage
from groundlab.papers.mediator.settings import Fidelity
from groundlab.report import Review, judge, review, style

HEAD = {
    "plans": "head",
    "planner": "scripted",
    "ask_lambda": 0.01,
    "epsilon": 0.0,
    "fidelity": Fidelity().model_dump(mode="json"),
}
TRAINED = {**HEAD, "anneal_from": 0.75}
FAILS = (3, 61, 63, 76, 84, 95)


def row(layout: int, steps: int, success: bool, interactions: int) -> dict:
    reward = 1 - 0.9 * steps / 100 if success else 0.0
    facts = {"layout": layout, "steps": steps, "success": success, "return": reward - 0.01 * interactions}
    return {**facts, "game_return": reward, "interactions": interactions}


def store_run(
    folder: Path,
    method: str,
    world: str,
    seed: int,
    evaluations: list,
    metrics: list,
    settings: dict | None = None,
    arm: str = "",
    label: str = "",
) -> None:
    facts = {"wall_seconds": 1.5, "cpu_seconds": 1.4, "arm": arm or method, "arm_label": label}
    made_up.store_run(folder, "mediator", method, world, seed, evaluations, metrics, settings or HEAD, **facts)


def store_rule(folder: Path, method: str, world: str, interactions: int, fails=(), seed=0, plans="head") -> None:
    """A rule that asks so often in every episode and takes 30 steps, or fails after 100."""
    rows = [row(layout, 100 if layout in fails else 30, layout not in fails, interactions) for layout in range(100)]
    settings = {**HEAD, "plans": plans, "probability": 0.5}
    store_run(folder, method, world, seed, [evaluation("rule", rows)], [{"iteration": 1}], settings)


def store_trained(folder: Path, world: str, seed: int, iterations: int = 20) -> None:
    """A policy that learns to ask 3 or 4 times; its argmax fails on a third of the layouts on the way."""
    rng = np.random.default_rng(seed)
    sampled = evaluation("sampled", [row(layout, 30, True, int(rng.integers(3, 5))) for layout in range(100)])
    argmax = evaluation("argmax", [row(layout, 30, layout % 3 > 0, 2) for layout in range(100)])
    metrics = []
    for iteration in range(1, iterations + 1):
        record = {"iteration": iteration, "timesteps": 300 * iteration, "steps": 30.0, "success": 1.0, "return": 0.7}
        record["interactions"] = 4 + 10 / iteration + float(rng.random())
        if iteration % 10 == 0:
            record["test"] = {"sampled": sampled["mean"], "argmax": argmax["mean"]}
        metrics.append(record)
    store_run(folder, "mediator", world, seed, [sampled, argmax], metrics, TRAINED)


@pytest.fixture(autouse=True, scope="session")
def coarse():
    """Figures of fewer dots, and PDFs without subsets of fonts, which take as long as the drawing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", 40)
        patch.setitem(style._RC, "pdf.fonttype", 3)
        yield


@pytest.fixture(scope="session")
def stored(tmp_path_factory) -> Path:
    """A small results folder at scale quick to read: two worlds, rules, five trained seeds; once the planner errs."""
    return write_results(tmp_path_factory.mktemp("stored"))


@pytest.fixture
def results(stored: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    return shutil.copytree(stored, tmp_path / stored.name)


@pytest.fixture(scope="session")
def reviewed(stored: Path, tmp_path_factory) -> Review:
    """The review of a copy, for tests that only read it."""
    return review(shutil.copytree(stored, tmp_path_factory.mktemp("reviewed") / stored.name))


@pytest.fixture(scope="module")
def published_results(stored: Path, tmp_path_factory) -> Path:
    """A results folder with one such version, judged and published at quick, without its pages."""
    version = shutil.copytree(stored, tmp_path_factory.mktemp("published") / stored.name)
    storage.write_json(version / "claims.json", [each.as_json() for each in judge(version, "mediator")])
    storage.write_json(version.parent / "reference.json", {"mediator": {"quick": version.name}})
    return version.parent


@pytest.fixture(scope="module")
def sealed_version(tmp_path_factory) -> Path:
    """A whole version of a rule and two trained seeds, to be copied."""
    home = tmp_path_factory.mktemp("results") / "0.1.0-quick-20260101-abcdef1"
    for seed in range(2):
        store_trained(home, "SimpleDoorKey", seed, iterations=10)
    store_rule(home, "always", "SimpleDoorKey", 30)
    return home


def write_results(home: Path) -> Path:
    """Write the folder of `results`."""
    folder = home / "0.1.0-quick-20260101-abcdef1"
    for world in ("SimpleDoorKey", "RandomBoxKey"):
        store_rule(folder, "hard-coded", world, 2, fails=range(0, 82, 2))
        store_rule(folder, "always", world, 30, fails=FAILS if world == "RandomBoxKey" else ())
        store_rule(folder, "random", world, 14)
        store_rule(folder, "on-change", world, 5)
        for seed in range(5):
            store_trained(folder, world, seed)
    rows = [row(layout, 40, True, 6) for layout in range(100)]
    errs = {"settings": {**HEAD, "epsilon": 0.1}, "arm": "on-change/epsilon/0.1", "label": "epsilon=0.1"}
    store_run(folder, "on-change", "KeyInBox", 0, [evaluation("rule", rows)], [{"iteration": 1}], **errs)
    return folder
