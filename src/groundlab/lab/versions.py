"""Versions of the results: finished runs collected per paper, with pages and a manifest, renamed into place at the end.

A version is put together in `results/.assembling-<version>` and renamed into place once, at the end, so a folder
without the prefix is complete; nothing published is ever written over. `smoke` results live under `results/.scratch`.
"""

import datetime
import fcntl
import os
import shutil
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, TextIO

import groundlab
from groundlab.core import git, manifests, seals, storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.manifests import ASSEMBLING, MANIFEST, Manifest
from groundlab.core.paths import find_root, results_folder
from groundlab.core.sources import digest_of, package_folder
from groundlab.core.storage import digest_bytes, digest_json
from groundlab.lab import comparison, machine, run_folder
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.lab.progress import say
from groundlab.lab.run_copy import copy_kept, copy_records, copy_run
from groundlab.papers import registry

_UNCOMMITTED = "made from uncommitted code, or git could not say"


def collect(plan: Plan, folder: Path) -> Path:
    """Copy the records of the plan's finished runs to `<folder>/<paper>/runs/<label>-<hash8>/`; returns the folder.

    What is there already with the same content is left alone.
    """
    target = storage.make_folder(folder)
    for run in plan.runs:
        if run_folder.status_of(plan.folder_of(run)) == "finished":
            copy_records(plan.folder_of(run), target / run_name(run))
            copy_kept(run, plan.folder_of(run), target / run_name(run))
    return target


def take_finished(plan: Plan, version: str | Path) -> int:
    """Take the finished runs that a stored version holds and the plan lacks into its store; returns how many.

    A run is taken when its name is equal: the same settings, inputs, packages and behaviour; with what the version
    keeps of it.
    Raises GroundlabError for a version that does not exist, and for one that is damaged.
    """
    source = find_by_name(plan.results, version)
    there = manifests.check_runs(source)
    stored = {manifests.name_of(folder, manifest): folder for folder, manifest in there.items()}
    missing = [run for run in plan.pending() if run.hash in stored]
    for run in missing:
        target, source = plan.folder_of(run), stored[run.hash]
        facts = {**there[source], "hash": run.hash, "changed": manifests.changed_settings(source, there[source])}
        with run_folder.hold(target):
            copy_run(source, target)
            storage.write_json(target / MANIFEST, seals.sealed(facts))
    return len(missing)


def find_by_name(home: Path, version: str | Path) -> Path:
    """A version by its path, or by its name in a results folder or its `.scratch`.

    Raises GroundlabError where there is none.
    """
    for folder in (home / version, home / ".scratch" / version, Path(version)):
        if (folder / "manifest.json").is_file():
            return folder
    names = sorted(file.parent.name for file in home.glob("[!.]*/manifest.json"))
    raise unknown_name("version", str(version), names, f"versions are the folders in {home}")


def run_name(run: PlannedRun) -> str:
    """The place of a run in a version: `mediator/runs/always-KeyInBox-s0-1f2e3d4c`."""
    return f"{run.paper}/runs/{run.label}-{run.hash[:8]}"


def home_of(plan: Plan) -> Path:
    """Where versions of this plan are kept."""
    return plan.results / ".scratch" if plan.scale == "smoke" or plan.part else plan.results


def version_digest(plan: Plan) -> str:
    """SHA-256 over all that a version shows: its runs, notebooks, claims, the code of its pages, and shipped models."""
    offered = [registry.papers()[name] for name in plan.papers]
    packages = {module.partition(".")[0] for paper in offered for module in paper.exhibits} | {"groundlab"}
    home = package_folder()
    files = [
        *(home / "report").glob("*.j2"),
        *(home / "assets" / "models").glob("*/recipe.json"),
        *(file for _, file in notebooks_of(plan)),
    ]
    files += [paper.config_folder / "claims.yaml" for paper in offered]
    shown = sorted(
        (f"{file.parent.name}/{file.name}", digest_bytes(file.read_bytes())) for file in files if file.is_file()
    )
    return digest_json([plan.digest, {name: digest_of(name) for name in packages}, shown])


def notebooks_of(plan: Plan) -> list[tuple[str, Path]]:
    """(paper, notebook) of every executed notebook of a version, in the order of reading."""
    homes = {name: registry.papers()[name].notebook_folder for name in plan.papers}
    return [(each.paper, homes[each.paper] / name) for each in plan.experiments for name in each.notebooks]


