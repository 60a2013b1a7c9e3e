"""Which rows can be told apart: Holm's correction, letters, who may be bold, and what an A/A test says."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.compare.stats import SIGNIFICANCE, Sample, p_value
from results.compare.ties import adjusted, rank


def on_seeds(values, first=0, variance=None):
    """A row with these values on the seeds from `first` on."""
    return Sample({(seed, seed): value for seed, value in enumerate(values, start=first)}, variance)


def elsewhere(values, variance=None):
    """A row whose seeds no row of `on_seeds` has."""
    return on_seeds(values, 1000, variance)


def ranked(groups, place=on_seeds, *, higher=False, digits=2):
    rows = [None if group is None else place(group) for group in groups]
    return rank(rows, higher_is_better=higher, digits=digits)


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


# --- who may be bold ---

GOOD, NEAR, FAR = [1.00, 1.01, 0.99], [1.005, 1.02, 0.98], [2.00, 2.02, 1.97]
WILD = [0.0, 9.0, 1.0]  # worse by its mean, but who knows
VALUES = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=2, max_size=6)


@pytest.mark.parametrize(
    ("groups", "higher", "bold", "letters"),
    [
        ([FAR, GOOD], False, [False, True], ["B", "A"]),
        ([FAR, GOOD], True, [True, False], ["A", "B"]),
        ([FAR, GOOD, None], False, [False, True, False], ["B", "A", ""]),
        ([FAR, GOOD, NEAR], False, [False, False, False], ["B", "A", "A"]),  # the runner-up is too near
        ([FAR, GOOD, WILD], False, [False, False, False], ["B", "A", "AB"]),  # nothing is known of the last
        ([GOOD, [2.0]], False, [False, False], ["A", ""]),  # one seed proves nothing
        ([GOOD, [2.0, 2.01]], False, [False, False], ["A", ""]),  # nor do two
        ([FAR, GOOD, [9.0]], False, [False, False, False], ["B", "A", ""]),
        ([[1.0], FAR], False, [False, False], ["", "A"]),
        ([GOOD], False, [False], ["A"]),
        ([None, None], False, [False, False], ["", ""]),
        ([], False, [], []),
    ],
)
def test_bold_and_letters(groups, higher, bold, letters):
    found = ranked(groups, higher=higher)
    assert (found.bold(), found.groups) == (bold, letters)


@given(st.lists(VALUES, min_size=2, max_size=5), st.sampled_from([on_seeds, elsewhere]))
def test_bold_is_at_least_as_strict_as_the_test_against_the_runner_up(groups, place):
    rows = [on_seeds(groups[0]), *(place(group) for group in groups[1:])]
    bold = rank(rows, higher_is_better=True, digits=2).bold()
    assert sum(bold) <= 1
    if any(bold):
        first, second = sorted(rows, key=lambda row: -row.mean)[:2]
        assert rows[bold.index(True)] is first
        assert p_value(first, second) < SIGNIFICANCE


@given(st.lists(VALUES.filter(lambda values: len(values) > 2), min_size=2, max_size=6), st.booleans())
def test_two_rows_share_a_letter_if_and_only_if_they_are_not_told_apart(groups, higher):
    found = ranked(groups, higher=higher)
    for a, b in itertools.combinations(range(len(groups)), 2):
        assert set(found.groups[a]).isdisjoint(found.groups[b]) == ((a, b) in found.apart)
    assert "A" in found.groups[found.best]
    assert found.bold() == [
        row == found.best and sum("A" in group for group in found.groups) == 1 and found.groups[row] == "A"
        for row in range(len(groups))
    ]


def test_printed_digits_alone_can_make_a_tie():
    a, b = on_seeds([1.001, 1.00101, 1.00099]), on_seeds([1.002, 1.00202, 1.00199])
    p = p_value(a, b)
    assert p is not None and p < 0.05 and not math.isclose(a.mean, b.mean)
    assert rank([a, b], higher_is_better=False, digits=2).bold() == [False, False]
    assert rank([a, b], higher_is_better=False, digits=3).bold() == [True, False]


# --- A/A: one optimizer under several names ---


@pytest.mark.parametrize("names", [2, 4])
@pytest.mark.parametrize("paired", [True, False])
def test_one_optimizer_under_several_names_is_a_tie_in_95_of_100_tables(names, paired):
    source, tables = random.Random(f"{names}{paired}"), 600
    wrong = 0
    for _ in range(tables):
        noise = [source.gauss(0, 1) for _ in range(3)]  # of the seeds, shared if they are
        values = [[5 + own + source.gauss(0, 0.3) for own in noise] for _ in range(names)]
        rows = [on_seeds(own, first=0 if paired else 10 * i) for i, own in enumerate(values)]
        wrong += bool(rank(rows, higher_is_better=False, digits=6).apart)
    assert wrong / tables < SIGNIFICANCE + 3 * math.sqrt(0.05 * 0.95 / tables)
    assert wrong > 0, "a test that never rejects would pass as well"


@pytest.mark.parametrize("share", [0.1, 0.3, 2.0])
def test_seeds_that_happen_to_lie_close_together_are_no_proof_beside_a_test_set(share):
    """A/A with accuracies: the test set adds `share` of what three seeds add to the variance of a mean."""
    source, tables, variance = random.Random(int(10 * share)), 2000, share / 3
    p_values = []
    for _ in range(tables):
        offsets = [source.gauss(0, math.sqrt(variance)) for _ in range(2)]
        rows = [on_seeds([own + source.gauss(0, 1) for _ in range(3)], variance=variance) for own in offsets]
        p_values.append(p_value(*rows))
    for level in (0.05, 0.01, 0.001):
        wrong = sum(p < level for p in p_values) / tables
        assert wrong <= level + 3 * math.sqrt(level * (1 - level) / tables) + 0.005
