"""Versions of the results: the one module that knows where their records lie.

    version = Version("results/1.1.0-quick-20261127-cdbb3cd")
    for run in version.runs("glam"):              # each finished run, as its own manifest describes it
        version.read(run, "metrics.jsonl")        # the bytes of a record, whose digest is in version.json
    find_published("glam", "quick", results)      # the version that results/reference.json names

A version is `version.json` and a file per variant, `<paper>/runs/<method>-<world>-<digest>.zip`, with the records of
all its seeds: runs that differ in their seed alone. No clock reading is in it, so a variant that did not change is the
same file in the next version. What is kept of a run besides its records lies in the folder `<paper>/runs/<run>`.
"""

import zipfile
import zlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import MANIFEST, Manifest
from groundlab.core.paths import find_root
from groundlab.core.storage import digest_bytes, digest_json

SUMMARY = "version.json"
ASSEMBLING = ".assembling-"  # before the name of a version that is still being put together
Scale = Literal["smoke", "quick", "full", "paper"]
LAST_OF_1 = "fb7f529f"
"""The last commit that reads versions of groundlab 1.x."""

_VARIANT = ("paper", "arm", "arm_label", "method", "world", "settings", "changed", "inputs")
"""The keys that runs of a variant share; version.json holds it once for all of them."""
_ORIGIN = ("git", "python", "platform", "packages", "hardware", "rounding", "rules")
"""The keys that say where a run was made: version.json holds each combination once."""
_DERIVED = {"label", "name", "file", "seal", "folder"}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of all members, so that equal records make equal files


class Version:
    """A version of the results in a folder."""

    def __init__(self, folder: str | Path):
        """Read its version.json. Raises GroundlabError for a folder that holds none, or one that is damaged."""
        self.folder = Path(folder)
        file = self.folder / SUMMARY
        if not file.is_file():
            if (self.folder / MANIFEST).is_file():
                fix = f"git checkout {LAST_OF_1} has the code that reads it"
                raise GroundlabError(f"expected a version of groundlab 2, got {self.folder} of 1.x; {fix}")
            raise GroundlabError(
                f"expected a version in {self.folder}, got no {SUMMARY}; make one: groundlab reproduce"
            )
        try:
            self.facts: dict[str, Any] = storage.read_json(file)
            self.planned = _whole(self.facts)
        except (GroundlabError, LookupError, TypeError, AttributeError):
            raise _damaged(file) from None
        self.name: str = self.facts["version"]
        self.scale: Scale = self.facts["scale"]

    def runs(self, paper: str | None = None) -> list[Manifest]:
        """Return the finished runs, of one paper or of all, by paper and name."""
        return [run for run in self.planned if run["status"] == "finished" and paper in (None, run["paper"])]

    def read(self, run: Manifest, record: str) -> bytes:
        """Return a record of a finished run; empty for one that it did not write.

        Raises GroundlabError where it is missing or not as it was written.
        """
        if record not in run["records"]:
            return b""
        file = self.folder / run["file"]
        try:
            with zipfile.ZipFile(file) as members:
                content = members.read(f"{run['seed']}/{record}")
        except (OSError, KeyError, zipfile.BadZipFile, zlib.error):
            raise _damaged(file) from None
        if digest_bytes(content) != run["records"][record]["sha256"]:
            raise _damaged(file)
        return content

    def check(self) -> None:
        """Read every record. Raises GroundlabError for the first that is not as it was written."""
        for run in self.runs():
            for record in run["records"]:
                self.read(run, record)

    @classmethod
    def begin(cls, folder: Path, facts: dict[str, Any]) -> "Version":
        """Return a version without runs, in a folder; facts: what its version.json says of it as a whole."""
        storage.write_json(folder / SUMMARY, {**facts, "totals": {}, "origins": [], "variants": []})
        return cls(folder)

    def add(self, runs: Iterable[tuple[Manifest, dict[str, bytes]]]) -> None:
        """Add runs, each with its paper, as its manifest describes it, and its records: none if it has not finished."""
        variants, fresh = {each["name"]: each for each in self.facts["variants"]}, dict[str, dict[str, bytes]]()
        for run, records in runs:
            shared = {key: run.get(key) for key in _VARIANT}
            name = f"{run['method']}-{run['world']}-{digest_json([shared, bool(records)])[:8]}"
            entry = {**self._own(run), "history": [self._own(session) for session in run["history"]]}
            variants.setdefault(name, {"name": name, **shared, "runs": []})["runs"].append(entry)
            if records:
                members = {f"{run['seed']}/{record}": content for record, content in records.items()}
                fresh.setdefault(_file_of(shared, name), {}).update(members)
        for file, members in fresh.items():
            storage.write_atomic(self.folder / file, _zipped(_members(self.folder / file) | members))
        self.facts["variants"] = list(variants.values())
        self.planned = _whole(self.facts)
        self.facts["totals"] = {
            **{word: sum(run["status"] == word for run in self.planned) for word in ("finished", "failed", "missing")},
            "cpu_seconds": round(sum(run["cpu_seconds"] for run in self.planned), 2),
        }
        storage.write_json(self.folder / SUMMARY, self.facts)

    def _own(self, entry: Manifest) -> Manifest:
        """Return the keys that only a run or session has, and the number of its origin."""
        rest = {key: value for key, value in entry.items() if key not in (*_VARIANT, *_ORIGIN, *_DERIVED, "history")}
        origins, origin = self.facts["origins"], {key: entry[key] for key in _ORIGIN if key in entry}
        if origin and origin not in origins:
            origins.append(origin)
        return rest | ({"origin": origins.index(origin)} if origin else {})


def _file_of(variant: Manifest, name: str) -> str:
    return f"{variant['paper']}/runs/{name}.zip"


def _members(file: Path) -> dict[str, bytes]:
    if not file.is_file():
        return {}
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(members: dict[str, bytes]) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED, 9)
    return packed.getvalue()


def _whole(facts: dict[str, Any]) -> list[Manifest]:
    """Each run as its own manifest described it, by paper and name."""

    def whole(entry: Manifest) -> Manifest:
        rest = {key: value for key, value in entry.items() if key != "origin"}
        return {**facts["origins"][entry["origin"]], **rest} if "origin" in entry else rest

    found = []
    for variant in facts["variants"]:
        shared = {key: variant[key] for key in _VARIANT} | {"file": _file_of(variant, variant["name"])}
        for each in variant["runs"]:
            run = {**shared, **whole(each), "history": [whole(session) for session in each["history"]]}
            label = f"{run['method']}-{run['world']}-s{run['seed']}"
            found.append(run | {"label": label, "name": name_of(run)})
    return sorted(found, key=lambda run: (run["paper"], run["name"]))


def name_of(run: Manifest) -> str:
    """Return what a version calls a run: `always-KeyInBox-s0-6d9be00e`."""
    return f"{run['method']}-{run['world']}-s{run['seed']}-{run['hash'][:8]}"


def _damaged(file: Path) -> GroundlabError:
    return GroundlabError(f"{file} is damaged or missing; git checkout {file}, or reproduce its version again")


def is_version(folder: Path) -> bool:
    """Return True if a folder holds a version, also one of 1.x, which `Version` refuses."""
    return (folder / SUMMARY).is_file() or (folder / MANIFEST).is_file()


def versions_below(home: Path) -> list[Version]:
    """Return the versions in a results folder, by name."""
    return [Version(file.parent) for file in sorted(home.glob(f"[!.]*/{SUMMARY}"))]


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
