"""Where the numbers of a table come from: code, torch, machines, threads, processes, data; told below it.

What can change numbers, if only in their last digits, must not differ within a cell: such a cell is marked.
Versions of our own code cannot: code that makes other numbers makes other runs (`harness/sources`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from harness.store.record import RunRecord
from results.analysis.identity import DATA
from results.analysis.metrics import word
from results.formats.cells import Cell, Section

Row = Mapping[Any, Any]  # of the tidy frame

# Column of the frame -> what it is called.
_CAN_CHANGE = {
    "torch": "torch",
    "machine": "machine",
    "device": "device",
    "threads": "threads",
    "processes": "processes",
    "micro_batch": "micro_batch",
    "compile": "compile",
}
COLUMNS = (
    *("began", "ended", "code", "python", "torch", "device", "threads", "processes", "micro_batch"),
    *("compile", "timed_steps", "seconds_per_step_sd", "cpu_seconds_per_step"),
)


def outcome(record: RunRecord) -> dict[str, Any]:
    """What a record says of how it was made: the columns of COLUMNS and `machine`."""
    where, config, timing = record.environment, record.config, record.timing
    return {
        "began": record.began,
        "ended": record.ended,
        "code": where.get("code"),
        "python": where.get("python"),
        "torch": where.get("torch"),
        "device": "cuda" if where.get("gpu") else "cpu",
        "threads": config.get("threads", 1),
        "processes": where.get("world_size", config.get("processes", 1)),
        "micro_batch": config.get("micro_batch"),
        "compile": config.get("compile", False),
        "machine": where.get("gpu") or where.get("cpu"),
        "timed_steps": timing.get("steps"),
        "seconds_per_step_sd": timing.get("sd"),
        "cpu_seconds_per_step": timing.get("cpu"),
    }


def complete(section: Section, part: pd.DataFrame) -> Section:
    """The section with marks at the cells of mixed runs, and a last line on all runs behind it.

    Args:
        section: of a table.
        part: the rows of the frame that it was made of.
    """
    known = {str(run["key"]): run for run in part.to_dict("records") if word(run.get("code")) != "none"}
    rows = [[_marked(cell, known) for cell in row] for row in section.rows]
    keys = sorted({key for row in rows for cell in row for key in cell.runs} & known.keys())
    shown = [known[key] for key in keys]
    mixed = _mixture(shown)
    notes = (
        [f"The runs differ in {mixed}: figures may differ by that, if only in the last digits."]
        if mixed
        else []
    )
    notes += [_line(shown)] if shown else []
    mixtures = (f"{section.title}: the runs differ in {mixed}",) if mixed else ()
    return replace(section, rows=rows, notes=(*section.notes, *notes), mixtures=mixtures)


def _marked(cell: Cell, known: Mapping[str, Row]) -> Cell:
    mixed = _mixture([known[key] for key in cell.runs if key in known])
    return cell.noted(f"a mixture: the runs differ in {mixed}") if mixed else cell


def _mixture(runs: Sequence[Row]) -> str:
    """In which respects that can change numbers some runs differ; empty if in none."""
    return ", ".join(
        f"{name} ({' and '.join(values)})"
        for column, name in _CAN_CHANGE.items()
        if len(values := _values(runs, column)) > 1
    )


def _line(runs: Sequence[Row]) -> str:
    """One sentence on all runs behind a section."""

    def told(column: str) -> str:
        return " and ".join(_values(runs, column))

    parts = [f"code {told('code')}", f"torch {told('torch')}", f"Python {told('python')}", told("machine")]
    parts += [f"threads {told('threads')}", f"processes {told('processes')}"]
    parts += ["compiled"] if "True" in told("compile") else []
    return f"Made by {len(runs)} runs: {', '.join(parts)}; data {told(DATA)}."


def _values(runs: Iterable[Row], column: str) -> list[str]:
    return sorted({word(run.get(column)) for run in runs})
