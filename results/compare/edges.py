"""Optima at the edge of the tried values. A better value may lie beyond; a table says which to try next."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pandas as pd

from harness.store.points import SEARCH
from results.compare.beyond import beyond, legal_end
from results.compare.select import OPTIMIZER, UNFINISHED, Candidate, Row, searched
from results.frames.identity import setting_name
from results.frames.load import tuned_columns
from results.frames.rows import rows

_AT_END = 0.01  # of a searched range, of its logarithm if that is how it was searched


@dataclass(frozen=True)
class Edge:
    """A chosen value beyond which nothing was tried.

    Attributes:
        column: the frame's column.
        value: the chosen value.
        place: what it is at the edge of: "grid" or "searched range".
        hint: what to try next: a value and its block, or a wider range; empty if no value is allowed.
    """

    column: str
    value: float
    place: str
    hint: str


def edges(frame: pd.DataFrame, chosen: Candidate, columns: list[str]) -> list[Edge]:
    """The edges at which a candidate lies.

    In a grid its neighbours are the candidates of all sweeps that agree with it in every other tuned setting;
    if it is alone there, the values of its blocks. In a search the edges are the ends of the range.

    Args:
        frame: the tidy frame.
        chosen: the winner.
        columns: the tuned ones.
    """
    place = itemgetter("stage", *OPTIMIZER)
    wanted = (SEARCH, *map(chosen.value, OPTIMIZER))
    rivals = [row for row in rows(frame) if place(row) == wanted]
    own = [row for row in rivals if row["candidate"] == chosen.name]
    from_grid = [row for row in own if not row["slot"]]
    tuned = searched(rivals, tuned_columns(frame))
    found = []
    for column in columns:
        near = _slice(column, own[0], rivals, tuned)
        if from_grid:
            found.append(_of_grid(column, from_grid, rivals, near))
        else:
            found.append(_of_search(column, own, rivals, near))
    return [edge for edge in found if edge is not None]


def _slice(column: str, chosen: Row, rivals: Iterable[Row], tuned: Iterable[str]) -> list[float]:
    """The values of a column among the rows that agree with the chosen one in every other tuned setting."""
    others = [name for name in tuned if name != column]
    return _numbers(row[column] for row in rivals if all(agree(row, chosen, name) for name in others))


def agree(row: Row, chosen: Row, name: str) -> bool:
    """Whether a row has the chosen row's value in a column, or will have it once it has run."""
    a, b = row[name], chosen[name]
    if _is_missing(a) or _is_missing(b):  # some defaults, such as aux_lr, are filled in by the run
        return _is_missing(a) and (_is_missing(b) or row["state"] in UNFINISHED)
    return bool(a == b)


def _is_missing(value: Any) -> bool:
    return value is None or value != value


def _numbers(values: Iterable[Any]) -> list[float]:
    """The distinct numbers, ascending; nothing if some are no numbers."""
    found = [value for value in values if not _is_missing(value)]
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in found):
        return []
    return sorted(set(found))


# --- grids and lists of choices ---


def _of_grid(column: str, own: Sequence[Row], rivals: Iterable[Row], near: list[float]) -> Edge | None:
    blocks = {(row["sweep"], row["block"]) for row in own}
    listed = _numbers(row[column] for row in rivals if (row["sweep"], row["block"]) in blocks)
    return _of_values(column, own, listed, near if len(near) > 1 else listed)


def _of_values(column: str, own: Sequence[Row], listed: list[float], tried: list[float]) -> Edge | None:
    """The edge at the ends of some values.

    Args:
        column: the column.
        own: the rows of the chosen candidate.
        listed: the values that its blocks have anywhere, even with other settings.
        tried: those around the candidate.
    """
    value, optimizer = own[0][column], str(own[0]["rule"])
    if len(tried) < 2 or value not in (tried[0], tried[-1]):
        return None
    upwards = value == tried[-1]
    if value == legal_end(optimizer, column, upwards):
        return None
    further = [other for other in listed if (other > value if upwards else other < value)]
    if further:  # a ragged grid: the block has the value, but not with the other chosen settings
        following: float | None = min(further) if upwards else max(further)
        return Edge(column, value, "grid", _add(column, following, own, " with its other chosen settings"))
    neighbour = tried[-2] if upwards else tried[1]
    # By the ratio of the two, or by their distance where one is 0 or they differ in sign.
    wanted = value * value / neighbour if value * neighbour > 0 else 2 * value - neighbour
    following = beyond(optimizer, column, value, wanted, upwards)
    return Edge(column, value, "grid", _add(column, following, own))


def _add(column: str, following: float | None, own: Sequence[Row], more: str = "") -> str:
    if following is None:
        return ""
    return f"add `{setting_name(column)}: {following:g}`{more} to {_blocks(own)}"


def _blocks(own: Iterable[Row]) -> str:
    names = sorted({str(row["block"]) for row in own})
    return f"block{'s' if len(names) > 1 else ''} {', '.join(names)}"


# --- searches ---


def _of_search(column: str, own: Sequence[Row], rivals: Iterable[Row], near: list[float]) -> Edge | None:
    axis, *_ = [*_axes(column, own), None]
    if axis is None:
        return None  # fixed in this search
    others = _axes(column, rivals)
    choices = _numbers(value for other in others for value in other.get("choices", ()))
    if "choices" in axis:
        return _of_values(column, own, choices, choices)
    ends = _numbers(
        [*choices, *near, *(other[end] for other in others for end in ("low", "high") if end in other)]
    )
    return _of_range(column, own, ends[0], ends[-1], bool(axis["log"]))


def _of_range(column: str, own: Sequence[Row], low: float, high: float, log: bool) -> Edge | None:
    """The edge at the ends of all ranges and values that some sweep has tried."""
    value, optimizer = own[0][column], str(own[0]["rule"])
    place = _place(value, low, high, log and low > 0)
    upwards = place >= 1 - _AT_END
    end = high if upwards else low
    if _AT_END < place < 1 - _AT_END or end == legal_end(optimizer, column, upwards):
        return None
    step = (high - low) / 2 if upwards else (low - high) / 2
    wanted = (end * 3 if upwards else end / 3) if log else end + step
    following = beyond(optimizer, column, end, wanted, upwards)
    if following is None:
        return Edge(column, value, "searched range", "")
    side = "high" if upwards else "low"
    hint = f"widen `{setting_name(column)}` to {side}: {following:g} in {_blocks(own)}"
    return Edge(column, value, "searched range", hint)


def _place(value: float, low: float, high: float, log: bool) -> float:
    """Where a value lies between the ends, from 0 to 1."""
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low)


def _axes(column: str, rows: Iterable[Row]) -> list[Mapping[str, Any]]:
    """What the studies of some rows searched along a column."""
    studies = dict.fromkeys(str(row["ranges"]) for row in rows if row["ranges"])
    axes = (json.loads(ranges).get(setting_name(column)) for ranges in studies)
    return [axis for axis in axes if axis is not None]
