"""Naming the version of the results that the repository stands behind: `results/reference.json`.

    {"mediator": {"quick": "0.1.0-quick-20261121-ab12cd3"}}

Only complete versions made from a committed tree qualify; smoke results never do. Called from: the command line.
"""

from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.lab.plan import results_folder


def publish(version: str, results: str | Path | None = None) -> Path:
    """Make a version the reference of its papers at its scale; returns the path of reference.json.

    Raises GroundlabError for unknown versions, smoke results, single experiments, uncommitted code and failed runs.
    """
    home = results_folder(results)
    manifest = _manifest_of(version, home)
    _check_publishable(version, manifest)
    file = home / "reference.json"
    reference = storage.read_json(file) if file.is_file() else {}
    for paper in manifest["papers"]:
        reference[paper] = {**reference.get(paper, {}), manifest["scale"]: version}
    storage.write_json(file, reference)
    return file


def _manifest_of(version: str, home: Path) -> dict[str, Any]:
    versions = {folder.parent.name: folder for folder in home.glob("[!.]*/manifest.json")}
    scratch = {folder.parent.name: folder for folder in (home / ".scratch").glob("[!.]*/manifest.json")}
    if version not in versions | scratch:
        raise unknown_name("version", version, versions, f"versions are the folders in {home}")
    return storage.read_json((scratch | versions)[version])


def _check_publishable(version: str, manifest: dict[str, Any]) -> None:
    if manifest["scale"] == "smoke":
        raise GroundlabError(f"{version} is a smoke result, which is never published; reproduce at scale quick or more")
    if manifest.get("alone"):
        named = f"{version} holds the experiment {' '.join(manifest['alone'])} alone"
        raise GroundlabError(f"{named}; its pages show it as it is, publish a whole version")
    if manifest["git"]["dirty"] or not manifest["git"]["commit"]:
        raise GroundlabError(f"{version} was made from uncommitted code; commit, reproduce again and publish that")
    failed = manifest["totals"]["failed"]
    if failed:
        raise GroundlabError(f"{version} has {failed} failed runs; run the same reproduce command again first")
