"""Versions of the results: assembled, killed on the way, found, taken over, published, compared."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.versions import Version
from groundlab.lab import comparison, run_folder, versions
from groundlab.lab.config import Estimate
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.report import judging, records
from groundlab.report.claims import Claim

reproduce = sys.modules["groundlab.lab.reproduce"]  # its name in the package is the function
SEEDS = 3
CLEAN = {"commit": "a" * 40, "dirty": False}


@pytest.fixture(scope="module")
def store(laboratory, tmp_path_factory) -> Path:
    """A results folder whose store holds three finished runs, of committed code."""
    home = tmp_path_factory.mktemp("store")
    for seed in range(SEEDS):
        laboratory.spec = laboratory.spec.model_copy(update={"seed": seed})
        facts = laboratory.run(folder := run_folder.path_of(home, f"{seed:016x}"))
        storage.write_json(folder / "manifest.json", {**facts, "git": CLEAN})
    return home


@pytest.fixture
def plan(laboratory, store, tmp_path, monkeypatch) -> Plan:
    """A plan of these runs, in a copy of that store."""
    shutil.copytree(store, tmp_path / "results")
    monkeypatch.setattr(versions, "version_digest", lambda plan: "d" * 64)
    monkeypatch.setattr(versions, "_inputs", lambda plan: {})
    specs = [laboratory.spec.model_copy(update={"seed": seed}) for seed in range(SEEDS)]
    cost = Estimate(seconds=1, megabytes=1)
    runs = tuple(PlannedRun(spec, "mediator", f"{spec.seed:016x}", cost, "finished") for spec in specs)
    experiment = SimpleNamespace(paper="mediator", notebooks=[], shared={}, not_run=[])
    return Plan("quick", (experiment,), runs, tmp_path / "results")  # type: ignore[arg-type]


def assemble(plan: Plan, **facts) -> Path:
    """A version of a plan, of committed code or of what is said otherwise."""
    folder = versions.begin_version(plan)
    versions.make_version(plan, folder, {}, "groundlab reproduce")
    version = Version(folder)
    storage.write_json(folder / "version.json", {**version.facts, "git": CLEAN, **facts})
    return versions.finish_version(plan, folder)


def contents(version: Path) -> dict[str, bytes]:
    """Every file of the runs of a version."""
    return {str(file.relative_to(version)): file.read_bytes() for file in version.glob("*/runs/*")}


def hurt(version: Path) -> Path:
    """Other bytes in the place of a record."""
    (file,) = version.glob("mediator/runs/always-*.zip")
    file.write_bytes(file.read_bytes()[:-100])
    return file


def alter(folder: Path, **facts) -> None:
    """Give a stored run another evaluation and other facts."""
    evaluations = storage.read_json(folder / "evaluation.json")
    evaluations[0]["mean"]["success"] = 0.5
    storage.write_json(folder / "evaluation.json", evaluations)
    records = run_folder._digests_of(folder)
    storage.write_json(
        folder / "manifest.json", {**storage.read_json(folder / "manifest.json"), "records": records, **facts}
    )


def test_a_version_that_was_made_from_other_runs_is_not_found(plan, tmp_path):
    """As a clone brings the published version: of the same plan, and without the runs that it was made from."""
    version = assemble(plan)
    clone = dataclasses.replace(plan, results=tmp_path / "clone")
    shutil.copytree(version, clone.results / version.name)
    assert versions.find_version(clone) is None
    versions.take_finished(clone, version)
    assert versions.find_version(clone) == clone.results / version.name
    alter(clone.folder_of(clone.runs[0]))
    assert versions.find_version(clone) is None, "one of its runs was made again since"


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_version_that_git_tracks_is_not_found(plan):
    version = assemble(plan)
    for command in (["init", "-q"], ["add", "-f", version.name]):
        assert versions.find_version(plan) == version
        subprocess.run(["git", "-C", str(plan.results), *command], check=True)
    assert versions.find_version(plan) is None


def test_a_run_of_the_store_with_a_damaged_record_is_not_finished_or_refused(plan):
    file = plan.folder_of(plan.runs[1]) / "evaluation.json"
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"3", b"4"))
    with pytest.raises(GroundlabError, match=r"evaluation\.json has changed since it was written; delete"):
        assemble(plan)
    file.write_text("[]")
    assert plan.pending() == [plan.runs[1]]
    planned = Version(assemble(plan)).planned
    assert [run["status"] for run in planned] == ["finished", "missing", "finished"]


def _of_a_failed_run(plan: Plan) -> Path:
    file = plan.folder_of(plan.runs[0]) / "manifest.json"
    storage.write_json(file, {**storage.read_json(file), "status": "failed", "error": "broken"})
    version = assemble(plan)
    assert Version(version).planned[0]["error"] == "broken"
    return version


def _changed(**facts):
    return lambda plan: assemble(dataclasses.replace(plan, **facts))


REFUSED = {
    "damaged": (lambda plan: hurt(assemble(plan)).parents[2], r"\.zip is damaged or missing; git checkout"),
    "with a failed run": (_of_a_failed_run, "1 failed runs"),
    "a smoke result": (_changed(scale="smoke"), "never published"),
    "of an experiment alone": (_changed(alone=("row",)), "holds the experiment row alone"),
    "of some methods": (_changed(part=True), "holds a part of its paper"),
    "of uncommitted code": (lambda plan: assemble(plan, git={**CLEAN, "dirty": True}), "uncommitted code"),
    "of unknown code": (lambda plan: assemble(plan, git={**CLEAN, "dirty": None}), "or git could not say"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_whole_version_is_not_published(what, plan):
    make, reason = REFUSED[what]
    with pytest.raises(GroundlabError, match=reason):
        versions.publish(make(plan).name, plan.results)
    assert not list(plan.results.rglob("reference.json"))


def test_publishing_names_the_version_per_paper_and_scale_and_an_unknown_one_is_answered_with_the_nearest(plan):
    version = assemble(plan)
    assert storage.read_json(versions.publish(version.name, plan.results)) == {"mediator": {"quick": version.name}}
    with pytest.raises(GroundlabError, match=f"did you mean '{version.name}'"):
        versions.publish(version.name[:-1], plan.results)


@pytest.mark.parametrize("dirty", [True, None, "in its first session"])
def test_a_version_with_a_run_of_uncommitted_code_is_not_published(plan, dirty):
    """Whatever the version's own commit says."""
    file = plan.folder_of(plan.runs[1]) / "manifest.json"
    manifest = storage.read_json(file)
    if dirty in (True, None):
        manifest["git"] = {**CLEAN, "dirty": dirty}
    else:
        manifest["history"].insert(0, {**manifest["history"][0], "git": {**CLEAN, "dirty": True}})
    storage.write_json(file, manifest)
    version = assemble(plan)
    with pytest.raises(GroundlabError, match=r"1 runs of .*-s1-.* were made from uncommitted code"):
        versions.publish(version.name, plan.results)
    storage.write_json(plan.results / "reference.json", {"mediator": {"quick": version.name}})
    versions.publish(version.name, plan.results)  # one that was published before is judged anew, and its page tells it


