"""Means, differences and ratios with their intervals; coverage is simulated in test_coverage.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from groundlab.report import statistics as s

shares = arrays(float, st.tuples(st.integers(2, 5), st.integers(2, 6)), elements=st.sampled_from([0.0, 100.0]))


AREAS = np.array([51.0, 55.0, 53.0, 60.0])
OTHERS = np.array([40.0, 60.0, 44.0])
BEFORE, AFTER = np.array([9.0, 5.0, 7.0, 6.0]), np.array([4.0, 6.0, 4.5, 5.5])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (s.mean_interval(AREAS[:, None]), stats.ttest_1samp(AREAS, 0)),
        (
            s.difference_interval(AREAS[:, None], OTHERS[:, None], paired=False),
            stats.ttest_ind(AREAS, OTHERS, equal_var=False),
        ),
        (
            s.difference_interval(AFTER[:, None], BEFORE[:, None], paired=False, same_seeds=True),
            stats.ttest_rel(AFTER, BEFORE),
        ),
    ],
    ids=["Student's", "Welch's", "paired by seed"],
)
def test_what_has_no_layouts_gets_the_interval_of_the_t_test(found, expected):
    ends = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))


def test_two_measurements_of_the_same_trainings_are_paired_by_seed_and_by_layout():
    layouts, before, after = np.random.default_rng(0).normal(0, 1, (4, 30)), BEFORE[:, None], AFTER[:, None]
    crossed = s.difference_interval(after + layouts, before - layouts, paired=True, same_seeds=True)
    alone = s.mean_interval(after - before + 2 * layouts)
    assert (crossed.low, crossed.high) == pytest.approx((alone.low, alone.high))


def test_one_training_has_no_interval():
    assert not s.mean_interval(np.full((1, 50), 100.0)).known
    gap = s.difference_interval(np.full((1, 9), 5.0), np.full((3, 9), 2.0), paired=True)
    assert gap.value == 3 and not gap.known
    assert gap.as_json() == {"value": 3, "low": None, "high": None}
    assert s.Estimate(3.0, 1.0, 4.0).as_json() == {"value": 3, "low": 1, "high": 4}
    assert not s.ratio_interval(np.array([3.0]), np.array([2.0, 1.0])).known


@given(shares)
def test_an_interval_of_a_share_stays_within_its_bounds_and_holds_its_value(table):
    found = s.mean_interval(table, bounds=(0, 100))
    assert 0 <= found.low <= found.value + 1e-9 and found.value - 1e-9 <= found.high <= 100


def test_a_share_that_never_failed_may_fail_yet():
    found = s.mean_interval(np.full((5, 100), 100.0), bounds=(0, 100))
    assert found.high == 100 and 97 < found.low < 100
    gap = s.difference_interval(np.full((5, 100), 100.0), np.full((5, 100), 100.0), paired=True, bounds=(0, 100))
    assert gap.value == 0 and gap.low < 0 < gap.high


def test_layouts_that_stand_for_themselves_leave_the_noise_of_repetitions():
    """Table 1's random row: 13.88 against 12.75 is far off for these layouts, and nothing for layouts at large."""
    rng = np.random.default_rng(1)
    table = 13.88 + rng.normal(0, 7, (1, 100)) + rng.normal(0, 1.5, (3, 100))
    table += 13.88 - table.mean()
    same, others = (s.mean_interval(table, trained=False, drawn=drawn) for drawn in (False, True))
    assert others.holds(12.75) and not same.holds(12.75)


def test_a_published_row_of_the_same_layouts_is_one_more_repetition_with_noise_of_its_own():
    rng = np.random.default_rng(5)
    hits = []
    for _ in range(400):
        layouts = rng.normal(14, 7, (1, 50))
        ours, published = (layouts + rng.normal(0, 2, (seeds, 50)) for seeds in (3, 1))
        found = s.mean_interval(ours, trained=False, drawn=False, repetitions=1)
        hits.append(found.holds(float(published.mean())))
    assert np.mean(hits) >= 0.93
    stuck = np.full((3, 100), 100.0)
    stuck[:, :6] = 0
    found = s.mean_interval(stuck, trained=False, drawn=False, bounds=(0, 100), repetitions=1)
    assert found.holds(95) and not found.holds(90), "the same six layouts thrice do not prove 94 %"


def test_a_rule_on_layouts_that_stand_for_themselves_is_known_exactly():
    table = np.repeat(np.arange(10.0)[None], 3, axis=0)
    assert s.mean_interval(table, trained=False, drawn=False) == s.Estimate(4.5, 4.5, 4.5)


def test_pairing_by_layout_cancels_what_makes_a_layout_hard():
    hardness = np.random.default_rng(1).normal(0, 20, (1, 100))
    both = (False, False)
    paired = s.difference_interval(hardness + 1, hardness, paired=True, trained=both)
    loose = s.difference_interval(hardness + 1, hardness, paired=False, trained=both)
    assert paired.low == pytest.approx(1) and paired.high == pytest.approx(1)
    assert loose.low < 0 < loose.high
    with pytest.raises(ValueError, match="got 100 and 99"):
        s.difference_interval(hardness, hardness[:, 1:], paired=True)


def test_a_ratio_is_welchs_on_logarithms():
    found = s.ratio_interval(np.array([20.0, 22.0, 18.0]), np.array([10.0, 11.0, 9.0]))
    assert found.value == pytest.approx(2) and found.low * found.high == pytest.approx(4)
    assert 1.3 < found.low < 1.7


def test_a_printed_share_of_few_episodes_has_noise_of_its_own():
    ours = s.Estimate(98.3, 94.4, 99.6)
    assert not ours.holds(100) and s.agrees_with_share(ours, 100, 100)
    assert not s.agrees_with_share(s.Estimate(80, 78, 82), 100, 50)
    assert not s.agrees_with_share(ours, 66, 50) and s.agrees_with_share(s.Estimate(70, 62, 77), 66, 50)


def test_the_doubt_of_a_share_that_never_occurred_is_that_of_one_in_two_more_episodes():
    """Agresti and Caffo: 9 of 10 in percent, for 8 of 8."""
    assert s._one_event(8, (0, 100)) == pytest.approx(100 * 100 * 0.1 * 0.9 / 10)
    assert s._one_event(8, (20, 100)) == pytest.approx(80 * 80 * 0.1 * 0.9 / 10)


def test_a_band_is_students_at_each_point_and_is_cut_off():
    curves = np.array([[50.0, 99.0], [60.0, 100.0], [55.0, 90.0]])
    middle, low, high = s.band(curves, bounds=(0, 100))
    assert middle == pytest.approx([55, 96.33], abs=0.01) and high[1] == 100
    assert (low[0], high[0]) == pytest.approx(stats.t.interval(0.95, 2, loc=55, scale=5 / np.sqrt(3)))


def test_a_permutation_test_is_exact():
    low, high = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    assert s.permutation_p(high, low) == pytest.approx(1 / 20)
    assert s.permutation_p(low, high) == 1.0
    assert np.isnan(s.permutation_p(high[:1], low))
    five = np.arange(5.0)
    assert s.permutation_p(five + 9, five) == pytest.approx(1 / 252)


def test_relabellings_that_tie_in_the_data_tie_in_binary_numbers():
    assert s.permutation_p(np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.2, 0.1])) > 0.5
