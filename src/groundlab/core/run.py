"""A run is a folder: its request (`config.yaml`), its measurements, and the state to continue from.

    config.yaml       the spec: method, world, seed, settings
    metrics.jsonl     one record a step, no clock readings: compared byte for byte
    timing.jsonl      clock readings, and when the run was resumed
    evaluation.json   the evaluations, written once at the end
    checkpoint/N/     the files that a method needs to continue after step N, and checkpoint.json with the digests of
                      these and of the metrics before them
    manifest.json     written by the laboratory (lab/worker.py): versions, hardware, times, status, and the digests of
                      the records of a finished run

A method sees only `Run`: it restores, logs, and calls `advance` after each step, which saves when a checkpoint is due
and stops when a stop was asked for. A run killed at any moment and started again writes the same `metrics.jsonl`; a
checkpoint that other code saved is not continued.
"""

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from groundlab.core import manifests, storage
from groundlab.core.errors import GroundlabError, Unfinished
from groundlab.core.sources import sources
from groundlab.core.storage import digest_bytes, digest_json
from groundlab.core.yaml_files import dump_yaml

RECORDS = ("config.yaml", "metrics.jsonl", "evaluation.json")
"""The records that a finished run is judged by; a run without training steps may have no metrics."""
COMPARED = RECORDS[1:]
"""The records by which two runs are compared, byte for byte."""
CHECKPOINTS_PER_RUN = 20  # so that a kill repeats at most a twentieth of the steps
Files = dict[str, Any]
"""The files of a checkpoint by name: bytes, or a `storage.LazyFile`, which is made when it is written."""
SAVING_SHARE = 0.05
"""Of a run's time, at most, may go into checkpoints that are due by the clock."""


class RunSpec(BaseModel):
    """What a run is: one method on one world with one seed; `settings` are the method's own, fully resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    world: str
    seed: int
    settings: dict[str, Any] = {}

    @property
    def label(self) -> str:
        """How people read it: `mediator-SimpleDoorKey-s0`."""
        return f"{self.method}-{self.world}-s{self.seed}"


@dataclass(frozen=True)
class Checkpoint:
    """The saved state after `step`: file name -> content."""

    step: int
    spec: RunSpec
    files: Files
    changed: dict[str, Any] | None = None
    """The settings that differed from their defaults when the run was made, where its folder says so."""


class _Index(BaseModel):
    """checkpoint.json."""

    model_config = ConfigDict(extra="forbid", strict=True)

    step: int = Field(ge=0)
    spec: RunSpec
    metrics_bytes: int = Field(ge=0)
    metrics_sha256: str
    files: dict[str, str]
    sources: str = ""
    """The digest of the code that saved it (`core/sources.py`)."""
    seal: str = ""  # of older ones


@dataclass(frozen=True)
class Progress:
    """How far a run is; `figures` are the latest metrics worth showing."""

    step: int
    total: int
    figures: dict[str, float]


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint from a run folder, its `checkpoint/` or one `checkpoint/N`; the newest where there are several.

    Raises GroundlabError when there is none or a file does not have the hash that was recorded when it was saved.
    """
    for candidate in (folder, *_numbered(folder), *_numbered(folder / "checkpoint")):
        if (candidate / "checkpoint.json").is_file():
            changed = manifests.changed_settings(candidate.parent.parent)
            return replace(_read_checkpoint(candidate)[0], changed=changed)
    raise GroundlabError(f"no checkpoint in {folder}; give a run folder that holds checkpoint/N/checkpoint.json")


