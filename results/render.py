"""A table in the format asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from results import latex, markdown, tidy_csv
from results.cells import Table


@dataclass(frozen=True)
class Format:
    """How a table is written, and what such a file's name ends with."""

    suffix: str
    write: Callable[[Table], str]


FORMATS = {
    "md": Format("md", markdown.write),
    "csv": Format("csv", tidy_csv.write),
    "latex": Format("tex", latex.write),
}


def render(table: Table, fmt: str) -> str:
    """The table as text with a final newline.

    Args:
        table: of one of `TABLES`.
        fmt: a key of `FORMATS`.
    """
    return FORMATS[fmt].write(table)
