"""Tables that spread the search out: one cell per learning rate and optimizer, or learning rate and p."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from results.compare.select import OPTIMIZER, Choice, choose, searched
from results.formats.cells import Cell, Column, Section
from results.frames.load import tuned_columns
from results.frames.metrics import Metric, reported
from results.frames.rows import rows
from results.tables import footnotes

COLUMN_AXIS = "lr"


def section(part: pd.DataFrame, row_axis: str) -> Section:
    """The validation metric by `row_axis` and lr.

    Fixed: task, model, setting, optimizer, lr and `row_axis`. Selected over: all else that was searched.

    Args:
        part: the rows of one workload; of one optimizer, too, unless that is the row axis.
        row_axis: a column of the frame.
    """
    metric = reported(part)[0]
    axes = searched(part, tuned_columns(part))
    grid = _cells(part, row_axis)
    heads = list(dict.fromkeys(head for head, _ in grid))
    rates = sorted({rate for _, rate in grid})
    seeds = footnotes.seeds_of_search(grid.values())
    chosen = {choice.winner.name: choice for choice in choose(part, OPTIMIZER) if choice.winner is not None}

    def cell(head: Any, rate: float) -> Cell:
        choice = grid.get((head, rate))
        if choice is None or choice.winner is None:
            return Cell() if choice is None else footnotes.missing(choice)
        few = footnotes.fewer("on", len(choice.winner.runs), seeds)
        return _cell(part, choice, chosen, metric, axes).noted(*few)

    columns = [
        Column(row_axis, row_axis, "text" if row_axis == "optimizer" else "number"),
        *(Column(f"val_{metric.column}", f"{COLUMN_AXIS} {rate:g}", "summary", rate) for rate in rates),
    ]
    rows = [[Cell(head), *(cell(head, rate) for rate in rates)] for head in heads]
    notes = _notes(part, grid, metric, row_axis, axes)
    return Section(*_names(part, row_axis), columns, rows, COLUMN_AXIS, notes)


def _cells(part: pd.DataFrame, row_axis: str) -> dict[tuple[Any, float], Choice]:
    """The best candidate of each cell; numeric rows ascend, optimizers stay in the order of the plan."""
    axes = (COLUMN_AXIS, row_axis)
    known = [row for row in rows(part) if not any(pd.isna(row.get(axis)) for axis in axes)]
    fixed = list(dict.fromkeys([*OPTIMIZER, row_axis, COLUMN_AXIS]))
    grid = {(choice.fixed[row_axis], choice.fixed[COLUMN_AXIS]): choice for choice in choose(known, fixed)}
    return grid if row_axis == "optimizer" else dict(sorted(grid.items()))


def _cell(
    part: pd.DataFrame, choice: Choice, chosen: Mapping[str, Choice], metric: Metric, axes: list[str]
) -> Cell:
    assert choice.winner is not None
    cell = footnotes.validation(choice, metric).noted(*footnotes.unfinished(choice))
    if choice.winner.name not in chosen:
        return cell
    caveats = footnotes.caveats(part, chosen[choice.winner.name], axes)
    return replace(cell, chosen=True).noted(*(note for notes in caveats.values() for note in notes))


def _names(part: pd.DataFrame, row_axis: str) -> tuple[str, dict[str, str]]:
    title, identity = footnotes.title(part), footnotes.identity(part)
    if row_axis == "optimizer":
        return title, identity
    optimizer = str(part["optimizer"].iloc[0])
    return f"{title}: {optimizer}", {**identity, "optimizer": optimizer}


def _notes(
    part: pd.DataFrame, grid: Mapping[Any, Choice], metric: Metric, row_axis: str, axes: list[str]
) -> tuple[str, ...]:
    others = [axis for axis in axes if axis not in (row_axis, COLUMN_AXIS)]
    best = f" at the best {footnotes.listing(others)}" if others else ""
    seeds = sorted({len(candidate.runs) for choice in grid.values() for candidate in choice.candidates})
    return (
        f"Validation {metric.label} of the search runs{best}; n={'-'.join(map(str, seeds))} per setting.",
        *((footnotes.SPREAD,) if seeds[-1] > 1 else ()),
        *footnotes.origin(part),
    )
