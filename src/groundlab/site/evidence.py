"""What the pages of claims and runs are made of: every published version is read once.

    evidence = collect(repository_root() / "results")
    evidence.claims["glam-french"]      # a claim at each scale, the largest first: verdict, levels, runs behind it
    evidence.runs["glam-...-1a2b3c4d"]  # a published run: what it was, its curves, its evaluations

Versions are those that `results/reference.json` names, claims are as their claims.json holds them, and nothing is
judged here. Curves are thinned for a screen: a point is the mean of so many updates in a row.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from groundlab.core import plugins
from groundlab.report.claims import Claim, load_claims
from groundlab.report.front_page import Published, published
from groundlab.report.judging import Level, levels_of, runs_behind
from groundlab.report.records import Records, load, running_success
from groundlab.report.verdicts import NOT_RUN
from groundlab.site import chosen

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
    def verdict(self) -> str:
        """One of VERDICTS."""
        return self.stored["verdict"]


@dataclass(frozen=True)
class StoredRun:
    """A published run."""

    facts: dict[str, Any]
    """Those of a row of `Records.runs`."""
    scale: str
    folder: Path
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
    def home(self) -> Path:
        """Where its records are."""
        return self.folder / self.facts["paper"] / "runs" / self.name

    @property
    def group(self) -> str:
        """The runs of its arm in its world at its scale, which differ by their seeds: a name for a file."""
        parts = (self.scale, self.facts["paper"], self.facts["arm"], self.facts["world"])
        return re.sub(r"[^\w.-]+", "-", "-".join(parts))


@dataclass
class Evidence:
    """All published claims and runs by their names."""

    claims: dict[str, list[Judged]] = field(default_factory=dict)
    runs: dict[str, StoredRun] = field(default_factory=dict)


def collect(results: Path, papers: Sequence[str] = ()) -> Evidence:
    """Read what is published below a results folder, of all papers or of some the claims and the runs behind them.

    For a sample of the site these are some claims that were judged.
    """
    every = [(each.paper, row) for each in published(results) for row in each.claims]
    if papers:
        return _read(results, tuple(dict.fromkeys(row["id"] for paper, row in every if paper in papers)))
    judged = dict.fromkeys(row["id"] for _, row in every if row["verdict"] != NOT_RUN)
    some = chosen(judged)
    return _read(results, None if len(some) == len(judged) else tuple(some))


@cache
def _read(results: Path, only: tuple[str, ...] | None) -> Evidence:
    found = Evidence()
    offered = [each for each in published(results) if not only or set(only) & {row["id"] for row in each.claims}]
    for folder in dict.fromkeys(each.folder for each in offered):
        mine = [each for each in offered if each.folder == folder]
        whole = None if only else load(folder)  # of some claims the papers alone that they are of
        for each in mine:
            _add(found, each, whole.of_paper(each.paper) if whole else load(folder, each.paper), only)
    order = [(each.paper, each.scale) for each in offered]
    for judged in found.claims.values():  # the largest scale stands last in reference.json
        judged.sort(key=lambda each: order.index((each.claim.paper, each.scale)), reverse=True)
    return found


def _add(found: Evidence, each: Published, records: Records, only: Collection[str] | None) -> None:
    """Take over what a version holds of a paper."""
    known = {claim.id: claim for claim in load_claims(each.paper)}
    wanted = set[str]()
    for row in each.claims:
        if row["id"] not in known or (only and row["id"] not in only):
            continue
        claim, judged = known[row["id"]], row["verdict"] != NOT_RUN
        runs = list(runs_behind(claim, records)) if judged else []
        entry = Judged(claim, each.scale, each.folder, row, levels_of(claim, records) if judged else {}, runs)
        found.claims.setdefault(claim.id, []).append(entry)
        wanted.update(runs)
    metrics = (*plugins.load(plugins.PAPERS)[each.paper].metrics, *_ALSO_DRAWN)
    by_run = {run: curve for run, curve in records.curves.groupby("run", sort=False)}
    nothing = pd.DataFrame()
    for run in records.stored:
        if not only or run.facts["run"] in wanted:
            counter, size, curves = thinned(by_run.get(run.facts["run"], nothing), metrics)
            policies: dict[str, list[dict[str, Any]]] = {}
            for row in run.evaluations:
                policies.setdefault(row["policy"], []).append(row)
            stored = StoredRun(run.facts, each.scale, each.folder, counter, size, curves, policies)
            found.runs.setdefault(stored.name, stored)


def thinned(curve: pd.DataFrame, metrics: Collection[str]) -> tuple[str, int, dict[str, Curve]]:
    """(counter, updates a point, {metric: (counts, values)}) of a run's training, of at most `POINTS` points each.

    Success is over the last hundred episodes where updates say how many ended in them. A record of an evaluation alone
    has no curves.
    """
    if len(curve) < 2:
        return "", 1, {}
    named = {*_COUNTERS, "episodes", *metrics}.intersection(curve.columns)
    numbers = {name: curve[name].to_numpy(dtype=float) for name in named}
    whole = {name for name in named if np.isfinite(numbers[name]).all()}
    counter, each = next(name for name in _COUNTERS if name in whole), -(-len(curve) // POINTS)
    found: dict[str, Curve] = {}
    for metric in dict.fromkeys(metrics):
        if metric not in numbers or not np.isfinite(numbers[metric]).any():
            continue
        counts, values = numbers[counter], numbers[metric]
        if metric == "success" and counter == "frames" and "episodes" in whole:
            counts, values = running_success(curve)
        blocks = [slice(start, start + each) for start in range(0, len(values), each)]
        means = [_mean(values[block]) for block in blocks]
        found[metric] = [int(counts[block][-1]) for block in blocks], means
    return counter, each, found


def _mean(values: np.ndarray) -> float | None:
    """The mean of what is finite in four digits; None for nothing."""
    values = values[np.isfinite(values)]
    return float(f"{values.mean():.4g}") if len(values) else None
