"""The median of repeated measurements with its interval, the same in every benchmark."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """The median of `n` values, its 95 % interval, and the most that it may be, all in `unit`."""

    name: str
    unit: str
    n: int
    median: float
    low: float
    high: float
    target: float | None = None

    @classmethod
    def of(cls, name: str, unit: str, values: Sequence[float], target: float | None = None) -> Measurement:
        """The median of `values`, with the interval that order statistics give whatever the distribution.

        From the (k+1)-th smallest to the (k+1)-th greatest value: that misses the true median if a fair coin
        thrown n times shows at most k heads or at most k tails. Below six values it is the range and covers
        less.
        """
        n, ordered = len(values), sorted(values)
        tails = itertools.accumulate(math.comb(n, k) / 2**n for k in range(n))
        k = max(0, sum(tail <= 0.025 for tail in tails) - 1)
        return cls(name, unit, n, statistics.median(ordered), ordered[k], ordered[n - 1 - k], target)
