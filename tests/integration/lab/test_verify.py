"""Versions of the results, and a reviewer's sample of one: drawn by a number, run again from nothing, compared."""

import json
import shutil
from pathlib import Path

import pytest
from scipy.stats import hypergeom

import groundlab
from groundlab import lab
from groundlab.core import git, seals, sources, storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import run_folder, verify, versions
from groundlab.lab.plan import outcome_of

from .conftest import ONE_RULE, Laboratory

RULES = ("always", "hard-coded", "on-change", "nothing-changed", "new-object", "random")


@pytest.fixture(scope="module")
def made(tmp_path_factory, forget_root):
    """A plan of six short runs in a clean clone, and the version of them."""
    laboratory = Laboratory(tmp_path_factory.mktemp("laboratory") / "clone", forget_root)
    laboratory.write_config([{**ONE_RULE, "method": method} for method in RULES], scale="quick")
    laboratory.commit()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROUNDLAB_ROOT", str(laboratory.root))
        forget_root()
        plan = lab.plan("mediator", scale="quick", results=laboratory.results)
        for run in plan.runs:
            lab.execute_run(run.spec, plan.folder_of(run))
        folder = versions.begin_version(plan)
        versions.collect(plan, folder)
        yield plan, versions.finish_version(plan, folder, {}, "groundlab reproduce")
    forget_root()


@pytest.fixture
def version(made, tmp_path) -> Path:
    """A copy of the version to change."""
    return shutil.copytree(made[1], tmp_path / made[1].name)


def test_collecting_copies_records_never_checkpoints_and_twice_is_once(made, tmp_path):
    folder = lab.collect(made[0], tmp_path / "pages")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    assert {file.name for file in files} == {"config.yaml", "metrics.jsonl", "evaluation.json", "manifest.json"}
    stamps = [file.stat().st_mtime_ns for file in files]
    lab.collect(made[0], tmp_path / "pages")
    assert [file.stat().st_mtime_ns for file in files] == stamps


def test_a_version_is_named_by_package_scale_date_and_commit_and_by_changes_since(made):
    package, scale, date, commit = made[1].name.split("-")
    assert (package, scale, len(date)) == (groundlab.__version__, "quick", 8)
    assert git.facts()["commit"].startswith(commit)
    note = made[0].results.parent / "configs" / "note.yaml"
    note.write_text("a: 1\n")
    git.facts.cache_clear()
    assert next(versions.version_names(made[0])).endswith(f"{commit}-dirty")
    note.unlink()
    git.facts.cache_clear()


def test_a_version_is_out_of_date_when_a_language_model_that_ships_was_trained_again(made, tmp_path, monkeypatch):
    recipe = tmp_path / "groundlab" / "assets" / "models" / "quick-t5-s0" / "recipe.json"
    recipe.parent.mkdir(parents=True)
    for part in Path(groundlab.__file__).parent.iterdir():  # the package as it is, but for what ships with it
        if part.name != "assets":
            (tmp_path / "groundlab" / part.name).symlink_to(part)
    monkeypatch.setattr(versions, "package_folder", lambda: tmp_path / "groundlab")
    digests = set()
    for accuracy in (0.5, 0.6):
        recipe.write_text(json.dumps({"probes": {"places": accuracy}}))
        digests.add(versions.version_digest(made[0]))
    assert len(digests) == 2


def test_the_manifest_says_where_every_number_came_from(made):
    manifest = storage.read_json(made[1] / "manifest.json")
    assert manifest["git"]["dirty"] is False
    assert manifest["totals"]["runs"] == 6 and manifest["totals"]["failed"] == 0
    assert "configs/mediator/quick.yaml" in manifest["inputs"]
    assert {"numpy", "groundlab"} <= manifest["packages"].keys()
    assert {"cpu", "vector_flags", "blas", "held_to", "cores", "memory_gib", "gpu"} == manifest["hardware"].keys()
    run = manifest["runs"][0]
    assert (run["label"], run["status"], run["error"]) == ("always-SimpleDoorKey-s0", "finished", None)
    assert run["cpu_seconds"] > 0 and run["peak_memory_mib"] > 0


def _falsified(folder):
    """Another evaluation, sealed anew: what only running again can tell."""
    evaluations = storage.read_json(folder / "evaluation.json")
    evaluations[0]["mean"]["steps"] += 1
    storage.write_json(folder / "evaluation.json", evaluations)
    manifest = storage.read_json(folder / "manifest.json")
    storage.write_json(folder / "manifest.json", seals.sealed({**manifest, "records": seals.digests_of(folder)}))
    return storage.read_json(folder / "manifest.json")["seal"]


def _falsify(version, label):
    """Falsify a run of a version, as somebody would who seals all of it anew."""
    (folder,) = (version / "mediator" / "runs").glob(f"{label}-*")
    seal, manifest = _falsified(folder), storage.read_json(version / "manifest.json")
    for run in manifest["runs"]:
        run["seal"] = seal if run["folder"].endswith(folder.name) else run["seal"]
    storage.write_json(version / "manifest.json", seals.sealed(manifest))


def test_a_number_draws_the_same_runs_each_time_and_another_number_others(version):
    samples = {number: [f.name for f, _ in verify.draw(version, 3, number, 999).drawn] for number in range(6)}
    again = {number: [f.name for f, _ in verify.draw(version, 3, number, 999).drawn] for number in range(6)}
    assert samples == again and len(set(map(tuple, samples.values()))) > 1


