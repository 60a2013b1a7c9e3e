"""Spread over seeds, against scipy."""

import random

import pytest
from scipy import stats as reference

from htbench.results.compare.stats import summarize


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
