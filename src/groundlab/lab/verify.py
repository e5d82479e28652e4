"""A reviewer's own sample: stored runs, drawn by a number that the reviewer chooses, run again and compared.

    groundlab verify 1.0.0-quick-20261122-abcdef0 --draw 4711

Which runs are drawn follows from the number and the version alone. Runs that took longer than a limit are left out and
counted, so that a sample takes minutes. On the kind of CPU that made the version the records should be equal to the
byte; on another one rounding differs, and the evaluations are shown side by side. The same command continues a sample
that was interrupted; otherwise it runs all of it again.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from groundlab.core import manifests, storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import Manifest
from groundlab.core.run import RunSpec
from groundlab.lab import executor, machine
from groundlab.lab.comparison import difference, roundings_of, unequal_records
from groundlab.lab.config import Estimate
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.lab.rounding import rounding
from groundlab.lab.run_folder import path_of, standing, status_of
from groundlab.lab.run_hash import hash_run
from groundlab.papers import registry

CONFIDENCE = 0.95


@dataclass
class Sample:
    """The drawn runs of a version, and how many there were to draw from."""

    version: Path
    drawn: list[tuple[Path, Manifest]]
    candidates: int
    too_long: int

    @property
    def seconds(self) -> float:
        """CPU seconds that they took when they were stored."""
        return sum(manifest["cpu_seconds"] for _, manifest in self.drawn)


@dataclass
class Verification:
    """What came of running a sample again; entries are lines that begin with a run's folder."""

    sample: Sample
    same_rounding: bool
    """Whether this machine rounds as those did that made the runs."""
    equal: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    """With the evaluations of both."""
    failed: list[str] = field(default_factory=list)
    """With the error: also runs whose settings this code does not know."""
    faults: int = 0
    """Number of differing runs that rounding does not explain: it is the same, or nothing was trained."""
    ran: int = 0
    """Number of runs that ended in this call; the others did in a call before it, which was interrupted."""
    changed: int = 0
    """Number of runs with another name today: other packages, inputs or behaviour."""
    unfinished: int = 0

    def bound(self) -> int:
        """How many of the runs that could be drawn differ at most, at 95 % confidence.

        The largest number of differing runs of which a sample of this size shows so few with a chance above 5 %
        (hypergeometric, one-sided).
        """
        total, misses = self.sample.candidates, len(self.differing)
        numbers = np.arange(misses, total - len(self.equal) + 1)
        chances = hypergeom.cdf(misses, total, numbers, len(self.equal) + misses)
        return int(numbers[(chances > 1 - CONFIDENCE) | (numbers == misses)].max())

    def lines(self) -> list[str]:
        total = self.sample.candidates
        found = [f"{len(self.equal)} of {len(self.sample.drawn)} drawn runs are equal to the byte"]
        found.append(f"{self.ran} of them ran now")
        if self.same_rounding and self.equal and not self.failed:
            found.append(f"so at most {self.bound()} of the {total} runs differ, at 95 % confidence")
        if not self.same_rounding:
            found.append("this machine rounds differently: compare the evaluations")
            found += [f"rounding does not explain {self.faults} of the differing runs"] if self.faults else []
        if self.changed and self.differing:
            found.append("some have another name today: git checkout the version's commit, verify again")
        kinds = (("differs", self.differing), ("failed", self.failed))
        return found + [f"{kind}: {line}" for kind, lines in kinds for line in lines]


def draw(version: Path, count: int, number: int, at_most: float) -> Sample:
    """The runs of a version that a number draws, without replacement; at_most: CPU seconds of a run.

    Raises GroundlabError for a damaged version, and where no run is short enough.
    """
    runs = list(manifests.check_runs(version).items())
    short = [(folder, manifest) for folder, manifest in runs if manifest["cpu_seconds"] <= at_most]
    if not short:
        least = min((manifest["cpu_seconds"] for _, manifest in runs), default=0.0)
        raise GroundlabError(f"no run of {version} took {at_most:g} CPU seconds or less; --at-most {least + 1:.0f}")
    places = np.random.default_rng(number).choice(len(short), min(count, len(short)), replace=False)
    return Sample(version, [short[place] for place in sorted(places)], len(short), len(runs) - len(short))


