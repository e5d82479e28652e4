"""Stored results as tables: evaluation rows, learning curves, periodic tests and the facts of every run.

    records = load("results/0.1.0-quick-20261121-ab12cd3")
    records.evaluations      one row an episode of a final evaluation
    records.curves           one row a training iteration
    records.tests            one row a test during training
    rows = select(records.evaluations, method="mediator", world="KeyInBox", policy="sampled")
    table(rows, "steps")     # [seeds, layouts]

Every frame names run, paper, method, world, seed and the run's `settings` in each row. `success` is in percent
everywhere above this file (0 or 100 for one episode).
"""

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from groundlab.core import plugins, storage
from groundlab.core.errors import GroundlabError, clip, names_in_line, shown_value
from groundlab.core.manifests import Manifest
from groundlab.core.versions import SUMMARY, Version
from groundlab.report.claims import settings_fit

FIRST_FINISHED = "first-finished"  # the policy of episodes that are counted as they finish: they belong to no layout
T = TypeVar("T")
WINDOW = 100  # finished training episodes in a running success rate: some 3,000 frames of an agent that fails
_LARGEST = 1e18  # of a number in a record
_NUMBERS = {"success", "test_success", "steps", "return", "interactions", "frames", "episodes", "layout", "iteration"}
_KEYS = ("run", "paper", "method", "world", "seed")
_SHARES, _OWN = {"success", "test_success"}, {*_KEYS, "settings"}


@dataclass(frozen=True)
class Remembering:
    """What is made of it once is known; what `replace` makes of it begins with nothing."""

    known: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, made at the first call with this key. Nobody may change it."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]


@dataclass(frozen=True)
class Records(Remembering):
    """Contents of a version, of all papers or of one."""

    version: Version
    runs: pd.DataFrame
    evaluations: pd.DataFrame
    curves: pd.DataFrame
    tests: pd.DataFrame
    stored: "tuple[_StoredRun, ...]" = ()

    @property
    def scale(self) -> str:
        """The version's scale."""
        return self.version.scale

    @property
    def papers(self) -> list[str]:
        """The papers that have runs here."""
        return sorted(self.runs["paper"].unique())

    def of_paper(self, paper: str) -> "Records":
        """The records of one paper as if it had been run alone: no number may depend on what else was run."""
        if self.papers == [paper]:
            return self
        mine = [run for run in self.stored if run.facts["paper"] == paper]
        return self.once(f"paper {paper}", lambda: _assembled(self.version, mine))

    def methods(self, paper: str) -> set[str]:
        """The methods of a paper that have finished runs here."""
        return set(self.runs.loc[self.runs["paper"] == paper, "method"])


def load(folder: str | Path, paper: str | None = None) -> Records:
    """Read a version, or what it holds of a paper; the last that was read is not read again while it has not changed.

    Raises GroundlabError for a folder without runs, and for records that are missing or not as they were written.
    """
    file = Path(folder) / SUMMARY
    state = file.stat() if file.is_file() else None
    return _read(file.parent, (state.st_ino, state.st_size, state.st_mtime_ns) if state else None, paper)


@lru_cache(maxsize=1)
def _read(home: Path, state: Any, paper: str | None) -> Records:
    version = Version(home)
    runs = version.runs(paper)
    if not runs:
        raise GroundlabError(f"{home} holds no runs; name a folder under results/, or make one: groundlab reproduce")
    return _assembled(version, [_StoredRun.of(version, run) for run in runs])


def _assembled(version: Version, stored: "list[_StoredRun]") -> Records:
    return Records(
        version=version,
        runs=_frame([run.facts for run in stored]),
        evaluations=_frame([row for run in stored for row in run.evaluations]),
        curves=_frame([row for run in stored for row in run.curve]),
        tests=_frame([row for run in stored for row in run.tests]),
        stored=tuple(stored),
    )


def select(
    frame: pd.DataFrame,
    *,
    method: str,
    world: str,
    policy: str | None = None,
    settings: dict[str, Any] | None = None,
) -> pd.DataFrame:
    """The rows of one method in one world; `settings` must hold in the run, others may be anything."""
    if frame.empty:
        return frame
    keep = (frame["method"] == method) & (frame["world"] == world)
    if policy is not None:
        keep &= frame["policy"] == policy
    rows = frame.loc[keep]
    if not settings:
        return rows
    runs = rows.drop_duplicates("run")[["run", "settings"]].itertuples(index=False)
    fitting = [run for run, given in runs if settings_fit(given, settings)]
    return rows.loc[rows["run"].isin(fitting)]


