"""The frame with one type per column, whatever runs a store has, for notebooks. Tables need no types.

A word is a Python string, empty if there is none. A missing number is NaN; a missing whole number, yes or no
is `pd.NA`; a missing time is NaT. docs/results.md has the table of the columns.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import pandas as pd

from htbench.harness.config import hyper_schedules
from htbench.harness.config.settings import params_of
from htbench.harness.store.points import SEED_FIELDS
from htbench.harness.system.machine import without_collection
from htbench.optimizers.zoo.registry import ZOO
from htbench.results.frames import identity, metrics, provenance, run_row
from htbench.results.frames.load import series
from htbench.results.frames.rows import Rows

WORD, NUMBER, COUNT, FLAG, TIME = "str", "float64", "Int64", "boolean", "datetime64[ns, UTC]"
PLAIN = "object"  # lists and mixtures; None if missing
_DECLARED = {str: WORD, float: NUMBER, int: COUNT, bool: FLAG}  # type of a setting -> type of its column

_WORDS = (
    *(*run_row.FIRST, *metrics.TASK[:2], identity.DATA),
    *("code", "python", "torch", "device", "machine", "items_digest", "imports", "outside"),
)
_COUNTS = (
    *(*SEED_FIELDS, "look", "allowed", "steps"),
    *("timed_steps", "threads", "processes", "micro_batch", "stack", "gpu_stack"),
    *("parameters", "tokens", "state_bytes", "estimated_peak_memory", "peak_memory"),
)
_LAST = (*metrics.TASK, *run_row.LAST)
# The columns that every frame has. Those of metrics and of other settings depend on the runs.
COLUMNS = {
    **dict.fromkeys((*run_row.FIRST, *SEED_FIELDS, *_LAST), NUMBER),
    **dict.fromkeys(_WORDS, WORD),
    **dict.fromkeys(_COUNTS, COUNT),
    **{"score": PLAIN, "compile": FLAG, metrics.TASK[2]: FLAG},
    **dict.fromkeys(provenance.COLUMNS[:2], TIME),
}


@without_collection()
def typed(rows: Rows) -> pd.DataFrame:
    """The same rows with all of COLUMNS, and every column of its type.

    Args:
        rows: as `results.frames.load` makes them.
    """
    columns = series(rows)
    blank = pd.Series(math.nan, index=range(len(rows)))
    whole = {name: columns[name] for name in columns if name not in _LAST}
    whole |= {name: columns.get(name, blank) for name in _LAST}
    return pd.DataFrame(
        {name: _convert_safely(values, _choose_type(name, values)) for name, values in whole.items()}
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


def _convert_safely(values: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """The values as a type; as Python objects if one of them can't be, so that none is lost."""
    try:
        return _convert(values, kind)
    except (TypeError, ValueError, OverflowError):
        return _convert(values, PLAIN)


def _convert(values: pd.Series[Any], kind: str) -> pd.Series[Any]:
    if kind == TIME:
        values = pd.to_datetime(values, utc=True, format="ISO8601")
    if kind == WORD:
        words = values.astype(object).where(values.notna(), "")
        return words if set(map(type, words)) <= {str} else words.map(str)
    if kind == PLAIN:
        return values.astype(object).where(values.notna(), None)
    return values.astype(pd.api.types.pandas_dtype(kind))
