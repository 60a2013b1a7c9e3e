"""Spread and significance, against scipy."""

import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as reference

from results.compare.stats import Sample, p_value, summarize


def on_seeds(values, first=0, variance=None):
    """A row with these values on the seeds from `first` on."""
    return Sample({(seed, seed): value for seed, value in enumerate(values, start=first)}, variance)


def elsewhere(values, variance=None):
    """A row whose seeds no row of `on_seeds` has."""
    return on_seeds(values, 1000, variance)


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_summaries(n):
    values = [random.Random(i).gauss(5, 2) for i in range(n)]
    found = summarize(values)
    assert (found.mean, found.n) == (pytest.approx(sum(values) / n), n)
    assert found.std == pytest.approx(reference.tstd(values))
    assert found.interval == pytest.approx(
        reference.t.interval(0.95, n - 1, found.mean, reference.sem(values))
    )


def test_one_value_has_no_spread():
    found = summarize([3.0])
    assert (found.mean, found.std, found.n, found.interval) == (3.0, None, 1, None)


@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (3, 7), (10, 4)])
@pytest.mark.parametrize("shift", [0.0, 0.5, 4.0])
def test_other_seeds_are_compared_by_welch(sizes, shift):
    source = random.Random(f"{sizes}{shift}")
    a = [source.gauss(0, 1) for _ in range(sizes[0])]
    b = [source.gauss(shift, 0.3) for _ in range(sizes[1])]
    expected = reference.ttest_ind(a, b, equal_var=False).pvalue
    assert p_value(on_seeds(a), elsewhere(b)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("shift", [0.0, 0.5, 4.0])
def test_the_same_seeds_are_compared_in_pairs(n, shift):
    source = random.Random(f"{n}{shift}")
    a = [source.gauss(0, 1) for _ in range(n)]
    b = [x + source.gauss(shift, 0.1) for x in a]
    backwards = Sample(dict(reversed(on_seeds(b).values.items())))
    assert p_value(on_seeds(a), backwards) == pytest.approx(reference.ttest_rel(a, b).pvalue, rel=1e-9)


def test_seeds_that_are_shared_in_part_are_compared_by_welch():
    a, b = [1.0, 2.0, 3.0, 4.0], [1.1, 2.1, 3.2]
    expected = reference.ttest_ind(a, b, equal_var=False).pvalue
    assert p_value(on_seeds(a), on_seeds(b)) == pytest.approx(expected, rel=1e-9)


def test_pairs_see_what_welch_does_not():
    a, b = [10.0, 20.0, 30.0], [10.5, 20.6, 30.4]
    assert p_value(on_seeds(a), on_seeds(b)) < 0.02
    assert p_value(on_seeds(a), elsewhere(b)) > 0.9


def test_one_value_says_nothing():
    assert p_value(on_seeds([1.0]), on_seeds([2.0])) is None
    assert p_value(on_seeds([1.0], variance=0.1), on_seeds([1.0, 2.0], variance=0.1)) is None


@pytest.mark.parametrize("other", [on_seeds, elsewhere])
def test_no_spread_says_nothing_if_the_sampling_error_is_not_known(other):
    assert p_value(on_seeds([1.0, 1.0]), other([2.0, 2.0])) is None
    assert p_value(on_seeds([1.0, 1.0], variance=0.1), other([2.0, 2.0])) is None
    assert p_value(on_seeds([1.0, 1.0], variance=0.0), other([2.0, 2.0], variance=0.0)) is None
    assert p_value(on_seeds([0.95, 0.96, 0.97]), on_seeds([0.85, 0.86, 0.87])) is None, (
        "equal but for rounding"
    )


def share(right, of):
    p = right / of
    return p * (1 - p) / of


@pytest.mark.parametrize("other", [on_seeds, elsewhere])
def test_without_spread_two_shares_are_compared_as_proportions(other):
    a, b = 270 / 299, 290 / 299
    expected = 2 * reference.norm.sf((b - a) / math.sqrt(share(270, 299) + share(290, 299)))
    found = p_value(on_seeds([a] * 3, variance=share(270, 299)), other([b] * 3, variance=share(290, 299)))
    assert found == pytest.approx(expected) and found < 0.001


def test_one_image_of_299_is_no_difference():
    a, b = (on_seeds([n / 299] * 5, variance=share(n, 299)) for n in (290, 291))
    assert p_value(a, b) > 0.8


def test_the_sampling_error_adds_to_the_spread_and_to_the_degrees_of_freedom():
    a, b = [1.0, 2.0, 4.0], [2.0, 4.0, 8.0, 9.0]
    va, vb, v = reference.tvar(a) / 3, reference.tvar(b) / 4, 0.5
    freedom = (va + vb + v) ** 2 / (va**2 / 2 + vb**2 / 3)
    t = (sum(b) / 4 - sum(a) / 3) / math.sqrt(va + vb + v)
    found = p_value(on_seeds(a, variance=0.2), elsewhere(b, variance=0.3))
    assert found == pytest.approx(2 * reference.t.sf(t, freedom))


# --- what holds for all values ---

VALUES = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=2, max_size=6)
VARIANCES = st.none() | st.floats(0.001, 10)
PLACES = st.sampled_from([on_seeds, elsewhere])


@given(VALUES, VALUES, VARIANCES, VARIANCES, PLACES)
def test_p_is_a_probability_and_symmetric(a, b, va, vb, place):
    one, other = on_seeds(a, variance=va), place(b, variance=vb)
    p = p_value(one, other)
    assert p_value(other, one) == (p if p is None else pytest.approx(p, abs=1e-12))
    assert p is None or 0 <= p <= 1
    assert (p is None) <= (va is None or vb is None), "with a sampling error there is always a verdict"


@given(VALUES, VALUES, VARIANCES, PLACES, st.floats(-50, 50), st.sampled_from([0.01, 0.5, 100.0]))
def test_shift_and_scale_change_nothing(a, b, variance, place, shift, factor):
    spreads = [summarize(values).std for values in (a, b, [x - y for x, y in zip(a, b, strict=False)])]
    assume(all(spread > 0.01 for spread in spreads if spread is not None))

    def moved(values):
        return [factor * (value + shift) for value in values]

    grown = None if variance is None else variance * factor**2
    before = p_value(on_seeds(a, variance=variance), place(b, variance=variance))
    after = p_value(on_seeds(moved(a), variance=grown), place(moved(b), variance=grown))
    assert after == pytest.approx(before, rel=1e-6, abs=1e-9)


@given(VALUES, VALUES, st.floats(0.001, 10), PLACES)
def test_a_known_sampling_error_never_makes_a_difference_surer_than_the_normal_law_allows(a, b, v, place):
    p = p_value(on_seeds(a, variance=v), place(b, variance=v))
    gap = abs(on_seeds(a).mean - on_seeds(b).mean)
    assert p >= 2 * reference.norm.sf(gap / math.sqrt(2 * v)) - 1e-12
