"""The statistics against rliable's recorded values, and the properties that make intervals trustworthy."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from groundlab.report import statistics as s

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "rliable.json").read_text())
X, Y = np.array(GOLDEN["x"]), np.array(GOLDEN["y"])
scores = arrays(float, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(-100, 100))


def fresh() -> np.random.Generator:
    return np.random.default_rng(11)


def test_point_estimates_are_rliables():
    assert s.iqm(X.ravel()) == pytest.approx(GOLDEN["iqm"], abs=1e-12)
    assert s.iqm(Y.ravel()) == pytest.approx(GOLDEN["iqm_y"], abs=1e-12)
    assert s.mean(X.ravel()) == pytest.approx(GOLDEN["mean"], abs=1e-12)
    assert s.probability_of_improvement(Y, X) == pytest.approx(GOLDEN["probability_of_improvement"], abs=1e-12)


def test_the_same_generator_gives_the_same_interval_to_the_last_digit():
    assert s.two_level_interval(X, fresh()) == s.two_level_interval(X, fresh())
    assert s.difference_interval(X, X + 1, True, fresh()) == s.difference_interval(X, X + 1, True, fresh())


@given(scores)
def test_an_interval_lies_within_the_data(table):
    estimate = s.two_level_interval(table, fresh(), resamples=100)
    assert table.min() - 1e-9 <= estimate.low <= estimate.high <= table.max() + 1e-9


def test_data_without_spread_has_an_interval_without_width():
    assert s.two_level_interval(np.full((3, 9), 7.0), fresh()) == s.Estimate(7, 7, 7)


def test_seeds_that_differ_widen_the_interval_and_layouts_alone_do_not_show_it():
    table = np.repeat([[0.0], [5.0], [10.0]], 200, axis=1)
    wide = s.two_level_interval(table, fresh())
    assert (wide.low, wide.high) == (0.0, 10.0)
    assert s.two_level_interval(table[1:2], fresh()).low == 5.0


def test_two_level_intervals_of_one_seed_cover_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(3)
    hits = [s.two_level_interval(rng.normal(4, 2, (1, 100)), rng, 400).holds(4.0) for _ in range(300)]
    assert 0.90 <= np.mean(hits) <= 0.98


def test_pairing_by_layout_cancels_what_makes_a_layout_hard():
    hardness = np.random.default_rng(1).normal(0, 20, (1, 100))
    paired = s.difference_interval(hardness + 1, hardness, True, fresh())
    loose = s.difference_interval(hardness + 1, hardness, False, fresh())
    assert paired.low == pytest.approx(1) and paired.high == pytest.approx(1)
    assert loose.low < 0 < loose.high


def test_a_band_surrounds_its_aggregate():
    curves = np.random.default_rng(2).normal(0, 1, (5, 40)).cumsum(axis=1)
    middle, low, high = s.band(curves, s.iqm, fresh())
    assert middle.shape == (40,) and (low <= middle).all() and (middle <= high).all()


def test_improvement_over_itself_is_one_half():
    assert s.probability_of_improvement(X, X) == pytest.approx(0.5)


def test_the_interval_of_an_improvement_is_that_of_all_resamples():
    ours, theirs = np.array([[1.0], [3.0]]), np.array([[0.0], [2.0]])
    estimate = s.improvement_interval(ours, theirs, fresh(), resamples=20_000)
    drawn = [(ours[[i, j]], theirs[[k, m]]) for i in (0, 1) for j in (0, 1) for k in (0, 1) for m in (0, 1)]
    every = [s.probability_of_improvement(*pair) for pair in drawn]
    assert estimate.value == 0.75
    assert [estimate.low, estimate.high] == [min(every), max(every)], "each end has a chance of 1 in 16"


def test_runs_are_not_exchanged_between_tasks_when_an_improvement_is_resampled():
    ours, theirs = np.array([[5.0, 50.0], [6.0, 60.0]]), np.array([[1.0, 40.0], [2.0, 45.0]])
    assert s.improvement_interval(ours, theirs, fresh(), 500) == s.Estimate(1, 1, 1), "better on each task, always"
    assert s.improvement_interval(ours, ours, fresh(), 500).holds(0.5)
