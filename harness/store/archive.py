"""An archive: the files of up to a thousand finished runs as one zip file, `<root>/packed/<number>.zip`.

Every unzip reads it; its members are `<key>/record.json`, `<key>/attempts/1.json` and so on. The last member
is our own list of them, with their places and the nanoseconds of their modification times, which zip lacks.
The comment at the end of the file tells where the list is: two short reads, and a thousand runs are known.
"""

from __future__ import annotations

import os
import re
import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from harness.errors import UsageError
from harness.system import atomic

LIST = "list.txt"  # a line per run: its key, and of each file the numbers of its `Member` and its name
_TAB = "\t"
_COMMENT = "htbench archive 1: list at {:>16} {:>12} {:08x}"
_ENDS = re.compile(rb"htbench archive 1: list at +(\d+) +(\d+) ([0-9a-f]{8})$")
_COMMENT_BYTES = len(_COMMENT.format(0, 0, 0))
_RAW = -zlib.MAX_WBITS  # zip has deflated bytes without the head of zlib
_OLDEST = (1980, 1, 1, 0, 0, 0)  # of zip
Identity = tuple[int, int, int]


class ReplacedError(Exception):
    """The archive at this path is another one by now: look again."""


class Member(NamedTuple):
    """A file in an archive.

    Attributes:
        offset: where its deflated bytes begin.
        packed: how many these are.
        size: in bytes.
        crc: CRC-32 of its content.
        time: of its last modification, in nanoseconds since 1970.
    """

    offset: int
    packed: int
    size: int
    crc: int
    time: int

    def stat(self, inode: int, changed: int) -> os.stat_result:
        """What `os.stat` would say of the file.

        Args:
            inode: of the archive.
            changed: when that was last changed, in nanoseconds since 1970.
        """
        seconds, rest = divmod(self.time, 10**9)
        plain = (stat.S_IFREG | 0o444, inode, 0, 1, 0, 0, self.size, seconds, seconds, changed // 10**9)
        times = {"st_mtime": seconds + 1e-9 * rest, "st_mtime_ns": self.time, "st_atime_ns": self.time}
        return os.stat_result(plain, times | {"st_ctime_ns": changed})


class File(NamedTuple):
    """A file on its way into an archive.

    Attributes:
        name: relative to the run's folder.
        content: of the file.
        time: of its last modification, in nanoseconds since 1970.
    """

    name: str
    content: bytes
    time: int


@dataclass(frozen=True)
class Archive:
    """An archive as it was when its list was read.

    Attributes:
        path: of the zip file.
        identity: of that file; one written anew has another.
        runs: key -> its files as a line of the list; thousands are quicker to read than to take apart.
    """

    path: Path
    identity: Identity
    runs: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Archive:
        """Read the list of an archive.

        Raises:
            FileNotFoundError: there is no such file, or no more.
            UsageError: it is damaged.
        """
        with path.open("rb") as file:
            now = os.fstat(file.fileno())
            file.seek(max(0, now.st_size - _COMMENT_BYTES))
            place = _ENDS.search(file.read())
            if place is None:
                raise damaged(path, "its end is missing")
            file.seek(int(place[1]))
            text = _inflated(file.read(int(place[2])), path)
        if zlib.crc32(text) != int(place[3], 16):
            raise damaged(path, f"its {LIST} is not what was written")
        lines = (line.partition(_TAB) for line in text.decode().splitlines())
        return cls(path, identity(now), {key: files for key, _, files in lines})

    def members(self, key: str) -> dict[str, Member]:
        """The files of a run by their names; none if it is not in the archive."""
        found = (one.split(" ", 5) for one in self.runs.get(key, "").split(_TAB) if one)
        return {name: Member(*map(int, numbers)) for *numbers, name in found}

    def content(self, member: Member) -> bytes:
        """What is in a file.

        Raises:
            ReplacedError: the archive has been written anew or removed.
            UsageError: it is damaged.
        """
        try:
            with self.path.open("rb") as file:
                if identity(os.fstat(file.fileno())) != self.identity:
                    raise ReplacedError
                file.seek(member.offset)
                packed = file.read(member.packed)
        except FileNotFoundError:
            raise ReplacedError from None
        found = _inflated(packed, self.path)
        if len(found) != member.size or zlib.crc32(found) != member.crc:
            raise damaged(self.path, "a file in it is not what was written")
        return found

    def files(self, key: str) -> list[File]:
        """All files of a run. Raises as `content`."""
        return [File(name, self.content(one), one.time) for name, one in self.members(key).items()]


def identity(found: os.stat_result) -> Identity:
    """Tells a file from another one that has taken its place."""
    return found.st_ino, found.st_size, found.st_mtime_ns


def damaged(path: Path, why: str) -> UsageError:
    """The error of an archive that can't be read."""
    return UsageError(
        f"The archive '{path}' is damaged ({why}); put a copy in its place, or move it away: then the runs "
        f"in it count as not begun."
    )


def _inflated(packed: bytes, path: Path) -> bytes:
    try:
        return zlib.decompress(packed, _RAW)
    except zlib.error:
        raise damaged(path, "a part of it can't be unpacked") from None


def write(path: Path, runs: Iterable[tuple[str, Callable[[], Iterable[File]]]]) -> None:
    """Write an archive, or another one in its place: readers see the old or the new one.

    Args:
        path: of the zip file; its folder must exist.
        runs: the key of each run, and what gives its files; it is asked for one run after the other.
    """
    atomic.write_with(path, lambda file: _fill(file, runs))


def _fill(file: IO[bytes], runs: Iterable[tuple[str, Callable[[], Iterable[File]]]]) -> None:
    lines = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, files in runs:
            found = [(*_add(archive, one._replace(name=f"{key}/{one.name}")), one.name) for one in files()]
            lines.append(_TAB.join([key, *(" ".join(map(str, one)) for one in found)]) + "\n")
        place = _add(archive, File(LIST, "".join(lines).encode(), time.time_ns()))
        archive.comment = _COMMENT.format(place.offset, place.packed, place.crc).encode()


def _add(archive: zipfile.ZipFile, file: File) -> Member:
    date = time.localtime(file.time // 10**9)[:6]
    info = zipfile.ZipInfo(file.name, max(date, _OLDEST))
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    archive.writestr(info, file.content)
    offset = info.header_offset + len(info.FileHeader())
    return Member(offset, info.compress_size, info.file_size, info.CRC, file.time)
