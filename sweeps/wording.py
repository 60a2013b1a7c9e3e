"""Figures and tables as people read them on a screen."""

from __future__ import annotations

from collections.abc import Sequence


def duration(seconds: float | None) -> str:
    """A time in the unit that fits: `85 ms`, `12 s`, `3.4 h`."""
    if seconds is None:
        return "-"
    for unit, size, until in (("ms", 0.001, 1), ("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172800)):
        if seconds < until:
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds / 86400)} d"


def bytes_in_words(size: int) -> str:
    """Memory: `350 MiB`, `1.2 GiB`."""
    return f"{_three(size / 2**30)} GiB" if size >= 2**30 else f"{_three(size / 2**20)} MiB"


def count(number: int) -> str:
    """A count: `850`, `19.8k`, `1.3M`."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{_three(number / size)}{unit}"
    return str(number)


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def table(rows: Sequence[Sequence[object]], left: Sequence[int]) -> list[str]:
    """Lines with columns as wide as they need to be.

    Args:
        rows: the first is the head.
        left: columns of words; the others are figures, which stand to the right.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
