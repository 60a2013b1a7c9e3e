"""Numbers, values and tables as text for a screen, and as JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any


def duration(seconds: float | None) -> str:
    """A time in the unit that fits: `85 ms`, `12 s`, `3.4 h`."""
    if seconds is None:
        return "-"
    for unit, size, until in (("ms", 0.001, 1), ("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172800)):
        if seconds < until:
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds / 86400)} d"


def memory(size: int) -> str:
    """Bytes, in memory or on a disk: `12 KiB`, `350 MiB`, `1.2 GiB`."""
    for unit, one in (("GiB", 2**30), ("MiB", 2**20)):
        if size >= one:
            return f"{_three(size / one)} {unit}"
    return f"{_three(size / 2**10)} KiB"


def count(number: int) -> str:
    """A count: `850`, `19.8k`, `1.3M`."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{_three(number / size)}{unit}"
    return str(number)


def hours(number: float) -> str:
    """Hours of processors: `6.6`, `142`, `9,320`."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def shown(value: object) -> str:
    """A plain value as in a YAML file: `true`, `null`, `[0.9,0.95]`."""
    if isinstance(value, tuple):
        return "[" + ",".join(map(shown, value)) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def aligned(rows: Iterable[Sequence[object]], words: Container[str] | None = None) -> str:
    """Lines with columns as wide as they need to be, words left-aligned and numbers right-aligned.

    Args:
        rows: the first is the head.
        words: heads of the columns of words; None: all of them.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    sides = ["<" if words is None or head in words else ">" for head in cells[0]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def document(value: Any, *, in_a_line: bool = False) -> str:
    """Plain values as one JSON document (docs/json.md). JSON has no NaN: what is not finite is null.

    Args:
        value: of mappings, lists, tuples, words, numbers and None.
        in_a_line: without line breaks, for a stream of documents.
    """
    return json.dumps(_finite(value), indent=None if in_a_line else 1, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
