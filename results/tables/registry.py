"""The tables by name, each a function of the tidy frame alone: same records and plans, same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pandas as pd

from results.analysis.rows import parts
from results.analysis.select import OPTIMIZER, WORKLOAD, searched
from results.formats.cells import Section, Table
from results.tables import lr_grid, main_result, mixtures


def main_result_table(frame: pd.DataFrame) -> Table:
    """Each optimizer's best setting: chosen on validation, reported on test from fresh seeds."""
    sections = _sections(parts(frame, WORKLOAD), main_result.section)
    return Table("main_result", "test result of each optimizer's best setting", sections)


def lr_grid_table(frame: pd.DataFrame) -> Table:
    """Validation metric by optimizer and lr, at the best of everything else that was searched."""
    sections = _sections(parts(frame, WORKLOAD), partial(lr_grid.section, row_axis="optimizer"))
    return Table("lr_grid", "validation result by optimizer and learning rate", sections)


def p_grid_table(frame: pd.DataFrame) -> Table:
    """Validation metric by p and lr, for each optimizer whose p was searched."""
    own = [part for part in parts(frame, OPTIMIZER) if "p" in part and searched(part, ["p"])]
    sections = _sections(own, partial(lr_grid.section, row_axis="p"))
    return Table("p_grid", "validation result by p and learning rate", sections)


TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "main_result": main_result_table,
    "lr_grid": lr_grid_table,
    "p_grid": p_grid_table,
}


def _sections(found: Iterable[pd.DataFrame], make: Callable[[pd.DataFrame], Section]) -> list[Section]:
    return [mixtures.complete(make(part), part) for part in found]
