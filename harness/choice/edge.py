"""A chosen value beyond which nothing was tried, and the next one to try: a better one may lie there."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.config import hyper_schedules
from harness.config.settings import params_of
from optimizers.zoo.registry import ZOO, Param

_AT_END = 0.01  # of a searched range, of its logarithm if that is how it was searched


@dataclass(frozen=True)
class Edge:
    """A chosen value beyond which nothing was tried.

    Attributes:
        setting: as a sweep file calls it, such as `optimizer.lr`.
        value: the chosen value.
        place: what it is at the edge of.
        upwards: whether it is the upper edge.
        following: the value to try next, or the next end of the range; None if no further value is allowed.
        is_listed: whether the grid has that value already, but not with the other chosen settings.
        blocks: of the sweep files that have the chosen value.
    """

    setting: str
    value: float
    place: Literal["grid", "range"]
    upwards: bool
    following: float | None
    is_listed: bool = False
    blocks: tuple[str, ...] = ()


def of_values(
    optimizer: str, setting: str, value: float, tried: Sequence[float], listed: Iterable[float] = ()
) -> Edge | None:
    """The edge at the ends of some values; None if the value is at none, or at the end of what is allowed.

    Args:
        optimizer: its name in the zoo.
        setting: as in `Edge`.
        value: the chosen one.
        tried: ascending; the values with all other settings as chosen.
        listed: those of the grid, even with other settings.
    """
    if len(tried) < 2 or value not in (tried[0], tried[-1]):
        return None
    upwards = value == tried[-1]
    if value == legal_end(optimizer, setting, upwards):
        return None
    further = [other for other in listed if (other > value if upwards else other < value)]
    if further:
        return Edge(setting, value, "grid", upwards, min(further) if upwards else max(further), True)
    neighbour = tried[-2] if upwards else tried[1]
    # By the ratio of the two, or by their distance where one is 0 or they differ in sign.
    wanted = value * value / neighbour if value * neighbour > 0 else 2 * value - neighbour
    return Edge(setting, value, "grid", upwards, beyond(optimizer, setting, value, wanted, upwards))


def of_range(
    optimizer: str, setting: str, value: float, low: float, high: float, *, log: bool
) -> Edge | None:
    """The edge at the ends of a searched range; None if the value is at none, or no wider range is allowed.

    Args:
        optimizer, setting, value: as for `of_values`.
        low, high: the least and the greatest value that any sweep could have tried.
        log: whether it was searched on a logarithmic scale.
    """
    place = _place(value, low, high, log and low > 0)
    upwards = place >= 1 - _AT_END
    end = high if upwards else low
    if _AT_END < place < 1 - _AT_END or end == legal_end(optimizer, setting, upwards):
        return None
    step = (high - low) / 2 if upwards else (low - high) / 2
    wanted = (end * 3 if upwards else end / 3) if log else end + step
    return Edge(setting, value, "range", upwards, beyond(optimizer, setting, end, wanted, upwards))


def _place(value: float, low: float, high: float, log: bool) -> float:
    """Where a value lies between the ends, from 0 to 1."""
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low)


def numbers(values: Iterable[Any]) -> list[float]:
    """The distinct numbers, ascending; nothing if some are no numbers."""
    known = list(values)
    return sorted(set(known)) if set(map(type, known)) <= {int, float} else []


# --- the next value ---


def beyond(
    optimizer: str, setting: str, end: float, wanted: float, upwards: bool, digits: int = 2
) -> float | None:
    """The value to try next, beyond the last one that was tried.

    Args:
        optimizer, setting: as for `of_values`.
        end: the last value that was tried.
        wanted: the next one, before rounding.
        upwards: the direction.
        digits: significant ones that are kept.

    Returns:
        `wanted`, rounded, or the legal end before it; None if there is none.
    """
    param = _param(optimizer, setting)
    following = float(f"{wanted:.{digits}g}")
    if param is not None and param.type is int:
        following = round(following)
    if (following - end if upwards else end - following) <= 0:
        return None
    if param is None or param.allows(following):
        return following
    last = legal_end(optimizer, setting, upwards)
    return last if last is not None and param.allows(last) else None


def legal_end(optimizer: str, setting: str, upwards: bool) -> float | None:
    """The largest or smallest legal value, which may itself be excluded; None: there is none."""
    param = _param(optimizer, setting)
    if param is None:
        return None
    return param.high if upwards else param.low


def _param(optimizer: str, setting: str) -> Param | None:
    row = ZOO.get(optimizer)
    if row is not None and setting == "optimizer.aux_lr":  # has the range of any learning rate
        return row.lr
    known = params_of(row) if row is None else params_of(row) | hyper_schedules.params_of(row)
    return known.get(setting)
