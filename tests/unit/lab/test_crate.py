"""The provenance of a published version for archives: a Process Run Crate that says what its manifest says."""

import json
import shutil
from pathlib import Path

import pytest

from groundlab.core import git, manifests, storage
from groundlab.core.storage import digest_bytes
from groundlab.lab import crate

STORED = Path(__file__).parents[3] / "results"


@pytest.fixture
def version(tmp_path):
    """A copy of the smallest published version, with its crate."""
    smallest = min((file.parent for file in STORED.glob("*/claims.json")), key=lambda at: len(list(at.rglob("*"))))
    shutil.copytree(smallest, tmp_path / smallest.name)
    crate.write(tmp_path / smallest.name)
    return tmp_path / smallest.name


def entities(version: Path) -> dict[str, dict]:
    content = json.loads((version / crate.CRATE).read_text())
    assert set(content) == {"@context", "@graph"}
    by_id = {entity["@id"]: entity for entity in content["@graph"]}
    assert len(by_id) == len(content["@graph"]), "an entity is described once"
    return by_id


def links(value) -> list[str]:
    """All ids that a value refers to."""
    if isinstance(value, dict):
        return [value["@id"]]
    return [each for part in value for each in links(part)] if isinstance(value, list) else []


def test_a_crate_names_its_profile_and_describes_all_that_it_refers_to(version):
    by_id = entities(version)
    assert by_id[crate.CRATE]["about"] == {"@id": "./"}
    assert by_id["./"]["conformsTo"] == {"@id": crate.PROFILE} and by_id[crate.PROFILE]["version"] == "0.5"
    assert all(by_id["./"].get(name) for name in ("name", "description", "datePublished", "license", "hasPart"))
    outside = {"https://w3id.org/ro/crate/1.1"}
    referred = {each for entity in by_id.values() for key, value in entity.items() for each in links(value)}
    assert referred - outside <= set(by_id) and set(by_id) - {crate.CRATE} <= referred


def test_every_file_and_every_run_is_in_the_crate(version):
    by_id, manifest = entities(version), manifests.read_version(version)
    parts = links(by_id["./"]["hasPart"])
    for path in (path for path in version.rglob("*") if path.is_file() and path.name != crate.CRATE):
        name = path.relative_to(version).as_posix()
        if "/runs/" in name:
            assert f"{path.parent.relative_to(version).as_posix()}/" in parts
        else:
            assert by_id[name]["sha256"] == digest_bytes(path.read_bytes()) and name in parts
    actions = [entity for name, entity in by_id.items() if name.startswith("#run/")]
    # an unfinished version names runs that are missing, and an older one those of papers that a newer one took over
    made = [run for run in manifest["runs"] if run["folder"] and (version / run["folder"]).is_dir()]
    assert len(actions) == len(made) == len(links(by_id["./"]["mentions"])) - 1
    assert len(links(by_id["#version"]["object"])) == len(manifest["inputs"])
    for action in actions:
        assert action["startTime"] <= action["endTime"] <= manifest["created"]
        (result,) = links(action["result"])
        assert (version / result).is_dir()
        (tool,) = links(action["instrument"])
        assert manifest["git"]["commit"] in tool and manifest["git"]["commit"] in by_id[tool]["version"]


def test_an_archives_crate_has_the_code_and_every_version_and_tells_the_commit(version, tmp_path, monkeypatch):
    commit, date = "0123456789abcdef" * 2 + "01234567", "2026-11-25T22:00:00+00:00"
    (version / crate.CRATE).unlink()
    (tmp_path / "results").mkdir()
    version = version.rename(tmp_path / "results" / version.name)
    crate.write_archive(tmp_path, commit, date)
    assert storage.read_json(version / crate.CRATE) == crate.content(version)
    by_id = entities(tmp_path)
    assert set(links(by_id["./"]["hasPart"])) == {"src/", f"results/{version.name}/"}
    referred = {each for entity in by_id.values() for key, value in entity.items() for each in links(value)}
    assert referred - {"https://w3id.org/ro/crate/1.1"} <= set(by_id)
    assert (tmp_path / by_id[f"results/{version.name}/"]["subjectOf"]["@id"]).is_file()
    monkeypatch.setattr(git, "find_root", lambda: tmp_path)
    monkeypatch.delenv("GROUNDLAB_COMMIT", raising=False)
    assert git.facts.__wrapped__() == {"commit": commit, "dirty": False}


def test_seals_stand_without_the_crate(version):
    before = manifests.check_runs(version)
    (version / crate.CRATE).unlink()
    assert manifests.check_runs(version) == before
