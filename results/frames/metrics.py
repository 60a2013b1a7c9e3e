"""The name, unit, scale and digits with which each metric is printed."""

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

from htbench.harness import tasks
from htbench.harness.config.programs import RULE
from htbench.harness.store.record import RunRecord
from htbench.results.frames.rows import Rows

MARGIN_NATS, MARGIN_SHARE = 0.005, 0.002  # half a percent of perplexity; two of 1,000 answers
_PERCENT = "_percent"  # what the CSV column of a share ends with


@dataclass(frozen=True)
class Metric:
    """One metric of a record.

    Attributes:
        name: in records, after the split: `val_<name>`, `test_<name>`.
        words: its name for people.
        scale: what a record's value is multiplied by.
        digits: decimals printed.
        higher_is_better: the direction.
        is_share: whether it is the share of correct test samples; then its sampling error is known.
        is_log: whether rows are compared by its logarithm, the loss: differences are ratios of perplexity.
    """

    name: str
    words: str
    scale: float
    digits: int
    higher_is_better: bool
    is_share: bool = False
    is_log: bool = False

    def on_scale(self, value: float) -> float:
        """A value of a record on the scale on which rows are compared."""
        return math.log(max(value, sys.float_info.min)) if self.is_log else value

    def printed(self, value: float) -> float:
        """The inverse of `on_scale`, in the printed unit."""
        return math.exp(value) if self.is_log else value * self.scale

    @property
    def margin(self) -> float:
        """Differences up to it do not matter, on the scale of the comparison; 0 of a metric from outside."""
        return MARGIN_NATS if self.is_log else MARGIN_SHARE if self.is_share else 0.0

    @property
    def gap(self) -> tuple[float, str]:
        """By what a difference on that scale is multiplied when it is printed, and its unit."""
        return (1, "nats") if self.is_log else (100, "points") if self.is_share else (self.scale, self.words)

    @property
    def unit(self) -> str:
        """Of its printed values; empty if it has none."""
        return "%" if self.scale == 100 else ""

    @property
    def label(self) -> str:
        """For people, with the unit."""
        return f"{self.words} ({self.unit})" if self.unit else self.words

    @property
    def bounds(self) -> tuple[float, float] | None:
        """What its printed values can be; None: any number."""
        return (0.0, 100.0) if self.scale == 100 else None

    @property
    def column(self) -> str:
        """Its name in CSV: the unit shows where it is not the record's."""
        return f"{self.name}{_PERCENT}" if self.scale == 100 else self.name


PERPLEXITY = Metric("perplexity", "perplexity", 1, 2, False, is_log=True)
BITS_PER_BYTE = Metric("bits_per_byte", "bits/byte", 1, 3, False)
ACCURACY = Metric("accuracy", "accuracy", 100, 2, True, is_share=True)

_REPORTED: dict[str, tuple[Metric, ...]] = {"lm": (PERPLEXITY, BITS_PER_BYTE), "image": (ACCURACY,)}
TASK = ("task_kind", "metric", "higher_is_better")  # columns of the frame, for tasks that are not ours


def columns(record: RunRecord) -> dict[str, Any]:
    """The columns TASK for a task that is not ours, so that tables import no module of it; else nothing."""
    row = tasks.recorded(record.config["task"], record.environment)
    if row is tasks.TASKS.get(row.name):
        return {}
    return dict(zip(TASK, (row.kind, row.metric, row.higher_is_better), strict=True))


def reported(part: Rows) -> tuple[Metric, ...]:
    """The metrics of the task of a part of the frame, first the one by which runs are chosen."""
    task = describe_task(part)
    kind, metric, higher_is_better = task.kind, task.metric, task.higher_is_better
    our_metrics = {declared.name: declared for metrics in _REPORTED.values() for declared in metrics}
    first_metric = our_metrics.get(metric) if kind != RULE else None
    if first_metric is None or first_metric.higher_is_better != higher_is_better:
        sizes = (abs(row[name]) for row in part if is_number(row.get(name := f"val_{metric}")))
        first_metric = Metric(metric, metric, 1, 1 if max(sizes, default=0) >= 100 else 4, higher_is_better)
    more = (declared for declared in _REPORTED.get(kind, ()) if declared is not first_metric)
    first = part[0]
    is_ours = first["task"] in tasks.TASKS
    return first_metric, *(declared for declared in more if is_ours or f"val_{declared.name}" in first)


def loss_unit(part: Rows) -> str:
    """In which a task counts its loss."""
    return "nats/token" if describe_task(part).kind == "lm" else "nats"


def describe_task(part: Rows) -> tasks.TaskSpec:
    """The task of a part of the frame: ours, or what its runs say of it."""
    task = tasks.recorded(str(part[0]["task"]), {})
    for row in part:
        if isinstance(kind := row.get(TASK[0]), str):
            told = {"metric": row[TASK[1]], "higher_is_better": bool(row[TASK[2]])}
            return replace(task, kind=kind, target=None, classes=None, **told)
    return task


def is_number(value: Any) -> bool:
    """Whether a cell of the frame has a value; NaN means none."""
    return isinstance(value, int | float) and value == value


def is_missing(value: Any) -> bool:
    """Whether a cell of the frame has no value."""
    return value is None or bool(value != value)


def word(value: Any) -> str:
    """A value of the frame as one word."""
    if is_missing(value):
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def within(column: str, interval: tuple[float, float]) -> tuple[float, float]:
    """An interval cut to [0, 100] for a percentage; the name of its CSV column says whether it is one."""
    low, high = interval
    return (max(0.0, low), min(100.0, high)) if column.endswith(_PERCENT) else interval
