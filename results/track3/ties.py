"""Which results can be told apart by t-tests of all pairs, and which groups the others form.

The logs name no seeds, so nothing is paired, and the rows of our own tables have another judge.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from string import ascii_uppercase

from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, Summary

Pair = tuple[int, int]  # of rows, the smaller index first


def p_value(a: Summary, b: Summary) -> float | None:
    """Two-sided p-value of Welch's t-test that two means are the same; Student's if one has no spread.

    Source: Welch, The generalization of "Student's" problem when several different population variances are
    involved, Biometrika 34, 1947; degrees of freedom by Satterthwaite, 1946.

    Returns:
        None with fewer than `MIN_SEEDS` values, or without any spread.
    """
    parts = [(row.std**2 / row.n, row.n - 1) for row in (a, b) if row.std is not None]
    variance = sum(part for part, _ in parts)
    if min(a.n, b.n) < MIN_SEEDS or not variance:
        return None
    from scipy import special

    freedom = variance**2 / sum(part**2 / own for part, own in parts)
    return 2 * float(special.stdtr(freedom, -abs(a.mean - b.mean) / math.sqrt(variance)))


def letters(rows: Sequence[Summary | None], digits: int) -> list[str]:
    """One word per row: rows that share a letter can't be told apart, A being the group of the lowest mean.

    Rows are apart if their test is significant, and they print differently. All pairs are one family for
    Holm's correction.

    Args:
        rows: None is a row without values. It gets no letter, nor does one with fewer than `MIN_SEEDS`.
        digits: decimals printed; equal prints are a tie whatever the test says.
    """
    known = {index: row for index, row in enumerate(rows) if row is not None}
    pairs = list(combinations(known, 2))
    tests = zip(pairs, adjusted([p_value(known[a], known[b]) for a, b in pairs]), strict=True)
    printed = {index: f"{row.mean:.{digits}f}" for index, row in known.items()}
    apart = [(a, b) for (a, b), p in tests if p is not None and p < SIGNIFICANCE and printed[a] != printed[b]]
    sure = [index for index, row in known.items() if row.n >= MIN_SEEDS]
    display = _display(sorted(sure, key=lambda index: known[index].mean), apart)
    return [display.get(index, "") for index in range(len(rows))]


# --- many pairs ---


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values of one family by Holm's procedure: each may be compared with 5 % as if it were alone.

    A test without verdict (None) stays without one, but counts in the size of the family.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 1979.
    """
    found: list[float | None] = [None] * len(p_values)
    known = {index: p for index, p in enumerate(p_values) if p is not None}
    largest = 0.0
    for rank, index in enumerate(sorted(known, key=lambda index: known[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * known[index]))
        found[index] = largest
    return found


# --- letters ---


def _display(ordered: Sequence[int], apart: Iterable[Pair]) -> dict[int, str]:
    """The compact letter display: two rows share a letter if and only if they are not told apart.

    Args:
        ordered: rows, the best first.
        apart: pairs that must not share a letter.

    Source: Piepho, An algorithm for a letter-based representation of all-pairwise comparisons, Journal of
    Computational and Graphical Statistics 13, 2004 (insert and absorb).
    """
    groups = [frozenset(ordered)]
    for pair in sorted(apart):
        split = [part for group in groups for part in _split(group, pair)]
        groups = [one for one in dict.fromkeys(split) if not any(one < other for other in split)]
    place = {row: i for i, row in enumerate(ordered)}
    groups.sort(key=lambda group: sorted(place[row] for row in group))
    return {row: "".join(_letter(i) for i, group in enumerate(groups) if row in group) for row in ordered}


def _split(group: frozenset[int], pair: Pair) -> list[frozenset[int]]:
    return [group - {row} for row in pair] if group.issuperset(pair) else [group]


def _letter(index: int) -> str:
    """A to Z; the 27th group is (27)."""
    return ascii_uppercase[index] if index < len(ascii_uppercase) else f"({index + 1})"
