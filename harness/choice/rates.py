"""Rates on a logarithmic scale: which count as one, which are neighbours, and how wide an optimum is.

The width is that of the range of lr in which the metric stays within a share of its best.
Between two tried rates the metric is taken as a straight line over log(lr). A measured optimum is mostly
convex, so its true width is a little larger. The range is the connected one around the best rate.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ALIKE = 0.125  # octaves; of rates that are nearer than that one would teach nothing, and they count once
NEAR = 2.0  # octaves; two values between which that much lies, or more, say little of what is between them
_ROUNDED = 0.05  # octaves; people write rates with two digits
_NAMES = ("_lr", "_weight_decay", "_eps", "_radius")


def is_rate(setting: str) -> bool:
    """Whether a setting is one of those that are tried on a logarithmic scale, such as `optimizer.aux_lr`.

    Not those whose range is bounded, such as p or a momentum: on their scales, which differ, two or three
    values are all over the range. Nor exponents, warm-ups and thresholds, which nobody tries by octaves.
    """
    return setting.replace(".", "_").endswith(_NAMES)


def are_alike(rate: float, other: float) -> bool:
    """Whether two values of a rate count as one."""
    return rate == other or _count_octaves(rate, other) < ALIKE - _ROUNDED / 10


def are_far(rate: float, other: float) -> bool:
    """Whether a hole is between two values of a rate. 0 means none of it, and is no far value."""
    return _count_octaves(rate, other) > NEAR + _ROUNDED and rate * other > 0


def apart(values: Iterable[float]) -> list[float]:
    """Those values that count, ascending: of several that are alike the least."""
    distinct: list[float] = []
    for value in sorted(set(values)):
        if not distinct or not are_alike(distinct[-1], value):
            distinct.append(value)
    return distinct


def _count_octaves(rate: float, other: float) -> float:
    return abs(math.log2(rate / other)) if rate > 0 and other > 0 else math.inf


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
    low, open_low = _find_end(tried[at::-1], levels, margin)
    high, open_high = _find_end(tried[at:], levels, margin)
    return Width(low, high, open_low, open_high)


def _find_end(rates: list[float], levels: Mapping[float, float], margin: float) -> tuple[float, bool]:
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
        loss, before = (abs(levels[each] - levels[best]) for each in (rate, last))
        if loss > margin:
            share = (margin - before) / (loss - before)
            return last * (rate / last) ** share, False
        last = rate
    return last, True
