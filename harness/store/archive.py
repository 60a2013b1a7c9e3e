"""An archive of finished runs: one zip file, which any unzip opens, with a list that is quick to read.

    <key>/<name>    the files of the runs, deflated; the modification time is in an extra field
    contents.json   {key: {name: [offset, stored, size, crc, modified]}}
    the comment     where the deflated contents.json begins, its two sizes and its CRC

The list is there because `zipfile` needs half a second to read the directories of ten thousand runs.
An archive never changes. Another one takes its place, under a number that is higher. The digest in its name
is that of its bytes: archives of several stores may be copied into one folder. Anybody may have made an
archive, so it has files of runs only, and nothing is inflated beyond LARGEST.
"""

import errno
import hashlib
import json
import mmap
import os
import re
import struct
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from harness.errors import UsageError
from harness.store.layout import ARCHIVED, ATTEMPTS, is_key
from harness.system import atomic
from harness.system.links import no_follow

ENDING = ".zip"
CONTENTS = "contents.json"
LARGEST = 64 << 20  # bytes of a file: a hundred times the curve of ten thousand steps
_NAMED = re.compile(rf"([0-9]+)(?:-[0-9a-f]{{12}})?{re.escape(ENDING)}")  # the first ones had a number only
_ATTEMPT = re.compile(rf"{ATTEMPTS}/[0-9]{{1,9}}\.json")
_COMMENT = b"htbench 1: %s at %012d, %012d of %012d bytes, crc %08x"
_WRITTEN = re.compile(
    rb"htbench 1: contents\.json at (\d{12}), (\d{12}) of (\d{12}) bytes, crc ([0-9a-f]{8})\Z"
)
_COMMENT_BYTES = len(_COMMENT % (CONTENTS.encode(), 0, 0, 0, 0))
_EXTRA = struct.Struct("<HHq")  # a field of ours: its number, the bytes that follow, nanoseconds since 1970
_EXTRA_ID = 0x7468
_HEADER = struct.Struct("<4s5H3I2H")  # of a file in a zip file: APPNOTE.TXT of PKWARE, 4.3.7
_BEGIN = b"PK\x03\x04"


