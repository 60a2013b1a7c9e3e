"""The rows of a frame as mappings, for code that goes run by run.

pandas takes a millisecond to make a small part of a frame into dictionaries, and tables take thousands of
parts. So the rows of a whole frame are made once, and its parts share them.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.choice.winner import grouped

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
    places = grouped(range(len(found)), lambda at: tuple([found[at][name] for name in columns]))
    return [part(frame, own) for own in places.values()]


def part(frame: pd.DataFrame, places: Sequence[int]) -> pd.DataFrame:
    """The rows at some places of a frame; they are shared with it."""
    found, made = rows(frame), frame.iloc[list(places)]
    _note(made, [found[at] for at in places])
    return made


def _note(frame: pd.DataFrame, found: Rows) -> Rows:
    at = id(frame)
    _known[at] = weakref.ref(frame, lambda _: _known.pop(at, None)), found
    return found