def find_version(plan: Plan) -> Path | None:
    """The folder of a complete version of this very plan that was made from the runs of its results folder.

    A version that git tracks came with the clone and is nobody's own; a damaged one is reported and skipped.
    """
    if plan.pending():
        return None
    digest, home = version_digest(plan), home_of(plan)
    stored = (run_folder.read_manifest(plan.folder_of(run)) for run in plan.runs)
    made_here = {manifest[seals.SEAL] for manifest in stored if manifest}
    for folder in sorted(file.parent for file in home.glob(f"[!.]*/{MANIFEST}")):
        try:
            manifest = manifests.read_version(folder)
            if manifest["plan_digest"] != digest or {run.get(seals.SEAL) for run in manifest["runs"]} != made_here:
                continue
            manifests.check_runs(folder)
        except GroundlabError as error:
            say(str(error))
            continue
        if not manifests.left_out(folder, manifest) and not git.is_tracked(folder / MANIFEST):
            return folder
    return None


def version_names(plan: Plan) -> Iterator[str]:
    """`0.1.0-quick-20261121-ab12cd3`, then the same with `-2`, `-3`, ... for when that is taken."""
    commit_facts, today = git.facts(), datetime.datetime.now(datetime.UTC)
    mark = {False: "", True: "-dirty"}.get(commit_facts["dirty"], "-unknown")
    commit = (commit_facts["commit"] or "nogit")[:7] + mark
    base = f"{groundlab.__version__}-{plan.scale}-{today:%Y%m%d}-{commit}"
    yield base
    yield from (f"{base}-{number}" for number in count(2))


def begin_version(plan: Plan) -> Path:
    """An empty folder in which the next version of this plan is put together.

    What a killed process has left is cleared; a folder on which another process is at work is left alone.
    """
    home = storage.make_folder(home_of(plan))
    folder = next(folder for name in version_names(plan) if (folder := _claim(home, name)))
    with storage.clear_disk_errors(folder):
        if folder.exists():
            shutil.rmtree(folder)
    return storage.make_folder(folder)


_claims: dict[Path, TextIO] = {}
"""The locks of the folders that this process puts together; the system opens them when it ends."""