def verify(sample: Sample, scratch: Path, workers: int | None = None) -> Verification:
    """Run a sample again, in a store of its own, and compare the records.

    Raises GroundlabError for runs that want a device which is not here.
    """
    version = manifests.read_version(sample.version)
    here = roundings_of({"rounding": rounding(), "hardware": machine.hardware()})
    there = here.union(*(roundings_of(manifest) for _, manifest in sample.drawn))
    result = Verification(sample, same_rounding=there == here)
    planned: dict[Path, PlannedRun] = {}
    for folder, manifest in sample.drawn:
        try:
            planned[folder] = run = _planned(folder, manifest, scratch)
            result.changed += run.hash != manifests.name_of(folder, manifest)
        except GroundlabError as error:
            result.failed.append(f"{_name(folder)}: {error}")
    plan = Plan(version["scale"], (), tuple(planned.values()), scratch, again=True)
    if all(run.status in ("finished", "failed") for run in plan.runs):
        shutil.rmtree(scratch, ignore_errors=True)  # of a call that was not interrupted: no evidence for this one
    plan.forget_others()
    pending, outcome = len(plan.pending()), executor.run(plan, workers)
    result.unfinished = len(outcome.unfinished)
    result.ran = pending - result.unfinished
    for folder, run in planned.items():
        if run.hash in outcome.failed:
            result.failed.append(f"{_name(folder)}: {outcome.failed[run.hash]}")
        elif status_of(plan.folder_of(run)) == "finished":
            _compare(result, folder, plan.folder_of(run))
    return result


def renamed(version: Path) -> dict[str, tuple[int, int]]:
    """Paper -> (runs that have another name today, all runs) of a version: behaviour, packages or inputs have changed.

    Raises GroundlabError for a damaged version.
    """
    found: dict[str, tuple[int, int]] = {}
    for folder, manifest in manifests.check_runs(version).items():
        paper = folder.parent.parent.name
        try:
            name = hash_run(_spec_of(folder, manifest))
        except GroundlabError:
            name = None  # its method, world, or one of its settings or files is no more
        others, runs = found.get(paper, (0, 0))
        found[paper] = (others + (name != manifests.name_of(folder, manifest)), runs + 1)
    return found


def names_line(version: Path) -> str:
    """What `renamed` found, in a line."""
    found = renamed(version)
    others = [f"{count} of {runs} of {paper}" for paper, (count, runs) in sorted(found.items()) if count]
    if not others:
        return f"{version.name}: all {sum(runs for _, runs in found.values())} runs have today's names"
    return f"{version.name}: under another name today, so that `reproduce` makes them anew: {', '.join(others)}"


def _spec_of(folder: Path, manifest: Manifest) -> RunSpec:
    stored = RunSpec(**{name: manifest[name] for name in RunSpec.model_fields})
    return registry.stored_spec(stored, manifests.changed_settings(folder, manifest))


def _planned(folder: Path, manifest: Manifest, scratch: Path) -> PlannedRun:
    spec = _spec_of(folder, manifest)
    run_hash = hash_run(spec)
    estimate = Estimate(seconds=max(1.0, manifest["cpu_seconds"]), megabytes=1)
    status, other = standing(path_of(scratch, run_hash))
    return PlannedRun(spec, folder.parent.parent.name, run_hash, estimate, status, other)


def _compare(result: Verification, stored: Path, fresh: Path) -> None:
    unequal = unequal_records(stored, fresh)
    if not unequal:
        result.equal.append(_name(stored))
        return
    means = "; ".join(f"{name} {new:.4g}, stored {old:.4g}" for name, old, new in _differing_means(stored, fresh))
    result.differing.append(f"{_name(stored)}: {unequal[0]}; {means or 'evaluations are equal'}")
    found, settings = difference(fresh, stored, unequal[0]), dict(result.sample.drawn)[stored]["settings"]
    result.faults += found.same_rounding or not (found.trained or "device" in settings)


def _differing_means(stored: Path, fresh: Path) -> list[tuple[str, float, float]]:
    """(policy and metric, stored, fresh) of the means that differ, four at most."""
    pairs = zip(*(storage.read_json(folder / "evaluation.json") for folder in (stored, fresh)), strict=False)
    rows: list[tuple[str, Any, Any]] = [
        (f"{old['policy']} {metric}", value, new["mean"].get(metric))
        for old, new in pairs
        for metric, value in old["mean"].items()
        if isinstance(value, int | float) and isinstance(new["mean"].get(metric), int | float)
    ]
    return [row for row in rows if row[1] != row[2]][:4]


def _name(folder: Path) -> str:
    return f"{folder.parent.parent.name}/{folder.name}"
