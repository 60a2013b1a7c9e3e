"""A CSV file as text cells, or one sentence with file and line that says why it can't be read.

UTF-8, with or without a byte order mark; commas, semicolons or tabs; any end of line. Nothing is guessed: a
file in another encoding, or with lines of different lengths, is refused.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from harness.errors import UsageError
from harness.exchange.words import shown

_SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Table:
    """Named columns of text.

    Attributes:
        name: the file, as sentences name it.
        header: names of the columns, without spaces around them.
        lines: number of the line in the file, and as many cells as the header has.
        run: the run that all lines are of, if the format says so.
        notes: remarks on a run by its word, for its record.
    """

    name: str
    header: Sequence[str]
    lines: Sequence[tuple[int, Sequence[str]]]
    run: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)


def read_csv(path: Path) -> Table:
    """Read a CSV file with a header.

    Raises:
        UsageError: it can't be read, has no header or no line, or its lines differ in length.
    """
    text = _text(path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text, path), strict=True)
    header: list[str] = []
    lines: list[tuple[int, Sequence[str]]] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
            elif len(cells) == len(header):
                lines.append((reader.line_num, cells))
            else:
                refuse(path.name, reader.line_num, f"{len(cells)} cells, but the header has {len(header)}.")
    except csv.Error as error:
        refuse(path.name, reader.line_num, f"it is no line of a CSV file ({error}).")
    if not header:
        raise UsageError(f"'{path}' is empty; a CSV file begins with the names of its columns.")
    if not lines:
        raise UsageError(f"'{path}' has a header, but no line below it.")
    _check(header, path)
    return Table(path.name, header, lines)


def refuse(name: str, line: int, what: object) -> NoReturn:
    """Raise UsageError: one sentence on a line of a file."""
    raise UsageError(f"'{name}', line {line}: {what}")


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"There is no file '{path}'.") from None
    except OSError as error:
        raise UsageError(f"'{path}' can't be read: {error.strerror or error}.") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(path.name, data.count(b"\n", 0, error.start) + 1, "it is not UTF-8; save the file as UTF-8.")


def _separator(text: str, path: Path) -> str:
    """The one that divides the first line into most cells."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    counts = {one: len(next(csv.reader([head], delimiter=one), [])) for one in _SEPARATORS}
    best = max(counts, key=lambda one: counts[one])
    if counts[best] > 1 and list(counts.values()).count(counts[best]) > 1:
        refuse(path.name, 1, "it has as many commas as semicolons or tabs; use one of them.")
    return best


def _check(header: Sequence[str], path: Path) -> None:
    for name in header:
        if not name.isprintable():
            refuse(path.name, 1, f"the column {shown(name)} has characters that can't be printed.")
        if name and header.count(name) > 1:
            refuse(path.name, 1, f"two columns are called {shown(name)}; rename one.")
