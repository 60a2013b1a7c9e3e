"""The records of a store: each in its run's folder, and all once more in the index."""

import contextlib
import dataclasses
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.errors import UsageError
from htbench.harness.show.note import Note
from htbench.harness.store import layout
from htbench.harness.store.index import Index, Mark, mark_of
from htbench.harness.store.owner import Owner
from htbench.harness.store.record import RunRecord
from htbench.harness.store.run_folder import RunFile, RunFolder
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from htbench.harness.system.links import OwnFile, leads_away

_AT_ONCE = 1000  # runs that are looked at together: the index is locked once for those that it lacks


class Records:
    """The run folders of a store, and the records in them.

    Args:
        root: the folder of the store; it need not exist.
        alive: whether an owner lives, by its heartbeat file; tests pass their own.
    """

    def __init__(self, root: Path | str, alive: Callable[[Owner | None, Path], bool]) -> None:
        self.root, self.alive = Path(root), alive
        self.index = Index(OwnFile(self.root, layout.INDEX))

    # --- one run ---

    def files(self, key: str) -> RunFolder:
        """The files of the run `key`.

        Raises:
            UsageError: no run has such a key; as the name of a folder it could lead anywhere.
        """
        return RunFolder(RunFile(self._place(key)))

    def _place(self, key: str) -> str:
        if not layout.is_key(key):
            raise UsageError(f"'{key}' is not the key of a run: twelve of the digits 0 to 9 and a to f.")
        return f"{self.root}/{layout.RUNS}/{key[:2]}/{key}"

    def find(self, word: str) -> str:
        """The key of the only run whose key is `word` or begins with it.

        Raises:
            UsageError: no run's key begins so, or several do.
        """
        keys = [key for key in self.keys() if key.startswith(word)] if word else []
        if len(keys) == 1:
            return keys[0]
        if keys:
            raise UsageError(f"{len(keys)} runs have a key like '{word}', such as {keys[0]}, {keys[1]}.")
        raise UsageError(str(Note("no_such_key", root=self.root, key=word)))

    def run_folder(self, key: str) -> Path:
        """The folder of the run `key`."""
        return self.files(key).path

    def last_attempt(self, key: str) -> int:
        """The number of the highest attempt, 0 if there is none."""
        return self.files(key).last_attempt()

    def attempt(self, key: str, number: int) -> dict[str, Any]:
        """The content of an attempt's file; empty if it is missing or damaged."""
        return self.files(key).read_attempt(number)

    def repeated_steps(self, key: str) -> int:
        """How many updates of a run were made again after crashes, as far as its curve had been written."""
        attempts = range(1, self.last_attempt(key) + 1)
        return sum(self.attempt(key, number).get("repeats", 0) for number in attempts)

    def record(self, key: str) -> RunRecord | None:
        """The record of a finished run; None if there is none, or its file is damaged."""
        if self._mark(key) is None:
            return None
        record = RunRecord.from_json(atomic.read_json(self.files(key).record))
        return record if record is not None and record.key == key else None

    def write_record(self, record: RunRecord) -> RunRecord:
        """Write a record unless there is a valid one. It replaces the record of a pruned run."""
        layout.begin(self.root)
        path = self.files(record.key).record
        while not atomic.create_json(path, record.to_json()):
            existing = self.record(record.key)
            if existing is not None and existing.status == "pruned":
                record = dataclasses.replace(record, pruned_by=existing.pruned_by + record.pruned_by)
                atomic.write_json(path, record.to_json())
                break
            if existing is not None:
                return existing
            path.unlink(missing_ok=True)  # damaged
        return record

    def clear_leftovers(self, key: str, *more: Path) -> bool:
        """Remove the temporary files of a run, and `more`; False if a process is at work on it: all stay."""
        files = self.files(key)
        number = files.last_attempt()  # 0 also where a link stands for the folder
        # Before the look at the last attempt: who starts after that may have others.
        found = [*more, *atomic.temporaries(files.path)]
        found += atomic.temporaries(files.attempts) if number else ()
        last = files.read_attempt(number)
        owner = Owner.from_json(last.get("owner"))
        if owner and not last.get("ended") and self.alive(owner, files.attempt(number)):
            return False
        for path in found:
            path.unlink(missing_ok=True)
        return True

    # --- all runs ---

    def keys(self) -> list[str]:
        """The keys of all runs that have a folder, sorted."""
        return layout.run_keys(self.root)

    def records(self, keys: Iterable[str]) -> dict[str, RunRecord]:
        """The records of those of `keys` that have one; from the index, checked against the folders.

        What the index lacks is read from the folders and noted.
        """
        return dict(self.each_record(keys))

    def each_record(self, keys: Iterable[str]) -> Iterator[tuple[str, RunRecord]]:
        """As `records`, one after the other: a hundred thousand records at once need gigabytes."""
        rest = iter(keys)
        with self.index.lookup() as find:
            while some := list(itertools.islice(rest, _AT_ONCE)):
                marks = {key: mark for key in some if (mark := self._mark(key)) is not None}
                records = {key: record for key, mark in marks.items() if (record := find(key, mark))}
                missing = [key for key in marks if key not in records]
                try:
                    records |= self.note(missing) if missing else {}
                except OSError:  # the store may be read-only
                    records |= self._read(missing)
                yield from ((key, records.pop(key)) for key in marks if key in records)

    def note(self, keys: Sequence[str]) -> dict[str, RunRecord]:
        """Read the records of `keys` and note them in the index, but for those of changed files.

        First their leftovers go, also the checkpoint unless another study may resume from it. An owner does
        this last; if it dies before, the next reader does it.
        """
        with self.index.locked():
            marks = {key: self._mark(key) for key in keys}  # before the records, which may be replaced
            records = self._read(keys)
            sound = [
                record
                for key, record in records.items()
                if not record.digest
                and (record.status == "pruned" or self.clear_leftovers(key, self.files(key).checkpoint))
            ]
            self.index.append((mark, record) for record in sound if (mark := marks[record.key]))
        return records

    def _read(self, keys: Iterable[str]) -> dict[str, RunRecord]:
        return {key: record for key in keys if (record := self.record(key)) is not None}

    def _mark(self, key: str) -> Mark | None:
        """The mark of a record's file; None if there is none."""
        status = self.look(key, layout.RECORD)
        return None if status is None else mark_of(status)

    def look(self, key: str, name: str) -> os.stat_result | None:
        """As `os.stat` of a file right in the folder of the run `key`; None: there is none.

        It makes no path, since tables ask of ten thousand runs.
        """
        folder = self._place(key)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(f"{folder}/{name}")
            if stat.S_ISREG(status.st_mode) and not leads_away(folder, 2):
                return status
        return None

    def rebuild_index(self) -> int:
        """Write the index anew from the run folders.

        Returns:
            the number of records.
        """
        make_folder(self.root)
        with self.index.locked():
            self.index.path.unlink(missing_ok=True)
        return sum(1 for _ in self.each_record(self.keys()))