def test_runs_are_taken_over_from_a_whole_version_only_with_what_it_keeps_of_them(plan, tmp_path):
    first = dataclasses.replace(plan.runs[0], keep=("knowledge",))
    plan = dataclasses.replace(plan, runs=(first, *plan.runs[1:]))
    storage.write_atomic(plan.folder_of(first) / "knowledge" / "labels.json", b"[1]")
    version, fresh = assemble(plan), dataclasses.replace(plan, results=tmp_path / "elsewhere")
    assert versions.take_finished(fresh, version) == SEEDS and fresh.pending() == []
    assert (fresh.folder_of(first) / "knowledge" / "labels.json").read_bytes() == b"[1]"
    hurt(version)
    with pytest.raises(GroundlabError, match="is damaged or missing"):
        versions.take_finished(dataclasses.replace(plan, results=tmp_path / "third"), version)


def test_compare_says_1_for_another_result_and_2_for_damage(plan, tmp_path, groundlab):
    version = assemble(plan)
    shutil.copytree(version, other := tmp_path / "other")
    assert groundlab("compare", plan.results, other)[0] == 0
    alter(plan.folder_of(plan.runs[1]))
    assert groundlab("compare", plan.results, version)[0] == 1
    (other / "version.json").write_text("{")
    code, out, error = groundlab("compare", plan.results, other)
    assert code == 2 and (out + error).count("\n") == 1 and "version.json is damaged" in error


