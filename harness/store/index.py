"""The index: a copy of every record, one JSON line each. Ten thousand runs are then one file to read.

A line counts only while the run's own record has the size that the line notes. The index can be deleted and
rebuilt. Two processes may note the same record; the later line counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from harness.store.record import RunRecord
from harness.system import atomic

_START = re.compile(rb'\{"size": (\d+), "record": \{"key": "([0-9a-f]+)"')  # of a line, as `append` writes it


class Index:
    """The file `index.jsonl` of a store.

    Args:
        path: the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[tuple[int, ...], dict[str, tuple[int, RunRecord]]] = ((), {})

    def note(self, record: RunRecord, size: int) -> None:
        """Add a line: `record`, whose file has `size` bytes."""
        with self.locked():
            self.append(record, size)

    def append(self, record: RunRecord, size: int) -> None:
        """As `note`; the caller holds the lock."""
        atomic.append_line(self.path, {"size": size, "record": record.to_json()})

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock: two writers would mix lines or remove each other's temporary files."""
        return atomic.locked(self.path.with_name(f".{self.path.stem}.lock"))

    def rows(self) -> dict[str, tuple[int, RunRecord]]:
        """Size and record by key; damaged lines are left out. Read again only if the file has changed."""
        mark = self._mark()
        if mark != self._read[0]:
            self._read = mark, self._parse()
        return dict(self._read[1])

    def _mark(self) -> tuple[int, ...]:
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            return (0,)
        return now.st_ino, now.st_size, now.st_mtime_ns

    def _parse(self) -> dict[str, tuple[int, RunRecord]]:
        found: dict[str, tuple[int, RunRecord]] = {}
        for row in atomic.read_json_lines(self.path):
            record = RunRecord.from_json(row.get("record"))
            if record is not None and isinstance(row.get("size"), int):
                found[record.key] = (row["size"], record)
        return found

    @contextlib.contextmanager
    def lookup(self) -> Iterator[Callable[[str, int], RunRecord | None]]:
        """A function that reads the record of a key if the last line notes this size of its file, else None.

        It needs much less memory than `rows`: lines are parsed one by one.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            yield lambda key, size: None
            return
        with file:
            lines = _lines(file)

            def find(key: str, size: int) -> RunRecord | None:
                noted, offset, length = lines.get(key, (None, 0, 0))
                if noted != size:
                    return None
                file.seek(offset)
                (row,) = atomic.json_objects([file.read(length)]) or [{}]
                return RunRecord.from_json(row.get("record"))

            yield find

    def replace(self, rows: Iterable[tuple[int, RunRecord]]) -> None:
        """Write the whole file anew. The caller holds the lock."""
        lines = [json.dumps({"size": size, "record": record.to_json()}) + "\n" for size, record in rows]
        atomic.remove_temporaries(self.path.parent)
        atomic.write_text(self.path, "".join(lines))


def _lines(file: BinaryIO) -> dict[str, tuple[int, int, int]]:
    """The size, offset and length that the last line of each key has."""
    found: dict[str, tuple[int, int, int]] = {}
    offset = 0
    for line in file:
        if start := _START.match(line):
            found[start[2].decode()] = (int(start[1]), offset, len(line))
        offset += len(line)
    return found
