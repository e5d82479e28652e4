"""Means, differences and ratios with intervals that hold their level with few seeds (docs/artifact.md#intervals).

Data are tables [seeds, layouts]; what has no layouts (an area under a learning curve) is [seeds, 1]. Nothing is
resampled, so an interval has no Monte-Carlo noise. Two questions decide how wide it is:

    trained    each seed is a training of its own: a t interval over seeds. Otherwise seeds are repetitions of one
               policy, and only episodes and layouts vary.
    drawn      layouts stand for all layouts of the world; otherwise for themselves, as against a published value of
               the very same layouts.

Shares get a binomial interval of as many episodes as their variance is worth (Korn & Graubard 1998): a t interval of
100 %, 100 % and 97 % would leave the range. Simulated coverage: tests/unit/report/test_coverage.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
_ALL = 1_000_000  # relabellings: more than ten seeds against ten have, so a permutation test is exact
SEEDS_FOR_A_VERDICT = 5  # below, an ordering of trained agents is seen, and no verdict
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its interval, in the unit of the data; NaN ends where one seed gives none."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    @property
    def bars(self) -> list[list[float]]:
        """How far the ends lie below and above the value, [2, 1]: an error bar of matplotlib's."""
        return [[self.value - self.low], [self.high - self.value]]

    def as_json(self) -> dict[str, float | None]:
        """Value and ends; null for an end that is not known."""
        return {"value": self.value, **{key: getattr(self, key) if self.known else None for key in ("low", "high")}}

    def holds(self, value: float, rounding: float = 0.0) -> bool:
        """Whether `value`, rounded by at most so much, lies inside the interval, its ends included."""
        # Six decimals: the upper end of a share of nearly all episodes is below 100 % by its binary digits only.
        return round(self.low - rounding, 6) <= value <= round(self.high + rounding, 6)


@dataclass(frozen=True)
class _Spread:
    """The variance of a mean, and the degrees of freedom that it was estimated with."""

    variance: float
    freedom: float

    def __add__(self, other: "_Spread") -> "_Spread":
        """Of a sum or difference of independent means (Welch, Satterthwaite)."""
        total = self.variance + other.variance
        if not total > 0:
            return _Spread(total, min(self.freedom, other.freedom))
        parts = self.variance**2 / self.freedom + other.variance**2 / other.freedom
        return _Spread(total, total**2 / parts)

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        return float(stats.t.ppf(0.5 + confidence / 2, self.freedom) * np.sqrt(self.variance))


_UNKNOWN = _Spread(np.nan, 1.0)


def bounds_of(metric: str) -> Bounds | None:
    """(0, 100) for a success rate, which is in percent; None for what has no bounds."""
    return (0.0, 100.0) if metric == "success" else None


def mean_interval(
    table: np.ndarray,
    *,
    trained: bool = True,
    drawn: bool = True,
    bounds: Bounds | None = None,
    repetitions: int = 0,
) -> Estimate:
    """The mean of `table` [seeds, layouts] with its interval.

    repetitions: the interval is that of the difference from so many more of the same repetitions on the same layouts.
    bounds: those of a share. Its episodes lie on one bound or the other; means of seeds [seeds, 1] in between.
    """
    spread, value = _spread(table, trained, drawn), float(table.mean())
    if not np.isfinite(spread.variance):
        return Estimate(value, np.nan, np.nan)
    if repetitions:
        least = _one_event(table.size, bounds) if bounds else 0.0
        spread = _Spread(max(spread.variance, least) * (1 + len(table) / repetitions), spread.freedom)
    if bounds and table.shape[1] > 1 and (trained or drawn):
        return _share_interval(value, spread, table.size if trained else table.shape[1], bounds)
    half, (lowest, highest) = spread.half_width(), bounds or (-np.inf, np.inf)
    return Estimate(value, max(value - half, lowest), min(value + half, highest))


def success_of(rows: Iterable[Mapping[str, Any]]) -> Estimate:
    """The share of episodes that succeed, in percent, of one policy's rows of an evaluation."""
    values = np.array([[100.0 * row["success"] for row in rows]])
    return mean_interval(values, trained=False, bounds=bounds_of("success"))