def test_a_run_without_a_counterpart_is_named_by_what_it_is(plan, tmp_path):
    shutil.copytree(plan.results, fewer := tmp_path / "fewer")
    shutil.rmtree(run_folder.path_of(fewer, plan.runs[1].hash))
    lines = comparison.compare(plan.results, fewer).lines()
    first = "2 runs are equal to the byte, 0 differ, 1 have no counterpart there"
    assert lines == [first, f"only fresh: {plan.runs[1].label} ({plan.runs[1].hash})"]
    assert comparison.compare(fewer, plan.results).only_reference == [f"{plan.runs[1].label} ({plan.runs[1].hash})"]


@pytest.mark.parametrize("earlier", ["-" * 16, "f" * 16], ids=["first by name", "last by name"])
def test_of_two_runs_of_one_spec_the_one_of_the_published_name_is_compared(plan, tmp_path, earlier):
    """A store that lived through a change of code; without a common name the newest of today's code is taken."""
    shutil.copytree(plan.results, published := tmp_path / "published")
    run, old = plan.folder_of(plan.runs[0]), run_folder.path_of(plan.results, earlier)
    alter(shutil.copytree(run, old), hash=earlier, history=[{"started": "2020", "sources": "older"}])
    for one, other in ((plan.results, published), (published, plan.results)):
        found = comparison.compare(one, other)
        assert (len(found.equal), found.differing) == (SEEDS, [])
    alter(run_folder.path_of(published, plan.runs[0].hash), hash="a" * 16)
    (unlike,) = comparison.compare(plan.results, published).differing
    assert unlike.cause == "name"


def test_a_difference_is_rounding_other_code_or_a_fault(plan, tmp_path, monkeypatch):
    """One cause each: another rounding, another hash, and neither, on another CPU or not."""
    monkeypatch.setattr(comparison, "_learns", lambda run: True)
    shutil.copytree(plan.results, published := tmp_path / "published")
    rounding, other, fault = (run_folder.path_of(published, run.hash) for run in plan.runs)
    here = storage.read_json(rounding / "manifest.json")["hardware"]
    alter(rounding, hardware={**here, "cpu": "Another CPU (family 1, model 2)"}, rounding="0" * 16)
    alter(other, hash="0" * 16)
    alter(fault, hardware={**here, "cpu": "A CPU that rounds alike (family 1, model 3)"})
    found = comparison.compare(plan.results, published)
    assert [each.label.partition(" ")[0] for each in found.differing if not each.cause] == ["always-SimpleDoorKey-s2"]
    count, *causes = found.summary()
    assert count == "0 runs are equal to the byte, 3 differ"
    words = ("other packages, inputs or behaviour", "rounded differently", "that is a fault")
    assert all(word in cause for word, cause in zip(words, causes, strict=True))
    monkeypatch.undo()
    assert comparison.compare(plan.results, published).count("") == 2, "rounding explains no rule, which learns nothing"


A_CLAIM = Claim.model_validate(
    {
        **{"id": "a", "paper": "mediator", "locus": "Table 1", "statement": "s", "source": "t", "tolerance": "exact"},
        **{"published": {"steps": "4"}, "select": {"method": "always", "world": "SimpleDoorKey"}},
    }
)


