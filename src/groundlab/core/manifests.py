"""Manifests: how a run and a version of the results describe themselves, and the one way to read them.

    read_run(folder)          the manifest of a run; None where it never began
    read_version(folder)      that of a version
    read_reference(results)   which versions are published; `find_published` one of them
    check_runs(folder)        the manifests of all runs of a results folder, when every record is as it was written

Both are plain JSON objects. Reading checks their seal (seals.py), and answers damage with one line that names the file
and how to repair it.
"""

from collections import Counter
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from groundlab.core import seals, storage
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import find_root

MANIFEST = "manifest.json"
ASSEMBLING = ".assembling-"  # before the name of a version that is still being put together
NAMES = "names.json"
Manifest = dict[str, Any]
Scale = Literal["smoke", "quick", "full", "paper"]
_ORIGIN = {"git", "python", "platform", "packages", "hardware"}
_RUN = _ORIGIN | {"hash", "label", "method", "world", "seed", "settings", "inputs"}
_RUN |= {"status", "error", "history", "wall_seconds", "cpu_seconds", "peak_memory_mib"}
"""Keys of every run manifest; lab/run_folder.py writes them."""
_VERSION = _ORIGIN | {"version", "scale", "created", "command", "papers", "plan_digest", "totals", "runs", "inputs"}
"""Keys of every version manifest; lab/versions.py writes them."""


def read_run(folder: Path, way_back: str = "") -> Manifest | None:
    """The manifest of a run folder; None where there is none.

    way_back: what to do about damage, by default to delete the folder and run again.
    Raises GroundlabError for what is not a manifest or does not match its seal.
    """
    file = folder / MANIFEST
    if not storage.stored(file).exists() and not file.is_symlink():
        return None
    return _read(file, _RUN, way_back or f"delete {folder} and run the same command again")


def made_by(manifest: Manifest) -> str:
    """Return the digest of the sources that finished a run, or last worked on it; empty where none was written down."""
    return manifest["history"][-1].get("sources", "") if manifest["history"] else ""


def sessions(manifest: Manifest) -> list[Manifest]:
    """Return the facts of each start of a run: the last one's are at the top, and are all that older manifests have."""
    return [*({**manifest, **session} for session in manifest.get("history", [])[:-1]), manifest]


def values_of(manifest: Manifest, group: str, key: str, unknown: str) -> str:
    """Return what the sessions of a run name, each once: `AMD EPYC and Intel Xeon` of `hardware` and `cpu`."""
    return " and ".join(dict.fromkeys((each.get(group) or {}).get(key) or unknown for each in sessions(manifest)))


def is_clean(manifest: Manifest) -> bool:
    """True if every session of a run was of committed code; unknown is not clean."""
    return all((each.get("git") or {}).get("dirty") is False for each in sessions(manifest))


@lru_cache(maxsize=8)
def _read_names(file: Path, changed_at: int) -> dict[str, dict[str, Any]]:
    return storage.read_json(file)


