"""Tables that spread the search out: one cell per learning rate and optimizer, or learning rate and p."""

from dataclasses import replace
from typing import Any

from htbench.harness.show.note import Note
from htbench.harness.show.report import Cell, Column, Section
from htbench.results.compare.select import OPTIMIZER, choose
from htbench.results.compare.workload import Workload
from htbench.results.frames.metrics import is_missing
from htbench.results.tables import footnotes

COLUMN_AXIS = "lr"


def make_section(workload: Workload, row_axis: str) -> Section:
    """The validation metric by `row_axis` and lr.

    Fixed: task, model, setting, optimizer, lr and `row_axis`. Selected over: all else that was searched.

    Args:
        workload: of one optimizer, unless that is the row axis.
        row_axis: a column of the frame.
    """
    part, axes, metric = workload.part, workload.axes, workload.metric
    both = (COLUMN_AXIS, row_axis)
    complete = [row for row in part if not any(is_missing(row.get(axis)) for axis in both)]
    fixed = list(dict.fromkeys([*OPTIMIZER, row_axis, COLUMN_AXIS]))
    # the best candidate of each cell; numeric rows ascend, optimizers stay in the order of the plan
    grid = {(choice.fixed[row_axis], choice.fixed[COLUMN_AXIS]): choice for choice in choose(complete, fixed)}
    heads = list(dict.fromkeys(head for head, _ in grid))
    heads = heads if row_axis == "optimizer" else sorted(heads)
    rates = sorted({rate for _, rate in grid})
    seeds = footnotes.count_search_seeds(grid.values())
    chosen = {choice.winner.name: choice for choice in workload.choices if choice.winner is not None}
    best = {choice.winner.value(COLUMN_AXIS) for choice in chosen.values() if choice.winner is not None}

    def cell(head: Any, rate: float) -> Cell:
        choice = grid.get((head, rate))
        if choice is None or choice.winner is None:
            return Cell() if choice is None else footnotes.explain_missing(choice)
        cell = footnotes.make_validation_cell(choice, metric).noted(*footnotes.note_unfinished(choice))
        if choice.winner.name in chosen:
            caveats = footnotes.note_caveats(chosen[choice.winner.name], axes)
            cell = replace(cell, chosen=True).noted(
                *(note for column_notes in caveats.values() for note in column_notes)
            )
        return cell.noted(*footnotes.note_fewer_seeds("fewer_seeds", len(choice.winner.runs), seeds))

    columns = [
        Column(row_axis, kind="text" if row_axis == "optimizer" else "number"),
        *(
            Column(
                f"val_{metric.column}",
                f"{COLUMN_AXIS} {rate:g}",
                "summary",
                across=rate,
                bounds=metric.bounds,
                importance=6 if rate in best else 4,
            )
            for rate in rates
        ),
    ]
    other_axes = [axis for axis in axes if axis not in (row_axis, COLUMN_AXIS)]
    notes = (
        Note("grid", metric=metric.label, others=other_axes, seeds=sorted(set(seeds))),
        *((footnotes.SPREAD,) if max(seeds) > 1 else ()),
        *footnotes.note_origin(part),
    )
    title, identity = footnotes.make_title(part), footnotes.workload_columns(part)
    if row_axis != "optimizer":
        optimizer = str(part[0]["optimizer"])
        title, identity = f"{title}: {optimizer}", {**identity, "optimizer": optimizer}
    cells = [[Cell(head), *(cell(head, rate) for rate in rates)] for head in heads]
    return footnotes.complete_section(Section(title, identity, columns, cells, COLUMN_AXIS, notes), part)