def test_a_version_is_compared_with_what_is_published_of_its_papers(plan, capsys):
    published = assemble(plan)
    storage.write_json(plan.results / "reference.json", {"mediator": {"quick": published.name}})
    assert comparison.beside_published(published, ["mediator"], "quick") is None, "the published one itself"
    version = assemble(plan)
    claim = {"id": "a", "paper": "mediator", "verdict": "supported", "readable": {"here": "steps 3.00"}}
    storage.write_json(published / "claims.json", [claim])
    made = judging.judge_claim(A_CLAIM, records.load(version, "mediator"))
    storage.write_json(version / "claims.json", [made.as_json()])
    found = comparison.beside_published(version, ["mediator"], "quick")
    assert len(found.equal) == SEEDS and not found.differing and found.reference == [published.name]
    assert reproduce._verdict("results", version, found) == 0
    *_, title, runs, verdicts, change = capsys.readouterr().out.splitlines()
    assert title == f"beside {published.name}:" and runs == "3 runs are equal to the byte, 0 differ"
    assert verdicts == "1 of 1 verdicts differ:"
    here = "inconclusive (steps 3.00 [3.00, 3.00]; intervals over training seeds and layouts)"
    assert change == f"  a: {here}, there supported (steps 3.00)"
    assert comparison.beside_published(version, ["mediator"], "smoke") is None, "nothing is published at that scale"


def test_a_difference_without_a_cause_makes_the_exit_code_1(plan, capsys):
    published = assemble(plan)
    storage.write_json(plan.results / "reference.json", {"mediator": {"quick": published.name}})
    alter(plan.folder_of(plan.runs[0]))
    version = assemble(plan)
    found = comparison.beside_published(version, ["mediator"], "quick")
    storage.write_json(version / "claims.json", [])
    assert reproduce._verdict("results", version, found) == 1
    assert "their numbers must not be trusted" in capsys.readouterr().out


def _killed_at(number: int):
    """What makes a process kill itself at the n-th file or folder that it renames into its place."""
    left, renames = [number], {"file": Path.replace, "folder": os.rename}

    def rename(kind: str, source, target):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return renames[kind](source, target)

    return rename


# one archive, version.json twice, the folder: 4 renames
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_version_killed_while_it_is_put_together_ends_with_the_same_bytes(number, plan, in_children, monkeypatch):
    whole = contents(versions.make_version(plan, plan.results / "whole", {}, "").folder)
    shutil.rmtree(plan.results / "whole")

    def make() -> Path:
        folder = versions.begin_version(plan)
        versions.make_version(plan, folder, {}, "")
        return versions.finish_version(plan, folder)

    with monkeypatch.context() as patch:
        rename = _killed_at(number)
        patch.setattr(Path, "replace", lambda source, target: rename("file", source, target))
        patch.setattr(os, "rename", lambda source, target: rename("folder", source, target))
        assert in_children(make) == [signal.SIGKILL]
    assert versions.find_version(plan) is None, "half a version is none"
    version = make()
    assert contents(version) == whole and len(Version(version).runs()) == SEEDS
    for run, stored in zip(Version(version).runs(), plan.runs, strict=True):
        assert Version(version).read(run, "metrics.jsonl") == (plan.folder_of(stored) / "metrics.jsonl").read_bytes()
    assert not list(plan.results.glob(".assembling-*")) and not list(version.rglob("*.tmp"))


def test_a_variant_that_did_not_change_is_the_same_file_in_the_next_version(plan):
    first, folder = assemble(plan), plan.folder_of(plan.runs[0])
    manifest = storage.read_json(folder / "manifest.json")
    storage.write_json(folder / "manifest.json", {**manifest, "wall_seconds": 9.0})
    assert contents(assemble(plan)) == contents(first) and len(contents(first)) == 1
