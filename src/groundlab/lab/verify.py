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
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import hypergeom

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import Manifest, read_run
from groundlab.core.versions import Version
from groundlab.lab import executor
from groundlab.lab.comparison import Comparison, label_of, spec_of
from groundlab.lab.config import Estimate
from groundlab.lab.plan import Plan, PlannedRun
from groundlab.lab.run_folder import path_of, standing
from groundlab.lab.run_hash import hash_run

CONFIDENCE = 0.95


def draw(version: Version, count: int, number: int, at_most: float) -> tuple[list[Manifest], int]:
    """Return the runs of a version that a number draws, without replacement, and how many there were to draw from.

    at_most: CPU seconds of a run. Raises GroundlabError where no run is short enough.
    """
    runs = version.runs()
    short = [run for run in runs if run["cpu_seconds"] <= at_most]
    if not short:
        least = min((run["cpu_seconds"] for run in runs), default=0.0)
        line = f"no run of {version.folder} took {at_most:g} CPU seconds or less; --at-most {least + 1:.0f}"
        raise GroundlabError(line)
    places = np.random.default_rng(number).choice(len(short), min(count, len(short)), replace=False)
    return [short[place] for place in sorted(places)], len(short)


def verify(
    version: Version, drawn: list[Manifest], scratch: Path, workers: int | None = None
) -> tuple[Comparison, int]:
    """Run drawn runs again, in a store of their own, and compare them; also returns how many are unfinished.

    Raises GroundlabError for runs that want a device which is not here.
    """
    found, planned = Comparison([version.name]), list[tuple[Manifest, PlannedRun]]()
    for stored in drawn:
        try:
            planned.append((stored, _planned(stored, scratch)))
        except GroundlabError as error:  # settings that this code does not know
            found.failed.append(f"{label_of(stored)}: {error}")
    plan = Plan(version.scale, (), tuple(run for _, run in planned), scratch, again=True)
    if all(run.status in ("finished", "failed") for run in plan.runs):
        shutil.rmtree(scratch, ignore_errors=True)  # of a call that was not interrupted: no evidence for this one
    plan.forget_others()
    outcome = executor.run(plan, workers)
    for stored, run in planned:
        fresh = read_run(plan.folder_of(run))
        if run.hash in outcome.failed:
            found.failed.append(f"{label_of(stored)}: {outcome.failed[run.hash]}")
        elif fresh and fresh["status"] == "finished":
            found.add(fresh, stored)
            if found.differing and (last := found.differing[-1]).label == label_of(stored):
                means = _differing_means(version, stored, plan.folder_of(run))
                found.differing[-1] = replace(last, record=f"{last.record}; {means or 'evaluations are equal'}")
    return found, len(outcome.unfinished)


def bound(found: Comparison, candidates: int) -> int:
    """Return how many of the runs that could be drawn differ at most, at 95 % confidence.

    The largest number of differing runs of which a sample of this size shows so few with a chance above 5 %
    (hypergeometric, one-sided).
    """
    misses, drawn = len(found.differing), len(found.equal) + len(found.differing)
    numbers = np.arange(misses, candidates - len(found.equal) + 1)
    chances = hypergeom.cdf(misses, candidates, numbers, drawn)
    return int(numbers[(chances > 1 - CONFIDENCE) | (numbers == misses)].max())


def names_line(version: Version) -> str:
    """Say how many runs of a version have another name today: behaviour, packages or inputs have changed."""
    runs, others = version.runs(), Counter[str]()
    for run in runs:
        try:
            others[run["paper"]] += hash_run(spec_of(run)) != run["hash"]
        except GroundlabError:  # its method, world, or one of its settings or files has gone
            others[run["paper"]] += 1
    totals = Counter(run["paper"] for run in runs)
    found = [f"{count} of {totals[paper]} of {paper}" for paper, count in sorted(others.items()) if count]
    if not found:
        return f"{version.name}: all {len(runs)} runs have today's names"
    return f"{version.name}: under another name today, so that `reproduce` repeats them: {', '.join(found)}"


def _planned(stored: Manifest, scratch: Path) -> PlannedRun:
    spec = spec_of(stored)
    run_hash = hash_run(spec)
    estimate = Estimate(seconds=max(1.0, stored["cpu_seconds"]), megabytes=1)
    status, other = standing(path_of(scratch, run_hash))
    return PlannedRun(spec, stored["paper"], run_hash, estimate, status, other)


def _differing_means(version: Version, run: Manifest, fresh: Path) -> str:
    """The means of evaluations that differ, four at most: `rule steps 12.5, stored 13`."""
    evaluations = json.loads(version.read(run, "evaluation.json")), storage.read_json(fresh / "evaluation.json")
    rows = [
        f"{old['policy']} {metric} {new['mean'][metric]:.4g}, stored {value:.4g}"
        for old, new in zip(*evaluations, strict=False)
        for metric, value in old["mean"].items()
        if isinstance(value, int | float) and new["mean"].get(metric) not in (None, value)
    ]
    return "; ".join(rows[:4])
