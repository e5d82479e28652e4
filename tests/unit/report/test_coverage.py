"""Intervals cover the truth as often as they say: simulated tables with variance of seeds, of layouts and of both."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from groundlab.report import statistics as s

LEAST, REPEATS, LAYOUTS = 0.93, 1500, 50
VARIANCE = {"seeds": (1.0, 0.0), "layouts": (0.0, 1.0), "both": (1.0, 1.0)}
CASES = list(product((3, 5), VARIANCE))  # with more seeds it is easier
MEAN, EFFECT = 40.0, 7.0


def drawn(seeds: int, variance: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Deviations of seeds [seeds, 1] and of layouts [1, LAYOUTS], in units of the spread of an episode."""
    of_seeds, of_layouts = VARIANCE[variance]
    return of_seeds * rng.normal(0, 1, (seeds, 1)), of_layouts * rng.normal(0, 1, (1, LAYOUTS))


def coverage(truth: float, estimates) -> float:
    return float(np.mean([each.holds(truth) for each in estimates]))


@pytest.mark.parametrize(("seeds", "variance"), CASES)
def test_of_a_mean(seeds, variance):
    rng = np.random.default_rng(1)

    def table():
        a, b = drawn(seeds, variance, rng)
        return MEAN + 5 * a + 5 * b + rng.normal(0, 10, (seeds, LAYOUTS))

    assert coverage(MEAN, (s.mean_interval(table()) for _ in range(REPEATS))) >= LEAST


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("seeds", "variance"), CASES)
def test_of_a_difference(seeds, variance, paired):
    rng = np.random.default_rng(2)

    def estimate():
        (a, b), (c, d) = drawn(seeds, variance, rng), drawn(seeds, variance, rng)
        noise = rng.normal(0, 10, (2, seeds, LAYOUTS))
        ours, theirs = MEAN + EFFECT + 5 * a + 5 * b + noise[0], MEAN + 15 * c + 5 * (b if paired else d) + noise[1]
        return s.difference_interval(ours, theirs, paired=paired)

    assert coverage(EFFECT, (estimate() for _ in range(REPEATS))) >= LEAST


@pytest.mark.parametrize("seeds", (3, 5))
def test_of_a_difference_between_two_measurements_of_the_same_trainings(seeds):
    """What makes a seed high before makes it low afterwards; Welch's interval holds the truth in 88 cases of 100."""
    rng = np.random.default_rng(7)

    def estimate():
        before, rest = rng.normal(0, 1, (2, seeds, 1))
        return s.difference_interval(EFFECT - 0.7 * before + 0.7 * rest, before, paired=False, same_seeds=True)

    assert coverage(EFFECT, (estimate() for _ in range(REPEATS))) >= LEAST


@pytest.mark.parametrize("level", [1.8, 2.4], ids=["95 %", "98 %"])
@pytest.mark.parametrize(("seeds", "variance"), CASES)
def test_of_a_share_near_one(seeds, variance, level):
    """Successes of 0 or 100, by a probit of seed and layout."""
    rng = np.random.default_rng(3)
    of_seeds, of_layouts = (0.4 * each for each in VARIANCE[variance])
    truth = 100 * norm.cdf(level / np.sqrt(1 + of_seeds**2 + of_layouts**2))

    def table():
        a, b = drawn(seeds, variance, rng)
        return 100.0 * (rng.random((seeds, LAYOUTS)) < norm.cdf(level + 0.4 * a + 0.4 * b))

    assert coverage(float(truth), (s.mean_interval(table(), bounds=(0, 100)) for _ in range(REPEATS))) >= LEAST


def area(seeds: int, rng: np.random.Generator) -> s.Estimate:
    return s.mean_interval(rng.normal(MEAN, 6, (seeds, 1)), bounds=(0, 100))


def ratio(seeds: int, rng: np.random.Generator) -> s.Estimate:
    ours, theirs = rng.normal(20, 2, (2, seeds))
    return s.ratio_interval(2 * ours, theirs)


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(("estimate", "truth"), [(area, MEAN), (ratio, 2.0)])
def test_of_an_area_under_the_curve_and_of_a_ratio(estimate, truth, seeds):
    rng = np.random.default_rng(4)
    assert coverage(truth, (estimate(seeds, rng) for _ in range(REPEATS))) >= LEAST


@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_of_a_policy_that_was_not_trained(seeds):
    """Seeds repeat one policy: drawn layouts, and layouts that stand for themselves."""
    rng = np.random.default_rng(6)
    fixed = rng.normal(0, 8, (1, LAYOUTS))

    def table(layouts):
        return MEAN + layouts + rng.normal(0, 6, (seeds, LAYOUTS))

    new = (s.mean_interval(table(rng.normal(0, 8, (1, LAYOUTS))), trained=False) for _ in range(REPEATS))
    assert coverage(MEAN, new) >= LEAST
    if seeds > 1:
        same = (s.mean_interval(table(fixed), trained=False, drawn=False) for _ in range(REPEATS))
        assert coverage(MEAN + float(fixed.mean()), same) >= LEAST
