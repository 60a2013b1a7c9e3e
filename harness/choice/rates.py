"""The width of a learning-rate optimum: the range of lr in which the metric stays within a share of its best.

Between two tried rates the metric is taken as a straight line over log(lr). A measured optimum is mostly
convex, so its true width is a little larger. The range is the connected one around the best rate.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Width:
    """A range of learning rates around the best one.

    Attributes:
        low, high: its ends.
        open_low, open_high: whether no worse rate was tried beyond that end, so that the range may go on.
    """

    low: float
    high: float
    open_low: bool
    open_high: bool

    @property
    def octaves(self) -> float:
        """Its width in factors of two; a lower bound if an end is open."""
        return math.log2(self.high / self.low)


def rate_width(
    levels: Mapping[float, float], best: float, tolerance: float, diverged: Iterable[float] = ()
) -> Width:
    """The range of lr in which the metric differs from its best value by at most a share of that value.

    Args:
        levels: the metric by lr, which is positive.
        best: the lr with the best level.
        tolerance: the share, such as 0.01.
        diverged: rates without a level. The range ends at the last rate before one of them.
    """
    margin = tolerance * abs(levels[best])
    tried = sorted({*levels, *diverged})
    at = tried.index(best)
    low, open_low = _end(tried[at::-1], levels, margin)
    high, open_high = _end(tried[at:], levels, margin)
    return Width(low, high, open_low, open_high)


def _end(rates: list[float], levels: Mapping[float, float], margin: float) -> tuple[float, bool]:
    """Where the range ends on one side, and whether that end is open.

    Args:
        rates: from the best one outwards.
        levels: the metric by lr.
        margin: how far it may be from its best value.
    """
    best = last = rates[0]
    for rate in rates[1:]:
        if rate not in levels:
            return last, False
        loss, before = (abs(levels[one] - levels[best]) for one in (rate, last))
        if loss > margin:
            share = (margin - before) / (loss - before)
            return last * (rate / last) ** share, False
        last = rate
    return last, True
