"""Limits of an axis on which one very bad result must not squeeze all others together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

_FAR = 3.0  # times the distance from the best value to the median one
_FEWEST = 4


def worst_shown(values: Sequence[float], *, higher_is_better: bool) -> float | None:
    """The worst value that an axis should show; None if all are close enough to each other.

    Values beyond three times the distance between the best and the median one are left to a mark at the end
    of the axis.

    Args:
        values: one per optimizer.
        higher_is_better: of the metric.
    """
    sign = -1 if higher_is_better else 1
    losses = sorted(sign * value for value in values)
    if len(losses) < _FEWEST:
        return None
    spread = statistics.median(losses) - losses[0]
    limit = losses[0] + _FAR * spread if spread else losses[-1]
    near = [one for one in losses if one <= limit]
    return sign * near[-1] if len(near) < len(losses) else None
