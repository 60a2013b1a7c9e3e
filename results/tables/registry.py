"""The tables by name, each a function of a view of the runs: same records and plans, same bytes."""

from collections.abc import Callable
from functools import partial

from htbench.harness.show.progress import each
from htbench.harness.show.report import LazySections, Report
from htbench.results.compare.layouts import LAYOUTS
from htbench.results.compare.select import OPTIMIZER, WORKLOAD, find_searched_columns
from htbench.results.compare.view import View
from htbench.results.frames.metrics import is_number
from htbench.results.tables import answer, flops, grid, hyperparameters, ladder, paper, workloads
from htbench.results.tables.outcome import find_outcome, split_searched


def make_main_result(view: View) -> Report:
    """The paper's table, then each optimizer's best setting in all other sweeps.

    Chosen on validation, reported on test from fresh seeds.
    """
    report = paper.make_table("main_result", view)
    parts = split_searched(view.others, WORKLOAD)
    sections = [answer.make_section(find_outcome(part, view)) for part in each(parts, "workloads")]
    title = "test result of each optimizer's best setting"
    return Report("main_result", title, [*report.sections, *sections], notes=report.notes)


def make_lr_grid(view: View) -> Report:
    """Validation metric by optimizer and lr, at the best of everything else that was searched."""
    parts = split_searched(view.frame, WORKLOAD)
    with_rates = [part for part in parts if any(is_number(row.get("lr")) for row in part)]
    sections = (grid.make_section(part, "optimizer") for part in with_rates)
    return Report("lr_grid", "validation result by optimizer and learning rate", LazySections(sections))


def make_p_grid(view: View) -> Report:
    """Validation metric by p and lr, for each optimizer whose p was searched."""
    with_p = [
        part
        for part in split_searched(view.frame, OPTIMIZER)
        if "p" in part[0] and find_searched_columns(part, ["p"])
    ]
    sections = (grid.make_section(part, "p") for part in with_p)
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