def _numbered(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first."""
    places = folder.iterdir() if folder.is_dir() else []
    found = [path for path in places if path.name.isascii() and path.name.isdecimal()]
    return sorted(found, key=lambda path: int(path.name), reverse=True)


def _read_checkpoint(folder: Path) -> tuple[Checkpoint, _Index]:
    broken = GroundlabError(f"checkpoint {folder} is corrupt; delete that folder and run the same command again")
    try:
        index = _Index.model_validate_json((folder / "checkpoint.json").read_bytes())
        files = {name: (folder / name).read_bytes() for name in index.files}
    except (OSError, ValueError, RecursionError):
        raise broken from None
    if any(digest_bytes(files[name]) != index.files[name] for name in files):
        raise broken
    return Checkpoint(index.step, index.spec, files), index


class Run:
    """The folder of one run, as its method sees it."""

    def __init__(
        self,
        folder: Path,
        spec: RunSpec,
        *,
        report: Callable[[Progress], None] = lambda progress: None,
        stop: Callable[[], bool] = lambda: False,
        checkpoint_seconds: float = 60.0,
    ):
        """Open (or create) a run folder. Raises GroundlabError when it already holds a run of another spec."""
        self.folder, self.spec = storage.make_folder(folder), spec
        self._report, self._stop = report, stop
        self._checkpoint_seconds = checkpoint_seconds
        self._saved_step, self._saved_at, self._started = 0, time.monotonic(), time.monotonic()
        self._saving_seconds = 0.0  # what the last save took
        self._claim_folder()

    @property
    def _way_back(self) -> str:
        return f"delete {self.folder} and run the same command again"

    def _claim_folder(self) -> None:
        config, text = self.folder / "config.yaml", dump_yaml(self.spec.model_dump())
        if not config.exists():
            storage.write_atomic(config, text)
        elif not config.is_file() or config.read_bytes() != text.encode():
            problem = f"{self.folder} already holds another run, or its config.yaml is damaged"
            raise GroundlabError(f"{problem}; choose another folder, or {self._way_back}")

    def restore(self) -> Checkpoint | None:
        """The newest checkpoint, with the metrics cut back to it; None for a fresh start.

        Raises GroundlabError when the checkpoint or the metrics before it are not what was written.
        """
        shutil.rmtree(self.folder / "checkpoint" / "partial", ignore_errors=True)
        newest = _numbered(self.folder / "checkpoint")
        if not newest:
            storage.truncate(self.folder / "metrics.jsonl", 0)
            return None
        checkpoint, index = _read_checkpoint(newest[0])
        if index.sources != sources():
            shutil.rmtree(self.folder / "checkpoint")
            self.say(f"starts again: checkpoint {checkpoint.step} was saved by other sources")
            return self.restore()
        self._check_metrics(newest[0], index)
        storage.truncate(self.folder / "metrics.jsonl", index.metrics_bytes)
        self._saved_step = checkpoint.step
        storage.append_line(self.folder / "timing.jsonl", {"event": "resumed", "step": checkpoint.step})
        self.say(f"resumed at iteration {checkpoint.step}")
        return checkpoint

    def _check_metrics(self, place: Path, index: _Index) -> None:
        """Raises GroundlabError unless the checkpoint is of this run, and the metrics are those before it."""
        if place.name != str(index.step) or digest_json(index.spec.model_dump()) != digest_json(self.spec.model_dump()):
            raise GroundlabError(f"checkpoint {place} is of another run or step; {self._way_back}")
        file = self.folder / "metrics.jsonl"
        before = file.read_bytes()[: index.metrics_bytes] if file.is_file() else b""
        if file.is_dir() or (len(before), digest_bytes(before)) != (index.metrics_bytes, index.metrics_sha256):
            raise GroundlabError(f"{file} is not what checkpoint {index.step} was saved with; {self._way_back}")

    def part(self, name: str, spec: RunSpec) -> "Run":
        """Another run that this one needs first, in the folder `name` inside its own; it stops and resumes with it."""
        seconds = self._checkpoint_seconds
        return Run(self.folder / name, spec, report=self._report, stop=self._stop, checkpoint_seconds=seconds)

    def say(self, line: str) -> None:
        """Add a line to the run's log."""
        with storage.clear_disk_errors(self.folder), (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def log(self, record: dict[str, Any]) -> None:
        """Append one record to `metrics.jsonl`. It must not hold clock readings."""
        storage.append_line(self.folder / "metrics.jsonl", record)

    def advance(self, step: int, total: int, state: Callable[[], Files], **figures: float) -> None:
        """Say that `step` of `total` is done: shows progress, saves `state()` when due, stops when asked to.

        Raises Unfinished after saving, when a stop was asked for.
        """
        stopping = self._stop() and step < total
        seconds = round(time.monotonic() - self._started, 3)
        storage.append_line(self.folder / "timing.jsonl", {"step": step, "seconds": seconds})
        self._report(Progress(step, total, figures))
        if stopping or self._due(step, total):
            began = time.monotonic()
            self._save(step, state())
            self._saving_seconds = time.monotonic() - began
        if stopping:
            self.say(f"stopped at iteration {step}")
            raise Unfinished(f"{self.spec.label} stopped at iteration {step} of {total}; the same command continues it")

    def _due(self, step: int, total: int) -> bool:
        every = max(1, math.ceil(total / CHECKPOINTS_PER_RUN))
        late = time.monotonic() - self._saved_at > max(self._checkpoint_seconds, self._saving_seconds / SAVING_SHARE)
        return step > self._saved_step and (step - self._saved_step >= every or late or step == total)

    def _save(self, step: int, files: Files) -> None:
        """Write all files beside, flush them, rename the folder into place, then drop older checkpoints."""
        home = storage.make_folder(self.folder / "checkpoint")
        partial = home / "partial"
        shutil.rmtree(partial, ignore_errors=True)
        file = self.folder / "metrics.jsonl"
        metrics = file.read_bytes() if file.exists() else b""
        index = {
            "step": step,
            "spec": self.spec.model_dump(),
            "metrics_bytes": len(metrics),
            "metrics_sha256": digest_bytes(metrics),
            "sources": sources(),
            "files": {name: storage.write_atomic(partial / name, content) for name, content in files.items()},
        }
        storage.write_json(partial / "checkpoint.json", index)
        with storage.clear_disk_errors(home):
            os.rename(partial, home / str(step))  # noqa: PTH104 - fails, as it should, if the target is not empty
        for old in _numbered(home):
            if int(old.name) != step:
                shutil.rmtree(old, ignore_errors=True)
        self._saved_step, self._saved_at = step, time.monotonic()

    @contextmanager
    def abandonable(self) -> Iterator[None]:
        """Around work that is done anew when it was cut short, and writes no records: a stop ends it.

        Raises Unfinished, at its beginning here, at once in the laboratory (lab/worker.py).
        """
        if self._stop():
            raise self._stopped()
        yield

    def _stopped(self) -> Unfinished:
        return Unfinished(f"{self.spec.label} stopped before its evaluation was done; the same command continues it")

    def write_evaluation(self, evaluations: list[dict[str, Any]]) -> None:
        """Store the evaluations: `[{"policy": name, "mean": {...}, "rows": [{...}, ...]}, ...]`."""
        storage.write_json(self.folder / "evaluation.json", evaluations)
