"""A few round numbers on a logarithmic x axis, however short it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_ROUND = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8))
_FINE = [tenths / 10 for tenths in range(10, 100)]  # where none of these lies between the ends
_FEWEST_TICKS, _MOST_TICKS = 3, 6


def set_log_ticks(ax: Any) -> None:
    """Label the x axis of matplotlib axes with plain numbers, 0.01 rather than a power of ten."""
    ticks = log_ticks(*ax.get_xlim())
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)


def log_ticks(low: float, high: float) -> list[float]:
    """A few round values between two, at least three if there are so many; their middle if there is none."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))

    def between(steps: Sequence[float]) -> list[float]:
        values = (float(f"{step}e{decade}") for decade in decades for step in steps)
        return [value for value in values if low <= value <= high]

    found: list[float] = []
    for steps in _ROUND:
        found = between(steps)
        if len(found) >= _FEWEST_TICKS:
            break
    found = found or between(_FINE) or [float(f"{math.sqrt(low * high):.3g}")]
    return found[:: math.ceil(len(found) / _MOST_TICKS)]
