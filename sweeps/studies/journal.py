"""Journal files of Optuna studies: written whole from memory, or shared by many workers under a lock."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from harness.system import atomic
from harness.system.links import LinkError

if TYPE_CHECKING:
    from optuna.storages.journal import JournalStorage


class Journal:
    """A journal in memory. Its file gets it in one durable write; Optuna's backend makes one per change."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []

    def write(self, path: Path) -> None:
        """Replace the file. The caller is the only one who does."""
        atomic.remove_temporaries(path.parent, path.name)  # of a process that died here
        atomic.write_text(path, self._text())

    def create(self, path: Path) -> None:
        """Write the file, unless there is one."""
        atomic.create_text(path, self._text())

    def _text(self) -> str:
        return "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in self.logs)

    def storage(self) -> JournalStorage:
        """The journal as an Optuna storage."""
        from optuna.storages.journal import BaseJournalBackend, JournalStorage

        logs = self.logs

        class Backend(BaseJournalBackend):
            def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
                return logs[log_number_from:]

            def append_logs(self, new: list[dict[str, Any]]) -> None:
                logs.extend(new)

        return JournalStorage(Backend())


def shared(path: Path) -> JournalStorage:
    """The journal at `path` as a storage that many processes may use at once.

    Raises:
        LinkError: it is a link, or the file of its lock is.
    """
    for one in (path, path.with_suffix(".lock")):
        if one.is_symlink():
            raise LinkError(one)
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

    class Lock(JournalFileOpenLock):
        """A lock that the kernel frees when its holder dies; with Optuna's, others would wait for 30 s."""

        def __init__(self) -> None:
            self._file: IO[str] | None = None

        def acquire(self) -> bool:
            self._file = open(path.with_suffix(".lock"), "a")
            fcntl.flock(self._file, fcntl.LOCK_EX)
            atomic.refresh_file_cache(path)
            cut_torn_line(path)
            return True

        def release(self) -> None:
            if self._file is not None:
                self._file.close()

    return JournalStorage(JournalFileBackend(str(path), lock_obj=Lock()))


def cut_torn_line(path: Path) -> None:
    """Cut off the incomplete last line of a dead writer: the next would append to it. Needs the lock."""
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        end, block = size, 1 << 16
        while end:
            start = max(0, end - block)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            file.truncate(end)
