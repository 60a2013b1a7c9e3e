"""Tables as JSON: all that the other formats say, in plain values. docs/json.md explains the fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.display import document
from results.compare.stats import Summary
from results.formats.cells import Cell, Column, Section, Table
from results.frames import metrics


def write(table: Table) -> str:
    """One table, as a list of one."""
    return write_all([table])


def write_all(tables: Sequence[Table]) -> str:
    """Several tables as a list."""
    return document([_table(table) for table in tables]) + "\n"


def _table(table: Table) -> dict[str, Any]:
    sections = [_section(section) for section in table.sections]
    return {"name": table.name, "title": table.title, "sections": sections}


def _section(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "identity": section.identity,
        "axis": section.axis,
        "columns": [_column(column) for column in section.columns],
        "rows": [
            [_cell(column, cell) for column, cell in zip(section.columns, row, strict=True)]
            for row in section.rows
        ],
        "notes": section.notes,
        "mixtures": section.mixtures,
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "label": column.label,
        "kind": column.kind,
        "across": column.across,
        "place": dict(column.place),
    }


def _cell(column: Column, cell: Cell) -> dict[str, Any]:
    spread = cell.value if isinstance(cell.value, Summary) else None
    interval = spread.interval if spread else None
    return {
        "text": cell.text(),
        "value": cell.value if isinstance(cell.value, str) else cell.number(),
        "std": spread.std if spread else None,
        "n": spread.n if spread else None,
        "interval": metrics.within(column.name, interval) if interval else None,
        "state": cell.state or None,
        "chosen": cell.chosen,
        "bold": cell.bold,
        "notes": cell.notes,
        "runs": cell.runs,
    }
