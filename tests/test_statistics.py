"""Intervals hold the truth as often as they say, and agree with others' where others have them."""

import numpy as np
import pytest
from scipy import stats

from crossprop.statistics import holm, mean_interval, paired_difference, paired_p, paired_ratio


def covered(low, high, truth=0.0):
    return np.mean((low < truth) & (truth < high))


def test_mean_interval_covers_the_mean_of_thirty_runs():
    values = np.random.default_rng(1).normal(size=(30, 3000))
    assert 0.92 < covered(*mean_interval(values)[1:]) < 0.96
    assert 0.76 < covered(*mean_interval(values, level=0.8)[1:]) < 0.81


def test_mean_interval_agrees_with_scipy():
    values = np.random.default_rng(2).exponential(size=40)
    ours = mean_interval(values, resamples=20000)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20000, rng=3).confidence_interval
    assert ours.mean == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs), abs=0.02 * values.mean())


def test_mean_interval_of_one_value_is_unknown():
    mean, low, high = mean_interval(np.array([[1.0, 2.0]]))
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan(low).all() and np.isnan(high).all()


def test_mean_interval_takes_any_axis_and_is_the_same_every_time():
    values = np.random.default_rng(4).normal(size=(6, 5, 3))
    along = mean_interval(values, axis=1)
    first = mean_interval(np.moveaxis(values, 1, 0))
    assert all(np.array_equal(a, b) for a, b in zip(along, first, strict=True))
    assert along.mean == pytest.approx(values.mean(axis=1))


@pytest.mark.parametrize("pairs", [3, 5, 30])
def test_paired_difference_covers_the_truth_even_with_few_pairs_and_many_comparisons(pairs):
    a, b = np.random.default_rng(5).normal(size=(2, 1500, pairs))
    for level in (0.95, 0.99):
        found = [paired_difference(x + 1, y, level) for x, y in zip(a, b, strict=True)]
        low, high = np.array([each[1:] for each in found]).T
        assert abs(covered(low, high, 1.0) - level) < 0.015


def test_the_bootstrap_is_too_narrow_for_five_runs_which_is_why_pairs_have_students_t():
    assert covered(*mean_interval(np.random.default_rng(6).normal(size=(5, 3000)))[1:]) < 0.88


def test_paired_difference_agrees_with_scipy():
    a, b = np.random.default_rng(7).normal(size=(2, 12))
    theirs = stats.ttest_rel(a, b).confidence_interval(0.9)
    found = paired_difference(a, b, 0.9)
    assert found[:3] == pytest.approx(((a - b).mean(), theirs.low, theirs.high))


def test_pairing_removes_what_both_share():
    shared = np.random.default_rng(8).normal(size=20) * 100
    found = paired_difference(shared, shared + 1)
    assert found == pytest.approx((-1.0, -1.0, -1.0))


def test_paired_difference_from_a_number_is_a_mean():
    assert paired_difference(np.array([1.0, 3.0]), 1.0).mean == 1.0


def test_a_ratio_is_that_of_the_means_and_excludes_1_exactly_if_the_difference_excludes_0():
    a, b = np.random.default_rng(9).uniform(0, 2, size=(2, 9))
    for shift in np.linspace(0, 2, 20):
        ratio, difference = paired_ratio(a + shift, b + 1), paired_difference(a + shift, b + 1)
        assert ratio.mean == pytest.approx((a + shift).mean() / (b + 1).mean())
        assert (ratio.low > 1, ratio.high < 1) == (difference.low > 0, difference.high < 0)
    b[0] = 0  # as a share misclassified may be
    assert np.isfinite(paired_ratio(a, b)[:3]).all()


def test_the_interval_of_a_ratio_covers_the_truth_even_if_the_reference_varies_a_lot():
    rng = np.random.default_rng(10)
    noise = rng.normal(size=(1000, 2, 10))
    found = [paired_ratio(11 + a, 1 + 0.4 * b) for a, b in noise]
    assert 0.93 < np.mean([each.low < 11 < each.high for each in found]) < 0.97
    assert paired_ratio(3 * noise[0, 0] + 9, noise[0, 0] + 3)[:3] == pytest.approx((3.0, 3.0, 3.0))
    assert np.isnan(paired_ratio(np.array([1.0, 2.0]), np.array([-1.0, 1.1])).low)


def test_one_pair_has_no_interval():
    for found in (paired_difference(np.array([2.0]), 1.0), paired_ratio(np.array([1.0]), np.array([1.0]))):
        assert found.mean == 1.0
        assert np.isnan(found.low) and np.isnan(found.high)


def test_paired_p_agrees_with_scipy_and_with_the_interval():
    rng = np.random.default_rng(10)
    for shift in (0.0, 0.3, 0.6, 1.0):
        a, b = rng.normal(size=(2, 15))
        p = paired_p(a + shift, b)
        assert p == pytest.approx(stats.ttest_rel(a + shift, b).pvalue)
        _, low, high = paired_difference(a + shift, b)
        assert (p < 0.05) == (not low < 0 < high)


def test_paired_p_of_equal_differences_is_that_of_the_sign_test():
    """Two seeds that differ by the same share of examples prove nothing."""
    ones, few = np.ones(4), np.array([0.3, 0.1])
    assert paired_p(ones, ones) == 1 and paired_p(ones[:1], ones[:1] + 1) == 1
    assert paired_p(ones, ones + 1) == 1 / 8 and paired_p(few, few - 0.1) == 1 / 2
    assert paired_p(np.ones(20), np.zeros(20)) < 1e-5


def test_holm_gives_the_textbooks_numbers():
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.2, 0.01, 0.02, 0.9])) == pytest.approx([0.4, 0.04, 0.06, 0.9])
    assert holm(np.array([])).size == 0


def test_holm_keeps_the_chance_of_any_false_alarm_and_finds_what_is_there():
    rng = np.random.default_rng(11)
    null = rng.uniform(size=(2000, 12))
    alarms = np.mean([(holm(p) < 0.05).any() for p in null])
    assert (null < 0.05).any(axis=1).mean() > 0.4 and 0.03 < alarms < 0.06
    null[:, 0] = 1e-4
    assert all(holm(p)[0] < 0.05 for p in null)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: mean_interval(np.ones(3), level=1.5), "level"),
        (lambda: mean_interval(np.ones(3), resamples=0), "resamples"),
        (lambda: paired_difference(np.ones(3), np.ones(4)), "b"),
        (lambda: paired_difference(np.ones((3, 1)), np.ones((3, 1))), "a"),
        (lambda: paired_difference(np.ones(0), np.ones(0)), "a"),
        (lambda: paired_difference(np.ones(3), 0.0, level=0), "level"),
        (lambda: paired_ratio(np.ones(2), np.zeros(2)), "b"),
        (lambda: holm(np.array([0.5, 1.5])), "p"),
    ],
)
def test_what_is_wrong_is_named(call, names):
    with pytest.raises(ValueError, match=rf"^{names} must"):
        call()
