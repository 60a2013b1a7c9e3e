"""The tables by name, each a function of a view of the runs: same records and plans, same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from harness.show.report import Report, Section
from harness.store.points import SEARCH
from results.compare.select import OPTIMIZER, WORKLOAD, searched
from results.compare.view import View
from results.frames.metrics import is_number
from results.frames.rows import Frame, parts, rows
from results.tables import flops, footnotes, grid, hyperparameters, main_result, paper, workloads
from results.track3 import table as track3


def main_result_table(view: View) -> Report:
    """The paper's table, then each optimizer's best setting in all other sweeps.

    Chosen on validation, reported on test from fresh seeds.
    """
    own = paper.table("main_result", view).sections
    others = _sections(parts(view.others, WORKLOAD), partial(main_result.section, store=view.store))
    return Report("main_result", "test result of each optimizer's best setting", [*own, *others])


def lr_grid_table(view: View) -> Report:
    """Validation metric by optimizer and lr, at the best of everything else that was searched."""
    own = [part for part in parts(view.frame, WORKLOAD) if any(map(is_number, _values(part, "lr")))]
    sections = _sections(own, partial(grid.section, row_axis="optimizer"))
    return Report("lr_grid", "validation result by optimizer and learning rate", sections)


def p_grid_table(view: View) -> Report:
    """Validation metric by p and lr, for each optimizer whose p was searched."""
    own = [part for part in parts(view.frame, OPTIMIZER) if "p" in rows(part)[0] and searched(part, ["p"])]
    sections = _sections(own, partial(grid.section, row_axis="p"))
    return Report("p_grid", "validation result by p and learning rate", sections)


Make = Callable[[View], Report]

# The tables of any sweep.
GENERAL: dict[str, Make] = {
    "main_result": main_result_table,
    "lr_grid": lr_grid_table,
    "p_grid": p_grid_table,
}
# And those of the paper in its order, then what others published.
TABLES: dict[str, Make] = GENERAL | {
    **{name: partial(paper.table, name) for name in paper.LAYOUTS if name not in GENERAL},
    "workloads": workloads.table,
    "hyperparameters": hyperparameters.table,
    "flops": flops.table,
    track3.NAME: lambda view: track3.table(view.is_asked_for(track3.NAME)),
}


def _sections(workloads: Iterable[Frame], make: Callable[[Frame], Section]) -> list[Section]:
    """A section for each workload, but for replicas whose search has no run there: data may have changed."""
    searched_parts = [part for part in workloads if SEARCH in _values(part, "stage")]
    return [footnotes.complete(make(part), part) for part in searched_parts]


def _values(part: Frame, column: str) -> list[Any]:
    return [row.get(column) for row in rows(part)]
