"""The kinds of panels that figures are made of, as plain values: enough to draw, to write as CSV, to compare.

A panel is a dataclass with `title`, `subtitle` and `rows()`. How each kind is drawn is in `DRAW` of
`results.figures.draw`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from harness.store import Store

RUNS, PUBLISHED = "runs", "published"  # the sources of a value


@dataclass(frozen=True)
class DataRow:
    """One value of a figure, a row of the CSV file behind it.

    Attributes:
        quantity: what y is, with its unit.
        series: what the value belongs to, usually an optimizer.
        x: a number, or a word such as the name of a layer.
        y, y_sd: mean and sample standard deviation over n seeds. None: there is none.
        y_low, y_high: least and greatest value, of a band.
        n: number of seeds; None if a published number does not say it.
        source: RUNS or PUBLISHED.
        keys: the runs behind it.
    """

    quantity: str
    series: str
    x: float | str
    y: float | None
    y_sd: float | None = None
    y_low: float | None = None
    y_high: float | None = None
    n: int | None = None
    source: str = RUNS
    keys: tuple[str, ...] = ()
    x_sd: float | None = None


class AnyPanel(Protocol):
    """What all kinds of panels have. All of them are dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def title(self) -> str:
        """Text above the panel."""

    @property
    def subtitle(self) -> str:
        """Smaller text below the title; may have several lines."""

    def rows(self) -> Iterator[DataRow]:
        """Its values."""


class StoredPanel(Protocol):
    """A panel whose values are in files of the store. It holds the digest of each, so changes are seen."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def title(self) -> str:
        """Text above the panel."""

    def read(self, store: Store) -> tuple[AnyPanel, list[str]]:
        """The panel with its values, and what was wrong with the files."""


@dataclass(frozen=True)
class Point:
    """A value of a series: as in `DataRow`."""

    x: float
    y: float
    sd: float | None = None
    n: int | None = None
    keys: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """Values along an axis.

    Attributes:
        optimizer: decides colour, marker and dashes.
        points: ascending in x.
        source: RUNS or PUBLISHED.
        label: in the legend; empty for the optimizer's display name.
        chosen: the x of the setting that was chosen, if one was.
        diverged: the x at which every run diverged.
        variant: a number that tells several series of one optimizer apart, by shade and dashes; None: alone.
        right: whether the right axis is its own.
    """

    optimizer: str
    points: list[Point]
    source: str = RUNS
    label: str = ""
    chosen: float | None = None
    diverged: list[float] = field(default_factory=list)
    variant: int | None = None
    right: bool = False


@dataclass(frozen=True)
class Level:
    """A horizontal line: what an optimizer reaches that has no value on the axis."""

    optimizer: str
    label: str
    y: float
    source: str = RUNS
    keys: tuple[str, ...] = ()
    right: bool = False


@dataclass(frozen=True)
class CurvePanel:
    """Series against an axis.

    Attributes:
        title, subtitle: text above the panel.
        x_label, y_label, right_label: of the axes.
        series, levels: what is drawn.
        higher_is_better: of the metric; decides where a divergence is marked.
        x_scale: "tried" is logarithmic with a label at each x, "values" linear with one, "linear" without.
        marks: whether each point has a marker; no for long curves.
        y_limits: None: as the values are.
        y_log: None: if the values differ by a large factor.
    """

    title: str
    subtitle: str
    x_label: str
    y_label: str
    series: list[Series]
    levels: list[Level] = field(default_factory=list)
    right_label: str = ""
    higher_is_better: bool = False
    x_scale: str = "linear"
    marks: bool = True
    y_limits: tuple[float, float] | None = None
    y_log: bool | None = None

    def rows(self) -> Iterator[DataRow]:
        """The points of each series, then the levels, which have no x."""
        for one in self.series:
            quantity = self.right_label if one.right else self.y_label
            name = one.label or one.optimizer
            for point in one.points:
                spread = (point.sd, point.low, point.high, point.n)
                yield DataRow(quantity, name, point.x, point.y, *spread, one.source, point.keys)
            for x in one.diverged:
                yield DataRow(quantity, name, x, None, source=one.source)
        for level in self.levels:
            quantity = self.right_label if level.right else self.y_label
            yield DataRow(quantity, level.label, "", level.y, source=level.source, keys=level.keys)


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        group: its label on the axis; bars of one group stand side by side.
        optimizer: decides colour and hatch.
        y, sd, n, source, keys: as in `DataRow`. Without y a word stands in the place of the bar.
        median: a second mark; None for none.
        state: that word, such as "diverged".
    """

    group: str
    optimizer: str
    y: float | None
    sd: float | None = None
    n: int | None = None
    source: str = RUNS
    keys: tuple[str, ...] = ()
    median: float | None = None
    state: str = ""


@dataclass(frozen=True)
class BarPanel:
    """Bars in groups. `cut`: the axis begins near the least value, and the values are written on the bars."""

    title: str
    subtitle: str
    y_label: str
    bars: list[Bar]
    cut: bool = False

    def rows(self) -> Iterator[DataRow]:
        """The bars, and their medians."""
        for bar in self.bars:
            row = DataRow(self.y_label, bar.optimizer, bar.group, bar.y, bar.sd)
            row = replace(row, n=bar.n, source=bar.source, keys=bar.keys)
            yield row
            if bar.median is not None:
                yield replace(row, quantity=f"median of {self.y_label}", y=bar.median, y_sd=None)


@dataclass(frozen=True)
class LayerPanel:
    """One quantity of the weights, layer by layer.

    Attributes:
        title, subtitle: text above the panel.
        axis, quantity: what the places are, and what the values.
        layers: their short names, or numbers.
        lines: by optimizer, for each seed the value of each layer; None where there is none that counts.
        random: the same of a random matrix of each shape; empty for quantities that depend on its scale.
        left_out: the places of layers whose alpha does not enter a mean.
        keys: by optimizer the run of each seed.
    """

    title: str
    subtitle: str
    axis: str
    quantity: str
    layers: list[str]
    lines: dict[str, list[list[float | None]]]
    random: list[float | None]
    left_out: list[int]
    keys: dict[str, list[str]] = field(default_factory=dict)

    def rows(self) -> Iterator[DataRow]:
        """The mean over seeds of each layer, then the random matrices."""
        for optimizer, seeds in self.lines.items():
            keys = tuple(self.keys.get(optimizer, ()))
            for layer, values in zip(self.layers, zip(*seeds, strict=True), strict=True):
                known = [one for one in values if one is not None]
                whole = bool(known) and len(known) == len(values)
                row = DataRow(self.quantity, optimizer, layer, None, n=len(known), keys=keys)
                if whole:
                    mean, sd, low, high = spread(known)
                    row = replace(row, y=mean, y_sd=sd, y_low=low, y_high=high)
                yield row
        for layer, value in zip(self.layers, self.random, strict=False):
            yield DataRow(self.quantity, "random matrix", layer, value)


def spread(values: Sequence[float]) -> tuple[float, float | None, float, float]:
    """Mean, sample standard deviation (None with one value), least and greatest of one value or more."""
    sd = statistics.stdev(values) if len(values) > 1 else None
    return statistics.fmean(values), sd, min(values), max(values)
