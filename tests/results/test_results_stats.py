"""Spread and significance, against scipy."""

import math
import random

import pytest
from scipy import stats as reference

from results.stats import best_rows, summarize, t_quantile, t_two_sided, welch


@pytest.mark.parametrize("freedom", [1, 1.37, 2, 3.9, 10, 87.5, 1000])
@pytest.mark.parametrize("t", [0.0, 1e-3, 0.5, -1.7, 4.0, 30.0])
def test_tails_of_students_t(t, freedom):
    assert t_two_sided(t, freedom) == pytest.approx(2 * reference.t.sf(abs(t), freedom), rel=1e-6)


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 500])
def test_quantiles_of_students_t(freedom):
    assert t_quantile(0.975, freedom) == pytest.approx(reference.t.ppf(0.975, freedom), rel=1e-9)


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
def test_welch(sizes, shift):
    source = random.Random(f"{sizes}{shift}")
    a = [source.gauss(0, 1) for _ in range(sizes[0])]
    b = [source.gauss(shift, 0.3) for _ in range(sizes[1])]
    expected = reference.ttest_ind(a, b, equal_var=False).pvalue
    assert welch(summarize(a), summarize(b)) == pytest.approx(expected, rel=1e-6)


def test_welch_at_its_limits():
    assert welch(summarize([1.0]), summarize([1.0, 2.0])) is None
    assert welch(summarize([1.0, 1.0]), summarize([2.0, 2.0])) == 0.0
    assert welch(summarize([1.0, 1.0]), summarize([1.0, 1.0])) == 1.0


GOOD, NEAR, FAR = [1.00, 1.01, 0.99], [1.005, 1.02, 0.98], [2.00, 2.01, 1.99]


@pytest.mark.parametrize(
    ("groups", "higher", "digits", "bold"),
    [
        ([FAR, GOOD], False, 2, [False, True]),
        ([FAR, GOOD], True, 2, [True, False]),
        ([FAR, GOOD, None], False, 2, [False, True, False]),
        ([FAR, GOOD, NEAR], False, 2, [False, False, False]),  # the runner-up cannot be told apart
        ([GOOD, [2.0]], False, 2, [False, False]),  # one seed proves nothing
        ([[1.0], FAR], False, 2, [False, False]),
        ([GOOD], False, 2, [False]),
        ([None, None], False, 2, [False, False]),
        ([], False, 2, []),
    ],
)
def test_who_may_be_bold(groups, higher, digits, bold):
    rows = [None if group is None else summarize(group) for group in groups]
    assert best_rows(rows, higher_is_better=higher, digits=digits) == bold


def test_printed_digits_alone_can_make_a_tie():
    a, b = (summarize([x, x + 1e-5, x - 1e-5]) for x in (1.001, 1.002))
    p = welch(a, b)
    assert p is not None and p < 0.05 and not math.isclose(a.mean, b.mean)
    assert best_rows([a, b], higher_is_better=False, digits=2) == [False, False]
    assert best_rows([a, b], higher_is_better=False, digits=3) == [True, False]