def difference_interval(
    ours: np.ndarray,
    theirs: np.ndarray,
    *,
    paired: bool,
    trained: tuple[bool, bool] = (True, True),
    same_seeds: bool = False,
    bounds: Bounds | None = None,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The mean of `ours` minus that of `theirs`, tables [seeds, layouts]; `bounds` says that they hold shares.

    paired: both hold the same layouts in the same order, so that what makes a layout hard cancels out.
    same_seeds: both measure the same trainings, in the same order; what a seed does to both cancels out or adds up.
    Raises ValueError when paired tables differ in their layouts.
    """
    if paired and ours.shape[1] != theirs.shape[1]:
        raise ValueError(f"paired tables need the same layouts, got {ours.shape[1]} and {theirs.shape[1]}")
    gap = float(ours.mean() - theirs.mean())
    if same_seeds and (paired or ours.shape[1] == theirs.shape[1] == 1):
        spread = _spread(ours - theirs, True, True)
    elif paired and ours.shape[1] > 1:
        spread = _paired_spread(ours, theirs, trained)
    else:
        spread = _spread(ours, trained[0], True) + _spread(theirs, trained[1], True)
    if not np.isfinite(spread.variance):
        return Estimate(gap, np.nan, np.nan)
    least = sum(_doubt_at_a_bound(side, bounds) for side in (ours, theirs)) if bounds else 0.0
    half = _Spread(max(spread.variance, least), spread.freedom).half_width(confidence)
    return Estimate(gap, gap - half, gap + half)


def _doubt_at_a_bound(table: np.ndarray, bounds: Bounds) -> float:
    """The variance of a share of episodes that never or always occurred, with one more of each (Agresti and Caffo)."""
    low, high = bounds
    if table.shape[1] == 1 or not ((table == low).all() or (table == high).all()):
        return 0.0
    return _one_event(table.size, bounds)


def _one_event(episodes: int, bounds: Bounds) -> float:
    """The variance of a share of so many episodes of which one, and one more than none, were the rarer way."""
    share, episodes = 1 / (episodes + 2), episodes + 2
    return (bounds[1] - bounds[0]) ** 2 * share * (1 - share) / episodes


def agrees_with_share(ours: Estimate, published: float, episodes: int) -> bool:
    """Whether a share in percent may equal one that was printed from so many episodes.

    The interval of the difference holds 0; it is put together from both intervals (Newcombe 1998), the printed share's
    by Clopper and Pearson.
    """
    exact = stats.binomtest(round(published / 100 * episodes), episodes).proportion_ci(CONFIDENCE)
    low, high, gap = 100 * exact.low, 100 * exact.high, ours.value - published
    if gap > 0:
        return gap**2 <= (ours.value - ours.low) ** 2 + (high - published) ** 2
    return gap**2 <= (ours.high - ours.value) ** 2 + (published - low) ** 2


def ratio_interval(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """The mean of `ours` [seeds] over that of `theirs` [seeds], positive values: Welch's interval of the logarithm."""
    ratio = float(ours.mean() / theirs.mean())
    seeds = [(_over_seeds(side), side.mean() ** 2) for side in (ours, theirs)]
    first, second = (_Spread(each.variance / square, each.freedom) for each, square in seeds)
    spread = first + second
    if not np.isfinite(spread.variance):
        return Estimate(ratio, np.nan, np.nan)
    factor = float(np.exp(spread.half_width()))
    return Estimate(ratio, ratio / factor, ratio * factor)


def band(curves: np.ndarray, bounds: Bounds | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, low, high), each [points], of curves [seeds, points]: a t interval at each point, cut off at `bounds`."""
    middle = curves.mean(axis=0)
    half = np.array([_over_seeds(points).half_width() for points in curves.T])
    low, high = middle - half, middle + half
    return middle, *(np.clip(end, *bounds) if bounds else end for end in (low, high))


def in_two_groups(means: np.ndarray) -> bool:
    """Whether seeds [seeds], success in percent, either learn or do not: a gap of 30 points and of half their range.

    Of such seeds an interval covers too little: five with 7 of 10 learning 0.80 to 0.90 (docs/artifact.md#intervals).
    """
    ordered = np.sort(means)
    gap = float(np.diff(ordered).max(initial=0.0))
    return gap >= 30.0 and gap >= (ordered[-1] - ordered[0]) / 2


def permutation_p(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The exact one-sided p of `ours` [seeds] having the higher mean than `theirs` [seeds], by relabelling seeds.

    Three seeds against three cannot go below 1/20, five against five below 1/252; NaN where a side has one seed.
    """
    if min(len(ours), len(theirs)) < 2:
        return float("nan")
    test = stats.permutation_test(
        (ours, theirs), _gap, permutation_type="independent", alternative="greater", n_resamples=_ALL, vectorized=True
    )
    return float(test.pvalue)


def _gap(ours: np.ndarray, theirs: np.ndarray, axis: int = -1) -> np.ndarray:
    # Nine decimals: relabellings that tie in the data must tie in binary numbers, too.
    return np.round(ours.mean(axis=axis) - theirs.mean(axis=axis), 9)


def _spread(table: np.ndarray, trained: bool, drawn: bool) -> _Spread:
    """How well the mean of a table is known."""
    seeds, layouts = table.shape
    if not trained:
        return _over_seeds(table.mean(axis=0)) if drawn else _within_layouts(table)
    if seeds == 1:
        return _UNKNOWN
    if not drawn or layouts == 1:
        return _over_seeds(table.mean(axis=1))
    return _crossed([table.mean(axis=1)], table.mean(axis=0), _interaction(table), seeds - 1)


def _paired_spread(ours: np.ndarray, theirs: np.ndarray, trained: tuple[bool, bool]) -> _Spread:
    """Of a difference on shared layouts: seeds of each trained side, and layouts by what they do to the difference."""
    if any(learnt and len(side) == 1 for side, learnt in zip((ours, theirs), trained, strict=True)):
        return _UNKNOWN
    sides = [side for side, learnt in zip((ours, theirs), trained, strict=True) if learnt]
    least = min((len(side) for side in sides), default=ours.shape[1]) - 1
    noise = sum(_interaction(side) for side in sides)
    return _crossed([side.mean(axis=1) for side in sides], ours.mean(axis=0) - theirs.mean(axis=0), noise, least)


def _crossed(seed_means: list[np.ndarray], layout_means: np.ndarray, noise: float, least: float) -> _Spread:
    """Seeds crossed with layouts: the noise of single episodes stands in both means and is taken off once.

    `least` bounds the degrees of freedom from below.
    """
    over_layouts = _over_seeds(layout_means)
    by_seed = [_over_seeds(means) for means in seed_means]
    over_seeds = sum((each.variance for each in by_seed), 0.0)
    total = max(over_seeds + over_layouts.variance - noise, over_seeds, over_layouts.variance)
    parts = sum(each.variance**2 / each.freedom for each in (*by_seed, over_layouts))
    return _Spread(total, max(total**2 / parts, least) if parts > 0 else max(least, 1.0))


def _over_seeds(values: np.ndarray) -> _Spread:
    """Of the mean of independent values [n]."""
    if len(values) < 2:
        return _UNKNOWN
    return _Spread(float(values.var(ddof=1)) / len(values), len(values) - 1)


def _within_layouts(table: np.ndarray) -> _Spread:
    """Of repetitions of one policy on layouts that stand for themselves."""
    seeds, layouts = table.shape
    if seeds == 1:
        return _UNKNOWN
    return _Spread(float(table.var(axis=0, ddof=1).mean()) / table.size, layouts * (seeds - 1))


def _interaction(table: np.ndarray) -> float:
    """The variance that single episodes leave in the mean of a table: the residual of seed and layout effects."""
    seeds, layouts = table.shape
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    return float((rest**2).sum()) / ((seeds - 1) * (layouts - 1)) / table.size


def _share_interval(value: float, spread: _Spread, episodes: int, bounds: Bounds) -> Estimate:
    """Clopper-Pearson's interval of a share, with as many episodes as its variance is worth.

    Few degrees of freedom take two factors off that number. One is the square of normal over t quantile. The other is
    1 + 1/freedom, since the spread of shares near a bound is skewed: it brings the simulated coverage to its level.
    """
    low, high = bounds
    share, variance = (value - low) / (high - low), spread.variance / (high - low) ** 2
    worth = min(episodes, share * (1 - share) / variance) if variance > 0 else episodes
    tail = 0.5 + CONFIDENCE / 2
    worth *= float(stats.norm.ppf(tail) / stats.t.ppf(tail, spread.freedom)) ** 2 / (1 + 1 / spread.freedom)
    wins, losses = share * worth, (1 - share) * worth
    bottom = stats.beta.ppf(1 - tail, wins, losses + 1) if wins > 1e-9 else 0.0
    top = stats.beta.ppf(tail, wins + 1, losses) if losses > 1e-9 else 1.0
    return Estimate(value, low + (high - low) * float(bottom), low + (high - low) * float(top))