def test_an_honest_version_is_equal_to_the_byte_packed_or_not_and_a_falsified_run_is_found(version, tmp_path):
    versions.pack_records(version)
    honest = verify.verify(verify.draw(version, 2, 1, 999), tmp_path / "scratch", 1)
    assert (len(honest.equal), honest.differing, honest.failed, honest.changed) == (2, [], [], 0)
    assert honest.lines()[:2] == ["2 of 2 drawn runs are equal to the byte", "2 of them ran now"]


def test_finished_runs_in_the_scratch_store_are_no_evidence_unless_the_call_was_interrupted(
    made, version, tmp_path, monkeypatch
):
    plan, scratch, sample = made[0], tmp_path / "scratch", verify.draw(version, 2, 1, 999)
    runs = [run for run in plan.runs if any(run.hash[:8] in folder.name for folder, _ in sample.drawn)]
    for run in runs:
        shutil.copytree(plan.folder_of(run), run_folder.path_of(scratch, run.hash))
    assert verify.verify(sample, scratch, 1).lines()[1] == "2 of them ran now"
    shutil.rmtree(run_folder.path_of(scratch, runs[0].hash))
    assert verify.verify(sample, scratch, 1).lines()[1] == "1 of them ran now"
    shutil.rmtree(run_folder.path_of(scratch, runs[0].hash))
    monkeypatch.setattr(sources, "digest_of", lambda package: "other")
    monkeypatch.setattr(verify.executor, "run", lambda plan, workers: outcome_of(plan, {}))
    found = verify.verify(sample, scratch, 1)
    assert (found.ran, found.unfinished) == (0, 2), "another code's runs are repeated"


@pytest.mark.parametrize(("settings", "faults"), [({}, 1), ({"device": "cpu"}, 0)], ids=["a rule", "a model"])
def test_no_rounding_explains_a_run_that_trains_nothing(version, settings, faults):
    """The command's exit code is 1 then, as for a run that was made where rounding is the same."""
    (folder,) = (version / "mediator" / "runs").glob("always-*")
    fresh = shutil.copytree(folder, version / "fresh")
    _falsified(folder)
    manifest = {**storage.read_json(folder / "manifest.json"), "rounding": "0" * 16}
    storage.write_json(folder / "manifest.json", seals.sealed(manifest))
    drawn = [(folder, {**manifest, "settings": {**manifest["settings"], **settings}})]
    result = verify.Verification(verify.Sample(version, drawn, 1, 0), same_rounding=False)
    verify._compare(result, folder, fresh)
    assert (len(result.differing), result.faults) == (1, faults)
    assert ("rounding does not explain 1 of the differing runs" in result.lines()) == bool(faults)


def test_a_falsified_run_is_found_though_its_seals_hold(version, tmp_path):
    _falsify(version, "always-SimpleDoorKey-s0")
    found = verify.verify(verify.draw(version, 6, 0, 999), tmp_path / "scratch", 1)
    assert len(found.equal) == 5
    (line,) = found.differing
    assert line.startswith("mediator/always-SimpleDoorKey-s0") and "rule steps" in line
    assert verify.draw(version, 9, 0, 999).candidates == 6, "a sample is no larger than the version"


def test_runs_that_have_another_name_today_are_counted(version, monkeypatch):
    assert verify.names_line(version) == f"{version.name}: all 6 runs have today's names"
    honest = verify.hash_run

    def changed(spec):
        if spec.method == "never":
            raise GroundlabError("its model is gone")
        return "0" * 16 if spec.method in ("always", "on-change") else honest(spec)

    monkeypatch.setattr(verify, "hash_run", changed)
    assert verify.renamed(version) == {"mediator": (2, 6)}
    assert verify.names_line(version).endswith("makes them anew: 2 of 6 of mediator")
    monkeypatch.setattr(verify, "hash_run", lambda spec: changed(spec.model_copy(update={"method": "never"})))
    assert verify.renamed(version) == {"mediator": (6, 6)}, "what cannot be named has no name"


def test_another_rounding_is_told_and_the_evaluations_are_shown(version, tmp_path):
    sample = verify.draw(version, 1, 0, 999)
    folder, manifest = sample.drawn[0]
    sample.drawn[0] = folder, manifest | {"rounding": "0" * 16}
    found = verify.verify(sample, tmp_path / "scratch", 1)
    assert "rounds differently" in "\n".join(found.lines()) and "confidence" not in "\n".join(found.lines())


def test_settings_that_this_code_does_not_know_are_a_failure_with_its_reason(version, tmp_path):
    sample = verify.draw(version, 1, 0, 999)
    folder, manifest = sample.drawn[0]
    sample.drawn[0] = folder, manifest | {"settings": {"no_such": 1}, "changed": {"no_such": 1}}
    found = verify.verify(sample, tmp_path / "scratch", 1)
    assert not found.equal and "no_such" in found.failed[0]


@pytest.mark.parametrize(("total", "drawn", "misses"), [(200, 10, 0), (200, 10, 1), (6, 6, 0), (6, 6, 2), (50, 20, 0)])
def test_the_bound_is_the_largest_number_that_is_not_unlikely(total, drawn, misses, tmp_path):
    sample = verify.Sample(tmp_path, [(tmp_path, {})] * drawn, total, 0)
    found = verify.Verification(sample, True, ["x"] * (drawn - misses), ["y"] * misses)
    bound = found.bound()
    assert hypergeom.cdf(misses, total, bound, drawn) > 0.05
    assert bound == total - (drawn - misses) or hypergeom.cdf(misses, total, bound + 1, drawn) <= 0.05


def test_a_limit_that_no_run_keeps_is_one_line_that_names_another(version):
    with pytest.raises(GroundlabError, match="--at-most"):
        verify.draw(version, 1, 0, -1.0)
