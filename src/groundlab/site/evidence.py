"""What the pages of claims and runs are made of: every published version is read once.

    evidence = collect(repository_root() / "results", limit=None)
    evidence.claims["glam-french"]      # a claim at each scale, the largest first: verdict, levels, runs behind it
    evidence.runs["glam-...-1a2b3c4d"]  # a published run: what it was, its curves, its evaluations

Versions are those that `results/reference.json` names; verdicts are those of their claims.json. Curves are thinned for
a screen: a point is the mean of so many updates in a row.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from groundlab.core import plugins
from groundlab.core.versions import Version
from groundlab.report.claims import Claim, load_claims
from groundlab.report.front_page import Published, published
from groundlab.report.judging import Level, levels_of, runs_behind
from groundlab.report.records import load, running_success
from groundlab.report.verdicts import Word
from groundlab.site import sample

POINTS = 200  # of a curve at most
_COUNTERS = ("frames", "timesteps", "iteration")  # what a curve may be drawn over, the best first
_ALSO_DRAWN = ("length", "entropy", "loss")  # besides what a paper's claims may name
Curve = tuple[list[int], list[float | None]]


@dataclass(frozen=True)
class Judged:
    """A claim at one published scale."""

    claim: Claim
    scale: str
    folder: Path
    """The version's."""
    stored: dict[str, Any]
    """Its row of claims.json."""
    levels: dict[str, list[Level]]
    runs: list[str]

    @property
    def verdict(self) -> Word:
        """Outcome of the claim."""
        return Word(self.stored["verdict"])


@dataclass(frozen=True)
class StoredRun:
    """A published run."""

    facts: dict[str, Any]
    """Those of a row of `Records.runs`."""
    version: Version
    counter: str
    """What its curves are drawn over; empty where it did not learn."""
    each: int
    """How many updates a point of its curves is the mean of."""
    curves: dict[str, Curve]
    evaluations: dict[str, list[dict[str, Any]]]
    """The rows of its final evaluation by policy."""

    @property
    def name(self) -> str:
        """Its folder's."""
        return self.facts["run"]

    @property
    def page(self) -> str:
        """The name of its page."""
        return f"{self.facts['paper']}-{self.name}"

    @property
    def group(self) -> str:
        """The runs of its arm in its world at its scale, which differ by their seeds: a name for a file."""
        parts = (self.version.scale, self.facts["paper"], self.facts["arm"], self.facts["world"])
        return re.sub(r"[^\w.-]+", "-", "-".join(parts))


@dataclass
class Evidence:
    """All published claims and runs by their names."""

    claims: dict[str, list[Judged]] = field(default_factory=dict)
    runs: dict[str, StoredRun] = field(default_factory=dict)


def collect(results: Path, limit: int | None = None) -> Evidence:
    """Read what is published below a results folder: everything, or some claims that were judged and their runs."""
    offered, found = list(published(results)), Evidence()
    judged = dict.fromkeys(row["id"] for each in offered for row in each.claims if row["verdict"] != Word.NOT_TESTED)
    only = None if limit is None else set(sample(judged, limit))
    for each in offered:
        rows = [row for row in each.claims if only is None or row["id"] in only]
        if rows:
            _add(found, each, rows, all_runs=only is None)
    for scales in found.claims.values():  # the largest stands last in reference.json
        scales.reverse()
    return found


def _add(found: Evidence, each: Published, rows: list[dict[str, Any]], all_runs: bool) -> None:
    """Take over what a version holds of a paper: these claims, and all its runs or those behind them."""
    known, records = {claim.id: claim for claim in load_claims(each.paper)}, load(each.folder, each.paper)
    behind = set[str]()
    for row in rows:
        if (claim := known.get(row["id"])) is None:
            continue
        judged = row["verdict"] != Word.NOT_TESTED
        runs = list(runs_behind(claim, records)) if judged else []
        entry = Judged(claim, each.scale, each.folder, row, levels_of(claim, records) if judged else {}, runs)
        found.claims.setdefault(claim.id, []).append(entry)
        behind.update(runs)
    metrics = (*plugins.load(plugins.PAPERS)[each.paper].metrics, *_ALSO_DRAWN)
    by_run = {run: curve for run, curve in records.curves.groupby("run", sort=False)}
    for run in records.stored:
        if all_runs or run.facts["run"] in behind:
            counter, size, curves = thinned(by_run.get(run.facts["run"], pd.DataFrame()), metrics)
            policies: dict[str, list[dict[str, Any]]] = {}
            for row in run.evaluations:
                policies.setdefault(row["policy"], []).append(row)
            stored = StoredRun(run.facts, records.version, counter, size, curves, policies)
            found.runs.setdefault(stored.name, stored)


def thinned(curve: pd.DataFrame, metrics: Collection[str]) -> tuple[str, int, dict[str, Curve]]:
    """(counter, updates a point, {metric: (counts, values)}) of a run's training, of at most `POINTS` points each.

    Success is over the last hundred episodes where updates say how many ended in them. A record of an evaluation alone
    has no curves.
    """
    if len(curve) < 2:
        return "", 1, {}
    counter, each = next(name for name in _COUNTERS if _complete(curve, name)), -(-len(curve) // POINTS)
    found: dict[str, Curve] = {}
    for metric in metrics:
        if metric not in curve:
            continue
        counts, values = curve[counter].to_numpy(dtype=float), curve[metric].to_numpy(dtype=float)
        if metric == "success" and counter == "frames" and _complete(curve, "episodes"):
            counts, values = running_success(curve)
        if np.isfinite(values).any():
            blocks = [slice(start, start + each) for start in range(0, len(values), each)]
            found[metric] = [int(counts[block][-1]) for block in blocks], [_mean(values[block]) for block in blocks]
    return counter, each, found


def _complete(curve: pd.DataFrame, name: str) -> bool:
    return name in curve and bool(np.isfinite(curve[name].to_numpy(dtype=float)).all())


def _mean(values: np.ndarray) -> float | None:
    """The mean of what is finite in four digits; None for nothing."""
    values = values[np.isfinite(values)]
    return float(f"{values.mean():.4g}") if len(values) else None