def table(rows: pd.DataFrame, metric: str, columns: str = "layout") -> np.ndarray:
    """One metric as an array [seeds, columns], columns = layouts or iterations in ascending order.

    Raises GroundlabError when seeds differ in their columns, or when one seed was run twice with other settings.
    """
    seeds, row = np.unique(rows["seed"].to_numpy(), return_inverse=True)
    names, column = np.unique(rows[columns].to_numpy(), return_inverse=True)
    places = np.bincount(row * len(names) + column, minlength=len(seeds) * len(names))
    if (places > 1).any():
        _refuse_duplicates(rows, columns)
    without = rows[metric].isna().to_numpy()
    if without.any():
        run = rows.loc[without, "run"].iloc[0]
        raise GroundlabError(f"{run} has a row without a number for {metric}; delete its folder and reproduce again")
    if not places.all():
        raise GroundlabError(f"the seeds differ in their {columns}s; run the same reproduce command again")
    values = np.empty((len(seeds), len(names)))  # by hand: pandas' pivot took a fifth of the time of a review
    values[row, column] = rows[metric].to_numpy(dtype=float)
    return values


def holds_training(curves: pd.DataFrame) -> bool:
    """Whether records are of training; what follows a rule leaves a single record, of its evaluation."""
    return not curves.empty and bool((curves["iteration"] > 1).any())


def seeds_differ(rows: pd.DataFrame, curves: pd.DataFrame) -> bool:
    """Whether each seed is another policy: a training, or a network of the mediator's with its first weights."""
    played = rows.loc[rows["paper"] == "mediator"].drop_duplicates("run")[["method", "settings"]]
    return holds_training(curves) or any(
        method == "untrained" or (method == "random" and settings["fidelity"]["random_policy"] == "untrained")
        for method, settings in played.itertuples(index=False)
    )


def episode_columns(policy: str) -> str:
    """What tells the episodes of a policy apart: their layout, or their order where they were counted as they ended."""
    return "episode" if policy == FIRST_FINISHED else "layout"


