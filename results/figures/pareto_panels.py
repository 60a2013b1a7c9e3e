"""The figure `pareto`: what each optimizer's best setting achieves, and what its training took.

Times of different hardware are never compared: such a workload has a panel of operations only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from harness.store import Store
from results.analysis.cost import TOTAL_FLOPS
from results.analysis.metrics import Metric, reported
from results.analysis.provenance import timings
from results.analysis.stats import Summary, summarize
from results.analysis.summary import finite_values
from results.analysis.winners import Winner, chosen_among, span, winners
from results.figures.focus import worst_shown
from results.figures.kinds import RUNS, DataRow
from results.figures.panels import titles, workloads
from results.figures.style import display_name
from results.figures.units import OPERATIONS, SECONDS, unit

TIME = "useful_seconds"
# Column of the frame -> what it is, and its units. Records of older code lack the second.
AXES = {TIME: ("training time", SECONDS), TOTAL_FLOPS: ("operations of model and optimizer", OPERATIONS)}

_MOST_NAMES = 3  # that fit into a subtitle


@dataclass(frozen=True)
class CostPoint:
    """One optimizer: its cost and its test metric in the printed units, over the same seeds."""

    optimizer: str
    cost: Summary
    metric: Summary
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class CostPanel:
    """One workload and one kind of cost.

    Attributes:
        title, subtitle: text above the panel.
        metric, axis: labels, with their units.
        higher_is_better: of the metric.
        points: in the order of their cost.
        front: the points that no other beats in both.
        worst_shown: the end of the axis on the side of the bad values; points beyond it are marked there.
    """

    title: str
    subtitle: str
    metric: str
    higher_is_better: bool
    axis: str
    points: list[CostPoint]
    front: list[CostPoint]
    worst_shown: float | None = None

    most_columns: ClassVar[int] = 2
    height: ClassVar[float] = 2.7  # inches; so much that the names find places

    def rows(self) -> Iterator[DataRow]:
        """The points in the order of their cost; the front once more, under its name."""
        for point in self.points:
            yield self._row(point.optimizer, point)
        for point in self.front:
            yield self._row("Pareto front", point)

    def _row(self, series: str, point: CostPoint) -> DataRow:
        cost, metric = point.cost, point.metric
        spread = {"y_sd": metric.std, "x_sd": cost.std, "n": metric.n}
        quantity = f"test {self.metric} against {self.axis}"
        return DataRow(quantity, series, cost.mean, metric.mean, source=RUNS, keys=point.keys, **spread)


def pareto(frame: pd.DataFrame, _: Store) -> list[CostPanel]:
    """Per workload the test metric against time, and against operations if its records have them."""
    panels = (_panel(part, column) for part in workloads(frame) for column in AXES)
    return [panel for panel in panels if panel is not None]


def _panel(part: pd.DataFrame, column: str) -> CostPanel | None:
    metric, found = reported(part)[0], winners(part)
    completed = [run for one in found for run in one.runs if run["state"] == "completed"]
    hardware = timings(completed)
    if column == TIME and hardware > 1:
        return None
    values = {one.optimizer: _values(one, column, metric) for one in found}
    costs = [cost for own in values.values() for cost, _, _ in own]
    if not costs:
        return None
    what, units = AXES[column]
    name, size = unit(units, min(costs))
    made = [_point(optimizer, own, size) for optimizer, own in values.items() if own]
    points = sorted(made, key=lambda point: point.cost.mean)
    title, setting = titles(part)
    seeds = f"mean ± sd of {span([point.metric.n for point in points])} seeds"
    how = ", ".join(filter(None, [seeds, chosen_among(found)]))
    mixed = f"no times: the runs are from {hardware} kinds of hardware" if hardware > 1 else ""
    subtitle = "\n".join(filter(None, [setting, how, _without(found, points), mixed]))
    up = metric.higher_is_better
    limit = worst_shown([point.metric.mean for point in points], higher_is_better=up)
    axis = f"{what} ({name})"
    return CostPanel(title, subtitle, metric.label, up, axis, points, front(points, up), limit)


def _without(found: Sequence[Winner], points: Sequence[CostPoint]) -> str:
    """Which optimizers have no point; how many, if they are many."""
    known = {point.optimizer for point in points}
    names = [display_name(one.optimizer) for one in found if one.optimizer not in known]
    if len(names) > _MOST_NAMES:
        return f"without a result: {len(names)} optimizers"
    return f"without a result: {', '.join(names)}" if names else ""


def _values(one: Winner, column: str, metric: Metric) -> list[tuple[float, float, str]]:
    """Cost, test metric and key of each reported run; nothing if one of them lacks the cost."""
    runs = [run for run in one.runs if finite_values([run], f"test_{metric.name}")]
    costs = finite_values(runs, column)
    if len(costs) < len(runs):
        return []
    tests = finite_values(runs, f"test_{metric.name}")
    keys = [str(run["key"]) for run in runs]
    return [(cost, metric.scale * test, key) for cost, test, key in zip(costs, tests, keys, strict=True)]


def _point(optimizer: str, values: Sequence[tuple[float, float, str]], size: float) -> CostPoint:
    costs, tests, keys = zip(*values, strict=True)
    return CostPoint(optimizer, summarize([cost / size for cost in costs]), summarize(tests), keys)


def front(points: Sequence[CostPoint], higher_is_better: bool) -> list[CostPoint]:
    """The points that no other one beats: cheaper and better, or equal in one of the two.

    Args:
        points: in any order.
        higher_is_better: of the metric.
    """
    sign = -1 if higher_is_better else 1
    found: list[CostPoint] = []
    for point in sorted(points, key=lambda one: (one.cost.mean, sign * one.metric.mean)):
        if not found or sign * point.metric.mean < sign * found[-1].metric.mean:
            found.append(point)
    return found
