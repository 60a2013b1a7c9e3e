"""Holm's correction: p-values that stay honest although many pairs of rows are compared."""

from __future__ import annotations

from collections.abc import Sequence


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
