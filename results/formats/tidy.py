"""A table as tidy rows for programs: values in the printed units, a row per line, or per cell of a grid.

A summary over seeds is five columns: its mean, then `_std`, `_n`, and `_low95` and `_high95`, the 95 %
interval of the mean, which for a share ends at 0 and 100. `runs` has the keys of the runs that the
numbers come from. `state` is the state of the run, `notes` holds the footnotes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from results.compare.stats import Summary
from results.formats.cells import Cell, Column, Section, Table
from results.frames import metrics

Value: TypeAlias = "str | float | int | None"  # None: there is no number
Row: TypeAlias = "dict[str, Value]"

COUNT = "_n"  # what the name of a column of whole numbers ends with: how many values a summary has
LAST = ("runs", "state", "notes")


def rows(table: Table) -> list[Row]:
    """The rows of all sections; each lacks the columns that its section does not have."""
    return [line for section in table.sections for line in _lines(section)]


def columns(found: Iterable[Row]) -> list[str]:
    """The names of all columns, in the order of their first rows, LAST last."""
    return [*dict.fromkeys(name for line in found for name in line if name not in LAST), *LAST]


def _lines(section: Section) -> Iterator[Row]:
    places = [_place(section, column) for column in section.columns]
    for row in section.rows:
        cells = list(zip(section.columns, row, places, strict=True))
        fixed = {**section.identity} | _values((column, cell) for column, cell, place in cells if not place)
        if not section.axis and not any(places):
            yield fixed | _words(row)
        for column, cell, place in cells:
            if place and cell.text():
                chosen = {"chosen": "yes" if cell.chosen else "no"} if section.axis else {}
                yield fixed | place | _values([(column, cell)]) | chosen | _words([cell])


def _place(section: Section, column: Column) -> Row:
    """What a line says of the column if each of its cells has a line; empty if the row has one."""
    return dict(column.place) or ({} if column.across is None else {section.axis: column.across})


def _values(cells: Iterable[tuple[Column, Cell]]) -> Row:
    line: Row = {}
    for column, cell in cells:
        if column.kind == "summary":
            line |= _summary(column.name, cell.value if isinstance(cell.value, Summary) else None)
        elif column.name:
            line[column.name] = _value(column, cell)
    return line


def _value(column: Column, cell: Cell) -> Value:
    if isinstance(cell.value, str):
        return cell.value
    number = cell.number()
    return "" if number is None and column.kind == "text" else number


def _summary(name: str, value: Summary | None) -> Row:
    names = (name, f"{name}_std", f"{name}{COUNT}", f"{name}_low95", f"{name}_high95")
    if value is None:
        return dict.fromkeys(names)
    low, high = metrics.within(name, value.interval) if value.interval else (None, None)
    return dict(zip(names, (value.mean, value.std, value.n, low, high), strict=True))


def _words(row: Iterable[Cell]) -> Row:
    row = list(row)
    state = next((cell.state for cell in row if cell.state), "completed")
    return {
        "runs": " ".join(dict.fromkeys(key for cell in row for key in cell.runs)),
        "state": state,
        "notes": "; ".join(dict.fromkeys(note for cell in row for note in cell.notes)),
    }


def word(value: Value) -> str:
    """A value as a word: a number with at most ten digits, empty if there is none."""
    if isinstance(value, str):
        return value
    return "" if value is None else f"{value:.10g}"
