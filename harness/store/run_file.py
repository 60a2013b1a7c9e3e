"""A path in the folder of a run that also finds what `htbench runs pack` has put into an archive.

What is in the folder wins: a packed run that is amended has its new record there until it is packed again.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable
from pathlib import Path, PosixPath
from typing import Any, TypeVar

from harness.store import archives
from harness.store.archive import Archive

T = TypeVar("T")

_PLACE = re.compile(r"(?:(.*)/)?runs/[^/]+/([^/]+)(?:/(.+))?", re.DOTALL)  # `harness/store/layout.py`
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}  # the last on NFS: another node has just removed it
_TRIES = 100  # each follows a change of the archives


class RunFile(PosixPath):
    """A path whose reads go on to the archives if there is no such file; writes go to the folder only."""

    def open(self, mode: str = "r", *args: Any, **named: Any) -> Any:
        """The open file; from an archive, its content in memory."""
        here = super().open
        if set(mode) & set("wax+"):
            return here(mode, *args, **named)

        def there(archive: Archive, key: str, name: str) -> Any:
            data = io.BytesIO(archive.read(key, name))
            names = ("buffering", "encoding", "errors", "newline")
            given = dict(zip(names, args, strict=False)) | named
            given.pop("buffering", None)
            return data if "b" in mode else io.TextIOWrapper(data, **given)

        return self._either(lambda: here(mode, *args, **named), there)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As `os.stat`; for a file in an archive its size and modification time are those it had."""
        here = super().stat

        def there(archive: Archive, key: str, name: str) -> os.stat_result:
            member = archive.member(key, name)
            assert member is not None, name
            return archive.stat(member)

        return self._either(lambda: here(follow_symlinks=follow_symlinks), there)

    def exists(self, **_: Any) -> bool:
        """Whether there is such a file, in the folder or in an archive."""
        try:
            self.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_file(self, **_: Any) -> bool:
        """Whether it is a file, in the folder or in an archive."""
        return super().is_file() if os.path.lexists(self) else self.exists()

    def _either(self, here: Callable[[], T], there: Callable[[Archive, str, str], T]) -> T:
        """`here()`, and if there is no such file `there(archive, key, name)`."""
        place = _place(self)
        for _ in range(_TRIES):
            before = place[0].known if place is not None else None
            try:
                return here()
            except OSError as error:
                if place is None or error.errno not in _GONE:
                    raise
                (kept, key, name), packed = place, place[0].now()
                found = packed.runs.get(key)
                if found is not None and name in found.runs[key]:
                    try:
                        return there(found, key, name)
                    except OSError as error:
                        if error.errno not in _GONE:
                            raise
                        kept.look_again()
                elif packed is before:  # else it may have left its archive after we had looked for it
                    raise
        raise FileNotFoundError(f"'{self}' moves between folder and archive all the time")


def names_in(folder: Path) -> set[str]:
    """The names of files and folders in a folder of a run, wherever they are; none without a folder."""
    place = _place(folder)
    while True:
        before = place[0].known if place is not None else None
        try:
            here = set(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            here = set()
        if place is None:
            return here
        packed, (_, key, inside) = place[0].now(), place
        if packed is before:  # else a run may have left its archive after we had looked for its folder
            found = packed.runs[key].runs[key] if key in packed.runs else ()
            start = f"{inside}/" if inside else ""
            return here | {one[len(start) :].partition("/")[0] for one in found if one.startswith(start)}


def _place(path: Path) -> tuple[archives.Archives, str, str] | None:
    """The archives in which it may be, the key of its run, and its name there."""
    found = _PLACE.fullmatch(str(path))
    if found is None:
        return None
    root, key, name = found.groups()
    return archives.of_store("." if root is None else root or "/"), key, name or ""
