"""Numbers, values and tables as text for a screen, and as JSON for programs."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from harness.harmless import in_a_line


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


def counted(number: int, one: str, many: str = "") -> str:
    """A number and what it counts: `1 job`, `2 jobs`; `1 job waits`, `2 jobs wait`.

    Args:
        number: how many there are.
        one: the words after 1.
        many: those after other numbers; empty: with an s at the end of `one`.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


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


# --- tables and lines ---


@dataclass(frozen=True)
class Column:
    """How a column gives way where a table is too wide. Without one, a column holds numbers and has rank 1.

    Attributes:
        words: whether it holds words, which are left-aligned; numbers are right-aligned and never cut.
        least: the width to which its words may be shortened, if its head is no wider; None: they are whole.
        rank: columns of the highest rank are left out first.
    """

    words: bool = False
    least: int | None = None
    rank: int = 1


def aligned(
    rows: Iterable[Sequence[object]],
    columns: Mapping[str, Column],
    width: int | None = None,
    *,
    more: str = "--json has all",
) -> str:
    """A table as lines: its columns as wide as they need to be, or as a terminal lets them.

    What is too wide has its words shortened first, then columns are left out, all but the first if need be,
    and a line below the table names them.

    Args:
        rows: the first is the head.
        columns: by their heads.
        width: of the terminal; None: nothing is shortened or left out.
        more: where the columns that are left out can be seen.
    """
    cells = [[in_a_line(str(cell)) for cell in row] for row in rows]
    kinds = [columns.get(head, Column()) for head in cells[0]]
    whole = [max(map(len, column)) for column in zip(*cells, strict=True)]
    least = [_least(*each) for each in zip(cells[0], kinds, whole, strict=True)]
    kept, gone = _that_fit(least, [kind.rank for kind in kinds], width)
    widths = _widths({n: whole[n] for n in kept}, least, width)
    lines = [
        "  ".join(f"{shortened(row[n], widths[n]):{'<' if kinds[n].words else '>'}{widths[n]}}" for n in kept)
        for row in cells
    ]
    if gone:
        names = ", ".join(dict.fromkeys(cells[0][n] for n in gone))
        lines += wrapped(f"left out: {names}{f' ({more})' if more else ''}", width)
    return "\n".join(line.rstrip() for line in lines)


def _least(head: str, kind: Column, whole: int) -> int:
    """The width that a column can't do without."""
    return whole if kind.least is None or not kind.words else min(whole, max(kind.least, len(head)))


def _that_fit(least: Sequence[int], ranks: Sequence[int], width: int | None) -> tuple[list[int], list[int]]:
    """The columns that have room, and those that are left out."""
    kept, gone = list(range(len(least))), list[int]()
    while width is not None and len(kept) > 1 and _total(least[n] for n in kept) > width:
        last = max(kept[1:], key=lambda n: (ranks[n], n))
        kept.remove(last)
        gone.append(last)
    return kept, sorted(gone)


def _widths(whole: Mapping[int, int], least: Sequence[int], width: int | None) -> dict[int, int]:
    """The widths of the columns that have room; what is missing is taken where there is most to take."""
    widths = dict(whole)
    missing = 0 if width is None else _total(widths.values()) - width
    for _ in range(missing):
        slack, n = max((widths[n] - least[n], n) for n in widths)
        if not slack:
            break
        widths[n] -= 1
    return widths


def _total(widths: Iterable[int]) -> int:
    return sum(width + 2 for width in widths) - 2


# A number with what belongs to it: `0.9,0.95`, `1e-05`, `60m`, `50%`.
_NUMBER = re.compile(r"\.?\d(?:[\w.,:%]|(?<=[eE])[+-])*")


def shortened(text: str, width: int) -> str:
    """A text in at most `width` characters; a shorter one ends in an ellipsis, and not within a number."""
    if len(text) <= width:
        return text
    end = width - 1
    inside = (n.start() for n in _NUMBER.finditer(text) if n.start() < end < n.end())
    return text[: next(inside, end)].rstrip() + "…"


def wrapped(line: str, width: int | None, indent: str = "    ") -> list[str]:
    """A line as lines of a terminal, all but the first indented; `width` None: as it is."""
    line = in_a_line(line)
    if width is None:
        return [line]
    room = max(width, 2 * len(indent))
    return textwrap.wrap(line, room, subsequent_indent=indent, break_on_hyphens=False) or [""]


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The columns of the terminal that a stream (standard output) writes to; None if it is none."""
    if not (stream or sys.stdout).isatty():
        return None
    return shutil.get_terminal_size().columns


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
