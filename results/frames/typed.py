"""The frame with one type per column, whatever runs a store has, for notebooks. Tables need no types.

A word is a Python string, empty if there is none. A missing number is NaN; a missing whole number, yes or no
is `pd.NA`; a missing time is NaT. docs/results.md has the table of the columns.
"""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd

from htbench.harness.config import hyper_schedules
from htbench.harness.config.settings import params_of
from htbench.harness.system.machine import without_collection
from htbench.optimizers.zoo.registry import ZOO
from htbench.results.frames import identity
from htbench.results.frames.columns import COUNT, FIRST, FLAG, LAST, NUMBER, OF_TASK, PLAIN, SEEDS, TIME, WORD
from htbench.results.frames.rows import Rows

_DECLARED = {str: WORD, float: NUMBER, int: COUNT, bool: FLAG}  # type of a setting -> type of its column
_LAST = {**OF_TASK, **LAST}
COLUMNS = {**FIRST, **SEEDS, **_LAST}  # of every frame; those of metrics and settings depend on the runs


@without_collection()
def typed(rows: Rows) -> pd.DataFrame:
    """The same rows with all of COLUMNS, and every column of its type.

    Args:
        rows: as `results.frames.load` makes them.
    """
    frame = pd.DataFrame(rows, dtype=object)
    columns = frame.reindex(columns=[*(name for name in frame if name not in _LAST), *_LAST])
    return pd.DataFrame(
        {name: _convert(values, _choose_type(str(name), values)) for name, values in columns.items()}
    )


def _choose_type(name: str, values: pd.Series[Any]) -> str:
    """The type of a column: as declared, else by the values, which are metrics or of code from outside."""
    declared = COLUMNS.get(name) or _setting_types().get(name)
    if declared is not None:
        return declared
    types = set(map(type, values[values.notna()]))
    if types == {str}:
        return WORD
    if types == {bool}:
        return FLAG
    return NUMBER if types <= {int, float} else PLAIN


@functools.cache
def _setting_types() -> dict[str, str]:
    """The types of the columns of tuned settings; two optimizers may give one name two types."""
    types_of_column: dict[str, set[str]] = {}
    for row in ZOO.values():
        for name, param in (params_of(row) | hyper_schedules.params_of(row)).items():
            column = identity.column(name, COLUMNS)
            types_of_column.setdefault(column, set()).add(_DECLARED.get(param.type, PLAIN))
    return {name: types.pop() if len(types) == 1 else PLAIN for name, types in types_of_column.items()}


def _convert(values: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """The values as a type; as Python objects if one of them can't be, so that none is lost."""
    try:
        if kind == TIME:
            values = pd.to_datetime(values, utc=True, format="ISO8601")
        if kind == WORD:
            words = values.astype(object).where(values.notna(), "")
            return words if set(map(type, words)) <= {str} else words.map(str)
        if kind != PLAIN:
            return values.astype(pd.api.types.pandas_dtype(kind))
    except (TypeError, ValueError, OverflowError):
        pass
    return values.astype(object).where(values.notna(), None)
