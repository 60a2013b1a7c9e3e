"""Compact records: archives that are a store again once they lie unpacked side by side.

`docs/reproduction_records.py` makes one for a sweep: its plan, and of each run what tables and figures read.
Anybody may have made an archive. So it is read in memory, up to bounds, before the first file is written; and
only plain files of runs and plans leave it, for a folder of their own. The headers are walked here: `tarfile`
believes the sizes in them, and its patterns take hours for some.
"""

import lzma
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from htbench.harness.errors import UsageError
from htbench.harness.store.layout import RUNS, STORE, SWEEPS

SUFFIX = ".tar.xz"
LARGEST = 128 << 20  # bytes of an archive, before it is packed and after: twenty times the largest of ours
FILES = 100_000  # and other members, at most
_MEMORY = 256 << 20  # bytes to unpack; the highest level of xz takes 65 MB
_DEEPEST, _LONGEST = 5, 4096  # folders of a path; bytes of a header that tells a long one
_EMPTY = (
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
)


class _MalformedError(Exception):
    """Why bytes are no archive of compact records."""


def unpack(archive: Path, target: Path) -> None:
    """Put the files of an archive below a folder.

    Raises:
        UsageError: it can't be read to its end, or is larger than such an archive may be.
    """
    try:
        if not archive.is_file():
            raise _MalformedError("it is no file")
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
        with archive.open("rb") as file:
            data = unpacker.decompress(file.read(LARGEST), LARGEST + 1)
        if len(data) > LARGEST:
            raise _MalformedError(f"it holds more than {LARGEST >> 20} MB")
        if not unpacker.eof:
            raise _MalformedError("its end is missing")
        files = _select_files(data)
    except (_MalformedError, tarfile.TarError, lzma.LZMAError, ValueError) as error:
        raise UsageError(f"'{archive}' can't be read as an archive of compact records: {error}.") from None
    for path, content in files.items():
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def _select_files(data: bytes) -> dict[PurePosixPath, memoryview]:
    """The plain files of runs and plans in a tar, by their paths; of two with one path the last."""
    files: dict[PurePosixPath, memoryview] = {}
    for name, content in _list_members(memoryview(data)):
        path = PurePosixPath(name)
        if path.parts[:1] in ((RUNS,), (SWEEPS,), (STORE,)) and ".." not in path.parts:
            if (
                len(path.parts) > _DEEPEST
                or "\0" in name
                or max(map(len, map(os.fsencode, path.parts))) > 255
            ):
                raise _MalformedError(f"no file of a store has the path {name[:200]!r}")
            files[path] = content
    both = {folder for path in files for folder in path.parents}.intersection(files)
    if both:
        raise _MalformedError(f"'{min(both)}' is a file and a folder")
    return files


def _list_members(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """The names and the contents of the plain files of a tar."""
    place, long = 0, ""
    for _ in range(FILES):
        block = bytes(data[place : place + tarfile.BLOCKSIZE])
        if not block.strip(b"\0"):  # the end
            return
        head = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        size = 0 if head.type in _EMPTY else head.size
        place += tarfile.BLOCKSIZE
        content = data[place : place + size]
        place += -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        if len(content) != size or head.type == tarfile.GNUTYPE_SPARSE:
            raise _MalformedError(f"the size of {head.name!r} is wrong")
        if head.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
            if size > _LONGEST:
                raise _MalformedError("a header is too long")
            if head.type == tarfile.GNUTYPE_LONGNAME:
                long = bytes(content).rstrip(b"\0").decode() or long
            else:  # of POSIX: a line of each attribute
                lines = (line.partition(b" ")[2].partition(b"=") for line in bytes(content).split(b"\n"))
                long = next((value.decode() for name, _, value in lines if name == b"path"), "") or long
        elif head.type not in (tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE):
            if head.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
                yield long or head.name, content
            long = ""
    raise _MalformedError(f"it has more than {FILES} members")


@contextmanager
def open_store(place: Path) -> Iterator[Path]:
    """The root of a store, for as long as the context lasts: `place` itself, or what it unpacks to.

    Args:
        place: a store, an archive of compact records, or a folder of some.
    """
    archives = [place] if place.is_file() else sorted(place.glob(f"*{SUFFIX}"))
    if not archives or (place / RUNS).exists():
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="htbench-") as folder:
        for archive in archives:
            unpack(archive, Path(folder))
        yield Path(folder)
