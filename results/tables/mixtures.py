"""Which runs are behind a table: a last line names their code and machines, and marks show where they differ.

What can change numbers, if only in their last digits, must not differ within a cell: such a cell is marked.
Versions of our own code cannot: code that makes other numbers makes other runs (`harness/config/digest.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from harness.display import counted
from harness.store.record import IMPORTED
from results.formats.cells import Cell, Section
from results.frames.identity import DATA
from results.frames.metrics import word
from results.frames.rows import rows as frame_rows

Row = Mapping[Any, Any]  # of the tidy frame

# Columns of the frame that can change numbers.
_CAN_CHANGE = ("torch", "machine", "device", "threads", "processes", "micro_batch", "compile")

# Columns that can't, with their names: code that makes other numbers makes other runs.
_CANNOT = (("code", "our code"), ("python", "Python"))


def complete(section: Section, part: pd.DataFrame) -> Section:
    """The section with marks at the cells of mixed runs, and a last line on all runs behind it.

    Args:
        section: of a table.
        part: the rows of the frame that it was made of.
    """
    known = {
        str(run["key"]): run
        for run in frame_rows(part)
        if word(run.get("code")) != "none" or (run[IMPORTED] and word(run.get("machine")) != "none")
    }
    rows = [[_marked(cell, known) for cell in row] for row in section.rows]
    keys = sorted({key for row in rows for cell in row for key in cell.runs} & known.keys())
    shown = [known[key] for key in keys]
    mixed = _mixture(shown)
    notes = (
        [f"The runs differ in {mixed}: figures may differ by that, if only in the last digits."]
        if mixed
        else []
    )
    notes += _versions(shown)
    notes += [_line(shown)] if shown else []
    mixtures = (f"{section.title}: the runs differ in {mixed}",) if mixed else ()
    return replace(section, rows=rows, notes=(*section.notes, *notes), mixtures=mixtures)


def _marked(cell: Cell, known: Mapping[str, Row]) -> Cell:
    mixed = _mixture([known[key] for key in cell.runs if key in known])
    return cell.noted(f"a mixture: the runs differ in {mixed}") if mixed else cell


def _mixture(runs: Sequence[Row]) -> str:
    """In which respects that can change numbers some runs differ; empty if in none."""
    return ", ".join(
        f"{column} ({' and '.join(values)})"
        for column in _CAN_CHANGE
        if len(values := _values(runs, column)) > 1
    )


def _versions(runs: Sequence[Row]) -> list[str]:
    """The sentence on several versions of our code or of Python behind one table."""
    several = [
        f"{what} ({' and '.join(found)})"
        for column, what in _CANNOT
        if len(found := _values(runs, column)) > 1
    ]
    if not several:
        return []
    return [
        f"Several versions of {' and of '.join(several)}; code that makes other numbers makes other rows."
    ]


def _line(runs: Sequence[Row]) -> str:
    """One sentence on all runs behind a section."""

    def values(column: str) -> str:
        return " and ".join(_values(runs, column))

    if runs[0][IMPORTED]:
        return f"Made by {counted(len(runs), 'run')} of others: {values('machine')}."
    parts = [
        f"code {values('code')}",
        f"torch {values('torch')}",
        f"Python {values('python')}",
        values("machine"),
    ]
    parts += [f"threads {values('threads')}", f"processes {values('processes')}"]
    parts += ["compiled"] if "True" in values("compile") else []
    return f"Made by {counted(len(runs), 'run')}: {', '.join(parts)}; data {values(DATA)}."


def _values(runs: Iterable[Row], column: str) -> list[str]:
    return sorted({word(run.get(column)) for run in runs})
