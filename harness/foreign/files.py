"""Files of other trainers to runs: every file to tables, tables to lines, lines to runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.foreign import gather
from harness.foreign.csv_file import Table, read_csv
from harness.foreign.gather import Gathered
from harness.foreign.mapping import Meaning, is_measured
from harness.foreign.tidy import Line, Reader


@dataclass(frozen=True)
class Read:
    """What the files say.

    Attributes:
        runs: as `harness.foreign.assemble` takes them.
        remarks: for people: what was left out.
        files: name, bytes and SHA-256 of every file.
    """

    runs: list[Gathered]
    remarks: list[str]
    files: list[dict[str, Any]]


def read(curves: Sequence[Path], runs: Path | None, means: Meaning) -> Read:
    """Read files with curves, and perhaps one with a line per run.

    Raises:
        UsageError: a file can't be read, or does not say what it must; one sentence.
    """
    readers = [Reader(table, means) for path in curves for table in _tables(path)]
    about = Reader(read_csv(runs), means) if runs is not None else None
    lines = [line for reader in readers for line in reader.lines()]
    told = _about(about)
    means.check_used([name for one in (*readers, *([about] if about else [])) for name in one.names])
    gathered = gather.gather(lines)
    remarks = [remark for one in readers if (remark := _left(one, one.left))]
    if about is not None:
        remarks += gather.join(gathered, told, about.table.name)
        left = [*about.left, *(name for name in about.columns if is_measured(name))]
        remarks += filter(None, [_left(about, left)])
    paths = [*curves, *([runs] if runs is not None else [])]
    return Read(gathered, list(dict.fromkeys(remarks)), _files(paths))


def _tables(path: Path) -> list[Table]:
    return [read_csv(path)]


def _about(reader: Reader | None) -> list[Line]:
    return list(reader.lines()) if reader is not None else []


def _left(reader: Reader, names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"'{reader.table.name}': left out, as nothing says what they mean: {', '.join(names)}"


def _files(paths: Sequence[Path]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in paths:
        data = path.read_bytes()
        row = {"file": path.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        if row in found:
            raise UsageError(f"'{path}' is given twice; name each file once.")
        found.append(row)
    return found
