"""Versions of the results, and a reviewer's sample of one: drawn by a number, run again from nothing, compared."""

import json
import shutil
from pathlib import Path

import made_up
import pytest
from scipy.stats import hypergeom

import groundlab
from groundlab import lab
from groundlab.core import git, sources
from groundlab.core.errors import GroundlabError
from groundlab.core.versions import Version
from groundlab.lab import run_folder, verify, versions
from groundlab.lab.comparison import Comparison, Difference
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
        versions.make_version(plan, folder, {}, "groundlab reproduce")
        yield plan, versions.finish_version(plan, folder)
    forget_root()


@pytest.fixture
def version(made, tmp_path) -> Version:
    """A copy of the version to change."""
    return Version(shutil.copytree(made[1], tmp_path / made[1].name))


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


def test_a_version_says_where_every_number_came_from(version):
    facts = version.facts
    assert facts["git"]["dirty"] is False
    assert facts["totals"]["finished"] == 6 and facts["totals"]["failed"] == 0
    assert "configs/mediator/quick.yaml" in facts["inputs"]
    run = version.runs()[0]
    for origin in (facts, run):
        assert {"numpy", "torch", "groundlab"} <= origin["packages"].keys()
        assert {"cpu", "vector_flags", "blas", "held_to", "cores", "memory_gib", "gpu"} == origin["hardware"].keys()
    assert (run["label"], run["status"], run["error"]) == ("always-SimpleDoorKey-s0", "finished", None)
    assert run["cpu_seconds"] > 0 and run["peak_memory_mib"] > 0


def _falsify(version: Version, method: str) -> Version:
    """Another evaluation of a method's runs, with its digest: what only running again can tell."""

    def change(run, records):
        if run["method"] == method:
            evaluations = json.loads(records["evaluation.json"])
            evaluations[0]["mean"]["steps"] += 1
            records["evaluation.json"] = json.dumps(evaluations).encode()

    made_up.rewrite(version.folder, change)
    return Version(version.folder)


def _drawn(version: Version, count: int, number: int = 0) -> list[dict]:
    return verify.draw(version, count, number, 999)[0]


def test_a_number_draws_the_same_runs_each_time_and_another_number_others(version):
    samples, again = (
        {number: [run["name"] for run in _drawn(version, 3, number)] for number in range(6)} for _ in "ab"
    )
    assert samples == again and len(set(map(tuple, samples.values()))) > 1


def test_an_honest_version_is_equal_to_the_byte(version, tmp_path):
    found, unfinished = verify.verify(version, _drawn(version, 2, 1), tmp_path / "scratch", 1)
    assert (found.lines(), unfinished) == (["2 runs are equal to the byte, 0 differ"], 0)


def test_finished_runs_in_the_scratch_store_are_no_evidence_unless_the_call_was_interrupted(
    made, version, tmp_path, monkeypatch
):
    plan, scratch, drawn, pending = made[0], tmp_path / "scratch", _drawn(version, 2, 1), []
    run = verify.executor.run
    monkeypatch.setattr(verify.executor, "run", lambda plan, *_: pending.append(len(plan.pending())) or run(plan, 1))
    for each in plan.runs:
        if any(each.hash == stored["hash"] for stored in drawn):
            shutil.copytree(plan.folder_of(each), run_folder.path_of(scratch, each.hash))
    verify.verify(version, drawn, scratch)
    shutil.rmtree(run_folder.path_of(scratch, drawn[0]["hash"]))
    verify.verify(version, drawn, scratch)
    shutil.rmtree(run_folder.path_of(scratch, drawn[0]["hash"]))
    monkeypatch.setattr(sources, "digest_of", lambda package: "other")
    monkeypatch.setattr(verify.executor, "run", lambda plan, *_: outcome_of(plan, {}))
    assert verify.verify(version, drawn, scratch)[1] == 2, "another code's runs are repeated"
    assert pending == [2, 1]


@pytest.mark.parametrize(("settings", "cause"), [({}, ""), ({"device": "cpu"}, "rounding")], ids=["a rule", "a model"])
def test_no_rounding_explains_a_run_that_trains_nothing(version, settings, cause):
    """The command's exit code is 1 then, as for a run that was made where rounding is the same."""
    (run,) = (run for run in version.runs() if run["method"] == "always")
    (stored,) = (run for run in _falsify(version, "always").runs() if run["method"] == "always")
    stored |= {"rounding": "0" * 16, "settings": {**stored["settings"], **settings}}
    (found := Comparison()).add(run, stored)
    assert [each.cause for each in found.differing] == [cause]


def test_a_falsified_run_is_found_though_its_digests_hold(version, tmp_path):
    version = _falsify(version, "always")
    drawn, candidates = verify.draw(version, 9, 0, 999)
    assert len(drawn) == candidates == 6, "a sample has at most all runs of the version"
    found, _ = verify.verify(version, drawn, tmp_path / "scratch", 1)
    assert len(found.equal) == 5
    (line,) = (line for line in found.lines() if line.startswith("differs: always-SimpleDoorKey-s0"))
    assert "evaluation.json; rule steps" in line and ", stored" in line


def test_runs_that_have_another_name_today_are_counted(version, monkeypatch):
    assert verify.names_line(version) == f"{version.name}: all 6 runs have today's names"
    honest = verify.hash_run

    def changed(spec):
        if spec.method == "never":
            raise GroundlabError("its model is gone")
        return "0" * 16 if spec.method in ("always", "on-change") else honest(spec)

    monkeypatch.setattr(verify, "hash_run", changed)
    assert verify.names_line(version).endswith("repeats them: 2 of 6 of mediator")
    monkeypatch.setattr(verify, "hash_run", lambda spec: changed(spec.model_copy(update={"method": "never"})))
    assert verify.names_line(version).endswith("6 of 6 of mediator"), "what cannot be named has no name"


def test_settings_that_this_code_does_not_know_are_a_failure_with_its_reason(version, tmp_path):
    (stored,) = _drawn(version, 1)
    stored |= {"settings": {"no_such": 1}, "changed": {"no_such": 1}}
    found, _ = verify.verify(version, [stored], tmp_path / "scratch", 1)
    assert not found.equal and "no_such" in found.failed[0]


@pytest.mark.parametrize(("total", "drawn", "misses"), [(200, 10, 0), (200, 10, 1), (6, 6, 0), (6, 6, 2), (50, 20, 0)])
def test_the_bound_is_the_largest_number_that_is_not_unlikely(total, drawn, misses):
    found = Comparison(equal=["x"] * (drawn - misses), differing=[Difference("y", "log", "")] * misses)
    bound = verify.bound(found, total)
    assert hypergeom.cdf(misses, total, bound, drawn) > 0.05
    assert bound == total - (drawn - misses) or hypergeom.cdf(misses, total, bound + 1, drawn) <= 0.05


def test_a_limit_that_no_run_keeps_is_one_line_that_names_another(version):
    with pytest.raises(GroundlabError, match="--at-most"):
        verify.draw(version, 1, 0, -1.0)
