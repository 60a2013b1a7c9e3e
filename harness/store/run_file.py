"""A path in the folder of a run that also finds what `htbench runs pack` has put into an archive.

What is in the folder wins: a packed run that is amended has its new record there until it is packed again.
A link is not there, whether it stands for a file, the folder of the run, or the one above it.
"""

import contextlib
import errno
import io
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from harness.store.archive import Archive
from harness.store.archives import Archives, Packed, of_store
from harness.system.links import LinkError, OwnFile, leads_away

T = TypeVar("T")

# As `harness/store/layout.py` has it.
_PLACE = re.compile(
    r"(?P<folder>(?:(?P<root>.*)/)?runs/(?P<start>[0-9a-f]{2})/(?P<key>(?P=start)[0-9a-f]{10}))(?:/(?P<name>.+))?",
    re.DOTALL,
)
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}  # the last on NFS: another node has just removed it
_TRIES = 100  # each follows a change of the archives


class RunFile(OwnFile):
    """A path whose reads go on to the archives if there is no such file; writes go to the folder only."""

    def open(self, mode: str = "r", *args: Any, **named: Any) -> Any:
        """The open file; from an archive, its content in memory."""
        here = partial(super().open, mode, *args, **named)
        if set(mode) & set("wax+"):
            self._refuse_links(self.parent)
            return here()

        def there(archive: Archive, key: str, name: str) -> Any:
            data = io.BytesIO(archive.read(key, name))
            named.pop("buffering", None)
            return data if "b" in mode else io.TextIOWrapper(data, *args[1:], **named)

        return self._either(here, there)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As `os.stat`; for a file in an archive its size and modification time are those it had."""
        return self._either(partial(super().stat, follow_symlinks=follow_symlinks), Archive.stat)

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

    def mkdir(self, *args: Any, **named: Any) -> None:
        """As `Path.mkdir`.

        Raises:
            LinkError: a folder on the way is a link.
        """
        self._refuse_links(self)
        super().mkdir(*args, **named)

    @staticmethod
    def _refuse_links(folder: Path) -> None:
        place = _place(folder)
        if place is not None and place.leads_away(place.name, again=True):
            raise LinkError(folder)

    def _either(self, here: Callable[[], T], there: Callable[[Archive, str, str], T]) -> T:
        """`here()`, and if there is no such file `there(archive, key, name)`."""
        place = _place(self)
        if place is None:
            return here()
        for _ in range(_TRIES):
            before = place.archives.known
            try:
                if place.leads_away(place.name.rpartition("/")[0]):
                    raise FileNotFoundError(errno.ENOENT, "a link is not followed", str(self))
                return here()
            except OSError as error:
                if not place.name or error.errno not in _GONE:
                    raise
                packed = place.look()
                if place.name not in packed.files(place.key):
                    if packed is before:  # else it may have left its archive after we had looked for it
                        raise
                    continue
            try:
                return there(packed.runs[place.key], place.key, place.name)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                place.archives.look_again()
        raise FileNotFoundError(errno.ENOENT, "it moves between folder and archive all the time", str(self))


def names_in(folder: Path) -> set[str]:
    """The names of files and folders in a folder of a run, wherever they are; none without a folder."""
    place = _place(folder)
    while True:
        before = place.archives.known if place is not None else None
        names = set[str]()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if place is None or not place.leads_away(place.name):
                names.update(os.listdir(folder))
        if place is None:
            return names
        packed = place.look()
        if packed is before:  # else a run may have left its archive after we had looked for its folder
            start = f"{place.name}/" if place.name else ""
            inner = (name for name in packed.files(place.key) if name.startswith(start))
            return names | {name[len(start) :].partition("/")[0] for name in inner}


class _Place(NamedTuple):
    """Where a file of a run may be: in a folder, or under a key and a name in an archive."""

    archives: Archives
    folder: str
    key: str
    name: str

    def leads_away(self, inner: str, *, again: bool = False) -> bool:
        """Whether the folder `inner` of the run is a link, or one that leads to it below `runs/`."""
        if not inner:
            return leads_away(self.folder, 2, again=again)
        return leads_away(f"{self.folder}/{inner}", 3 + inner.count("/"), again=again)

    def look(self) -> Packed:
        """All archives.

        Raises:
            DamagedError: one can't be read that may have the run. A run whose attempts are in its folder goes
                on, whatever happens to the archives of others.
        """
        packed = self.archives.look()
        if packed.damaged and self.key not in packed.runs and not os.path.isdir(f"{self.folder}/attempts"):
            raise next(iter(packed.damaged.values()))
        return packed


def _place(path: Path) -> _Place | None:
    """Where a path may be; None if it is in no folder of a run."""
    match = _PLACE.fullmatch(str(path))
    if match is None:
        return None
    root, folder, key, name = match["root"], match["folder"], match["key"], match["name"]
    return _Place(of_store("." if root is None else root or "/"), folder, key, name or "")
