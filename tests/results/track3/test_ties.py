"""Which results can be told apart: t-tests against scipy, Holm's correction, letters, and an A/A test."""

import itertools
import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as reference

from results.compare.stats import SIGNIFICANCE, summarize
from results.track3.ties import adjusted, letters, p_value


def ranked(groups, digits=2):
    return letters([None if group is None else summarize(group) for group in groups], digits)


# --- two results ---

VALUES = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=3, max_size=6)


@pytest.mark.parametrize("sizes", [(3, 3), (3, 7), (10, 4)])
@pytest.mark.parametrize("shift", [0.0, 0.5, 4.0])
def test_two_results_are_compared_by_welch(sizes, shift):
    source = random.Random(f"{sizes}{shift}")
    a = [source.gauss(0, 1) for _ in range(sizes[0])]
    b = [source.gauss(shift, 0.3) for _ in range(sizes[1])]
    expected = reference.ttest_ind(a, b, equal_var=False).pvalue
    assert p_value(summarize(a), summarize(b)) == pytest.approx(expected, rel=1e-9)


def test_a_result_without_spread_is_a_number_to_the_other_one():
    a = [1.0, 2.0, 4.0, 4.5]
    expected = reference.ttest_1samp(a, 3.28).pvalue
    assert p_value(summarize(a), summarize([3.28] * 3)) == pytest.approx(expected)


def test_few_values_and_no_spread_say_nothing():
    assert p_value(summarize([1.0]), summarize([2.0])) is None
    assert p_value(summarize([1.0, 1.1]), summarize([2.0, 2.1, 2.2])) is None
    assert p_value(summarize([1.0] * 3), summarize([2.0] * 3)) is None


@given(VALUES, VALUES)
def test_p_is_a_probability_and_symmetric(a, b):
    one, other = summarize(a), summarize(b)
    p = p_value(one, other)
    assert p_value(other, one) == p and (p is None or 0 <= p <= 1)


@given(VALUES, VALUES, st.floats(-50, 50), st.sampled_from([0.01, 0.5, 100.0]))
def test_shift_and_scale_change_nothing(a, b, shift, factor):
    assume(all(summarize(values).std > 0.01 for values in (a, b)))
    moved = [summarize([factor * (value + shift) for value in values]) for values in (a, b)]
    assert p_value(*moved) == pytest.approx(p_value(summarize(a), summarize(b)), rel=1e-6, abs=1e-9)


# --- Holm ---


def test_holm_by_hand():
    assert adjusted([0.04, 0.01, 0.02]) == [pytest.approx(p) for p in (0.04, 0.03, 0.04)]
    assert adjusted([0.9, 0.8]) == [1.0, 1.0]
    assert adjusted([]) == []


def test_a_test_without_verdict_counts_in_the_family():
    assert adjusted([0.01, None, None]) == [pytest.approx(0.03), None, None]


@given(st.lists(st.none() | st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_lies_between_the_raw_p_and_bonferronis(ps):
    found = adjusted(ps)
    assert [p is None for p in found] == [p is None for p in ps]
    known = [(raw, own) for raw, own in zip(ps, found, strict=True) if raw is not None]
    assert all(raw <= own <= min(1, len(ps) * raw) for raw, own in known)
    assert [own for _, own in sorted(known)] == sorted(own for _, own in known)


# --- letters ---

GOOD, NEAR, FAR = [1.00, 1.01, 0.99], [1.005, 1.02, 0.98], [2.00, 2.02, 1.97]
WILD = [0.0, 9.0, 1.0]  # worse by its mean, but who knows


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([FAR, GOOD], ["B", "A"]),
        ([FAR, GOOD, None], ["B", "A", ""]),
        ([FAR, GOOD, NEAR], ["B", "A", "A"]),  # the runner-up is too near
        ([FAR, GOOD, WILD], ["B", "A", "AB"]),  # nothing is known of the last
        ([GOOD, [2.0]], ["A", ""]),  # one run proves nothing
        ([GOOD, [2.0, 2.01]], ["A", ""]),  # nor do two
        ([FAR, GOOD, [9.0]], ["B", "A", ""]),
        ([[1.0], FAR], ["", "A"]),
        ([GOOD], ["A"]),
        ([None, None], ["", ""]),
        ([], []),
    ],
)
def test_letters(groups, words):
    assert ranked(groups) == words


@given(st.lists(VALUES, min_size=2, max_size=6))
def test_two_rows_share_a_letter_if_and_only_if_they_are_not_told_apart(groups):
    words, pairs = ranked(groups), list(itertools.combinations(range(len(groups)), 2))
    rows = [summarize(group) for group in groups]
    p_values = adjusted([p_value(rows[a], rows[b]) for a, b in pairs])
    for (a, b), p in zip(pairs, p_values, strict=True):
        differ = f"{rows[a].mean:.2f}" != f"{rows[b].mean:.2f}"
        assert set(words[a]).isdisjoint(words[b]) == (p is not None and p < SIGNIFICANCE and differ)
    assert "A" in words[min(range(len(rows)), key=lambda row: rows[row].mean)]


def test_printed_digits_alone_can_make_a_tie():
    groups = [1.001, 1.00101, 1.00099], [1.002, 1.00202, 1.00199]
    assert p_value(*map(summarize, groups)) < 0.05
    assert ranked(groups, digits=2) == ["A", "A"] and ranked(groups, digits=3) == ["A", "B"]


# --- A/A: one result under several names ---


@pytest.mark.parametrize("names", [2, 4])
def test_one_result_under_several_names_is_a_tie_in_95_of_100_tables(names):
    source, tables = random.Random(names), 600
    wrong = 0
    for _ in range(tables):
        words = ranked([[source.gauss(5, 1) for _ in range(3)] for _ in range(names)], digits=6)
        wrong += any(set(a).isdisjoint(b) for a, b in itertools.combinations(words, 2))
    assert wrong / tables < SIGNIFICANCE + 3 * math.sqrt(0.05 * 0.95 / tables)
    assert wrong > 0, "a test that never rejects would pass as well"
