"""The figure `pareto`: what each optimizer's best setting achieves, and what its training took.

An optimizer whose interval was searched has a point for each: that is what an interval is for. Times of
different hardware are never compared: such a workload has a panel of operations only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from harness.store import Store
from results.compare.select import Row
from results.compare.stats import Summary, summarize
from results.compare.summary import finite_values
from results.compare.winners import Winner, chosen_among, over_seeds, winners_along
from results.figures.focus import worst_shown
from results.figures.kinds import RUNS, DataRow
from results.figures.panels import titles, workloads
from results.figures.style import display_name
from results.figures.units import OPERATIONS, SECONDS, unit
from results.frames.cost import TOTAL_FLOPS
from results.frames.metrics import Metric, reported
from results.frames.provenance import timings

TIME = "useful_seconds"
# Column of the frame -> what it is, and its units. Records of older code lack the second.
AXES = {TIME: ("training time", SECONDS), TOTAL_FLOPS: ("operations of model and optimizer", OPERATIONS)}

_INTERVAL = "interval"
_MOST_NAMES = 3  # that fit into a subtitle


@dataclass(frozen=True)
class CostPoint:
    """One optimizer: its cost and its test metric in the printed units, over the same seeds.

    Attributes:
        optimizer: decides colour and marker.
        cost, metric: their means and spreads.
        keys: the runs.
        more: what tells it from other points of the optimizer, such as "interval 5"; may be empty.
    """

    optimizer: str
    cost: Summary
    metric: Summary
    keys: tuple[str, ...] = ()
    more: str = ""

    @property
    def name(self) -> str:
        """As a label: "HTMuon, interval 5"."""
        return ", ".join(filter(None, [display_name(self.optimizer), self.more]))


@dataclass(frozen=True)
class CostPanel:
    """One workload and one kind of cost.

    Attributes:
        title, subtitle: text above the panel.
        metric, axis: labels, with their units; the metric with its split.
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
    source: str = RUNS

    most_columns: ClassVar[int] = 2
    height: ClassVar[float] = 2.7  # inches; so much that the names find places

    def rows(self) -> Iterator[DataRow]:
        """The points in the order of their cost; the front once more, under its name."""
        for point in self.points:
            yield self._row(", ".join(filter(None, [point.optimizer, point.more])), point)
        for point in self.front:
            yield self._row("Pareto front", point)

    def _row(self, series: str, point: CostPoint) -> DataRow:
        return DataRow(
            f"{self.metric} against {self.axis}",
            series,
            point.cost.mean,
            point.metric.mean,
            y_sd=point.metric.std,
            n=point.metric.n if self.source == RUNS else None,
            source=self.source,
            keys=point.keys,
            x_sd=point.cost.std,
        )


def pareto(frame: pd.DataFrame, _: Store) -> list[CostPanel]:
    """Per workload the test metric against time, and against operations if its records have them."""
    panels = (_panel(part, column) for part in workloads(frame) for column in AXES)
    return [panel for panel in panels if panel is not None]


def _panel(part: pd.DataFrame, column: str) -> CostPanel | None:
    metric, found = reported(part)[0], winners_along(part, _INTERVAL)
    completed = [run for one in found for run in one.runs if run["state"] == "completed"]
    hardware = timings(completed)
    if column == TIME and hardware > 1:
        return None
    values = [(one, _values(one, column, metric)) for one in found]
    costs = [cost for _, own in values for cost, _, _ in own]
    if not costs:
        return None
    what, units = AXES[column]
    name, size = unit(units, min(costs))
    points = [_point(one, own, size) for one, own in values if own]
    title, setting = titles(part)
    seeds = over_seeds([point.metric.n for point in points], "mean ± sd")
    how = ", ".join(filter(None, [seeds, chosen_among(found)]))
    mixed = f"no times: the runs are from {hardware} kinds of hardware" if hardware > 1 else ""
    lines = [setting, how, *_without(found, points, metric), mixed]
    subtitle = "\n".join(filter(None, lines))
    axis = f"{what} ({name})"
    return panel_of(title, subtitle, f"test {metric.label}", metric.higher_is_better, axis, points)


def panel_of(
    title: str,
    subtitle: str,
    metric: str,
    higher_is_better: bool,
    axis: str,
    points: Sequence[CostPoint],
    source: str = RUNS,
) -> CostPanel:
    """The panel of some points, with their front; as in `CostPanel`."""
    ordered = sorted(points, key=lambda point: point.cost.mean)
    limit = worst_shown([point.metric.mean for point in points], higher_is_better=higher_is_better)
    best = front(ordered, higher_is_better)
    return CostPanel(title, subtitle, metric, higher_is_better, axis, ordered, best, limit, source)


def _without(found: Sequence[Winner], points: Sequence[CostPoint], metric: Metric) -> list[str]:
    """Which optimizers have no point: they have no result, or their records lack the cost."""
    known = {display_name(point.optimizer) for point in points}
    missing = [one for one in found if display_name(one.optimizer) not in known]
    return [
        _named("without a result", [one for one in missing if not _tested(one, metric)]),
        _named("not counted", [one for one in missing if _tested(one, metric)]),
    ]


def _named(what: str, missing: Sequence[Winner]) -> str:
    """The optimizers by their names; how many, if they are many."""
    names = list(dict.fromkeys(display_name(one.optimizer) for one in missing))
    if len(names) > _MOST_NAMES:
        return f"{what}: {len(names)} optimizers"
    return f"{what}: {', '.join(names)}" if names else ""


def _tested(one: Winner, metric: Metric) -> list[Row]:
    """The reported runs that have the test metric."""
    return [run for run in one.runs if finite_values([run], f"test_{metric.name}")]


def _values(one: Winner, column: str, metric: Metric) -> list[tuple[float, float, str]]:
    """Cost, test metric and key of each reported run; nothing if one of them lacks the cost."""
    runs = _tested(one, metric)
    costs = finite_values(runs, column)
    if len(costs) < len(runs):
        return []
    tests = finite_values(runs, f"test_{metric.name}")
    keys = [str(run["key"]) for run in runs]
    return [(cost, metric.scale * test, key) for cost, test, key in zip(costs, tests, keys, strict=True)]


def _point(one: Winner, values: Sequence[tuple[float, float, str]], size: float) -> CostPoint:
    costs, tests, keys = zip(*values, strict=True)
    interval = one.choice.fixed.get(_INTERVAL)
    more = f"{_INTERVAL} {interval:g}" if interval is not None else ""
    cost = summarize([cost / size for cost in costs])
    return CostPoint(one.optimizer, cost, summarize(tests), keys, more)


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
