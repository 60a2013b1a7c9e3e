"""Units of times and operations: the largest in which all values of an axis can be read."""

from __future__ import annotations

SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
OPERATIONS = {"GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15, "EFLOP": 1e18}
_READABLE = 10  # the smallest of all values is at least so many of the unit, unless it is the first one


def unit(units: dict[str, float], least: float) -> tuple[str, float]:
    """The name of the unit and its size.

    Args:
        units: name -> size, ascending.
        least: the smallest value of the axis.
    """
    fitting = [(name, size) for name, size in units.items() if least >= _READABLE * size]
    return fitting[-1] if fitting else next(iter(units.items()))
