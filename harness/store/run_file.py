"""A file of a run, wherever it is: in the run's folder or, if the folder lacks it, in an archive."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from pathlib import PosixPath
from typing import IO, Any, TypeVar

from harness.store import archives
from harness.store.archive import Archive, Member, ReplacedError

Found = TypeVar("Found")


class RunFile(PosixPath):
    """The path of a file of a run, at which whoever reads finds the file in the folder or in an archive.

    Whoever writes, writes into the folder; from then on the file there counts.
    """

    _folder = ""  # of the run; empty for a path that was made from this one
    _name = ""  # of the file, relative to it

    @classmethod
    def of(cls, folder: str, name: str) -> RunFile:
        """The file `name` of the run with this folder, `<root>/runs/<k2>/<key>`."""
        path = cls(f"{folder}/{name}")
        path._folder, path._name = folder, name
        return path

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As `Path.stat`; a file in an archive keeps its size and time, and changes when the archive does."""
        return self._look(
            lambda: super(RunFile, self).stat(follow_symlinks=follow_symlinks),
            lambda archive, member: member.stat(archive.identity[0], archive.identity[2]),
        )

    def exists(self, **options: Any) -> bool:
        """As `Path.exists`."""
        try:
            self.stat(**options)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def open(  # type: ignore[override]  # the many overloads of `Path.open`
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """As `Path.open`; of a file in an archive one reads a copy in memory."""

        def copy(archive: Archive, member: Member) -> IO[Any]:
            content = io.BytesIO(archive.content(member))
            return content if "b" in mode else io.TextIOWrapper(content, encoding, errors, newline)

        def in_folder() -> IO[Any]:
            return super(RunFile, self).open(mode, buffering, encoding, errors, newline)

        return self._look(in_folder, copy) if mode in ("r", "rb") else in_folder()

    def _look(self, in_folder: Callable[[], Found], packed: Callable[[Archive, Member], Found]) -> Found:
        """Look into the folder, then the archives, again if these change: the file may move meanwhile."""
        while True:
            try:
                return in_folder()
            except (FileNotFoundError, NotADirectoryError):
                if not self._folder:
                    raise
                own, key = _archives(self._folder)
                before, archive = own.version, own.find(key)
                member = archive.members(key).get(self._name) if archive is not None else None
                if archive is None or member is None:
                    if own.version == before:
                        raise
                    continue
                try:
                    return packed(archive, member)
                except ReplacedError:
                    own.forget(archive)


def packed_names(folder: str) -> list[str]:
    """The names of the files that a run has in an archive."""
    own, key = _archives(folder)
    archive = own.find(key)
    return list(archive.members(key)) if archive is not None else []


def _archives(folder: str) -> tuple[archives.Archives, str]:
    """The archives of the store of a run, by its folder `<root>/runs/<k2>/<key>`; and its key."""
    place, _, key = folder.rpartition("/")
    return _of_store(place), key


@functools.lru_cache(1024)  # a store has 256 such folders
def _of_store(place: str) -> archives.Archives:
    return archives.of(os.path.abspath(f"{place}/../.."))
