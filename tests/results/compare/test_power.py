"""Seeds needed, against the figures of textbooks and a simulation."""

import random

import pytest

from results.compare.stats import Sample, p_value, seeds_needed


def with_differences(differences, variance=None):
    """Two rows on shared seeds."""
    zero = Sample({(i, i): 0.0 for i in range(len(differences))}, variance)
    return zero, Sample({(i, i): x for i, x in enumerate(differences)}, variance)


def apart(a, b):
    """Two rows on different seeds."""
    return Sample({(i, i): x for i, x in enumerate(a)}), Sample({(9 + i, 9 + i): x for i, x in enumerate(b)})


# Known from Cohen's tables: a paired t-test at 5 %, two-sided, power 0.8, needs these n for effect d.
@pytest.mark.parametrize(("d", "n"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)])
def test_pairs_by_the_textbook(d, n):
    a, b = with_differences([d - 1, d, d + 1])  # sd 1
    assert seeds_needed(a, b) == n


@pytest.mark.parametrize(("d", "n"), [(0.5, 64), (0.8, 26), (1.0, 17)])
def test_two_groups_by_the_textbook(d, n):
    a, b = apart([-1.0, 0.0, 1.0], [d - 1, d, d + 1])
    assert seeds_needed(a, b) == n


def test_that_many_seeds_find_the_gap_in_four_of_five_tries():
    a, b = with_differences([0.0, 1.0, 2.0])
    n, source = seeds_needed(a, b), random.Random(1)
    found = [p_value(*with_differences([source.gauss(1, 1) for _ in range(n)])) < 0.05 for _ in range(1500)]
    assert sum(found) / len(found) == pytest.approx(0.8, abs=0.05)


def test_a_large_gap_needs_two_seeds_and_none_no_number():
    assert seeds_needed(*with_differences([99.9, 100.0, 100.1])) == 2
    assert seeds_needed(*with_differences([-1.0, 0.0, 1.0])) is None
    assert seeds_needed(*with_differences([0.0, 0.001, 0.003, 2.0, -2.0])) is None
    assert seeds_needed(*with_differences([1.0])) is None


def test_a_small_test_set_can_make_any_number_too_few():
    assert seeds_needed(*with_differences([0.9, 1.0, 1.1], variance=0.5)) is None
    assert seeds_needed(*with_differences([0.9, 1.0, 1.1], variance=0.01)) == 2
