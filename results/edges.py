"""Optima at the edge of a grid: a better value may lie beyond, so a table shows how to look there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.plans import SEARCH
from optimizers.registry import ZOO, Param
from results.identity import setting_name
from results.select import Candidate


@dataclass(frozen=True)
class Edge:
    """A chosen value that is the smallest or the largest tried.

    Attributes:
        column: the frame's column.
        value: the chosen value.
        hint: the line of the sweep file with the next value in it; empty if there is none that is allowed.
    """

    column: str
    value: float
    hint: str


def edges(frame: pd.DataFrame, chosen: Candidate, columns: list[str]) -> list[Edge]:
    """The edges at which a candidate lies in the blocks of grids that it comes from; a search has none.

    Args:
        frame: the tidy frame.
        chosen: the winner.
        columns: the tuned ones.
    """
    search = frame[frame["stage"] == SEARCH]
    blocks = list(zip(search["sweep"], search["block"], strict=True))
    own = {pair for pair, name in zip(blocks, search["candidate"], strict=True) if name == chosen.name}
    rows = search[[pair in own and not slot for pair, slot in zip(blocks, search["slot"], strict=True)]]
    optimizer, block = chosen.value("rule"), ", ".join(sorted({block for _, block in own}))
    found = (_edge(name, chosen.value(name), _grid(rows[name]), optimizer, block) for name in columns)
    return [edge for edge in found if edge is not None]


def _grid(values: pd.Series[Any]) -> list[float]:
    """The distinct numbers tried, ascending; nothing if they are no numbers."""
    found = values.dropna().unique()
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in found.tolist()):
        return []
    return sorted(found.tolist())


def _edge(column: str, value: Any, grid: list[float], optimizer: str, block: str) -> Edge | None:
    if len(grid) < 2 or value not in (grid[0], grid[-1]):
        return None
    lowest = value == grid[0]
    param = _param(optimizer, column)
    bound = (param.low if lowest else param.high) if param else None
    if bound is not None and value == bound:
        return None  # there is nothing beyond the end of the legal range
    following = _following(value, grid[1] if lowest else grid[-2], bound, param)
    if following is None:
        return Edge(column, value, "")
    values = ", ".join(f"{x:g}" for x in sorted({*grid, following}))
    return Edge(column, value, f"{setting_name(column)}: [{values}]  # block {block}")


def _param(optimizer: str, column: str) -> Param | None:
    row = ZOO.get(optimizer)
    if row is None:
        return None
    own = {"lr": row.lr, "aux_lr": row.lr, "weight_decay": row.weight_decay}
    return own.get(column) or row.params.get(column)


def _following(value: float, neighbour: float, bound: float | None, param: Param | None) -> float | None:
    """The next value of the geometric series, to two significant digits, or the legal bound before it."""
    ratio = value / neighbour if value and neighbour else 2
    following = float(f"{value * ratio:.2g}")
    if param is not None and param.type is int:
        following = round(following)
    if param is None or param.allows(following):
        return following if following != value else None
    return bound if bound is not None and param.allows(bound) else None
