"""What every method of every paper keeps to, by the registry and the smoke configs; nothing here names a method.

A new method is tested here as soon as its paper's smoke.yaml has a row for it.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from groundlab import worlds
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.core.run import Progress, Run, RunSpec, load_checkpoint
from groundlab.lab import config
from groundlab.papers import registry
from groundlab.papers.glam import settings as glam_settings
from groundlab.papers.method import Request

UPDATES = 3
SMALL: dict[str, Any] = {
    # of the settings that a method has, so that every learner does three updates of some frames
    "num_envs": 4, "frames_per_env": 8, "frames": 96, "iterations": UPDATES, "recurrence": 4, "batch_size": 16,
    "steps": 8, "minibatch_size": 4, "steps_per_record": 2, "held_out": 16, "record_every": 64, "trajectories": 2,
    "layouts": "0-1", "test_every": 2, "curve_layouts": "200", "max_new_tokens": 12, "invalid_limit": 1,
}  # fmt: skip
CLOCKS = ("timing.jsonl", "log.txt", "tensorboard")


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


def _small(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with all defaults, made small; those inside others (a teacher's) too."""
    return {
        name: _small(value) if isinstance(value, dict) else SMALL.get(name, value) for name, value in settings.items()
    }


@pytest.fixture
def spec(name, monkeypatch) -> RunSpec:
    """The run of a row, made small."""
    monkeypatch.setattr(glam_settings, "FRAMES_PER_RECORD", 32)
    method, world, settings = ROWS[name]
    return registry.resolve(method, world, 0, _small(registry.resolve(method, world, 0, settings).settings))


class Killed(Exception):
    """What ends a session as `kill -9` would: the record of a step is written, its checkpoint is not."""


def _session(folder: Path, spec: RunSpec, killed: bool) -> bool:
    """Go on with a run, killed in its second step or stopped after its first; whether it came to its end."""
    steps: list[Progress] = []

    def report(progress: Progress) -> None:
        steps.append(progress)
        if killed and len(steps) == 2:
            raise Killed

    try:
        registry.execute(Run(folder, spec, report=report, stop=lambda: not killed))
    except (Killed, Unfinished):
        return False
    return True


def _files(folder: Path) -> dict[str, bytes]:
    """All that a run leaves, checkpoints, datasets and a teacher's run among it, but for clock readings."""
    files = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if not set(CLOCKS) & set(Path(name).parts)}


def test_every_method_has_a_row_at_smoke():
    known = {(paper, method.name) for paper, method in registry.methods()}
    assert known == {(registry.paper_of(method, world), method) for method, world, _ in ROWS.values()}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_keeps_its_contract(spec, tmp_path):
    """Killed and stopped in turn equals uninterrupted; a finite record a step; the last checkpoint plays as stored."""
    whole, interrupted = tmp_path / "whole", tmp_path / "interrupted"
    registry.execute(Run(whole, spec))
    sessions = 1
    while not _session(interrupted, spec, killed=sessions % 2 == 1):
        sessions += 1
        assert sessions < 10, "a session gets no further than the one before"
    log = (interrupted / "log.txt").read_text()
    assert all(f"resumed at iteration {step}\n" in log for step in range(1, UPDATES))
    ours, theirs = _files(interrupted), _files(whole)
    assert [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)] == []
    assert any(name.startswith(f"checkpoint/{UPDATES}/") for name in theirs)

    records = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    numbers = [value for record in records for value in record.values() if isinstance(value, float)]
    assert numbers and all(math.isfinite(value) for value in numbers)
    assert [record["iteration"] for record in records if record["iteration"]] == list(range(1, UPDATES + 1))

    request = Request(spec.method, spec.world, spec.seed, spec.settings, load_checkpoint(whole))
    stored = json.loads((whole / "evaluation.json").read_text())
    assert json.loads(json.dumps(registry.evaluate(request))) == stored


FIRST = {ROWS[name][0]: name for name in reversed(LEARNERS)}.values()  # one row of each method


@pytest.mark.parametrize("name", FIRST)
def test_a_loss_that_is_no_number_ends_a_run_in_one_line_that_names_the_rate(spec, tmp_path):
    for settings in (spec.settings, spec.settings.get("teacher") or {}):
        settings |= dict.fromkeys({"lr", "learning_rate"} & settings.keys(), 1e30)
    with pytest.raises(GroundlabError, match=r"loss.* (lr|learning_rate) .*1e\+30") as error:
        registry.execute(Run(tmp_path, spec))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", sorted(set(ROWS) - set(LEARNERS)))
def test_a_rule_gives_the_same_evaluation_twice(spec, tmp_path):
    for folder in ("first", "second"):
        registry.execute(Run(tmp_path / folder, spec))
    first, second = (json.loads((tmp_path / each / "evaluation.json").read_text()) for each in ("first", "second"))
    assert first == second and all(each["rows"] and each["mean"] for each in first)
