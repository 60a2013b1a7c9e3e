"""The tables by name, each a function of the tidy frame alone: same records and plans, same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pandas as pd

from results.analysis.select import OPTIMIZER, WORKLOAD, searched
from results.formats.cells import Section, Table
from results.tables import lr_grid, main_result, mixtures


def main_result_table(frame: pd.DataFrame) -> Table:
    """Each optimizer's best setting: chosen on validation, reported on test from fresh seeds."""
    sections = _sections(_parts(frame, WORKLOAD), main_result.section)
    return Table("main_result", "test result of each optimizer's best setting", sections)


def lr_grid_table(frame: pd.DataFrame) -> Table:
    """Validation metric by optimizer and lr, at the best of everything else that was searched."""
    sections = _sections(_parts(frame, WORKLOAD), partial(lr_grid.section, row_axis="optimizer"))
    return Table("lr_grid", "validation result by optimizer and learning rate", sections)


def p_grid_table(frame: pd.DataFrame) -> Table:
    """Validation metric by p and lr, for each optimizer whose p was searched."""
    parts = [part for part in _parts(frame, OPTIMIZER) if "p" in part and searched(part, ["p"])]
    sections = _sections(parts, partial(lr_grid.section, row_axis="p"))
    return Table("p_grid", "validation result by p and learning rate", sections)


TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "main_result": main_result_table,
    "lr_grid": lr_grid_table,
    "p_grid": p_grid_table,
}


def _parts(frame: pd.DataFrame, columns: tuple[str, ...]) -> list[pd.DataFrame]:
    return [part for _, part in frame.groupby(list(columns), sort=False)]


def _sections(parts: Iterable[pd.DataFrame], make: Callable[[pd.DataFrame], Section]) -> list[Section]:
    return [mixtures.complete(make(part), part) for part in parts]
