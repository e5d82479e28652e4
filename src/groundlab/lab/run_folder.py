"""The store of runs: `.runs/<hash>` under the results folder, and the manifest that each run keeps of itself.

A manifest is opened when a run starts and closed with `finished`, `failed` or `unfinished`; a run killed without
warning stays `unfinished`. Times are summed over resumptions, `history` holds each with its commit, packages and
machine, and the rules are those of the first. The manifest of a finished run holds sizes and digests of its records:
one that is gone or of another size makes the run unfinished again. Each session names the sources that were at work: an
unfinished run of other sources starts again.
"""

import datetime
import fcntl
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

from groundlab.core import git, storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import MANIFEST, Manifest, made_by
from groundlab.core.manifests import read_run as read_manifest
from groundlab.core.paths import find_root
from groundlab.core.run import RECORDS, RunSpec
from groundlab.core.sources import sources
from groundlab.lab import machine
from groundlab.lab.rounding import rounding
from groundlab.lab.run_hash import input_digests
from groundlab.papers import registry

Status = Literal["new", "finished", "failed", "unfinished"]
NOTES = "notes.json"
"""What a method leaves in its run's folder for the manifest: what failed and was made good, and where."""
_HEARTBEAT_SECONDS = 10.0  # so that a kill loses at most this much of the manifest
_LOCK_SECONDS = 60.0  # an orphaned worker notices within a step that its parent is gone, then saves and leaves


def path_of(results: Path, run_hash: str) -> Path:
    """Where a run of that hash lives."""
    return results / ".runs" / run_hash


def status_of(folder: Path) -> Status:
    """What a run folder holds; a finished run with a damaged record is `unfinished`."""
    return standing(folder)[0]


def standing(folder: Path) -> tuple[Status, bool]:
    """Return a run folder's status, and whether other sources than this process has were last at work in it."""
    manifest = read_manifest(folder)
    if manifest is None:
        return "new", False
    return "unfinished" if damage_of(folder, manifest) else manifest["status"], made_by(manifest) != sources()


def start_again(folder: Path, reason: str, files: Collection[str] = ()) -> None:
    """Remove what a run has made so far, or only these files of it, and write the reason into its log."""
    made = (path for path in folder.iterdir() if path.is_dir() or path.name in (*RECORDS, "timing.jsonl", NOTES))
    with storage.clear_disk_errors(folder):
        for path in [folder / name for name in files] or list(made):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"starts again: {reason}\n")


def damage_of(folder: Path, manifest: Manifest | None) -> dict[str, str]:
    """Return the problems of a finished run's records by file name; empty for whole ones and for any other run."""
    if not manifest or manifest["status"] != "finished":
        return {}
    sizes = {name: each["bytes"] for name, each in manifest.get("records", {}).items()}
    files = {name: folder / name for name in dict.fromkeys((*sizes, "config.yaml", "evaluation.json"))}
    gone = {name: "is missing" for name, file in files.items() if not file.is_file()}
    return gone or {name: "has changed" for name in sizes if files[name].stat().st_size != sizes[name]}


def read_records(folder: Path, manifest: Manifest) -> dict[str, bytes]:
    """Return the records of a finished run. Raises GroundlabError for one that is not as it was written."""
    found = {name: (folder / name).read_bytes() for name in manifest["records"]}
    for name, content in found.items():
        if storage.digest_bytes(content) != manifest["records"][name]["sha256"]:
            line = f"{folder / name} has changed since it was written"
            raise GroundlabError(f"{line}; delete {folder} and run the same command again")
    return found


def _digests_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of those of the records that are there."""
    contents = {name: (folder / name).read_bytes() for name in RECORDS if (folder / name).is_file()}
    return {name: {"bytes": len(each), "sha256": storage.digest_bytes(each)} for name, each in contents.items()}


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Own a run folder: two processes never write to one, the second waits for a while, then is refused."""
    with storage.clear_disk_errors(folder):
        if folder.is_dir() and any(folder.iterdir()) and not os.path.lexists(folder / ".lock"):
            raise GroundlabError(f"{folder} holds other files and no run; choose an empty or a new folder")
        storage.make_folder(folder)
        lock = (folder / ".lock").open("w", encoding="utf-8")
    with lock:
        _lock(lock, folder)
        yield


def _lock(file: Any, folder: Path) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise GroundlabError(f"{folder} is in use by another process; wait for it or stop it") from None
            time.sleep(0.1)


