"""The archives of a store: which run is in which. A list is read again only when its file is another."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path

from harness.store import layout
from harness.store.archive import Archive, Identity, identity

_SETTLED = 2 * 10**9  # ns; a folder that was touched later may change again within a tick of its clock


class Archives:
    """The archives in a folder, which need not exist.

    Args:
        folder: `<root>/packed`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0  # grows whenever the archives are found to be others
        self._touched = 0
        self._known: dict[str, tuple[Identity, Archive]] = {}
        self._runs: dict[str, Archive] = {}

    def find(self, key: str) -> Archive | None:
        """The archive with a run; None if no archive has it now."""
        found = self._runs.get(key)
        if found is None and self._look():
            found = self._runs.get(key)
        return found

    def all(self) -> list[Archive]:
        """All archives as they are now, by their names."""
        self._look()
        return [archive for _, (_, archive) in sorted(self._known.items())]

    def forget(self, archive: Archive) -> None:
        """Take in that an archive has been replaced or removed."""
        self._known.pop(archive.path.name, None)
        self._touched = -1
        self._look()

    def _look(self) -> bool:
        """Look whether the archives are others than before, and read those that are."""
        try:
            touched = os.stat(self.folder).st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            touched = 0
        if touched == self._touched and time.time_ns() - touched > _SETTLED:
            return False
        self._touched = touched
        now = dict(self._found())
        if now == self._known:
            return False
        self._known, self.version = now, self.version + 1
        self._runs = {key: archive for _, archive in now.values() for key in archive.runs}
        return True

    def _found(self) -> Iterator[tuple[str, tuple[Identity, Archive]]]:
        for path in sorted(self.folder.glob("[!.]*.zip")):
            try:
                mark = identity(path.stat())
                before = self._known.get(path.name)
                yield path.name, before if before and before[0] == mark else (mark, Archive.read(path))
            except FileNotFoundError:  # emptied by now
                continue


@functools.cache
def of(root: str) -> Archives:
    """The archives of a store, as this process knows them."""
    return Archives(layout.packed_folder(Path(root)))
