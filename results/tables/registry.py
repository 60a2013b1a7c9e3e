"""The tables by name, each a function of a view of the runs: same records and plans, same bytes."""

from collections.abc import Callable
from functools import partial

from htbench.harness.show.progress import each
from htbench.harness.show.report import LazySections, Report
from htbench.results.compare.layouts import LAYOUTS
from htbench.results.compare.select import OPTIMIZER
from htbench.results.compare.view import View
from htbench.results.compare.workload import find_workloads
from htbench.results.frames.metrics import is_number
from htbench.results.tables import answer, flops, grid, hyperparameters, ladder, paper, workloads


def make_main_result(view: View) -> Report:
    """The paper's table, then each optimizer's best setting in all other sweeps.

    Chosen on validation, reported on test from fresh seeds.
    """
    report = paper.make_table("main_result", view)
    sections = [answer.make_section(workload, view) for workload in each(view.other_workloads, "workloads")]
    title = "result of each optimizer's best setting"
    return Report("main_result", title, [*report.sections, *sections], notes=report.notes)


def make_lr_grid(view: View) -> Report:
    """Validation metric by optimizer and lr, at the best of everything else that was searched."""
    sections = (
        grid.make_section(workload, "optimizer")
        for workload in view.workloads
        if any(is_number(run.get("lr")) for run in workload.part)
    )
    return Report("lr_grid", "validation result by optimizer and learning rate", LazySections(sections))


def make_p_grid(view: View) -> Report:
    """Validation metric by p and lr, for each optimizer whose p was searched."""
    rows = find_workloads(view.frame, view.store, OPTIMIZER) if view.frame and "p" in view.frame[0] else ()
    sections = (grid.make_section(row, "p") for row in rows if "p" in row.choices[0].axes)
    return Report("p_grid", "validation result by p and learning rate", LazySections(sections))


Make = Callable[[View], Report]

# The tables of any sweep.
GENERAL: dict[str, Make] = {
    "main_result": make_main_result,
    "lr_grid": make_lr_grid,
    "p_grid": make_p_grid,
}
# And those of the paper in its order, then the others.
TABLES: dict[str, Make] = GENERAL | {
    **{name: partial(paper.make_table, name) for name in LAYOUTS if name not in GENERAL},
    "workloads": workloads.make_table,
    "multipliers": ladder.make_table,
    "hyperparameters": hyperparameters.make_table,
    "flops": flops.make_table,
}