class DamagedError(UsageError):
    """An archive, or a file in it, can't be read."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"The archive '{path}' is damaged ({what}); "
            "`htbench runs unpack --all` brings back what can be read of it."
        )


class Member(NamedTuple):
    """A file in an archive: where its deflated bytes are, its size, CRC and time.

    Sizes are in bytes; `modified` is in nanoseconds since 1970.
    """

    offset: int
    stored: int
    size: int
    crc: int
    modified: int


class Content(NamedTuple):
    """The bytes of a file and when it was modified, in nanoseconds since 1970."""

    data: bytes
    modified: int


Mark = tuple[int, int, int]  # tells two files of one name apart: inode, size, time


@dataclass(frozen=True)
class Archive:
    """An archive as it was when its list was read.

    Attributes:
        path: the file.
        mark: of that file; what has another mark is another archive under the same name.
        runs: key -> name -> the values of a `Member`.
    """

    path: Path
    mark: Mark
    runs: Mapping[str, Mapping[str, list[int]]]

    def member(self, key: str, name: str) -> Member | None:
        """A file of a run; None if the archive has no such file."""
        values = self.runs.get(key, {}).get(name)
        return None if values is None else Member(*values)

    def read(self, key: str, name: str) -> bytes:
        """The bytes of a file of a run.

        Raises:
            FileNotFoundError: another archive has taken the place of this one.
            DamagedError: they are not what was written.
        """
        member = Member(*self.runs[key][name])
        with open(self.path, "rb", opener=no_follow) as file:
            if mark_of(os.fstat(file.fileno())) != self.mark:
                raise FileNotFoundError(errno.ENOENT, "another archive has its name now", str(self.path))
            return _inflated(file, member, self.path, f"{name} of run {key}")

    def content(self, key: str, name: str) -> Content:
        """A file of a run: as `read`, with its time."""
        return Content(self.read(key, name), self.runs[key][name][-1])

    def stat(self, key: str, name: str) -> os.stat_result:
        """What `os.stat` would say of a file of a run, with the archive's inode and time of change."""
        inode, _, changed = self.mark
        member = Member(*self.runs[key][name])
        second, rest = divmod(member.modified, 10**9)
        times = {
            "st_mtime": second + 1e-9 * rest,  # rounded as Python rounds it
            "st_mtime_ns": member.modified,
            "st_atime_ns": member.modified,
            "st_ctime_ns": changed,
        }
        words = (0o100644, inode, 0, 1, 0, 0, member.size, second, second, changed // 10**9)
        return os.stat_result(words, times)


def mark_of(file: os.stat_result) -> Mark:
    """The mark of a file."""
    return file.st_ino, file.st_size, file.st_mtime_ns


def number_of(name: str) -> int:
    """The number of an archive by its file's name; 0: it is none."""
    match = _NAMED.fullmatch(name)
    return int(match[1]) if match else 0


def may_have(name: str) -> bool:
    """Whether an archive has files of this name of a run."""
    return name in ARCHIVED or _ATTEMPT.fullmatch(name) is not None


def write(folder: Path, number: int, runs: Iterable[tuple[str, Iterable[tuple[str, Content]]]]) -> Path:
    """Write an archive, durably, or nothing.

    Args:
        folder: where.
        number: of the archive; higher than that of all whose runs it has, too.
        runs: the files of each run by name. They are asked for one after the other.

    Returns:
        the archive.
    """

    def fill(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            contents = {
                key: {name: _add(archive, file, f"{key}/{name}", content) for name, content in files}
                for key, files in runs
            }
            text = json.dumps(contents, separators=(",", ":")).encode()
            at = _add(archive, file, CONTENTS, Content(text, 0))  # the same runs: the same bytes
            archive.comment = _COMMENT % (CONTENTS.encode(), *at[:4])

    def name(temporary: Path) -> str:
        return f"{number:04d}-{digest(temporary)}{ENDING}"

    return atomic.write_named(folder / f"{number:04d}{ENDING}", fill, name)


def digest(path: Path) -> str:
    """Twelve digits of the SHA-256 of a file."""
    with open(path, "rb", opener=no_follow) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _add(archive: zipfile.ZipFile, file: IO[bytes], name: str, content: Content) -> Member:
    seconds = min(max(content.modified // 10**9, 315532800), 4354819198)  # zip knows the years 1980 to 2107
    info = zipfile.ZipInfo(name, time.gmtime(seconds)[:6])
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
    info.extra = _EXTRA.pack(_EXTRA_ID, 8, content.modified)
    archive.writestr(info, content.data)
    return Member(
        file.tell() - info.compress_size, info.compress_size, info.file_size, info.CRC, content.modified
    )


def read(path: Path) -> Archive:
    """Read the list of an archive.

    Raises:
        FileNotFoundError: there is none.
        DamagedError: it has no sound list.
    """
    if path.is_symlink():
        raise DamagedError(path, "it is a link")
    with open(path, "rb", opener=no_follow) as file:
        mark = mark_of(os.fstat(file.fileno()))
        file.seek(max(0, mark[1] - _COMMENT_BYTES))
        comment = _WRITTEN.match(file.read(_COMMENT_BYTES))
        if comment is None:
            raise DamagedError(path, "its end is missing")
        offset, stored, size = map(int, comment.groups()[:3])
        text = _inflated(file, Member(offset, stored, size, int(comment[4], 16), 0), path, CONTENTS)
    runs = _listed(text, mark[1])
    if runs is None:
        raise DamagedError(path, f"{CONTENTS} is no list of files of runs")
    return Archive(path, mark, runs)


def _listed(text: bytes, available: int) -> dict[str, dict[str, list[int]]] | None:
    """The files of each run; None if the list is not what `write` makes of an archive of this size."""
    try:
        runs = json.loads(text)
        sound = all(is_key(key) and all(map(may_have, files)) for key, files in runs.items())
        stored = sum(_stored(values) for files in runs.values() for values in files.values())
    except (ValueError, RecursionError, TypeError, AttributeError):
        return None
    return runs if sound and stored <= available else None  # else files share bytes, as in a bomb


def _stored(values: Any) -> int:
    """How many bytes of an archive a file takes.

    Raises:
        ValueError: these are not the values of a member.
        TypeError: the same.
    """
    offset, stored, size, crc, modified = values
    if {int} != {*map(type, values)} or min(offset, stored, crc) < 0 or not 0 <= size <= LARGEST:
        raise ValueError(values)
    return int(stored)


def _inflated(file: IO[bytes], member: Member, path: Path, name: str) -> bytes:
    file.seek(member.offset)
    # Deflating makes what can't be made smaller larger by a few bytes.
    data = _sound(file.read(min(member.stored, 2 * LARGEST)), member.size, member.crc)
    if data is None:
        raise DamagedError(path, f"{name} can't be read")
    return data


def _sound(stored: bytes, size: int, crc: int) -> bytes | None:
    """The inflated bytes, if they are those that were written."""
    if size > LARGEST:
        return None
    try:
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(stored, size + 1)
    except zlib.error:
        return None
    return data if len(data) == size and zlib.crc32(data) == crc else None


def salvage(path: Path) -> Iterator[tuple[str, str, Content]]:
    """The key, name and content of every sound file in an archive, however damaged the rest of it is."""
    if path.is_symlink():
        return
    with open(path, "rb", opener=no_follow) as file:
        if os.fstat(file.fileno()).st_size == 0:  # nothing to map
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            start = data.find(_BEGIN)
            while 0 <= start <= len(data) - _HEADER.size:
                crc, stored, size, long, extra = _HEADER.unpack_from(data, start)[6:]
                name_at = start + _HEADER.size
                body = name_at + long + extra
                content = _sound(data[body : body + min(stored, 2 * LARGEST)], size, crc)
                key, _, name = data[name_at : name_at + long].decode(errors="replace").partition("/")
                if content is not None and is_key(key) and may_have(name):
                    yield key, name, Content(content, _modified(data[name_at + long : body]))
                start = data.find(_BEGIN, start + 1 if content is None else body + stored)


def _modified(extra: bytes) -> int:
    """The time in the extra field of a file."""
    number, _, modified = _EXTRA.unpack_from(extra) if len(extra) >= _EXTRA.size else (0, 0, 0)
    return int(modified) if number == _EXTRA_ID else time.time_ns()
