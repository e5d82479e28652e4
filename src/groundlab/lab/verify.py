"""A reviewer's own sample: stored runs, drawn by a number that the reviewer chooses, run again and compared.

    groundlab verify 1.0.0-quick-20261122-abcdef0 --draw 4711

Which runs are drawn follows from the number and the version alone. Runs that took longer than a limit are left out and
counted, so that a sample takes minutes. On the kind of CPU that made the version the records should be equal to the
byte; on another one rounding differs, and the evaluations are shown side by side. The same command continues a sample
that was interrupted; otherwise it runs all of it again.
"""

import json
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import Manifest, read_run
from groundlab.core.versions import Version
from groundlab.lab import executor, machine
from groundlab.lab.comparison import Difference, roundings_of, spec_of, unequal_records
from groundlab.lab.config import Estimate
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.lab.rounding import rounding
from groundlab.lab.run_folder import path_of, standing, status_of
from groundlab.lab.run_hash import hash_run

CONFIDENCE = 0.95


@dataclass
class Sample:
    """The drawn runs of a version, and how many there were to draw from."""

    version: Version
    drawn: list[Manifest]
    candidates: int
    too_long: int

    @property
    def seconds(self) -> float:
        """CPU seconds that they took when they were stored."""
        return sum(run["cpu_seconds"] for run in self.drawn)


@dataclass
class Verification:
    """What came of running a sample again; entries are lines that begin with a run's name."""

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


def draw(version: Version, count: int, number: int, at_most: float) -> Sample:
    """The runs of a version that a number draws, without replacement; at_most: CPU seconds of a run.

    Raises GroundlabError where no run is short enough.
    """
    runs = version.runs()
    short = [run for run in runs if run["cpu_seconds"] <= at_most]
    if not short:
        least = min((run["cpu_seconds"] for run in runs), default=0.0)
        line = f"no run of {version.folder} took {at_most:g} CPU seconds or less; --at-most {least + 1:.0f}"
        raise GroundlabError(line)
    places = np.random.default_rng(number).choice(len(short), min(count, len(short)), replace=False)
    return Sample(version, [short[place] for place in sorted(places)], len(short), len(runs) - len(short))


def verify(sample: Sample, scratch: Path, workers: int | None = None) -> Verification:
    """Run a sample again, in a store of its own, and compare the digests of the records.

    Raises GroundlabError for runs that want a device which is not here.
    """
    here = roundings_of({"rounding": rounding(), "hardware": machine.hardware()})
    there = here.union(*(roundings_of(run) for run in sample.drawn))
    result = Verification(sample, same_rounding=there == here)
    planned = list[tuple[Manifest, PlannedRun]]()
    for stored in sample.drawn:
        try:
            planned.append((stored, run := _planned(stored, scratch)))
            result.changed += run.hash != stored["hash"]
        except GroundlabError as error:
            result.failed.append(f"{_name(stored)}: {error}")
    plan = Plan(sample.version.scale, (), tuple(run for _, run in planned), scratch, again=True)
    if all(run.status in ("finished", "failed") for run in plan.runs):
        shutil.rmtree(scratch, ignore_errors=True)  # of a call that was not interrupted: no evidence for this one
    plan.forget_others()
    pending, outcome = len(plan.pending()), executor.run(plan, workers)
    result.unfinished = len(outcome.unfinished)
    result.ran = pending - result.unfinished
    for stored, run in planned:
        if run.hash in outcome.failed:
            result.failed.append(f"{_name(stored)}: {outcome.failed[run.hash]}")
        elif status_of(plan.folder_of(run)) == "finished":
            _compare(result, stored, plan.folder_of(run))
    return result


def names_line(version: Version) -> str:
    """How many runs of a version have another name today: behaviour, packages or inputs have changed."""
    runs, others = version.runs(), Counter[str]()
    for run in runs:
        try:
            others[run["paper"]] += hash_run(spec_of(run)) != run["hash"]
        except GroundlabError:  # its method, world, or one of its settings or files is no more
            others[run["paper"]] += 1
    totals = Counter(run["paper"] for run in runs)
    found = [f"{count} of {totals[paper]} of {paper}" for paper, count in sorted(others.items()) if count]
    if not found:
        return f"{version.name}: all {len(runs)} runs have today's names"
    return f"{version.name}: under another name today, so that `reproduce` makes them anew: {', '.join(found)}"


def _planned(stored: Manifest, scratch: Path) -> PlannedRun:
    spec = spec_of(stored)
    run_hash = hash_run(spec)
    estimate = Estimate(seconds=max(1.0, stored["cpu_seconds"]), megabytes=1)
    status, other = standing(path_of(scratch, run_hash))
    return PlannedRun(spec, stored["paper"], run_hash, estimate, status, other)


def _compare(result: Verification, stored: Manifest, folder: Path) -> None:
    fresh = read_run(folder)
    assert fresh  # it has finished
    unequal = unequal_records(stored, fresh)
    if not unequal:
        result.equal.append(_name(stored))
        return
    evaluations = json.loads(result.sample.version.read(stored, "evaluation.json"))
    rows = _differing_means(evaluations, storage.read_json(folder / "evaluation.json"))
    means = "; ".join(f"{name} {new:.4g}, stored {old:.4g}" for name, old, new in rows)
    result.differing.append(f"{_name(stored)}: {unequal[0]}; {means or 'evaluations are equal'}")
    found = Difference.of(fresh, stored, unequal[0])
    result.faults += found.same_rounding or not (found.trained or "device" in stored["settings"])


def _differing_means(stored: list[Any], fresh: list[Any]) -> list[tuple[str, float, float]]:
    """(policy and metric, stored, fresh) of the means that differ, four at most."""
    rows: list[tuple[str, Any, Any]] = [
        (f"{old['policy']} {metric}", value, new["mean"].get(metric))
        for old, new in zip(stored, fresh, strict=False)
        for metric, value in old["mean"].items()
        if isinstance(value, int | float) and isinstance(new["mean"].get(metric), int | float)
    ]
    return [row for row in rows if row[1] != row[2]][:4]


def _name(run: Manifest) -> str:
    return f"{run['paper']}/{run['name']}"
