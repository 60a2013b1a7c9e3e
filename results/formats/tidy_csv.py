"""The tidy rows of tables as CSV; a number has at most ten digits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

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
    writer = csv.DictWriter(out, tidy.columns(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: tidy.word(value) for name, value in row.items()} for row in rows)
    return out.getvalue()
