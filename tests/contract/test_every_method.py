"""What every method of every paper keeps to, by the registry and the smoke configs; nothing here names a method.

A new method is tested here as soon as its paper's smoke.yaml has a row for it.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from groundlab import worlds
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.core.run import Run, RunSpec, load_checkpoint
from groundlab.lab import config
from groundlab.papers import registry
from groundlab.papers.method import Request

RECORDS = ("metrics.jsonl", "evaluation.json")


def _rows() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """One row a method, and one for each form of those that have several: the first of a paper's smoke config."""
    rows: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for paper in config.known_papers():
        for entry in config.load(paper, "smoke").runs:
            if registry.paper_of(entry.method, entry.worlds[0]) == paper:
                family = worlds.family_of(entry.worlds[0]).name
                name = " ".join(filter(None, (entry.method, str(entry.settings.get("form", "")), family)))
                rows.setdefault(name, (entry.method, entry.worlds[0], entry.settings))
    return rows


ROWS = _rows()
LEARNERS = [name for name, (method, world, _) in ROWS.items() if registry.get(method, world).learns]


def _spec(name: str) -> RunSpec:
    method, world, settings = ROWS[name]
    return registry.resolve(method, world, 0, settings)


def _records(folder: Path) -> dict[str, bytes]:
    """What is compared byte for byte: the records, and the files of the newest checkpoint."""
    newest = max((folder / "checkpoint").iterdir(), key=lambda path: int(path.name), default=None)
    state = {file.name: file.read_bytes() for file in newest.iterdir()} if newest else {}
    return {name: (folder / name).read_bytes() for name in RECORDS} | state


def test_every_method_has_a_row_at_smoke():
    known = {(paper, method.name) for paper, method in registry.methods()}
    assert known == {(registry.paper_of(method, world), method) for method, world, _ in ROWS.values()}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_keeps_its_contract(name, tmp_path):
    """Killed equals uninterrupted; a finite record a step; the last checkpoint plays as the stored evaluation."""
    spec, whole, killed = _spec(name), tmp_path / "whole", tmp_path / "killed"
    steps: list[int] = []

    def copy_in_the_middle(progress):
        """What a kill leaves on the disk: the record of this step is written, its checkpoint is not."""
        steps.append(progress.step)
        if len(steps) == max(1, progress.total // 2) and not killed.exists():
            shutil.copytree(whole, killed)

    registry.execute(Run(whole, spec, report=copy_in_the_middle))
    registry.execute(Run(killed, spec))
    assert _records(killed) == _records(whole)

    records = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    numbers = [value for record in records for value in record.values() if isinstance(value, float)]
    assert records and numbers and all(math.isfinite(value) for value in numbers)
    assert [record["iteration"] for record in records if record["iteration"]] == list(range(1, steps[-1] + 1))

    request = Request(spec.method, spec.world, spec.seed, spec.settings, load_checkpoint(whole))
    stored = json.loads((whole / "evaluation.json").read_text())
    assert json.loads(json.dumps(registry.evaluate(request))) == stored


@pytest.mark.parametrize("name", [name for name in LEARNERS if "oracle" in name])  # quick, and of three updates
def test_a_learner_that_is_asked_to_stop_saves_and_goes_on(name, tmp_path):
    spec, steps = _spec(name), []
    with pytest.raises(Unfinished):
        registry.execute(Run(tmp_path, spec, report=lambda progress: steps.append(1), stop=lambda: bool(steps)))
    saved = load_checkpoint(tmp_path).step
    registry.execute(Run(tmp_path, spec))
    assert f"resumed at iteration {saved}" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize("name", sorted(set(ROWS) - set(LEARNERS)))
def test_a_rule_gives_the_same_evaluation_twice(name, tmp_path):
    spec = _spec(name)
    for folder in ("first", "second"):
        registry.execute(Run(tmp_path / folder, spec))
    first, second = (json.loads((tmp_path / each / "evaluation.json").read_text()) for each in ("first", "second"))
    assert first == second and all(each["rows"] and each["mean"] for each in first)


@pytest.mark.parametrize("name", ROWS)
def test_an_unknown_setting_is_one_line_that_names_it(name):
    method, world, _ = ROWS[name]
    with pytest.raises(GroundlabError, match="no_such_setting") as error:
        registry.resolve_settings(method, world, {"no_such_setting": 1})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ROWS)
def test_an_unknown_world_is_one_line(name):
    method, _, _ = ROWS[name]
    with pytest.raises(GroundlabError) as error:
        registry.check_world(method, "BabyAI-GoToLocl-v0")
    assert "\n" not in str(error.value)
