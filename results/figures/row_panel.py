"""A panel with one row per optimizer, best on top: its name at the left, so that twenty need no legend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from results.figures.kinds import RUNS, DataRow
from results.figures.style import display_name

_ROW, _AROUND = 0.135, 0.6  # inches of one row, and of the axis with its label
_LETTER, _MARGIN = 0.055, 0.35  # inches of a letter of a name, and around it


@dataclass(frozen=True)
class Dot:
    """One run: its value, seed and key. Not `reached`: it ended there without having a value."""

    x: float
    seed: int
    key: str
    reached: bool = True


@dataclass(frozen=True)
class Span:
    """A range of values. An open end is drawn as an arrow: the range may go on beyond it."""

    low: float
    high: float
    open_low: bool = False
    open_high: bool = False


@dataclass(frozen=True)
class OptimizerRow:
    """One optimizer.

    Attributes:
        optimizer: decides colour and marker.
        mark: the mean, or the chosen value; None: there is none.
        dots: single runs.
        spans: by the panel's names of them.
        text: written at the right end, such as a number or why there is nothing.
        source: RUNS or PUBLISHED.
        keys: the runs behind mark and spans.
    """

    optimizer: str
    mark: float | None = None
    dots: list[Dot] = field(default_factory=list)
    spans: dict[str, Span] = field(default_factory=dict)
    text: str = ""
    source: str = RUNS
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowPanel:
    """One workload.

    Attributes:
        title, subtitle: text above the panel.
        x_label: of the values, with their unit.
        entries: from the best to the worst.
        mark, dot, missed: what they are, for the legend and the CSV file.
        heading: of the texts at the right end.
        x_log: whether the axis is logarithmic; None: if the values differ by a large factor.
        worst_shown: the end of the axis on the side of the bad values; rows beyond it are marked there.
    """

    title: str
    subtitle: str
    x_label: str
    entries: list[OptimizerRow]
    mark: str
    dot: str = ""
    missed: str = ""
    heading: str = ""
    x_log: bool | None = None
    worst_shown: float | None = None

    most_columns: ClassVar[int] = 2

    @property
    def beside(self) -> float:
        """Inches that the names at the left take."""
        return _MARGIN + _LETTER * max((len(display_name(one.optimizer)) for one in self.entries), default=0)

    @property
    def height(self) -> float:
        """In inches, so that no two rows overlap."""
        return _AROUND + _ROW * (1 + len(self.entries))

    def rows(self) -> Iterator[DataRow]:
        """Of each optimizer the mark, the ranges (an open end is said) and the single runs, by seed."""
        for one in self.entries:
            whole = DataRow(
                self.x_label,
                one.optimizer,
                self.mark,
                one.mark,
                n=len(one.dots) or None,
                source=one.source,
                keys=one.keys,
            )
            yield whole
            for name, span in one.spans.items():
                yield replace(whole, x=name + _opened(span), y=None, y_low=span.low, y_high=span.high)
            for dot in one.dots:
                name = self.dot if dot.reached else self.missed
                yield replace(whole, x=f"{name}, seed {dot.seed}", y=dot.x, n=1, keys=(dot.key,))


def _opened(span: Span) -> str:
    ends = [word for word, is_open in (("low", span.open_low), ("high", span.open_high)) if is_open]
    return f", open at the {' and the '.join(ends)} end" if ends else ""
