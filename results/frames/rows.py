"""The rows of a frame as mappings, for code that goes run by run.

pandas takes a millisecond to make a small part of a frame into dictionaries, and tables take thousands of
parts. So the rows of a whole frame are made once, and its parts share them.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
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
        names = [str(name) for name in frame]
        columns = (frame[name].tolist() for name in names)
        found = _note(frame, [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)])
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
