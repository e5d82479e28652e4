"""Versions of the results: assembled, renamed once, never written over, published only when they can be trusted."""

import json
from pathlib import Path

import pytest

import groundlab
from groundlab import lab
from groundlab.core import git
from groundlab.core.errors import GroundlabError
from groundlab.lab import machine, versions


@pytest.fixture
def finished_plan(laboratory, rule_entry):
    """A plan at scale quick whose one run is finished, in a clean clone."""
    laboratory.write_config([rule_entry], scale="quick")
    laboratory.commit()
    plan = lab.plan("mediator", scale="quick", results=laboratory.results)
    lab.execute_run(plan.runs[0].spec, plan.folder_of(plan.runs[0]))
    return plan


def _make_version(plan, failed=None):
    folder = versions.begin_version(plan)
    versions.collect(plan, folder)
    return versions.finish_version(plan, folder, failed or {}, "groundlab reproduce")


def test_collecting_copies_records_never_checkpoints_and_twice_is_once(finished_plan, tmp_path):
    folder = lab.collect(finished_plan, tmp_path / "pages")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    assert {file.name for file in files} == {"config.yaml", "metrics.jsonl", "evaluation.json", "manifest.json"}
    stamps = [file.stat().st_mtime_ns for file in files]
    lab.collect(finished_plan, tmp_path / "pages")
    assert [file.stat().st_mtime_ns for file in files] == stamps


def test_a_version_is_named_by_package_scale_date_and_commit(finished_plan):
    version = _make_version(finished_plan)
    package, scale, date, commit = version.name.split("-")
    assert (package, scale, len(date)) == (groundlab.__version__, "quick", 8)
    assert git.facts()["commit"].startswith(commit)


def test_a_version_is_out_of_date_when_a_language_model_that_ships_was_trained_again(laboratory, tmp_path, monkeypatch):
    recipe = tmp_path / "groundlab" / "assets" / "models" / "quick-t5-s0" / "recipe.json"
    recipe.parent.mkdir(parents=True)
    plan = lab.plan("mediator", scale="smoke", results=laboratory.results)
    for part in Path(groundlab.__file__).parent.iterdir():  # the package as it is, but for what ships with it
        if part.name != "assets":
            (tmp_path / "groundlab" / part.name).symlink_to(part)
    monkeypatch.setattr(versions, "package_folder", lambda name: tmp_path / name)
    digests = set()
    for accuracy in (0.5, 0.6):
        recipe.write_text(json.dumps({"probes": {"places": accuracy}}))
        digests.add(versions.version_digest(plan))
    assert len(digests) == 2


def test_the_manifest_says_where_every_number_came_from(finished_plan):
    manifest = json.loads((_make_version(finished_plan) / "manifest.json").read_text())
    assert manifest["git"]["dirty"] is False
    assert manifest["totals"]["runs"] == 1 and manifest["totals"]["failed"] == 0
    assert "configs/mediator/quick.yaml" in manifest["inputs"]
    assert {"numpy", "groundlab"} <= manifest["packages"].keys()
    assert {"cpu", "vector_flags", "blas", "held_to", "cores", "memory_gib", "gpu"} == manifest["hardware"].keys()
    run = manifest["runs"][0]
    assert (run["label"], run["status"], run["error"]) == ("always-SimpleDoorKey-s0", "finished", None)
    assert run["cpu_seconds"] > 0 and run["peak_memory_mib"] > 0


def test_a_dirty_tree_marks_the_name_and_cannot_be_published(finished_plan, laboratory):
    (laboratory.root / "configs" / "note.yaml").write_text("a: 1\n")
    git.facts.cache_clear()
    machine.facts.cache_clear()
    version = _make_version(finished_plan)
    assert version.name.endswith("-dirty")
    with pytest.raises(GroundlabError, match="uncommitted code"):
        lab.publish(version.name, laboratory.results)
