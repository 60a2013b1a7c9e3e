"""Sections as tidy rows for programs, in CSV, Parquet and JSON: values in the printed units.

A line is a row of a section, or a cell of a grid. A summary over seeds is five columns: its mean, then
`_std`, `_n`, and `_low95` and `_high95`, the 95 % interval of the mean, which for a share ends at 0 and
100. `runs` has the keys of the runs that the numbers come from, `state` is the state of the run. `bold` names
the columns that are printed bold, `marks` the kinds of all footnotes, and `notes` holds their sentences.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from htbench.harness.show.harmless import csv_cell
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import document, setting
from htbench.harness.show.report import Cell, Column, Report, Section
from htbench.harness.show.status import Status

if TYPE_CHECKING:
    import pandas as pd

Value: TypeAlias = "str | float | int | None"  # None: there is no number
Row: TypeAlias = "dict[str, Value]"

COUNT = "_n"  # what the name of a column of whole numbers ends with: how many values a summary has
LAST = ("runs", "state", "bold", "marks", "notes")


def rows(report: Report) -> list[Row]:
    """The rows of all sections; each lacks the columns that its section does not have."""
    lines: list[Row] = []
    for section in report.sections:
        # What a line says of a column if each of its cells has a line; empty if the row has one.
        places: list[Row] = [
            dict(column.place) or ({} if column.across is None else {section.axis: column.across})
            for column in section.columns
        ]
        for row in section.rows:
            cells = list(zip(section.columns, row, places, strict=True))
            fixed: Row = {**section.identity}
            for column, cell, place in cells:
                fixed |= {} if place else _values(column, cell)
            if not section.axis and not any(places):
                lines.append(fixed | _words(section.columns, row))
            for column, cell, place in cells:
                if place and cell.text():
                    chosen: Row = {"chosen": "yes" if cell.chosen else "no"} if section.axis else {}
                    lines.append(fixed | place | _values(column, cell) | chosen | _words([column], [cell]))
    return lines


def columns(lines: Iterable[Row]) -> list[str]:
    """The names of all columns, in the order of their first rows, LAST last."""
    return [*dict.fromkeys(name for line in lines for name in line if name not in LAST), *LAST]


def _values(column: Column, cell: Cell) -> Row:
    if column.kind == "summary":
        names = [column.name + ending for ending in ("", "_std", COUNT, "_low95", "_high95")]
        spread = cell.spread
        if spread is None:
            return dict.fromkeys(names)
        interval = column.within(spread.interval) if spread.interval else (None, None)
        return dict(zip(names, (spread.mean, spread.std, spread.n, *interval), strict=True))
    if not column.name:
        return {}
    number = cell.number()
    if number is None and (column.kind == "text" or isinstance(cell.value, str)):
        return {column.name: "" if cell.value is None else setting(cell.value)}
    return {column.name: number}


def _words(columns: Sequence[Column], row: Sequence[Cell]) -> Row:
    notes = dict.fromkeys(note for cell in row for note in cell.notes)
    return {
        "runs": " ".join(dict.fromkeys(key for cell in row for key in cell.runs)),
        "state": str(next((cell.state for cell in row if cell.state is not None), Status.COMPLETED)),
        "bold": " ".join(column.name for column, cell in zip(columns, row, strict=True) if cell.bold),
        "marks": " ".join(dict.fromkeys(note.kind for note in notes)),
        "notes": "; ".join(dict.fromkeys(map(str, notes))),
    }


def word(value: Value) -> str:
    """A value as a word: a number with at most ten digits, empty if there is none."""
    if isinstance(value, str):
        return value
    return "" if value is None else f"{value:.10g}"


# --- the formats ---


def write_csv(reports: Sequence[Report]) -> str:
    """Reports as CSV under one header; if there are several, the first column names the report."""
    lines = [line for report in reports for line in rows(report)]
    if len(reports) > 1:
        lines = [{"table": report.name, **line} for report in reports for line in rows(report)]
    out = io.StringIO()
    names = columns(lines)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_cell, names))
    for line in lines:  # numbers need no care: only words can be formulas
        values = [line.get(name) for name in names]
        writer.writerow([csv_cell(value) if isinstance(value, str) else word(value) for value in values])
    return out.getvalue()


def write_json(reports: Sequence[Report]) -> str:
    """Reports as one JSON document: the facts of the one that has some, else a list of the reports."""
    if len(reports) == 1 and reports[0].data is not None:
        return document(reports[0].data) + "\n"
    tables = (TableFacts(table.name, table.title, list(map(_section, table.sections))) for table in reports)
    return document(list(tables)) + "\n"


@dataclass(frozen=True)
class ColumnFacts:
    """A column.

    Attributes:
        name: in CSV and Parquet; empty if the column stays out of them.
        label: for people, with the unit.
        kind: `text`, `number`, or `summary` over seeds.
        across: the value of the axis.
        place: what tells the column from others of its name.
    """

    name: str
    label: str
    kind: str
    across: float | None
    place: Mapping[str, str]


@dataclass(frozen=True)
class CellFacts:
    """A cell.

    Attributes:
        text: the cell as it is printed; a row has one cell for each column.
        value: the number in the unit of the label, of a summary its mean.
        std: sample standard deviation over seeds; null for a single run.
        n: values behind the mean.
        interval: the two ends of the 95 % interval of the mean; null: a single run, or no summary.
        state: why there is no value: `waiting`, `running`, `diverged`, `pruned`, `failed`, `damaged`,
            `completed` (without a finite figure).
        chosen: whether validation chose this setting.
        bold: whether it is better than all others.
        notes: footnotes.
        kinds: the kind of each footnote, which stays the same when its words do not.
        runs: keys of the runs that the value comes from.
    """

    text: str
    value: float | str | None
    std: float | None
    n: int | None
    interval: tuple[float, ...] | None
    state: Status | None
    chosen: bool
    bold: bool
    notes: Sequence[Note]
    kinds: Sequence[str]
    runs: Sequence[str]


@dataclass(frozen=True)
class SectionFacts:
    """A section.

    Attributes:
        title: the workload in words.
        identity: the workload as names and values.
        axis: what the columns with an `across` are steps of; empty for a table that is no grid.
        columns: of the table.
        rows: of the table.
        notes: sentences on the whole section.
        mixtures: why its numbers may not be comparable; `--strict` refuses them.
    """

    title: str
    identity: Mapping[str, str]
    axis: str
    columns: Sequence[ColumnFacts]
    rows: Sequence[Sequence[CellFacts]]
    notes: Sequence[Note]
    mixtures: Sequence[Note]


@dataclass(frozen=True)
class TableFacts:
    """A report without facts of its own.

    Attributes:
        name, title: of the table.
        sections: one for each workload.
    """

    name: str
    title: str
    sections: Sequence[SectionFacts]


def _section(section: Section) -> SectionFacts:
    return SectionFacts(
        title=section.title,
        identity=section.identity,
        axis=section.axis,
        columns=[ColumnFacts(c.name, c.head, c.kind, c.across, dict(c.place)) for c in section.columns],
        rows=[list(map(_cell, section.columns, row)) for row in section.rows],
        notes=section.notes,
        mixtures=section.mixtures,
    )


def _cell(column: Column, cell: Cell) -> CellFacts:
    spread = cell.spread
    return CellFacts(
        text=column.text(cell),
        value=cell.number() if cell.number() is not None or cell.value is None else cell.value,
        std=spread.std if spread else None,
        n=spread.n if spread else None,
        interval=column.within(spread.interval) if spread and spread.interval else None,
        state=cell.state,
        chosen=cell.chosen,
        bold=cell.bold,
        notes=cell.notes,
        kinds=[note.kind for note in cell.notes],
        runs=cell.runs,
    )


def write_parquet(report: Report) -> bytes:
    """A report as Parquet: words are strings, numbers float64, counts of seeds Int64; missing is null.

    The file tells pandas that counts are its nullable Int64: they would else be float64 as soon as one is
    missing. It holds no time, and nothing of the machine: the same report gives the same bytes with the same
    versions of pandas and pyarrow.
    """
    import pandas as pd

    lines = rows(report)
    frame = pd.DataFrame({name: _series(name, [line.get(name) for line in lines]) for name in columns(lines)})
    out = io.BytesIO()
    frame.to_parquet(out, index=False)
    return out.getvalue()


def _series(name: str, values: Sequence[Value]) -> pd.Series[Any]:
    """A column. One that has a word is of words, its numbers as CSV writes them."""
    import pandas as pd

    if name in LAST or any(isinstance(value, str) for value in values):
        return pd.Series([None if value is None else word(value) for value in values], dtype=object)
    whole = name.endswith(COUNT) and all(value is None or isinstance(value, int) for value in values)
    return pd.Series(values, dtype="Int64" if whole else "float64")
