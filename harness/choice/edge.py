"""A chosen value beside which too little was tried, and the next one to try: a better one may lie there."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from htbench.harness.choice.rates import are_alike, are_far, is_rate
from htbench.harness.config import hyper_schedules
from htbench.harness.config.settings import params_of
from htbench.optimizers.zoo.registry import ZOO, Param

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

    def beside_trials(self, allowed: int, used: int, values: int = 0) -> "Edge":
        """The edge as one of a search whose trials are limited.

        Args:
            allowed: how many it may have.
            used: how many it has had, or is going to have.
            values: the number of them on this axis, if it is a grid beside the search; 0: it is searched.
        """
        if values:  # its first round has all combinations
            return replace(self, trials=math.ceil(allowed * (values + 1) / values))
        return replace(self, is_searched=True, trials=math.ceil(1.5 * allowed) if used >= allowed else 0)


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
    rate = is_rate(setting)

    def nearest(values: Iterable[float], upwards: bool) -> float | None:
        """On one side; of a rate none that counts as the same."""
        beyond_value = [other for other in values if (other > value if upwards else other < value)]
        apart = [other for other in beyond_value if not (rate and are_alike(other, value))]
        return min(apart, key=lambda other: abs(other - value), default=None)

    edges = []
    for upwards in (True, False) if len(tried) > 1 else ():
        beside, behind = nearest(tried, upwards), nearest(tried, not upwards)
        is_end = beside is None and value != legal_end(optimizer, setting, upwards)
        if not is_end and not (rate and beside is not None and are_far(beside, value)):
            continue
        further = nearest(listed, upwards)
        is_listed = further is not None and (beside is None or abs(further - value) < abs(beside - value))
        if not is_listed:
            proposal = _propose_value(rate, value, behind if is_end else beside, upwards)
            further = beyond(optimizer, setting, value, proposal, upwards)
        edges.append(Edge(setting, value, "grid" if is_end else "hole", upwards, further, is_listed))
    return edges


def _propose_value(rate: bool, value: float, other: float | None, upwards: bool) -> float:
    """The value to try next, before rounding: by the step to another one, or by an octave if that is far."""
    if other is None or (rate and are_far(other, value)):
        return value * 2 if upwards else value / 2
    # By the ratio of the two, or by their distance where one is 0 or they differ in sign.
    return value * value / other if value * other > 0 else 2 * value - other


def of_range(
    optimizer: str,
    setting: str,
    value: float,
    ends: tuple[float, float],
    drawn: Iterable[float],
    *,
    log: bool,
) -> list[Edge]:
    """The edges at the ends of a searched range, if a wider one is allowed, and at holes between draws.

    The ends are no holes: the search may draw as near to them as it likes.

    Args:
        optimizer, setting, value: as for `of_values`.
        ends: the least and the greatest value that any sweep could have tried.
        drawn: the values that were tried, with whatever other settings.
        log: whether it was searched on a logarithmic scale.
    """
    low, high = ends
    scale = math.log if log and low > 0 else float
    place = (scale(value) - scale(low)) / (scale(high) - scale(low))  # from 0 at one end to 1 at the other
    upwards = place >= 1 - _AT_END
    end = high if upwards else low
    if _AT_END < place < 1 - _AT_END or end == legal_end(optimizer, setting, upwards):
        edges = of_values(optimizer, setting, value, sorted({low, *drawn, high}))
        return [edge for edge in edges if edge.place == "hole"]
    step = (high - low) / 2 if upwards else (low - high) / 2
    proposal = (end * 3 if upwards else end / 3) if log else end + step
    return [Edge(setting, value, "range", upwards, beyond(optimizer, setting, end, proposal, upwards))]


def numbers(values: Iterable[Any]) -> list[float]:
    """The distinct numbers, ascending; nothing if some are no numbers."""
    entries = list(values)
    return sorted(set(entries)) if set(map(type, entries)) <= {int, float} else []


# --- the next value ---


def beyond(
    optimizer: str, setting: str, end: float, proposal: float, upwards: bool, digits: int = 2
) -> float | None:
    """The value to try next, beyond the last one that was tried.

    Args:
        optimizer, setting: as for `of_values`.
        end: the last value that was tried.
        proposal: the next one, before rounding.
        upwards: the direction.
        digits: significant ones that are kept.

    Returns:
        `proposal`, rounded, or the legal end before it; None if there is none.
    """
    param = _find_param(optimizer, setting)
    following = float(f"{proposal:.{digits}g}")
    if param is None and 0.8 <= end < 1 <= following:  # of a user's class, such as a beta: 1 forgets nothing
        following = (1 + end) / 2
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
    param = _find_param(optimizer, setting)
    return None if param is None else param.high if upwards else param.low


def _find_param(optimizer: str, setting: str) -> Param | None:
    row = ZOO.get(optimizer)
    if row is not None and setting == "optimizer.aux_lr":  # has the range of any learning rate
        return row.lr
    params = params_of(row) if row is None else params_of(row) | hyper_schedules.params_of(row)
    return params.get(setting)
