"""A chosen value beside which too little was tried, and the next one to try: a better one may lie there."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.choice.rates import are_alike, are_far, is_rate
from harness.config import hyper_schedules
from harness.config.settings import params_of
from optimizers.zoo.registry import ZOO, Param

_AT_END = 0.01  # of a searched range, of its logarithm if that is how it was searched


@dataclass(frozen=True)
class Edge:
    """A chosen value without a neighbour on one side: nothing was tried beyond it, or nothing near.

    Attributes:
        setting: as a sweep file calls it, such as `optimizer.lr`.
        value: the chosen value.
        place: what it is at the edge of; of a hole if the next value of a rate is further than two octaves.
        upwards: whether that is the upper side.
        following: the value to try next, or the next end of the range; None if no further value is allowed.
        is_listed: whether the grid has that value already, but not with the other chosen settings.
        blocks: of the sweep files that have the chosen value.
        is_searched: whether its search comes to such values by itself, so that no file has to name one.
        trials: what `search.trials` must be for that value at least; 0: as it is.
        is_drawn: whether a study draws its values, which another axis begins anew.
    """

    setting: str
    value: float
    place: Literal["grid", "range", "hole"]
    upwards: bool
    following: float | None
    is_listed: bool = False
    blocks: tuple[str, ...] = ()
    is_searched: bool = False
    trials: int = 0
    is_drawn: bool = False

    def beside_trials(self, allowed: int, known: int, values: int = 0) -> "Edge":
        """The edge as one of a search whose trials are limited.

        Args:
            allowed: how many it may have.
            known: how many it has had, or is going to have.
            values: the number of them on this axis, if it is a grid beside the search; 0: it is searched.
        """
        if values:  # its first round has all combinations
            return replace(self, trials=math.ceil(allowed * (values + 1) / values))
        return replace(self, is_searched=True, trials=math.ceil(1.5 * allowed) if known >= allowed else 0)


def of_values(
    optimizer: str, setting: str, value: float, tried: Sequence[float], listed: Iterable[float] = ()
) -> list[Edge]:
    """The edges at the ends of some values and at holes between them; none at the end of what is allowed.

    Args:
        optimizer: its name in the zoo.
        setting: as in `Edge`.
        value: the chosen one.
        tried: ascending; the values with all other settings as chosen.
        listed: those of the grid, even with other settings.
    """
    if len(tried) < 2:
        return []
    sides = (_of_side(optimizer, setting, value, tried, listed, upwards) for upwards in (True, False))
    return [edge for edge in sides if edge is not None]


def _of_side(
    optimizer: str, setting: str, value: float, tried: Sequence[float], listed: Iterable[float], upwards: bool
) -> Edge | None:
    """What is missing on one side of a value."""
    beside, behind = (_neighbour(setting, value, tried, side) for side in (upwards, not upwards))
    if beside is None and value == legal_end(optimizer, setting, upwards):
        return None
    if beside is not None and not (is_rate(setting) and are_far(beside, value)):
        return None
    place: Literal["grid", "hole"] = "grid" if beside is None else "hole"
    further = _neighbour(setting, value, listed, upwards)
    if further is not None and further != beside:
        return Edge(setting, value, place, upwards, further, True)
    return Edge(
        *(setting, value, place, upwards),
        beyond(optimizer, setting, value, _wanted(setting, value, beside, behind, upwards), upwards),
    )


def _neighbour(setting: str, value: float, others: Iterable[float], upwards: bool) -> float | None:
    """The nearest of the other values on one side; of a rate none that counts as the same."""
    apart = [one for one in others if not (is_rate(setting) and are_alike(one, value))]
    return (
        min((one for one in apart if one > value), default=None)
        if upwards
        else max((one for one in apart if one < value), default=None)
    )


def _wanted(setting: str, value: float, beside: float | None, behind: float | None, upwards: bool) -> float:
    """The value to try next, before rounding.

    Args:
        setting, value, upwards: as in `Edge`.
        beside: the next value on that side, behind a hole; None: there is none.
        behind: that on the other side, as which it is as far away.
    """
    other = behind if beside is None else beside
    if is_rate(setting) and (other is None or are_far(other, value)):  # near enough that the next is no hole
        middle = math.sqrt(value * beside) if beside is not None else value
        near = beside is not None and not are_far(middle, value) and not are_far(middle, beside)
        return middle if near else value * 2 if upwards else value / 2
    # By the ratio of the two, or by their distance where one is 0 or they differ in sign.
    assert other is not None
    return value * value / other if value * other > 0 else 2 * value - other


def of_range(
    optimizer: str,
    setting: str,
    value: float,
    low: float,
    high: float,
    drawn: Iterable[float] = (),
    *,
    log: bool,
) -> list[Edge]:
    """The edges at the ends of a searched range, if a wider one is allowed, and at holes between draws.

    The ends are no holes: the search may draw as near to them as it likes.

    Args:
        optimizer, setting, value: as for `of_values`.
        low, high: the least and the greatest value that any sweep could have tried.
        drawn: the values that were tried, with whatever other settings.
        log: whether it was searched on a logarithmic scale.
    """
    place = _place(value, low, high, log and low > 0)
    upwards = place >= 1 - _AT_END
    end = high if upwards else low
    if _AT_END < place < 1 - _AT_END or end == legal_end(optimizer, setting, upwards):
        found = of_values(optimizer, setting, value, sorted({low, *drawn, high}))
        return [edge for edge in found if edge.place == "hole"]
    step = (high - low) / 2 if upwards else (low - high) / 2
    wanted = (end * 3 if upwards else end / 3) if log else end + step
    return [Edge(setting, value, "range", upwards, beyond(optimizer, setting, end, wanted, upwards))]


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