class ManifestWriter:
    """The manifest of a run while the run is going on."""

    def __init__(self, folder: Path, spec: RunSpec, run_hash: str, processes: int = 1):
        """Open the manifest of a run, written by the first of its processes.

        Raises GroundlabError when the folder holds a run of another name.
        """
        self._folder = folder
        earlier = read_manifest(folder)
        if earlier and earlier["hash"] != run_hash:
            # "with iterations 60, not 80"
            old, new = ({**each, **each["settings"]} for each in (earlier, spec.model_dump()))
            names = [name for name in new if name != "settings" and old.get(name) != new[name]]
            differing = ", ".join(f"{name} {old.get(name)}, not {new[name]}" for name in names)
            difference = f"with {differing}" if names else "of other inputs, packages or behaviour"
            raise GroundlabError(f"{folder} holds a run {difference}; choose another folder")
        damaged = damage_of(folder, earlier)
        self.finished = earlier is not None and earlier["status"] == "finished" and not damaged
        other = earlier is not None and not self.finished and made_by(earlier) != sources()
        self.restart: tuple[str, Collection[str]] | None = None
        """Why what is here is not continued, and which files are made again if not all are."""
        if other:
            self.restart = ("it was made by other sources", ())
        elif damaged:
            trained_again = not damaged.keys().isdisjoint({"metrics.jsonl", MANIFEST})
            self.restart = (" ".join(next(iter(damaged.items()))), () if trained_again else damaged.keys())
        self._usage, self._written_at = machine.Usage(), time.monotonic()
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._origin = {**machine.facts(), "rounding": rounding()}
        seen = {"gpus": os.environ[machine.VISIBLE]} if machine.VISIBLE in os.environ else {}
        session = {"started": started, "processes": processes, "sources": sources(), **self._origin, **seen}
        self._history = [*(earlier["history"] if earlier and not other else []), session]
        self._rules = earlier["rules"] if earlier and not other and "rules" in earlier else rules()
        self._warned: Counter[str] = Counter()
        self.manifest: Manifest = earlier if earlier and self.finished else self._opening(spec, run_hash)

    def _opening(self, spec: RunSpec, run_hash: str) -> Manifest:
        return {
            "hash": run_hash,
            "label": spec.label,
            **spec.model_dump(),
            "changed": registry.changed_settings(spec),
            "status": "unfinished",
            "error": None,
            "inputs": input_digests(spec.method, spec.world, spec.settings),
            "rules": self._rules,
            **self._origin,
        }

    @contextmanager
    def counting_warnings(self) -> Iterator[None]:
        """While the run goes on, count what the package warns of by kind: a fallback plan is no plan of the model's."""
        counter = logging.StreamHandler()  # which still shows them, in the run's log
        counter.setLevel(logging.WARNING)
        counter.addFilter(lambda record: self._warned.update([f"{record.name}: {record.msg}"]) is None)
        logging.getLogger("groundlab").addHandler(counter)
        try:
            yield
        finally:
            logging.getLogger("groundlab").removeHandler(counter)

    def write(self, status: Status = "unfinished", error: str | None = None) -> None:
        self._history[-1]["deterministic"] = machine.deterministic()
        self._history[-1].update(self._usage.so_far(), status=status)
        if self._warned:
            self._history[-1]["warnings"] = dict(sorted(self._warned.items()))
        totals = {
            "wall_seconds": round(sum(session["wall_seconds"] for session in self._history), 2),
            "cpu_seconds": round(sum(session["cpu_seconds"] for session in self._history), 3),
            "peak_memory_mib": max(session["peak_memory_mib"] for session in self._history),
        }
        on_device = [session["peak_device_mib"] for session in self._history if "peak_device_mib" in session]
        totals |= {"peak_device_mib": max(on_device)} if on_device else {}
        self.manifest.update(totals, status=status, error=error, history=self._history)
        if (self._folder / NOTES).is_file():
            self.manifest["notes"] = storage.read_json(self._folder / NOTES)
        if status == "finished":
            self.manifest["records"] = _digests_of(self._folder)
        storage.write_json(self._folder / MANIFEST, self.manifest)
        self._written_at = time.monotonic()

    def heartbeat(self) -> None:
        """Write the manifest again if that was long ago."""
        if time.monotonic() - self._written_at > _HEARTBEAT_SECONDS:
            self.write()


@cache
def rules() -> dict[str, Any]:
    """By what runs will be judged, as it stands now: the digest of each paper's claims, and the commit they are of.

    All papers, because several may judge a run. The commit is the last that changed the claims of this repository, None
    where they are not committed as they are.
    """
    files = {name: paper.config_folder / "claims.yaml" for name, paper in registry.papers().items() if paper.is_here}
    files = {name: file for name, file in files.items() if file.is_file()}
    ours = [file for file in files.values() if (root := find_root()) and file.is_relative_to(root)]
    digests = {name: storage.digest_bytes(file.read_bytes()) for name, file in files.items()}
    return {"claims": digests, "commit": git.last_change(*ours) if ours else None}


def mark(folder: Path, status: Status, error: str | None) -> None:
    """Close the manifest of a run whose process is gone, or reopen it (where it can still be written)."""
    with suppress(GroundlabError):
        manifest = read_manifest(folder)
        if manifest and manifest["status"] not in ("finished", status):
            storage.write_json(folder / MANIFEST, {**manifest, "status": status, "error": error})
