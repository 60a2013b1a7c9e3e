"""The tidy rows of tables as CSV; a number has at most ten digits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from harness.harmless import csv_cell
from results.formats import tidy
from results.formats.cells import Table
from results.formats.tidy import Row


def write(table: Table) -> str:
    """The whole table; sections with other columns leave each other's empty."""
    return _text(tidy.rows(table))


def write_all(tables: Iterable[Table]) -> str:
    """Several tables under one header: the first column names the table, all leave others' columns empty."""
    return _text([{"table": table.name, **row} for table in tables for row in tidy.rows(table)])


def _text(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    columns = tidy.columns(rows)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_cell, columns))
    writer.writerows([csv_cell(tidy.word(row.get(name))) for name in columns] for row in rows)
    return out.getvalue()
