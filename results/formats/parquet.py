"""The tidy rows of a table as Parquet: words are strings, numbers are float64, counts of seeds Int64.

A value that is missing is null, and so is a column that a section does not have. The file tells pandas that
counts are its nullable Int64: they would else be float64 as soon as one is missing. It holds no time, and
nothing of the machine: the same table gives the same bytes with the same versions of pandas and pyarrow.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from results.formats import tidy
from results.formats.cells import Table
from results.formats.tidy import Value

if TYPE_CHECKING:
    import pandas as pd


def write(table: Table) -> bytes:
    """The whole table."""
    import pandas as pd
    import pyarrow
    from pyarrow import parquet

    rows = tidy.rows(table)
    frame = pd.DataFrame(
        {name: _column(name, [row.get(name) for row in rows]) for name in tidy.columns(rows)}
    )
    types = {"object": pyarrow.string(), "Int64": pyarrow.int64(), "float64": pyarrow.float64()}
    schema = pyarrow.schema([(name, types[dtype.name]) for name, dtype in frame.dtypes.items()])
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pandas(frame, schema, preserve_index=False), out)
    return out.getvalue()


def _column(name: str, values: Sequence[Value]) -> pd.Series[Any]:
    """A column. One that has a word is of words, its numbers as CSV writes them."""
    import pandas as pd

    if name in tidy.LAST or any(isinstance(value, str) for value in values):
        return pd.Series(_words(values), dtype=object)
    whole = name.endswith(tidy.COUNT) and all(value is None or isinstance(value, int) for value in values)
    return pd.Series(values, dtype="Int64" if whole else "float64")


def _words(values: Iterable[Value]) -> list[str | None]:
    return [None if value is None else tidy.word(value) for value in values]