def _claim(home: Path, name: str) -> Path | None:
    """The folder for a version of that name, ours until `_release`; None where it is taken."""
    folder = home / f"{ASSEMBLING}{name}"
    if folder not in _claims and not (home / name).exists():
        with storage.clear_disk_errors(folder):
            lock = folder.with_name(f"{folder.name}.lock").open("w", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _claims[folder] = lock
        except BlockingIOError:
            lock.close()
    if folder in _claims and (home / name).exists():  # since we looked
        _release(folder)
    return folder if folder in _claims else None


def _release(folder: Path) -> None:
    with _claims.pop(folder) as lock:
        Path(lock.name).unlink(missing_ok=True)


def describe_version(plan: Plan, folder: Path, failed: dict[str, str], command: str) -> None:
    """Write the manifest of a folder that is still being put together, for its own pages to read."""
    name = folder.name.removeprefix(ASSEMBLING)
    storage.write_json(folder / MANIFEST, version_manifest(plan, name, failed, command))


def finish_version(plan: Plan, folder: Path, failed: dict[str, str], command: str) -> Path:
    """Write the manifest of an assembled folder and rename it into place; returns its final path.

    failed: error lines by run hash. A name taken in the meantime is not overwritten: the next number is used.
    """
    first = folder.name.removeprefix(ASSEMBLING)
    name = next(name for name in chain([first], version_names(plan)) if not (folder.parent / name).exists())
    storage.write_json(folder / MANIFEST, version_manifest(plan, name, failed, command))
    target = folder.parent / name
    with storage.clear_disk_errors(target):
        os.rename(folder, target)  # noqa: PTH104 - refuses, as it should, a target that is not empty
    if folder in _claims:
        _release(folder)
    return target


def version_manifest(plan: Plan, version: str, failed: dict[str, str], command: str) -> Manifest:
    """What made a version: commit, packages, hardware, inputs, and every run with its times, failed ones included.

    It is sealed, and holds the seal of every run.
    """
    entries = [_run_entry(plan, run, failed.get(run.hash)) for run in plan.runs]
    facts = {
        "version": version,
        "package": groundlab.__version__,
        "scale": plan.scale,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        **machine.facts(),
        "papers": plan.papers,
        "alone": list(plan.alone),
        "plan_digest": version_digest(plan),
        "totals": _totals(entries),
        "runs": entries,
        "notebooks": {each.paper: each.notebooks for each in plan.experiments},
        "inputs": _inputs(plan),
    }
    return seals.sealed(facts)


def _run_entry(plan: Plan, run: PlannedRun, failure: str | None) -> dict[str, Any]:
    folder = plan.folder_of(run)
    manifest, finished = run_folder.read_manifest(folder) or {}, run_folder.status_of(folder) == "finished"
    error = None if finished else failure or manifest.get("error")
    return {
        "label": run.label,
        **run.named,
        "hash": run.hash,
        "paper": run.paper,
        **run.spec.model_dump(),
        "status": "finished" if finished else "failed" if error else "missing",
        "wall_seconds": manifest.get("wall_seconds", 0.0),
        "cpu_seconds": manifest.get("cpu_seconds", 0.0),
        "peak_memory_mib": manifest.get("peak_memory_mib", 0.0),
        "folder": run_name(run) if finished else None,
        "error": error,
        "seal": manifest[seals.SEAL] if finished else None,
    }


def _totals(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "wall_seconds": round(sum(entry["wall_seconds"] for entry in entries), 2),
        "cpu_seconds": round(sum(entry["cpu_seconds"] for entry in entries), 2),
        "peak_memory_mib": max((entry["peak_memory_mib"] for entry in entries), default=0.0),
        "runs": len(entries),
        "failed": sum(entry["status"] == "failed" for entry in entries),
        "missing": sum(entry["status"] == "missing" for entry in entries),
    }


def _inputs(plan: Plan) -> dict[str, str]:
    """The configs, notebooks and pins behind a version, by path, with their SHA-256; inputs are in runs' manifests."""
    root = find_root()
    folders = [registry.papers()[paper].config_folder for paper in plan.papers]
    read = [folder / f"{name}.yaml" for folder in folders for name in (plan.scale, "claims")]
    read += [*(file for _, file in notebooks_of(plan))]
    read += [root / "requirements" / "constraints.txt"] if root else []
    files = {}
    for file in filter(Path.is_file, read):  # by its path in the repository, or where it is in another package's folder
        name = file.relative_to(root).as_posix() if root and file.is_relative_to(root) else str(file)
        files[name] = digest_bytes(file.read_bytes())
    return files


def publish(version: str, results: str | Path | None = None) -> Path:
    """Make a version the reference of its papers at its scale and pack its records; returns the path of reference.json.

    Raises GroundlabError for unknown versions, smoke results, parts of a paper, uncommitted code, failed runs and
    records that are not as they were written.
    """
    home = results_folder(results)
    folder = find_by_name(home, version)
    manifest = manifests.read_version(folder)
    _check_publishable(folder, manifest)
    reference = manifests.read_reference(home)
    dirty = [run.name for run, facts in manifests.check_runs(folder).items() if not manifests.is_clean(facts)]
    if dirty and not any(version in scales.values() for scales in reference.values()):  # its page tells of older ones
        count = f"{len(dirty)} runs of {version}, such as {dirty[0]}, were {_UNCOMMITTED}"
        raise GroundlabError(f"{count}; commit, make them again (reproduce --again) and publish that")
    file = home / "reference.json"
    for paper in manifest["papers"]:
        if (folder / paper / "runs").is_dir():  # a paper that was run again may have left its older version
            reference[paper] = {**reference.get(paper, {}), manifest["scale"]: version}
    pack_records(folder)  # takes a while: a kill before its end leaves what can be published again
    (folder / comparison.FILE).unlink(missing_ok=True)  # it was beside what this version now stands for
    storage.write_json(file, reference)
    return file


def pack_records(version: Path) -> None:
    """Pack the runs of a version that is to be committed; seals are of what records hold, so they stay."""
    from deflate import gzip_compress  # a seventh smaller than zlib; a login node may have no laboratory

    for record in (folder / name for folder in manifests.run_folders(version) for name in (*seals.COMPARED, MANIFEST)):
        if record.is_file():
            storage.write_atomic(
                record.with_name(record.name + storage.PACKED), bytes(gzip_compress(record.read_bytes(), 12))
            )
            record.unlink()


def _check_publishable(folder: Path, manifest: Manifest) -> None:
    version = folder.name
    if manifest["scale"] == "smoke":
        raise GroundlabError(f"{version} is a smoke result, which is never published; reproduce at scale quick or more")
    if folder.parent.name == ".scratch":
        raise GroundlabError(
            f"{version} holds a part of its paper, for one figure or experiment; publish a whole version"
        )
    if manifest.get("alone"):
        named = f"{version} holds the experiment {' '.join(manifest['alone'])} alone"
        raise GroundlabError(f"{named}; its pages show it as it is, publish a whole version")
    if manifest["git"]["dirty"] is not False or not manifest["git"]["commit"]:
        raise GroundlabError(f"{version} was {_UNCOMMITTED}; commit, reproduce again and publish that")
    failed = manifest["totals"]["failed"]
    if failed:
        raise GroundlabError(f"{version} has {failed} failed runs; run the same reproduce command again first")
