"""Manifests of runs: a JSON object in a run's folder, which says what the run is, where it was made, and how it stands.

lab/run_folder.py writes them; versions hold what they say (core/versions.py).
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError

MANIFEST = "manifest.json"
Manifest = dict[str, Any]
_KEYS = {"hash", "method", "world", "seed", "settings", "status", "error", "history"}


def read_run(folder: Path) -> Manifest | None:
    """The manifest of a run folder; None where there is none. Raises GroundlabError for what is not a manifest."""
    file, fix = folder / MANIFEST, f"delete {folder} and run the same command again"
    if not file.exists() and not file.is_symlink():
        return None
    try:
        manifest = storage.read_json(file)
    except GroundlabError as error:
        problem = str(error).removeprefix(f"{file} ").partition("; ")[0]
        raise GroundlabError(f"{file} is not a valid manifest ({problem[:120]}); {fix}") from None
    if not isinstance(manifest, dict) or not manifest.keys() >= _KEYS:
        raise GroundlabError(f"{file} is not a valid manifest; {fix}")
    return manifest


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


def changed_settings(folder: Path) -> dict[str, Any] | None:
    """Return the settings of a run folder that differed from their defaults; None where nothing says which."""
    with suppress(GroundlabError):
        if manifest := read_run(folder):
            return manifest.get("changed")
    return None
