"""Other sources: a worker refuses their plan, an unfinished run starts again, a finished one is used and counted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import groundlab
from groundlab import lab
from groundlab.core import sources, storage
from groundlab.core.errors import GroundlabError
from groundlab.core.run import load_checkpoint
from groundlab.core.versions import Version, find_published
from groundlab.lab import comparison, machine, run_folder, verify, worker
from groundlab.papers import registry

ROOT = Path(__file__).resolve().parents[3]
SRC = Path(groundlab.__file__).parent
PUBLISHED = find_published("mediator", "quick", ROOT / "results")


def test_a_worker_refuses_other_sources_and_another_name_than_planned(laboratory):
    (run,) = lab.plan("mediator", scale="smoke").runs
    for expected, what in (((run.hash, "other"), "code"), (("0" * 16, worker.SOURCES), "inputs or packages")):
        with pytest.raises(GroundlabError, match=rf"expected the {what} that always-SimpleDoorKey-s0 was planned with"):
            lab.execute_run(run.spec, laboratory.root / "out", expected=expected)
    assert (
        lab.execute_run(run.spec, laboratory.root / "out", expected=(run.hash, worker.SOURCES))["status"] == "finished"
    )


STOPPED = """
import sys
from pathlib import Path
from groundlab.core.errors import Unfinished
from groundlab.lab import execute_run
from groundlab.papers import registry
spec = registry.resolve("symbolic", "BabyAI-GoToObj-v0", 0, {"frames": 1920, "layouts": "0-1"})
try:
    execute_run(spec, Path(sys.argv[1]), stop=lambda: True)
except Unfinished:
    print("stopped")
"""


def test_an_unfinished_run_starts_again_with_one_line_when_ppo_was_edited(tmp_path):
    home = tmp_path / "groundlab"
    shutil.copytree(SRC, home, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    (home / "assets").symlink_to(SRC / "assets")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GROUNDLAB_ROOT": str(ROOT), "PYTHONSAFEPATH": "1"}

    def call(*command: object) -> str:
        given = [sys.executable, *map(str, command)]
        return subprocess.run(given, env=environment, cwd=tmp_path, text=True, check=True, stdout=-1, stderr=-2).stdout

    out = tmp_path / "run"
    given = ("--world", "BabyAI-GoToObj-v0", "--set", "frames=1920", "--set", "layouts=0-1", "--out", out)
    assert "stopped" in call("-c", STOPPED, out)
    shutil.copytree(out, tmp_path / "same")
    call("-m", "groundlab", "run", "symbolic", *given[:-1], tmp_path / "same")
    assert "resumed at iteration 1" in (tmp_path / "same" / "log.txt").read_text()
    with (home / "learning" / "ppo.py").open("a") as file:
        file.write("# another comment\n")
    printed = call("-m", "groundlab", "run", "symbolic", *given)
    assert printed.count("starts again: its checkpoint was made by other sources") == 1
    assert "resumed" not in (out / "log.txt").read_text()
    assert (out / "metrics.jsonl").read_bytes() == (tmp_path / "same" / "metrics.jsonl").read_bytes()
    (session,) = storage.read_json(out / "manifest.json")["history"]
    before = storage.read_json(tmp_path / "same" / "manifest.json")["history"]
    assert {each["sources"] for each in before} != {session["sources"]} and len(before) == 2


def test_finished_runs_of_other_sources_are_used_counted_and_repeated_when_asked(laboratory, monkeypatch):
    assert laboratory.reproduce(pages=False)[0] == 0
    monkeypatch.setattr(sources, "digest_of", lambda package: "other")
    plan = lab.plan("mediator", scale="smoke", results=laboratory.results)
    assert not plan.pending() and "1 finished by other sources; --again repeats them" in str(plan)
    again = lab.plan("mediator", scale="smoke", results=laboratory.results, again=True)
    assert [run.hash for run in again.pending()] == [run.hash for run in plan.runs]
    code, out, _ = laboratory.reproduce(pages=False, again=True, dry_run=True)
    assert code == 0 and "1 of 1 runs would be executed" in out
    assert run_folder.standing(plan.folder_of(plan.runs[0])) == ("finished", True), "a dry run removes nothing"
    again.forget_others()
    assert run_folder.standing(plan.folder_of(plan.runs[0])) == ("new", False)


def test_a_manifest_names_everything_that_computes():
    recorded = machine.package_versions()
    assert {"torch", "transformers", "tokenizers", "peft", "numpy", "numba", "crafter", "opensimplex", "minigrid"} <= {
        name for name in recorded
    }


@pytest.fixture
def one_setting_less(monkeypatch):
    """Schemas of the mediator's methods as they would be without `ask_lambda` and `lam`."""
    honest = registry.schema_of
    gone = {"ask_lambda", "lam"}

    def pruned(method):
        schema = honest(method)
        fields = {name: each for name, each in schema.model_fields.items() if name not in gone}
        space = {"__annotations__": {name: each.annotation for name, each in fields.items()}, **fields}
        space |= {name: 0.01 if name == "ask_lambda" else 0.95 for name in gone}
        space["__annotations__"] |= dict.fromkeys(gone, "ClassVar[float]")
        others = ("inputs", "model_config", "__module__")
        space |= {name: getattr(schema, name) for name in others}
        from groundlab.core.schema import Strict

        return type(schema.__name__, (Strict,), space)

    monkeypatch.setattr(registry, "schema_of", pruned)
    return gone


def test_a_published_run_with_a_removed_setting_is_verified_compared_and_loaded(one_setting_less, tmp_path):
    assert PUBLISHED
    version = Version(PUBLISHED)
    stored = next(run for run in version.runs() if (run["method"], run["world"]) == ("always", "KeyInBox"))
    assert one_setting_less & stored["settings"].keys()
    again, _ = verify.verify(version, [stored], tmp_path / "scratch", 1)
    assert len(again.equal) == 1 and not again.failed
    fresh = run_folder.read_manifest(next((tmp_path / "scratch" / ".runs").iterdir()))
    assert fresh and comparison._key(stored) == comparison._key(fresh)
    trained = next(each.parents[2] for each in (PUBLISHED / "mediator" / "runs").glob("*/checkpoint/*/checkpoint.json"))
    assert one_setting_less & load_checkpoint(trained).spec.settings.keys()
    assert not one_setting_less & registry.trained(trained).spec.settings.keys()
    assert registry.watched(trained)[0].method == "mediator"
    with pytest.raises(GroundlabError, match="lam"):
        registry.resolve("mediator", "KeyInBox", 0, load_checkpoint(trained).spec.settings)


@pytest.mark.parametrize("folder", sorted(ROOT.glob("results/1.1.0-*")), ids=lambda folder: folder.name)
def test_every_published_run_has_a_name_of_its_own_and_says_what_it_was_asked_for(folder):
    runs = Version(folder).runs()
    assert len({run["hash"] for run in runs}) == len({run["name"] for run in runs}) == len(runs)
    assert all(run["changed"].keys() <= run["settings"].keys() for run in runs)
