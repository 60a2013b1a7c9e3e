"""The rows of the frame as mappings, for code that goes run by run, as all tables do: without pandas.

Notebooks and the page have them as a frame of pandas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from htbench.harness.choice.winner import grouped

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = Sequence[Mapping[str, Any]]
Frame: TypeAlias = "pd.DataFrame | Rows"


def rows(frame: Frame) -> Rows:
    """The rows in their order, each from column to plain value; rows are returned as they are."""
    if isinstance(frame, Sequence):
        return frame
    names = [str(name) for name in frame]
    columns = (frame[name].tolist() for name in names)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def parts(frame: Frame | None, columns: Sequence[str]) -> list[Rows]:
    """The parts that agree in some columns, in the order of their first rows."""
    place = itemgetter(*columns)
    return [] if frame is None else list(grouped(rows(frame), place).values())