def _entry(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """Return `{"name": today's name, "settings": those that differed from their defaults}` of a stored run.

    From names.json of a version of 1.1, whose runs were named by their code; empty for any other run.
    """
    for version in [*folder.absolute().parents][2:3]:  # a folder near the root of the file system has fewer
        if (file := version / NAMES).is_file():
            return _read_names(file, file.stat().st_mtime_ns).get(manifest["hash"], {})
    return {}


def name_of(folder: Path, manifest: Manifest) -> str:
    """Return today's name of a stored run, of which `folder` is the run folder."""
    return _entry(folder, manifest).get("name", manifest["hash"])


def changed_settings(folder: Path, manifest: Manifest | None = None) -> dict[str, Any] | None:
    """Return the settings of a run folder that differed from their defaults; None where nothing says which.

    manifest: the run's, where it was read already.
    """
    with suppress(GroundlabError):
        if manifest := manifest or read_run(folder):
            return manifest.get("changed", _entry(folder, manifest).get("settings"))
    return None


def read_version(folder: Path) -> Manifest:
    """The manifest of a version, whether it is sealed or not. Raises GroundlabError for anything else."""
    return _read(folder / MANIFEST, _VERSION, _way_back(folder))


def read_reference(results: Path) -> dict[str, dict[str, str]]:
    """Paper -> scale -> published version, from `<results>/reference.json`; empty where there is none."""
    file = results / "reference.json"
    try:
        return storage.read_json(file) if file.exists() else {}
    except GroundlabError:
        raise GroundlabError(f"{file} is not valid JSON; git checkout it") from None


def published_versions(results: Path) -> list[str]:
    """The names of the versions that `<results>/reference.json` holds, each once."""
    return sorted({version for scales in read_reference(results).values() for version in scales.values()})


def find_published(paper: str, scale: str, results: Path) -> Path | None:
    """The folder of a paper's published version at a scale: of this results folder, else of the repository's.

    None where nothing of the paper is published at that scale.
    """
    root = find_root()
    for home in (results, *([root / "results"] if root else [])):
        version = read_reference(home).get(paper, {}).get(scale)
        if version and (home / version).is_dir():
            return home / version
    return None


def _read(file: Path, keys: set[str], way_back: str) -> Manifest:
    try:
        manifest = storage.read_json(file)
    except GroundlabError as error:
        problem = str(error).removeprefix(f"{file} ").partition("; ")[0]
        raise GroundlabError(f"{file} is not a valid manifest ({problem[:120]}); {way_back}") from None
    if not isinstance(manifest, dict) or not keys <= manifest.keys():
        raise GroundlabError(f"{file} is not a valid manifest; {way_back}")
    if manifest.get(seals.SEAL) is not None and not seals.seal_holds(manifest):
        raise GroundlabError(f"{file} has changed since it was written; {way_back}")
    return manifest


def _way_back(home: Path) -> str:
    return f"restore it (git checkout), or delete {home} and reproduce again"


def damaged_records(folder: Path, manifest: Manifest) -> dict[str, str]:
    """What is wrong with the records of a finished run, by file name; empty if they are as they were written."""
    return seals.damaged(folder, manifest.get("records") if manifest.get(seals.SEAL) else None)


def check_runs(home: Path) -> dict[Path, Manifest]:
    """Run folder -> manifest, of a version or of a folder of collected runs, after every seal was checked.

    Raises GroundlabError, naming the first damaged file: a record or a run that has changed, is missing or was added.
    """
    version = read_version(home) if (home / MANIFEST).exists() else None
    if version is not None and version.get(seals.SEAL) is None:
        raise GroundlabError(f"{home} has no seal; {_way_back(home)}")
    found = {folder: _checked_run(home, folder) for folder in run_folders(home)}
    if version is not None:
        _check_named(home, version, found)
    return found


def run_folders(home: Path) -> list[Path]:
    """Where the runs of a results folder should be, readable or not, in the order of their names."""
    return sorted(place for place in home.glob("*/runs/*") if not place.name.startswith("."))


def _checked_run(home: Path, folder: Path) -> Manifest:
    manifest = read_run(folder, _way_back(home)) if folder.is_dir() else None
    if manifest is None:
        raise GroundlabError(f"{folder} holds no {MANIFEST}; {_way_back(home)}")
    if manifest["status"] != "finished":
        raise GroundlabError(f"{folder} is a run that has not finished; {_way_back(home)}")
    for name, problem in damaged_records(folder, manifest).items():
        raise GroundlabError(f"{folder / name} {problem}; {_way_back(home)}")
    return manifest


def _check_named(home: Path, version: Manifest, found: dict[Path, Manifest]) -> None:
    """Hold the runs that are there against those that the version was made of."""
    named = {home / run["folder"]: run for run in version["runs"] if run["folder"]}
    gone = left_out(home, version)
    for folder, run in named.items():
        if folder not in found and run["paper"] not in gone:
            raise GroundlabError(f"{folder} is missing; {_way_back(home)}")
        if folder in found and found[folder].get(seals.SEAL) != run.get(seals.SEAL):
            raise GroundlabError(f"{folder} is not the run that this version was made of; {_way_back(home)}")
    for folder in found.keys() - named.keys():
        other = folder.parent.parent.name not in version["papers"]
        if not (other and home.name.startswith(ASSEMBLING)):  # papers that were assembled before this one
            raise GroundlabError(f"{folder} is no run of this version; {_way_back(home)}")


def left_out(home: Path, version: Manifest) -> dict[str, int]:
    """Papers whose runs were taken out as a whole, as is done when a newer version holds them; with their number."""
    counts = Counter(run["paper"] for run in version.get("runs", []) if run["folder"])
    return {paper: count for paper, count in counts.items() if not (home / paper / "runs").exists()}
