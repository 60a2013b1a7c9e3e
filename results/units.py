"""How each figure is called, scaled and rounded wherever people see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness import tasks

_PERCENT = "_percent"  # what the CSV column of a share ends with


@dataclass(frozen=True)
class Metric:
    """One figure of a record.

    Attributes:
        name: in records, after the split: `val_<name>`, `test_<name>`.
        label: for people, with the unit.
        scale: what a record's value is multiplied by.
        digits: decimals printed.
        higher_is_better: the direction.
        is_share: whether it is the share of test samples that are right, so that its sampling error is known.
    """

    name: str
    label: str
    scale: float
    digits: int
    higher_is_better: bool
    is_share: bool = False

    @property
    def column(self) -> str:
        """Its name in CSV: the unit shows where it is not the record's."""
        return f"{self.name}{_PERCENT}" if self.scale == 100 else self.name


PERPLEXITY = Metric("perplexity", "perplexity", 1, 2, False)
BITS_PER_BYTE = Metric("bits_per_byte", "bits/byte", 1, 3, False)
ACCURACY = Metric("accuracy", "accuracy (%)", 100, 2, True, is_share=True)

_REPORTED = {"lm": (PERPLEXITY, BITS_PER_BYTE), "image": (ACCURACY,)}


def reported(task: str) -> tuple[Metric, ...]:
    """The metrics of a task, first the one by which runs are chosen. Raises ValueError for an unknown one."""
    row = tasks.spec(task)
    return tuple(sorted(_REPORTED[row.kind], key=lambda metric: metric.name != row.metric))


def is_number(value: Any) -> bool:
    """Whether a row of the frame has a value there; NaN is the frame's word for none."""
    return isinstance(value, int | float) and value == value


def word(value: Any) -> str:
    """A value of the frame in a word."""
    if value is None or value != value:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def within(column: str, interval: tuple[float, float]) -> tuple[float, float]:
    """An interval without the values that a share, told from other metrics by its CSV column, can't have."""
    low, high = interval
    return (max(0.0, low), min(100.0, high)) if column.endswith(_PERCENT) else interval
