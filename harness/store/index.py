"""The index: a copy of every record, one JSON line each. Ten thousand runs are then one file to read.

A line counts only while the file of the run's own record has the size and the time that the line notes: the
index of another store may have been copied over ours. It can be deleted and rebuilt. Two processes may note
the same record; the later line counts.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from htbench.harness.store.record import RunRecord
from htbench.harness.system import atomic, seal
from htbench.harness.system.machine import without_collection

# The start of a line, as `append` writes it, up to its record.
_START = re.compile(rb'\{"size": (\d+), "modified": (-?\d+), "record": (?=\{"key": "([0-9a-f]{12})")')


class Mark(NamedTuple):
    """What changes with the file of a record: its size in bytes, and nanoseconds since 1970."""

    size: int
    modified: int


def mark_of(file: os.stat_result) -> Mark:
    """The mark of a file."""
    return Mark(file.st_size, file.st_mtime_ns)


class Index:
    """The file `index.jsonl` of a store.

    Args:
        path: the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: tuple[tuple[int, ...], dict[str, tuple[Mark, int, int]]] = ((), {})

    def append(self, rows: Iterable[tuple[Mark, RunRecord]]) -> None:
        """Add a line for each record, whose file has this mark. The caller holds the lock."""
        lines = ({**mark._asdict(), "record": record.to_json()} for mark, record in rows)
        if text := "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines):
            atomic.append_text(self.path, text)

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock: two writers would mix lines."""
        return atomic.locked(self.path.with_name(f".{self.path.stem}.lock"))

    @without_collection()
    def rows(self) -> dict[str, tuple[Mark, RunRecord]]:
        """By key the mark of the record's file, and the record; damaged lines are left out."""
        with self.lookup() as find:
            marks = {key: mark for key, (mark, *_) in self._places[1].items()}
            return {key: (mark, record) for key, mark in marks.items() if (record := find(key, mark))}

    @contextlib.contextmanager
    def lookup(self) -> Iterator[Callable[[str, Mark], RunRecord | None]]:
        """A function that reads the record of a key if the last line notes this mark of its file, else None.

        Lines are parsed one by one: all at once need gigabytes.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._places = (), {}
            yield lambda key, mark: None
            return
        with file:
            now = os.fstat(file.fileno())
            version = (now.st_ino, now.st_size, now.st_mtime_ns)
            if version != self._places[0]:  # `status` asks for the runs of one sweep after the other
                self._places = version, _lines(file)
            lines = self._places[1]

            def find(key: str, mark: Mark) -> RunRecord | None:
                noted, offset, length = lines.get(key, (None, 0, 0))
                if mark != noted:
                    return None
                text = os.pread(file.fileno(), length, offset)
                try:
                    record = RunRecord.from_json(atomic.parse_json(text), seal.is_whole(text))
                except ValueError:
                    return None
                same = record is not None and record.key == key and not record.digest
                return record if same else None

            yield find


def _lines(file: BinaryIO) -> dict[str, tuple[Mark, int, int]]:
    """The mark that the last line of each key notes, and the offset and length of its record."""
    places: dict[str, tuple[Mark, int, int]] = {}
    offset = 0
    for line in file:
        if start := _START.match(line):
            begin, end = start.end(), len(line.rstrip()) - 1
            places[start[3].decode()] = (Mark(int(start[1]), int(start[2])), offset + begin, end - begin)
        offset += len(line)
    return places
