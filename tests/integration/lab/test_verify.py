"""A reviewer's sample: drawn by a number, run again from nothing, compared with what is stored."""

import json

import pytest
from scipy.stats import hypergeom

from groundlab import lab
from groundlab.core import seals, storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import verify, versions

RULES = ("always", "hard-coded", "on-change", "nothing-changed", "new-object", "random")


@pytest.fixture
def version(laboratory, rule_entry):
    """A version of six short runs."""
    laboratory.write_config([{**rule_entry, "method": method} for method in RULES], scale="quick")
    laboratory.commit()
    plan = lab.plan("mediator", scale="quick", results=laboratory.results)
    for run in plan.runs:
        lab.execute_run(run.spec, plan.folder_of(run))
    folder = versions.begin_version(plan)
    versions.collect(plan, folder)
    return versions.finish_version(plan, folder, {}, "groundlab reproduce")


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
    assert honest.lines()[0] == "2 of 2 drawn runs are equal to the byte"


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
    sample.drawn[0] = folder, json.loads(json.dumps(manifest)) | {"settings": {"no_such": 1}}
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
