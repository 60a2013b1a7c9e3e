"""The figure `track3`: what results of the nanoGPT optimization benchmark reach, against seed spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from results.compare.stats import MIN_SEEDS, Summary, summarize
from results.figures.focus import worst_shown
from results.figures.kinds import PUBLISHED, DataRow
from results.figures.view import View
from results.track3 import verdicts
from results.track3.recomputed import Result, committed
from results.track3.spread import Spread, pooled


@dataclass(frozen=True)
class SpreadPoint:
    """One result.

    Attributes:
        name: its label.
        y: what it reaches.
        y_sd: of y over runs; None if y has no spread.
        spread: the standard deviation of its loss with a 95 % interval.
        n: runs.
        is_shown: whether our test shows its mean to be below 3.28.
    """

    name: str
    y: float
    y_sd: float | None
    spread: Spread
    n: int
    is_shown: bool


@dataclass(frozen=True)
class SpreadPanel:
    """Results as points: standard deviation over seeds to the right, what they reach upwards.

    Attributes:
        title, subtitle: text above the panel.
        x_label, y_label: of the axes.
        points: in the order of the benchmark.
        assumed: the standard deviation that the benchmark's rules assume.
        pooled: that of all points together.
        worst_shown: larger y are drawn as marks at the end of the axis; None: there are none.
    """

    title: str
    subtitle: str
    x_label: str
    y_label: str
    points: list[SpreadPoint]
    assumed: float
    pooled: Spread
    worst_shown: float | None
    height: ClassVar[float] = 4.1
    most_columns: ClassVar[int] = 2

    def rows(self) -> Iterator[DataRow]:
        """Of each point its place, then its standard deviation with the interval; at last that of all."""
        for point in self.points:
            place = (point.spread.sd, point.y, point.y_sd)
            yield DataRow(self.y_label, point.name, *place, n=point.n, source=PUBLISHED)
            yield self._row(point.name, point.spread, point.n)
        yield self._row("pooled", self.pooled, sum(point.n for point in self.points))

    def _row(self, series: str, one: Spread, n: int) -> DataRow:
        limits = (None, one.low, one.high)
        return DataRow(self.x_label, series, "", one.sd, *limits, n=n, source=PUBLISHED)


def track3(view: View) -> list[SpreadPanel]:
    """Two panels, of results with three runs or more; none unless published numbers alone are asked for."""
    return panels(committed()) if view.asked else []


def panels(results: Sequence[Result]) -> list[SpreadPanel]:
    """Loss at the last step that most results have, and published steps to 3.28.

    Args:
        results: the benchmark's.
    """
    found = verdicts.below_target(results)
    shown = {
        one.published.number: verdict.ours == "below" for one, verdict in zip(results, found, strict=True)
    }
    several = [result for result in results if len(result.runs) >= MIN_SEEDS]
    return [_at_step(several, shown), _at_target(several, shown)]


def _at_step(results: Sequence[Result], shown: Mapping[int, bool]) -> SpreadPanel:
    step = common_step(results)
    losses = [[float(run.losses[step]) for run in one.runs if step in run.losses] for one in results]
    points = [
        _point(result, summarize(values), shown)
        for result, values in zip(results, losses, strict=True)
        if len(values) >= MIN_SEEDS
    ]
    return _panel(f"(a) Loss at step {step}", f"validation loss at step {step}", points)


def common_step(results: Sequence[Result]) -> int:
    """The step at which most results have a loss of every run, the last one if there are several."""
    counts = Counter(
        step for one in results for step in set.intersection(*(set(run.losses) for run in one.runs))
    )
    most = max(counts.values())
    return max(step for step, count in counts.items() if count == most)


def _at_target(results: Sequence[Result], shown: Mapping[int, bool]) -> SpreadPanel:
    judged = [result for result in results if result.sample is not None]
    points = [
        _point(result, result.summary, shown, float(result.published.steps))
        for result in judged
        if result.summary is not None
    ]
    return _panel("(b) Steps to 3.28", "published steps to 3.28", points)


def _point(result: Result, losses: Summary, shown: Mapping[int, bool], y: float | None = None) -> SpreadPoint:
    """A result by the losses of its runs; y is their mean if it is not given."""
    number = result.published.number
    place = (losses.mean, losses.std) if y is None else (y, None)
    return SpreadPoint(str(number), *place, pooled([losses]), losses.n, shown[number])


def _panel(title: str, y_label: str, points: list[SpreadPoint]) -> SpreadPanel:
    return SpreadPanel(
        title,
        f"{len(points)} results with {MIN_SEEDS} runs or more, by their numbers",
        "standard deviation of the loss over seeds",
        y_label,
        points,
        verdicts.ASSUMED_SD,
        pooled([Summary(point.y, point.spread.sd, point.n) for point in points]),
        worst_shown([point.y for point in points], higher_is_better=False),
    )
