"""The rows of a frame as mappings, for code that goes run by run.

pandas takes a millisecond to make a small part of a frame into dictionaries. Tables make thousands of parts
and ask for few columns, so a column becomes a list once, when it is first asked for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

Rows = Sequence[Mapping[str, Any]]

# By the id of a frame that lives. Frames can't be keys.
_known: dict[int, tuple[weakref.ref[pd.DataFrame], Rows]] = {}


def rows(frame: pd.DataFrame | Rows) -> Rows:
    """The rows in their order, each from column to plain value; rows are returned as they are.

    A frame must not be changed in place afterwards: its rows are made once.
    """
    if not isinstance(frame, pd.DataFrame):
        return frame
    reference, found = _known.get(id(frame), (None, ()))
    if reference is None or reference() is not frame:
        columns = _Columns(frame.copy(deep=False))  # refers to the same data, but keeps `frame` not alive
        found = _note(frame, [_Row(columns, number) for number in range(len(frame))])
    return found


def parts(frame: pd.DataFrame | None, columns: Sequence[str]) -> list[pd.DataFrame]:
    """The parts of a frame that agree in some columns, in the order of their first rows."""
    if frame is None:
        return []
    found = rows(frame)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, row in enumerate(found):
        groups.setdefault(tuple(row[name] for name in columns), []).append(number)
    made = [frame.iloc[numbers] for numbers in groups.values()]
    for part, numbers in zip(made, groups.values(), strict=True):
        _note(part, [found[number] for number in numbers])
    return made


def _note(frame: pd.DataFrame, found: Rows) -> Rows:
    at = id(frame)
    _known[at] = weakref.ref(frame, lambda _: _known.pop(at, None)), found
    return found


class _Columns(dict[str, list[Any]]):
    """The columns as lists."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__()
        self.frame = frame

    def __missing__(self, name: str) -> list[Any]:
        found: list[Any] = self.frame[name].tolist()
        self[name] = found
        return found


class _Row(Mapping[str, Any]):
    __slots__ = ("_columns", "_number")

    def __init__(self, columns: _Columns, number: int) -> None:
        self._columns = columns
        self._number = number

    def __getitem__(self, name: str) -> Any:
        return self._columns[name][self._number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.frame)

    def __len__(self) -> int:
        return self._columns.frame.shape[1]
