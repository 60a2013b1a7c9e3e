"""The archives of a store, `<root>/packed/<number>-<digest>.zip`: which run is in which.

If two have a run, the higher number counts. In one store that is the newer one. Where stores were copied
into one another it may be either; `harness/store/copies.py` finds what the other one has besides. Each is
read once per process. Their folder is looked at before every answer: a run that is not in its folder may
have gone into an archive a moment ago.
"""

import errno
import functools
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.store import archive, layout
from harness.store.archive import Archive, DamagedError, Mark
from harness.system import atomic

_SETTLED = 2.0  # seconds; a younger folder may change again within one tick of its file system's clock
_TRIES = 100  # each follows a change of the archives
_NEVER = "never"  # no mark of a folder


@dataclass(frozen=True)
class Packed:
    """All archives at one moment.

    Attributes:
        archives: the sound ones by their paths, in the order of their numbers.
        damaged: what is wrong with the others.
        runs: key -> the archive that counts.
        others: key -> the others that have the run, too, the highest number first.
    """

    archives: Mapping[Path, Archive] = field(default_factory=dict)
    damaged: Mapping[Path, DamagedError] = field(default_factory=dict)
    runs: Mapping[str, Archive] = field(default_factory=dict)
    others: Mapping[str, list[Archive]] = field(default_factory=dict)

    def files(self, key: str) -> Mapping[str, list[int]]:
        """The files of a run by their names, as its `Archive` has them; none if it is not packed."""
        return self.runs[key].runs[key] if key in self.runs else {}


class Archives:
    """The archives of one store.

    Args:
        folder: where they are; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known = Packed()  # as last read
        self._read: tuple[tuple[int, int] | str | None, dict[Path, Mark]] = (_NEVER, {})

    def now(self) -> Packed:
        """All archives. It is the object of the last answer unless something has changed.

        Raises:
            DamagedError: one can't be read, and which runs are in it is unknown.
        """
        packed = self.look()
        for error in packed.damaged.values():
            raise error
        return packed

    def look(self) -> Packed:
        """As `now`, but damaged archives are no error."""
        for _ in range(_TRIES):
            mark = self._mark()
            if mark == self._read[0] and (mark is None or time.time() - mark[1] / 1e9 > _SETTLED):
                return self.known
            try:
                marks = {path: archive.mark_of(os.lstat(path)) for path in numbered(self.folder)}
                if marks != self._read[1]:
                    self.known = self._packed(marks)
                elif mark != self._read[0]:  # a run may have come and gone: say that something happened
                    self.known = replace(self.known)
            except FileNotFoundError:  # replaced after the names were read: the new one is not among them
                continue
            self._read = mark, marks
            return self.known
        raise FileNotFoundError(errno.ENOENT, "it changes all the time", str(self.folder))

    def look_again(self) -> None:
        """Look at the folder itself next time: what another node has done may not show in its time yet."""
        atomic.refresh_file_cache(self.folder)
        self._read = _NEVER, self._read[1]

    def _mark(self) -> tuple[int, int] | None:
        try:
            folder = os.stat(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return folder.st_ino, folder.st_mtime_ns

    def _packed(self, marks: Mapping[Path, Mark]) -> Packed:
        sound, damaged = {}, {}
        for path, mark in marks.items():
            before = self.known.archives.get(path)
            try:
                sound[path] = before if before is not None and before.mark == mark else archive.read(path)
            except DamagedError as error:
                damaged[path] = error
        runs, others = dict[str, Archive](), dict[str, list[Archive]]()
        for newer in sound.values():
            for key in runs.keys() & newer.runs.keys():
                others.setdefault(key, []).insert(0, runs[key])
            runs |= dict.fromkeys(newer.runs, newer)
        return Packed(sound, damaged, runs, others)


def numbered(folder: Path) -> list[Path]:
    """The archives in a folder in the order of their numbers."""
    try:
        names = filter(archive.number_of, os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((folder / name for name in names), key=rank)


def rank(path: Path) -> tuple[int, str]:
    """The place of an archive among others; of two that have a run, the later one counts."""
    return archive.number_of(path.name), path.name


@functools.cache
def of_store(root: str) -> Archives:
    """The archives of the store `root`, the same object for all who ask in this process."""
    return Archives(layout.packed_folder(Path(root)))
