"""A table as CSV for programs: plain numbers in the printed units, a line per row, or per cell of a grid.

A summary over seeds is five columns: its mean, then `_std`, `_n`, and `_low95` and `_high95`, the 95 %
interval of the mean, which for a share ends at 0 and 100. `runs` has the keys of the runs that the
numbers come from. `state` is the state of the run, `notes` holds the footnotes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from results.analysis import metrics
from results.analysis.stats import Summary
from results.formats.cells import Cell, Column, Section, Table

_LAST = ("runs", "state", "notes")


def write(table: Table) -> str:
    """The whole table; sections with other columns leave each other's empty."""
    return _text([line for section in table.sections for line in _lines(section)])


def write_all(tables: Iterable[Table]) -> str:
    """Several tables under one header: the first column names the table, all leave others' columns empty."""
    return _text(
        [
            {"table": table.name} | line
            for table in tables
            for section in table.sections
            for line in _lines(section)
        ]
    )


def _text(lines: list[dict[str, str]]) -> str:
    names = dict.fromkeys(name for line in lines for name in line if name not in _LAST)
    out = io.StringIO()
    writer = csv.DictWriter(out, [*names, *_LAST], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _lines(section: Section) -> Iterator[dict[str, str]]:
    places = [_place(section, column) for column in section.columns]
    for row in section.rows:
        cells = list(zip(section.columns, row, places, strict=True))
        fixed = section.identity | _values((column, cell) for column, cell, place in cells if not place)
        if not section.axis and not any(places):
            yield fixed | _words(row)
        for column, cell, place in cells:
            if place and cell.text():
                chosen = {"chosen": "yes" if cell.chosen else "no"} if section.axis else {}
                yield fixed | place | _values([(column, cell)]) | chosen | _words([cell])


def _place(section: Section, column: Column) -> dict[str, str]:
    """What a line says of the column if each of its cells has a line; empty if the row has one."""
    return dict(column.place) or ({} if column.across is None else {section.axis: _plain(column.across)})


def _values(cells: Iterable[tuple[Column, Cell]]) -> dict[str, str]:
    line: dict[str, str] = {}
    for column, cell in cells:
        if column.kind == "summary":
            line |= _summary(column.name, cell.value if isinstance(cell.value, Summary) else None)
        elif column.name:
            line[column.name] = cell.value if isinstance(cell.value, str) else _plain(cell.number())
    return line


def _summary(name: str, value: Summary | None) -> dict[str, str]:
    names = (name, f"{name}_std", f"{name}_n", f"{name}_low95", f"{name}_high95")
    if value is None:
        return dict.fromkeys(names, "")
    low, high = metrics.within(name, value.interval) if value.interval else (None, None)
    return dict(zip(names, map(_plain, (value.mean, value.std, value.n, low, high)), strict=True))


def _plain(x: float | None) -> str:
    return "" if x is None else f"{x:.10g}"


def _words(row: Iterable[Cell]) -> dict[str, str]:
    row = list(row)
    state = next((cell.state for cell in row if cell.state), "completed")
    return {
        "runs": " ".join(dict.fromkeys(key for cell in row for key in cell.runs)),
        "state": state,
        "notes": "; ".join(dict.fromkeys(note for cell in row for note in cell.notes)),
    }
