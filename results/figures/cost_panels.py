"""The data of the figure `cost`: what each optimizer's winner achieves, and what its training took.

The winner is the best setting on the validation split. Its runs here are its replicas on fresh seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.store import Store
from results.analysis.cost import TOTAL_FLOPS
from results.analysis.metrics import Metric, reported
from results.analysis.select import OPTIMIZER, Choice, Row, choose
from results.analysis.summary import finite_values
from results.figures.kinds import DataRow
from results.figures.panels import titles, workloads

TIME = "useful_seconds"
# Column of the frame -> what it is, and its units from the smallest. Records of older code lack the second.
AXES: dict[str, tuple[str, dict[str, float]]] = {
    TIME: ("training time", {"seconds": 1, "minutes": 60, "hours": 3600}),
    TOTAL_FLOPS: ("model and optimizer", {"GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15, "EFLOP": 1e18}),
}
_READABLE = 10  # the smallest of all costs is at least so many of the unit, unless it is the first one


@dataclass(frozen=True)
class Mean:
    """Mean and sample standard deviation over seeds; 0 of a single one."""

    value: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Of one value or more."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


@dataclass(frozen=True)
class Point:
    """One optimizer: its cost, its test metric in the printed unit, and the number of seeds."""

    optimizer: str
    cost: Mean
    metric: Mean
    seeds: int
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class CostPanel:
    """One workload and one kind of cost; `front` are the points that no other beats in both."""

    title: str
    subtitle: str
    metric: str
    higher_is_better: bool
    axis: str
    points: list[Point]
    front: list[Point]

    def rows(self) -> Iterator[DataRow]:
        """The points; x is the cost."""
        for point in self.points:
            many = point.seeds > 1
            yield DataRow(
                f"test {self.metric}",
                point.optimizer,
                point.cost.value,
                point.metric.value,
                point.metric.sd if many else None,
                n=point.seeds,
                keys=point.keys,
                x_sd=point.cost.sd if many else None,
            )


def cost(frame: pd.DataFrame, _: Store) -> list[CostPanel]:
    """Per workload the test metric against time, and against operations if its records have them."""
    found = []
    for part in workloads(frame):
        choices = choose(part, OPTIMIZER)
        found += [panel for column in AXES if (panel := _panel(part, choices, column)) is not None]
    return found


def _panel(part: pd.DataFrame, choices: Sequence[Choice], column: str) -> CostPanel | None:
    metric = reported(part)[0]
    found = {str(choice.fixed["optimizer"]): _values(choice, column, metric) for choice in choices}
    costs = [value for own in found.values() for value in own[0]]
    if not costs:
        return None
    axis, size = _axis(column, min(costs))
    made = [_point(name, *own, size) for name, own in found.items() if own[0]]
    points = sorted(made, key=lambda point: point.cost.value)
    title, setting = titles(part)
    seeds = "-".join(map(str, sorted({point.seeds for point in points})))
    how = f"mean and standard deviation of {seeds} seeds"
    runs = [run for choice in choices for run in choice.replicas]
    lines = [setting, how, _machines(runs) if column == TIME else ""]
    up = metric.higher_is_better
    subtitle = "\n".join(filter(None, lines))
    return CostPanel(title, subtitle, metric.label, up, axis, points, pareto(points, up))


Values = tuple[list[float], list[float], tuple[str, ...]]


def _values(choice: Choice, column: str, metric: Metric) -> Values:
    """Cost and test metric of each replica, and its key; nothing if one of them lacks the cost."""
    runs = [run for run in choice.replicas if finite_values([run], f"test_{metric.name}")]
    costs = finite_values(runs, column)
    if len(costs) < len(runs):
        return [], [], ()
    metrics = [metric.scale * value for value in finite_values(runs, f"test_{metric.name}")]
    return costs, metrics, tuple(str(run["key"]) for run in runs)


def _axis(column: str, least: float) -> tuple[str, float]:
    """The label of a cost's axis, and the size of its unit: the largest in which all costs can be read."""
    what, units = AXES[column]
    fitting = [(unit, size) for unit, size in units.items() if least >= _READABLE * size]
    unit, size = fitting[-1] if fitting else next(iter(units.items()))
    return f"{what} ({unit})", size


def _point(
    name: str, costs: Sequence[float], values: Sequence[float], keys: tuple[str, ...], size: float
) -> Point:
    return Point(name, Mean.of([cost / size for cost in costs]), Mean.of(values), len(values), keys)


def _machines(runs: Sequence[Row]) -> str:
    """Times of different machines can't be compared, and the panel says so."""
    found = {str(run.get("machine")) for run in runs if run["state"] == "completed"}
    return f"times of {len(found)} kinds of machines" if len(found) > 1 else ""


def pareto(points: Sequence[Point], higher_is_better: bool) -> list[Point]:
    """The points that no other one beats: cheaper and better, or equal in one of the two.

    Args:
        points: in the order of their cost.
        higher_is_better: of the metric.
    """
    sign = -1 if higher_is_better else 1
    front: list[Point] = []
    for point in sorted(points, key=lambda one: (one.cost.value, sign * one.metric.value)):
        if not front or sign * point.metric.value < sign * front[-1].metric.value:
            front.append(point)
    return front
