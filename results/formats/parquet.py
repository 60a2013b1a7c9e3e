"""The tidy rows of a table as Parquet: words are strings, numbers are float64, counts of seeds int64.

A value that is missing is null, and so is a column that a section does not have. The file holds no time, and
nothing of the machine: the same table gives the same bytes with the same version of pyarrow.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from results.formats import tidy
from results.formats.cells import Table
from results.formats.tidy import Value

if TYPE_CHECKING:
    import pyarrow


def write(table: Table) -> bytes:
    """The whole table."""
    import pyarrow
    from pyarrow import parquet

    rows = tidy.rows(table)
    columns = {name: [row.get(name) for row in rows] for name in tidy.columns(rows)}
    arrays = [_array(name, values) for name, values in columns.items()]
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays, names=list(columns)), out)
    return out.getvalue()


def _array(name: str, values: Sequence[Value]) -> pyarrow.Array:
    """A column. One that has a word is of words, its numbers as CSV writes them."""
    import pyarrow

    if name in tidy.LAST or any(isinstance(value, str) for value in values):
        return pyarrow.array(_words(values), pyarrow.string())
    whole = name.endswith(tidy.COUNT) and all(value is None or isinstance(value, int) for value in values)
    return pyarrow.array(values, pyarrow.int64() if whole else pyarrow.float64())


def _words(values: Iterable[Value]) -> list[str | None]:
    return [None if value is None else tidy.word(value) for value in values]
