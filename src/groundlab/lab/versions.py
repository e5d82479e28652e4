"""Versions of the results made from finished runs of the store, renamed into place at the end, and published.

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
from typing import TextIO

import groundlab
from groundlab.core import git, storage
from groundlab.core.errors import GroundlabError, unknown_name
from groundlab.core.manifests import MANIFEST, Manifest, is_clean
from groundlab.core.paths import find_root, results_folder
from groundlab.core.sources import digest_of, package_folder
from groundlab.core.storage import digest_bytes, digest_json
from groundlab.core.versions import (
    ASSEMBLING,
    SUMMARY,
    Version,
    is_version,
    name_of,
    read_reference,
    versions_below,
)
from groundlab.lab import comparison, machine, run_folder
from groundlab.lab.kept import copy_files, keep
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.lab.run_folder import read_manifest
from groundlab.papers import registry

_UNCOMMITTED = "made from uncommitted code, or git could not say"


def make_version(plan: Plan, folder: Path, failed: dict[str, str], command: str) -> Version:
    """Write what the store holds of a plan into a folder as a version; failed: error lines by run hash.

    Raises GroundlabError for a run whose records are not as they were written.
    """
    facts = {
        "version": folder.name.removeprefix(ASSEMBLING),
        "package": groundlab.__version__,
        "scale": plan.scale,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        **machine.facts(),
        "papers": plan.papers,
        "alone": list(plan.alone),
        "plan_digest": version_digest(plan),
        "notebooks": {each.paper: each.notebooks for each in plan.experiments},
        "inputs": _inputs(plan),
    }
    runs = [_facts_of(plan, run, failed.get(run.hash)) for run in plan.runs]
    for run, (entry, records) in zip(plan.runs, runs, strict=True):
        if records:
            keep(run, plan.folder_of(run), folder / run.paper / "runs" / name_of(entry))
    version = Version.begin(folder, facts)
    version.add(runs)
    return version


def _facts_of(plan: Plan, run: PlannedRun, failure: str | None) -> tuple[Manifest, dict[str, bytes]]:
    """Return what a version says of a run, and its records; none of one that has not finished."""
    folder = plan.folder_of(run)
    manifest = read_manifest(folder) or {"history": [], "error": None}
    named = {"paper": run.paper, "arm": run.arm, "arm_label": run.arm_label}
    if run_folder.status_of(folder) == "finished":
        return {**manifest, **named}, run_folder.read_records(folder, manifest)
    error = failure or manifest["error"]
    times = {name: manifest.get(name, 0.0) for name in ("wall_seconds", "cpu_seconds", "peak_memory_mib")}
    state = {"hash": run.hash, "status": "failed" if error else "missing", "error": error, "records": {}}
    return {**named, **run.spec.model_dump(), **state, "history": manifest["history"], **times}, {}


def take_finished(plan: Plan, version: str | Path) -> int:
    """Take the finished runs that a stored version holds and the plan lacks into its store; returns how many.

    A run is taken when its name is equal: the same settings, inputs, packages and behaviour; with what the version
    keeps of it.
    Raises GroundlabError for a version that does not exist, and for one that is damaged.
    """
    source = find_by_name(plan.results, version)
    stored = {run["hash"]: run for run in source.runs()}
    missing = [run for run in plan.pending() if run.hash in stored]
    for run in missing:
        target, facts = plan.folder_of(run), stored[run.hash]
        with run_folder.hold(target):
            copy_files(source.folder / facts["paper"] / "runs" / facts["name"], target)
            for record in facts["records"]:
                storage.write_atomic(target / record, source.read(facts, record))
            storage.write_json(target / MANIFEST, facts)
    return len(missing)


def find_by_name(home: Path, version: str | Path) -> Version:
    """A version by its path, or by its name in a results folder or its `.scratch`.

    Raises GroundlabError where there is none.
    """
    for folder in (home / version, home / ".scratch" / version, Path(version)):
        if is_version(folder):
            return Version(folder)
    names = [file.parent.name for file in sorted(home.glob(f"[!.]*/{SUMMARY}"))]
    raise unknown_name("version", str(version), names, f"versions are the folders in {home}")


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

    A version that git tracks came with the clone and is nobody's own.
    """
    if plan.pending():
        return None
    digest, stored = version_digest(plan), [read_manifest(plan.folder_of(run)) for run in plan.runs]
    made_here = {manifest["hash"]: (manifest["records"], manifest["history"]) for manifest in stored if manifest}
    for version in versions_below(home_of(plan)):
        made_of = {run["hash"]: (run["records"], run["history"]) for run in version.planned}
        tracked = git.is_tracked(version.folder / SUMMARY)
        if version.facts["plan_digest"] == digest and made_of == made_here and not tracked:
            return version.folder
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


def finish_version(plan: Plan, folder: Path) -> Path:
    """Rename an assembled folder into its place; returns its final path.

    A name taken in the meantime is not overwritten: the next number is used.
    """
    first = folder.name.removeprefix(ASSEMBLING)
    name = next(name for name in chain([first], version_names(plan)) if not (folder.parent / name).exists())
    if name != first:
        storage.write_json(folder / SUMMARY, {**Version(folder).facts, "version": name})
    target = folder.parent / name
    with storage.clear_disk_errors(target):
        os.rename(folder, target)  # noqa: PTH104 - refuses, as it should, a target that is not empty
    if folder in _claims:
        _release(folder)
    return target


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
    """Make a version the reference of its papers at its scale; returns the path of reference.json.

    Raises GroundlabError for unknown versions, smoke results, parts of a paper, uncommitted code, failed runs and
    records that are not as they were written.
    """
    home = results_folder(results)
    chosen = find_by_name(home, version)
    _check_publishable(chosen)
    chosen.check()
    reference = read_reference(home)
    dirty = [run["name"] for run in chosen.runs() if not is_clean(run)]
    if dirty and not any(version in scales.values() for scales in reference.values()):  # its page tells of older ones
        count = f"{len(dirty)} runs of {version}, such as {dirty[0]}, were {_UNCOMMITTED}"
        raise GroundlabError(f"{count}; commit, make them again (reproduce --again) and publish that")
    for paper in dict.fromkeys(run["paper"] for run in chosen.runs()):
        reference[paper] = {**reference.get(paper, {}), chosen.scale: version}
    (chosen.folder / comparison.FILE).unlink(missing_ok=True)  # it compared with the version that this one replaces
    storage.write_json(file := home / "reference.json", reference)
    return file


def _check_publishable(version: Version) -> None:
    name, facts = version.folder.name, version.facts
    if version.scale == "smoke":
        raise GroundlabError(f"{name} is a smoke result, which is never published; reproduce at scale quick or more")
    if version.folder.parent.name == ".scratch":
        raise GroundlabError(f"{name} holds a part of its paper, for one figure or experiment; publish a whole version")
    if facts["alone"]:
        named = f"{name} holds the experiment {' '.join(facts['alone'])} alone"
        raise GroundlabError(f"{named}; its pages show it as it is, publish a whole version")
    if facts["git"]["dirty"] is not False or not facts["git"]["commit"]:
        raise GroundlabError(f"{name} was {_UNCOMMITTED}; commit, reproduce again and publish that")
    if failed := sum(run["status"] == "failed" for run in version.planned):
        raise GroundlabError(f"{name} has {failed} failed runs; run the same reproduce command again first")
