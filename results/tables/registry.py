"""The tables by name, each a function of a view of the runs: same records and plans, same bytes."""

from collections.abc import Callable
from functools import partial

from htbench.harness.show.progress import each
from htbench.harness.show.report import LazySections, Report
from htbench.results.compare.select import OPTIMIZER, WORKLOAD, searched
from htbench.results.compare.view import View
from htbench.results.frames.metrics import is_number
from htbench.results.tables import answer, flops, grid, hyperparameters, ladder, paper, workloads
from htbench.results.tables.outcome import outcome_of, searched_parts


def main_result_table(view: View) -> Report:
    """The paper's table, then each optimizer's best setting in all other sweeps.

    Chosen on validation, reported on test from fresh seeds.
    """
    own = paper.table("main_result", view)
    parts = searched_parts(view.others, WORKLOAD)
    others = [answer.section(outcome_of(part, view)) for part in each(parts, "workloads")]
    title = "test result of each optimizer's best setting"
    return Report("main_result", title, [*own.sections, *others], notes=own.notes)


def lr_grid_table(view: View) -> Report:
    """Validation metric by optimizer and lr, at the best of everything else that was searched."""
    parts = searched_parts(view.frame, WORKLOAD)
    own = [part for part in parts if any(is_number(row.get("lr")) for row in part)]
    sections = (grid.section(part, "optimizer") for part in own)
    return Report("lr_grid", "validation result by optimizer and learning rate", LazySections(sections))


def p_grid_table(view: View) -> Report:
    """Validation metric by p and lr, for each optimizer whose p was searched."""
    own = [part for part in searched_parts(view.frame, OPTIMIZER) if "p" in part[0] and searched(part, ["p"])]
    sections = (grid.section(part, "p") for part in own)
    return Report("p_grid", "validation result by p and learning rate", LazySections(sections))


Make = Callable[[View], Report]

# The tables of any sweep.
GENERAL: dict[str, Make] = {
    "main_result": main_result_table,
    "lr_grid": lr_grid_table,
    "p_grid": p_grid_table,
}
# And those of the paper in its order, then the others.
TABLES: dict[str, Make] = GENERAL | {
    **{name: partial(paper.table, name) for name in paper.LAYOUTS if name not in GENERAL},
    "workloads": workloads.table,
    "multipliers": ladder.multipliers,
    "hyperparameters": hyperparameters.table,
    "flops": flops.table,
}
