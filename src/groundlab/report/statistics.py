"""Aggregates and intervals for few seeds: interquartile mean, bootstrap intervals, paired differences.

All functions are pure; randomness comes only from the generator that the caller passes, so that every interval is
repeatable to the last digit. Definitions follow Agarwal et al. 2021 ("Deep RL at the edge of the statistical
precipice") and agree with their package rliable, whose values tests/golden/rliable.json keeps.

Two kinds of data, two rules of resampling:
    scores [runs, tasks]      `improvement_interval`: runs are drawn anew within each task
    tables [seeds, layouts]   `two_level_interval`: seeds are drawn, and one set of layouts for all of them;
                              a method without randomness has one seed, and then only layouts are drawn
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

RESAMPLES = 2000
CONFIDENCE = 0.95
Statistic = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % interval, all in the unit of the data."""

    value: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether `value` lies inside the interval, its ends included."""
        return self.low <= value <= self.high


def mean(scores: np.ndarray) -> np.ndarray:
    """The mean over the last axis."""
    return scores.mean(axis=-1)


def iqm(scores: np.ndarray) -> np.ndarray:
    """The interquartile mean over the last axis: the mean of what lies between the quartiles."""
    return stats.trim_mean(scores, 0.25, axis=-1)


def percentile_interval(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 2.5 % and 97.5 % percentiles of resampled values, over the first axis."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(samples, [tail, 100 - tail], axis=0)
    return low, high


def band(
    curves: np.ndarray, statistic: Statistic, rng: np.random.Generator, resamples: int = RESAMPLES
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(aggregate, low, high), each [points], of curves [seeds, points]: whole curves are resampled, pointwise ends."""
    seeds = len(curves)
    resampled = curves[rng.integers(seeds, size=(resamples, seeds))]
    low, high = percentile_interval(statistic(np.moveaxis(resampled, 1, -1)))
    return statistic(curves.T), low, high


def two_level_interval(table: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES) -> Estimate:
    """The mean of an evaluation table [seeds, layouts] over other seeds and other layouts.

    All seeds play the same layouts, so a resample draws seeds, and one set of layouts for all of them: what makes a
    layout hard is not averaged away by having more seeds.
    """
    means = _seed_means(table, rng, resamples)
    columns = rng.integers(table.shape[1], size=means.shape)
    low, high = percentile_interval(np.take_along_axis(means, columns, 1).mean(axis=1))
    return Estimate(float(table.mean()), float(low), float(high))


def difference_interval(
    ours: np.ndarray, theirs: np.ndarray, paired: bool, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Estimate:
    """The mean of `ours` minus that of `theirs`, tables [seeds, layouts], seeds resampled separately.

    paired: both tables hold the same layouts in the same order, and each resample draws one set of layouts for both,
    so that what makes a layout hard cancels out. Raises ValueError when paired tables differ in their layouts.
    """
    if paired and ours.shape[1] != theirs.shape[1]:
        raise ValueError(f"paired tables need the same layouts, got {ours.shape[1]} and {theirs.shape[1]}")
    a, b = _seed_means(ours, rng, resamples), _seed_means(theirs, rng, resamples)
    columns = rng.integers(ours.shape[1], size=(resamples, ours.shape[1]))
    others = columns if paired else rng.integers(theirs.shape[1], size=(resamples, theirs.shape[1]))
    gaps = np.take_along_axis(a, columns, 1).mean(axis=1) - np.take_along_axis(b, others, 1).mean(axis=1)
    low, high = percentile_interval(gaps)
    return Estimate(float(ours.mean() - theirs.mean()), float(low), float(high))


def ratio_interval(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Estimate:
    """The mean of `ours` [seeds] over that of `theirs` [seeds], both resampled; positive values."""
    means = [each[rng.integers(len(each), size=(resamples, len(each)))].mean(axis=1) for each in (ours, theirs)]
    low, high = percentile_interval(means[0] / means[1])
    return Estimate(float(ours.mean() / theirs.mean()), float(low), float(high))


def _seed_means(table: np.ndarray, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """Layout means over resampled seeds: [resamples, layouts]."""
    return table[rng.integers(len(table), size=(resamples, len(table)))].mean(axis=1)


def probability_of_improvement(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The chance that a run of ours beats one of theirs on the same task, ties counted half; both [runs, tasks]."""
    wins = (ours[:, None] > theirs[None]) + 0.5 * (ours[:, None] == theirs[None])
    return float(wins.mean())


def improvement_interval(
    ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Estimate:
    """`probability_of_improvement` with its interval; runs of both [runs, tasks] are resampled within each task.

    With few runs the interval is coarse: where each of ours beats each of theirs it is [1, 1], whatever the distance.
    """
    tasks = np.arange(ours.shape[1])
    a, b = (each[rng.integers(len(each), size=(resamples, *each.shape)), tasks] for each in (ours, theirs))
    wins = (a[:, :, None] > b[:, None]) + 0.5 * (a[:, :, None] == b[:, None])
    low, high = percentile_interval(wins.mean(axis=(1, 2, 3)))
    return Estimate(probability_of_improvement(ours, theirs), float(low), float(high))
