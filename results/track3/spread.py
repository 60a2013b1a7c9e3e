"""How far runs of one result lie apart: the standard deviation over seeds and how well it is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from results.compare.stats import MIN_SEEDS, SIGNIFICANCE, Summary


@dataclass(frozen=True)
class Spread:
    """A standard deviation with its 95 % interval, which supposes values from a normal law.

    Attributes:
        sd: the estimate, in the unit of the values.
        low, high: the ends of the interval.
        freedom: degrees of freedom behind it.
    """

    sd: float
    low: float
    high: float
    freedom: int


def pooled(summaries: Sequence[Summary]) -> Spread:
    """The standard deviation that results share, from those with `MIN_SEEDS` runs or more. At least one.

    One summary gives its own standard deviation with its interval.
    """
    known = [(one.std, one.n - 1) for one in summaries if one.std is not None and one.n >= MIN_SEEDS]
    freedom = sum(own for _, own in known)
    squares = sum(own * std**2 for std, own in known)
    return Spread(math.sqrt(squares / freedom), *_interval(squares, freedom), freedom)


def _interval(squares: float, freedom: int) -> tuple[float, float]:
    """By the chi-squared law of the sum of squares."""
    from scipy import special

    tails = (SIGNIFICANCE / 2, 1 - SIGNIFICANCE / 2)  # the probabilities of more
    low, high = (math.sqrt(squares / float(special.chdtri(freedom, tail))) for tail in tails)
    return low, high
