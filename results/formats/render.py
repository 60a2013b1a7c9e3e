"""A table in the format asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from results.formats import as_json, html, latex, markdown, parquet, tidy_csv
from results.formats.cells import Table


@dataclass(frozen=True)
class Format:
    """How one table and how several are written, and what the name of a file with one ends with."""

    suffix: str
    write: Callable[[Table], str]
    write_all: Callable[[Sequence[Table]], str]


def _in_turn(write: Callable[[Table], str]) -> Callable[[Sequence[Table]], str]:
    return lambda tables: "\n".join(map(write, tables))


FORMATS = {
    "md": Format("md", markdown.write, _in_turn(markdown.write)),
    "csv": Format("csv", tidy_csv.write, tidy_csv.write_all),
    "latex": Format("tex", latex.write, _in_turn(latex.write)),
    "html": Format("html", html.write, html.write_all),
    "json": Format("json", as_json.write, as_json.write_all),
}

PARQUET = "parquet"  # no text, and one table to a file


def render(table: Table, fmt: str) -> str:
    """The table as text with a final newline.

    Args:
        table: of one of `TABLES`.
        fmt: a key of `FORMATS`.
    """
    return FORMATS[fmt].write(table)


def render_all(tables: Sequence[Table], fmt: str) -> str:
    """Several tables as one text."""
    return FORMATS[fmt].write_all(tables) if len(tables) > 1 else render(tables[0], fmt)


def as_bytes(table: Table, fmt: str) -> bytes:
    """The content of a file with the table.

    Args:
        table: of one of `TABLES`.
        fmt: a key of `FORMATS`, or PARQUET.
    """
    return parquet.write(table) if fmt == PARQUET else render(table, fmt).encode()


def suffix(fmt: str) -> str:
    """What the name of such a file ends with."""
    return PARQUET if fmt == PARQUET else FORMATS[fmt].suffix
