"""Which rows of a column can be told apart by tests of all pairs, and which groups the others form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_uppercase

from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, Sample, p_value

Pair = tuple[int, int]  # of rows, the smaller index first


@dataclass(frozen=True)
class Ranking:
    """The rows of one column compared.

    Attributes:
        best: the row with the best mean; None if no row has values.
        p_values: of all pairs of rows with values, after Holm's correction; None: there is no verdict.
        apart: the pairs that can be told apart: significant at 5 %, and printed differently.
        groups: one word per row: rows that share a letter can't be told apart, A being the best group. Empty
            for a row without values or with fewer than `MIN_SEEDS` of them.
    """

    best: int | None
    p_values: dict[Pair, float | None]
    apart: frozenset[Pair]
    groups: list[str]

    def tied_with_best(self) -> list[int]:
        """The other rows that can't be told from the best one, be it for want of seeds."""
        with_best = [pair for pair in self.p_values if self.best in pair and pair not in self.apart]
        return sorted(row for pair in with_best for row in pair if row != self.best)

    def p_of(self, one: int, other: int) -> float | None:
        """The p-value of a pair in either order."""
        return self.p_values[min(one, other), max(one, other)]

    def bold(self) -> list[bool]:
        """Which rows may be bold: the best one, if it can be told from every other row that has values."""
        clear = bool(self.p_values) and not self.tied_with_best()
        return [clear and row == self.best for row in range(len(self.groups))]


def rank(rows: Sequence[Sample | None], *, higher_is_better: bool, digits: int) -> Ranking:
    """Compare every row of a column with every other one. All pairs are one family for Holm's correction.

    Args:
        rows: None is a row without values: it is not compared, and any row with values is better.
        higher_is_better: the direction.
        digits: decimals printed; equal prints are a tie whatever the test says.
    """
    sign = -1 if higher_is_better else 1
    known = {index: row for index, row in enumerate(rows) if row is not None}
    by_mean = sorted(known, key=lambda index: sign * known[index].mean)
    pairs = list(combinations(known, 2))
    p_values = dict(zip(pairs, adjusted([_p_value(known[a], known[b]) for a, b in pairs]), strict=True))
    apart = frozenset(
        (a, b)
        for (a, b), p in p_values.items()
        if p is not None and p < SIGNIFICANCE and _printed(known[a], digits) != _printed(known[b], digits)
    )
    sure = [index for index in by_mean if len(known[index].values) >= MIN_SEEDS]
    letters = _letters(sure, apart)
    groups = [letters.get(index, "") for index in range(len(rows))]
    return Ranking(by_mean[0] if by_mean else None, p_values, apart, groups)


def _p_value(a: Sample, b: Sample) -> float | None:
    return p_value(a, b) if min(len(a.values), len(b.values)) >= MIN_SEEDS else None


def _printed(row: Sample, digits: int) -> str:
    return f"{row.mean:.{digits}f}"


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


def _letters(ordered: Sequence[int], apart: Iterable[Pair]) -> dict[int, str]:
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