def tables_of_both(ours: pd.DataFrame, theirs: pd.DataFrame, metric: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """(ours [seeds, layouts], theirs, paired): a metric of two policies' episodes on the layouts that both played.

    Unpaired, and whole, where they share no layout or episodes were counted as they finished.
    """
    columns = [episode_columns(rows["policy"].iloc[0]) for rows in (ours, theirs)]
    shared = set(ours["layout"]) & set(theirs["layout"]) if columns == ["layout", "layout"] else set()
    if shared:
        ours, theirs = (rows.loc[rows["layout"].isin(list(shared))] for rows in (ours, theirs))
    first, second = (table(rows, metric, each) for rows, each in zip((ours, theirs), columns, strict=True))
    return first, second, bool(shared)


def _by_seed(curves: pd.DataFrame, order: str = "frames", metric: str = "") -> Any:
    """Training records in their order, of one metric those that have it, grouped by seed.

    Raises GroundlabError when one seed was run twice with other settings.
    """
    _refuse_duplicates(curves, "iteration")
    recorded = curves.loc[curves[metric].notna()] if metric else curves
    return recorded.sort_values(order).groupby("seed")


def training_means(curves: pd.DataFrame, metric: str = "success") -> np.ndarray:
    """[seeds, 1]: a metric of training episodes, averaged over all frames; updates in which none ended are left out.

    It is 0 for a seed of which none ever ended (`seeds_without_episodes`).
    """
    means = []
    for _, curve in _by_seed(curves):
        frames, values = np.diff(curve["frames"], prepend=0), curve[metric].to_numpy(dtype=float)
        finite = np.isfinite(values)
        means.append([np.average(values[finite], weights=frames[finite]) if finite.any() else 0.0])
    return np.array(means)


def seeds_without_episodes(curves: pd.DataFrame) -> list[int]:
    """The seeds of which no training episode ever ended."""
    ended = np.isfinite(curves["success"].astype(float))
    return sorted({*curves["seed"]} - {*curves.loc[ended, "seed"]})


def tenth_means(curves: pd.DataFrame, metric: str, last: bool) -> np.ndarray:
    """[seeds, 1]: a metric's mean over the first or the last tenth of the updates that recorded it, one at least."""
    means = []
    for _, curve in _by_seed(curves, "iteration", metric):
        values = curve[metric].to_numpy(dtype=float)
        count = max(1, len(values) // 10)
        means.append([np.mean(values[-count:] if last else values[:count])])
    return np.array(means)


def falls(curves: pd.DataFrame, metric: str) -> np.ndarray:
    """[seeds, 1]: how far the last record of a metric lies below the best one; 0 where training ends at its best."""
    recorded = _by_seed(curves, "iteration", metric)[metric]
    return (recorded.max() - recorded.last()).to_numpy(dtype=float)[:, None]


def last_tests(curves: pd.DataFrame, metric: str, count: int = 5) -> np.ndarray:
    """[seeds, 1]: the mean of a metric over the last tests during training, so that no one checkpoint decides."""
    tests = _by_seed(curves, "iteration", metric)[metric]
    return tests.apply(lambda each: each.tail(count).mean()).to_numpy()[:, None]


def running_success(curve: pd.DataFrame, filling: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(frames, success in percent), both [points], of one run: a point an update, over the last `WINDOW` episodes.

    A point's window begins with the update that holds the first of these episodes. Points before there are so many
    episodes are left out: short episodes finish first, so early points flatter.
    filling: those points too, over all episodes so far. Left out are then only the first points, before any episode has
    failed: until the time limit has passed once, only successes can have ended.
    """
    curve = curve.sort_values("frames")
    counts = curve["episodes"].to_numpy(dtype=float)
    totals = np.nan_to_num(curve["success"].to_numpy(dtype=float)) * counts
    ended, won = np.cumsum(counts), np.cumsum(totals)
    first = np.searchsorted(ended, ended - WINDOW, side="right") - 1  # the last update that is not needed
    before = np.where(first >= 0, ended[first], 0.0), np.where(first >= 0, won[first], 0.0)
    full = np.maximum.accumulate(won < 100 * ended) if filling else ended >= WINDOW
    return curve["frames"].to_numpy()[full], ((won - before[1]) / np.maximum(ended - before[0], 1))[full]


def levels_at(curves: pd.DataFrame, frames: int) -> np.ndarray:
    """[seeds, 1]: the running success of each seed after so many frames, or where its curve begins, if that is later.

    Raises GroundlabError where a seed was trained for fewer frames, or has no curve.
    """
    levels = []
    for seed, curve in _by_seed(curves):
        if max(curve["frames"]) < frames:
            raise GroundlabError(f"seed {seed} has no {frames:,} frames; run its scale to the end")
        points, level = running_success(curve)
        if not len(points):
            raise GroundlabError(f"seed {seed} ended fewer than {WINDOW} episodes; run more frames")
        levels.append([np.interp(frames, points, level)])
    return np.array(levels)


def _refuse_duplicates(rows: pd.DataFrame, columns: str) -> None:
    if rows.duplicated(["seed", columns]).any():
        same = rows.loc[rows.duplicated(["seed", columns], keep=False)].get("run", pd.Series(dtype=str))
        which = f" ({names_in_line(same.unique()[:2])})" if len(same) else ""
        hint = "give their entries an arm each, select by more settings, or take out what was put there"
        raise GroundlabError(f"two runs of one seed match{which}; {hint}")


def iterations(rows: pd.DataFrame) -> np.ndarray:
    """The iterations that rows of `curves` or `tests` hold, ascending: the columns of `table(..., "iteration")`."""
    return np.unique(rows["iteration"].to_numpy(dtype=int))


@dataclass(frozen=True)
class _StoredRun:
    version: Version
    facts: dict[str, Any]

    @classmethod
    def of(cls, version: Version, run: Manifest) -> "_StoredRun":
        known = _todays_names(run["paper"])
        method, settings = known.get(run["method"], run["method"]), _renamed(run["settings"], known)
        facts = {key: run[key] for key in ("paper", "label", "world", "seed", "wall_seconds", "cpu_seconds")}
        named = {"arm": run["arm"] or method, "arm_label": run["arm_label"] or "", "manifest": run}
        return cls(version, {"run": run["name"], "method": method, "settings": settings, **facts, **named})

    @property
    def names(self) -> dict[str, str]:
        return _todays_names(self.facts["paper"])

    def _row(self, measured: dict[str, Any], **place: Any) -> dict[str, Any]:
        """Return the measured values at a locus of this run, under today's names."""
        keys = {key: self.facts[key] for key in (*_KEYS, "settings")}
        renamed = _renamed(measured, self.names)
        return keys | place | renamed | {key: 100.0 * renamed[key] for key in _SHARES & renamed.keys()}

    @cached_property
    def evaluations(self) -> list[dict[str, Any]]:
        try:
            stored = json.loads(self.version.read(self.facts["manifest"], "evaluation.json"))
            if not isinstance(stored, list):
                raise TypeError("no list of evaluations")
            return [
                self._row(_sane(row), policy=self.names.get(each["policy"], each["policy"]), episode=number)
                for each in stored
                for number, row in enumerate(each["rows"])
            ]
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            raise self._foreign("evaluation.json", error) from None

    @cached_property
    def curve(self) -> list[dict[str, Any]]:
        plain = [{key: value for key, value in record.items() if key != "test"} for record in self._metrics]
        return [self._row(record) for record in plain]

    @cached_property
    def tests(self) -> list[dict[str, Any]]:
        return [
            self._row(means, iteration=record["iteration"], policy=policy)
            for record in self._metrics
            for policy, means in _renamed(record.get("test", {}), self.names).items()
        ]

    @cached_property
    def _metrics(self) -> list[dict[str, Any]]:
        file = "metrics.jsonl"
        records = storage.parse_lines(self.version.read(self.facts["manifest"], file), f"{self.facts['run']}/{file}")
        for number, record in enumerate(records, start=1):
            if not isinstance(record, dict) or not isinstance(record.get("iteration"), int):
                raise self._foreign(file, TypeError(f"line {number} names no iteration"))
            try:
                tests = record.get("test", {})
                for each in (record, *tests.values()):
                    _sane(each)
            except (TypeError, AttributeError, ValueError) as error:
                raise self._foreign(file, error) from None
        numbers = [record["iteration"] for record in records]
        if any(later <= before for before, later in pairwise([-1, *numbers])):
            raise self._foreign(file, ValueError("iterations do not rise"))
        return records

    def _foreign(self, record: str, error: Exception) -> GroundlabError:
        reason, where = clip(repr(error), 120), f"{record} of {self.facts['run']} in {self.version.folder}"
        return GroundlabError(f"{where} is not what a run writes ({reason}); make that run again")


@cache
def _todays_names(paper: str) -> dict[str, str]:
    """Former names of a paper's methods, settings, policies and metrics, each with today's."""
    offer = plugins.load(plugins.PAPERS).get(paper)
    methods = {old: each.name for each in offer.methods for old in each.formerly} if offer else {}
    return {**offer.former_names, **methods} if offer else {}


def _renamed(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()} if names else values


def _sane(row: dict[str, Any]) -> dict[str, Any]:
    """The row itself. Raises TypeError or ValueError for what no run measures."""
    measured = {key: value for key, value in row.items() if type(value) is float or type(value) is int}
    if too_large := [key for key, value in measured.items() if not -_LARGEST < value < _LARGEST]:  # NaN, too
        raise ValueError(f"{too_large[0]} is {shown_value(measured[too_large[0]], 40)}")
    for key in _NUMBERS & (row.keys() - measured.keys()):
        if not isinstance(row[key], bool | None):
            raise TypeError(f"{key} is {shown_value(row[key], 40)}, no number")
    for key in _SHARES & measured.keys():
        if not 0 <= row[key] <= 1:
            raise ValueError(f"{key} is {shown_value(row[key], 40)}, not from 0 to 1")
    if own := _OWN & row.keys():
        raise ValueError(f"{min(own)} belongs to the run, not to a row")
    return row


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=[*_KEYS, "settings", "policy", "iteration", "layout"])
