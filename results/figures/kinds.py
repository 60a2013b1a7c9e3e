"""What figures are made of: panels of tidy values, and the table of their kinds.

The frame of a panel is what it shows: a row per value, with the columns of `Row`. Those in CSV are also the
columns of the file beside the picture.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from htbench.harness.show.harmless import csv_cell
from htbench.harness.show.note import Note

RUNS, PUBLISHED = "runs", "published"  # the sources of a value
CSV = ("quantity", "series", "x", "x_sd", "y", "y_sd", "y_low", "y_high", "n", "source", "keys", "marks")
CSV_START = ",".join(["panel", *CSV])  # of the file: it has the name of the picture behind these
# Roles whose values are points of a series: CHOSEN is that of the setting that was chosen, LEFT_OUT one that
# enters no mean.
POINT, CHOSEN, LEFT_OUT = "point", "chosen", "left out"
# Roles of other values.
DIVERGED, LEVEL, RANDOM, FRONT = "diverged", "level", "random", "front"
MARK, SPAN, DOT, MISSED = "mark", "span", "dot", "missed"  # in rows
LAW, ABOVE, BELOW = "law", "above", "below"  # a fitted curve; a value beyond what can be told
AGAINST = " against "
AXES = {"lr": "peak learning rate", "p": "p (power of the singular values)"}


@dataclass(frozen=True)
class Row:
    """One value of a figure.

    Attributes:
        quantity: what y is, with its unit.
        optimizer: whose value it is; decides colour, marker and dashes.
        x: a number, or a word such as the name of a layer.
        y, y_sd: mean and sample standard deviation over n seeds. None: there is none.
        y_low, y_high: least and greatest value, of a band.
        n: number of seeds; None if a published number does not say it.
        source: RUNS or PUBLISHED.
        keys: the runs behind it.
        marks: the kinds of notes on them, with spaces between; filled in by `marked`.
        x_sd: as `y_sd`.
        series: what the value belongs to, if it is not just the optimizer.

    For drawing only:
        role: what it is in the picture.
        place: the name of its row.
        text: what is written at it, such as a name or why there is no value.
        ends: whether the range may go on beyond its low and its high end.
    """

    quantity: str
    optimizer: str
    x: float | str
    y: float | None
    y_sd: float | None = None
    y_low: float | None = None
    y_high: float | None = None
    n: int | None = None
    source: str = RUNS
    keys: tuple[str, ...] = ()
    marks: str = ""
    x_sd: float | None = None
    series: str = ""
    role: str = POINT
    place: str = ""
    text: str = ""
    ends: tuple[bool, bool] = (False, False)

    def __post_init__(self) -> None:
        if not self.series:
            object.__setattr__(self, "series", self.optimizer)


def tidy(rows: Iterable[Row]) -> pd.DataFrame:
    """The frame of some rows. Its columns hold what the rows do: None stays None, and a count an integer."""
    return pd.DataFrame([vars(row) for row in rows], columns=list(Row.__dataclass_fields__), dtype=object)


@dataclass(frozen=True)
class Kind:
    """A kind of panel: what is drawn, and on which axes.

    Attributes:
        mark: one of `results.figures.marks.MARKS`. Curves show their quantity against x, rows along x, and
            points "one against another".
        x: what curves go along.
        x_scale: "tried" is logarithmic with a label at each x, "values" linear with one, "words" has a place
            for each word, "log" and "linear" have round numbers.
        markers: whether each point of a curve has a marker; no for long ones.
        words: of each role in a panel with rows: for the legend and the CSV file; "" is above the texts.
        whiskers: whether the range of a point is drawn at it, not as a band.
        joined: whether lines join the points of a series.
        cuts: whether very bad values are left to a mark at the end of the axis.
        height: of a panel without its title, in inches; rows take what they need.
    """

    mark: str
    x: str = ""
    x_scale: str = "linear"
    markers: bool = True
    words: dict[str, str] = field(default_factory=dict)
    whiskers: bool = False
    joined: bool = True
    cuts: bool = False
    height: float = 2.1


_ENDED = "ended without reaching it"
KINDS = {
    "rates": Kind("curves", AXES["lr"], x_scale="tried"),
    "budgets": Kind("curves", "settings tried", x_scale="tried"),
    "powers": Kind("curves", AXES["p"], x_scale="values"),
    "intervals": Kind("curves", "interval (steps)", x_scale="tried"),
    "losses": Kind("curves", "step", markers=False),
    "ranks": Kind("curves", "rank", markers=False),
    "sizes": Kind("curves", "parameters", x_scale="log", whiskers=True, height=2.7),
    "lengths": Kind("curves", "tokens per parameter", x_scale="tried", joined=False),
    "layers": Kind("curves", "layer", x_scale="words"),
    "alphas": Kind("rows", words={"": "mean ± sd", DOT: "mean", MARK: "median"}),
    "values": Kind("rows", words={"": "mean ± sd", DOT: "mean"}),
    "costs": Kind("points", cuts=True, height=2.7),
    "seeds": Kind("rows", words={"": "mean ± sd", MARK: "mean", DOT: "one run"}, cuts=True),
    "targets": Kind(
        "rows",
        words={"": "mean ± sd", MARK: "mean", DOT: "one run", MISSED: _ENDED},
    ),
    "widths": Kind("rows", x_scale="log", words={"": "octaves", MARK: "chosen learning rate"}),
}


@dataclass(frozen=True)
class About:
    """What is said of a panel. What all panels of a picture share stands once, in its caption.

    Attributes:
        title: what tells the panel from others, usually its workload.
        family: workloads of one family share a picture.
        metric: what was measured, on which split, with its unit.
        seeds: how many seeds its values have.
        tried: among how many settings each optimizer was chosen.
        fresh: whether these seeds were used by no search.
        facts: all else.
    """

    title: str
    family: str = ""
    metric: str = ""
    seeds: Sequence[int] = ()
    tried: Sequence[int] = ()
    fresh: bool = True
    facts: tuple[Note, ...] = ()

    def noted(self, *facts: Note | None) -> About:
        """The same with more facts; None stands for none."""
        return replace(self, facts=(*self.facts, *filter(None, facts)))


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel with its values.

    Attributes:
        kind: one of KINDS.
        about: its title, and what is said of it.
        frame: the values, as `tidy` makes it. Curves of a second quantity have an axis at the right.
        higher_is_better: of the metric; decides where a divergence and very bad values are marked.
        y_limits: None: as the values are.
        y_log: None: if the values differ by a large factor.
    """

    kind: str
    about: About
    frame: pd.DataFrame
    higher_is_better: bool = False
    y_limits: tuple[float, float] | None = None
    y_log: bool | None = None

    @property
    def labels(self) -> tuple[str, str]:
        """What is along x and along y; rows have their names along y."""
        kind, quantity = KINDS[self.kind], str(next(iter(self.frame["quantity"]), self.about.metric))
        if kind.mark == "curves":
            return kind.x, quantity
        y, _, x = quantity.rpartition(AGAINST)
        return x, y

    def of(self, *roles: str) -> pd.DataFrame:
        """The rows with one of these roles; missing numbers are NaN, x stays as it is."""
        numbers = ["y", "y_sd", "y_low", "y_high", "x_sd"]
        return self.frame[self.frame["role"].isin(roles)].astype(dict.fromkeys(numbers, float))


def csv_text(pictures: Mapping[str, Iterable[Panel]]) -> str:
    """The CSV file behind the panels of pictures, by their names.

    Several keys are separated by spaces; an empty cell has no value.
    """
    frames = [
        panel.frame[list(CSV)].assign(panel=panel.about.title, picture=picture)
        for picture, panels in pictures.items()
        for panel in panels
    ]
    cells = pd.concat(frames)[["panel", *CSV, "picture"]].map(_format_cell)
    return cells.to_csv(index=False, lineterminator="\n")


def _format_cell(value: float | str | tuple[str, ...] | None) -> str:
    """Nine digits are more than any seed decides, and the same on every machine."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple):
        return " ".join(value)
    return csv_cell(value) if isinstance(value, str) else "" if value is None else str(value)


def list_keys(runs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The keys of rows of the frame."""
    return tuple(str(run["key"]) for run in runs)


def add_range(row: Row, values: Sequence[float]) -> Row:
    """The row with mean, sample standard deviation (none of one value) and range of one value or more."""
    sd = statistics.stdev(values) if len(values) > 1 else None
    return replace(row, y=statistics.fmean(values), y_sd=sd, y_low=min(values), y_high=max(values))
