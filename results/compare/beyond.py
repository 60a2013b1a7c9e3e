"""The next value to try beyond the edge of what was tried, within what is legal for the setting."""

from __future__ import annotations

from harness.config import hyper_schedules
from harness.config.settings import params_of
from optimizers.zoo.registry import ZOO, Param
from results.frames.identity import setting_name


def beyond(optimizer: str, column: str, end: float, wanted: float, upwards: bool) -> float | None:
    """The value to try next.

    Args:
        optimizer: its name.
        column: the frame's column.
        end: the last value that was tried.
        wanted: the next one, before rounding.
        upwards: the direction.

    Returns:
        `wanted` to two significant digits, or the legal end before it; None if there is none.
    """
    param = _param(optimizer, column)
    following = float(f"{wanted:.2g}")
    if param is not None and param.type is int:
        following = round(following)
    if (following - end if upwards else end - following) <= 0:
        return None
    if param is None or param.allows(following):
        return following
    last = legal_end(optimizer, column, upwards)
    return last if last is not None and param.allows(last) else None


def legal_end(optimizer: str, column: str, upwards: bool) -> float | None:
    """The largest or smallest legal value, which may itself be excluded; None: there is none."""
    param = _param(optimizer, column)
    if param is None:
        return None
    return param.high if upwards else param.low


def _param(optimizer: str, column: str) -> Param | None:
    row = ZOO.get(optimizer)
    if row is not None and column == "aux_lr":  # has the range of any learning rate
        return row.lr
    known = params_of(row) if row is None else params_of(row) | hyper_schedules.params_of(row)
    return known.get(setting_name(column))
