"""Files that survive a crash: write a temporary file beside it, flush it to the disk, rename it.

The named crash points let tests kill a process exactly between two of those steps.
"""

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import shutil
import signal
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from htbench.harness.system.links import no_follow

# The files with crash points: a process dies at NAME.before once the new content is complete under its
# temporary name, at NAME.after once it is in place. `tests/helpers/crash_points.py` says what is there then.
_GUARDED = {
    "claim": "attempts/*",
    "checkpoint": "checkpoint.*",
    "items": "test_items.*",
    "record": "record.*",
    "slot": "points.*",
    "study": "studies/*.journal",
    "ask": "slots/*/[0-9]*",
}
TEMPORARY_SUFFIX = ".tmp"
_MOST_DIGITS = 300  # of a whole number that a float can hold


def crash_point(name: str) -> None:
    """Kill this process group by SIGKILL if HTBENCH_CRASH is `name`, as when a node goes down.

    Tests start the process in a session of its own.
    """
    if os.environ.get("HTBENCH_CRASH") == name:
        os.killpg(os.getpgrp(), signal.SIGKILL)


def temporary_name(path: Path) -> Path:
    """A path beside `path` that no other writer uses and that `is_temporary` recognises."""
    return path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}{TEMPORARY_SUFFIX}")


def is_temporary(name: str) -> bool:
    """Whether a file of this name is a temporary one."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable: a rename changes the folder, not the file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def guard(path: Path) -> str:
    """The stem of the crash points of a file; empty if it has none."""
    return next((name for name, pattern in _GUARDED.items() if path.match(pattern)), "")


@contextlib.contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Let errors tell which file can't be written; that of a full disk names none."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # an error that is only a sentence would lose it
            error.filename = error.filename or str(path)
        raise


@contextlib.contextmanager
def writing(path: Path, place: Callable[[Path, Path], object] = Path.replace) -> Iterator[IO[bytes]]:
    """A temporary file beside `path`, for writing; at the end of the block it gets its name, durably.

    Readers see the old or the new file. If the block raises, `path` is what it was.

    Args:
        path: the file to create or replace; its folder must exist.
        place: gives the file its name, of the temporary path and `path`.
    """
    temporary, crash = temporary_name(path), guard(path)
    try:
        with name_file_in_errors(path), open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        crash_point(f"{crash}.before")
        place(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    sync_folder(path.parent)
    crash_point(f"{crash}.after")


def write_with(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write(file)` fill the file that `writing` gives its name."""
    with writing(path) as file:
        write(file)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data` atomically and durably."""
    write_with(path, lambda file: file.write(data))


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8) atomically and durably."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by `value` as indented JSON, atomically and durably. NaN is refused: JSON has none."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """What `write_json` writes."""
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def create_json(path: Path, value: Any) -> bool:
    """Create `path` as indented JSON, as `create_text` does it."""
    return create_text(path, json_text(value))


def create_text(path: Path, text: str) -> bool:
    """Create `path` with its whole content, or return False if it exists: of many callers one succeeds.

    A hard link fails if the target exists, and the new file is complete at once. O_EXCL alone would show an
    empty file first. Links are atomic on NFS, too. If the caller that succeeded has removed our temporary
    file, we return False as well.

    Raises:
        FileNotFoundError: there is no such folder, or no more.
    """
    try:
        with writing(path, _link) as file:
            file.write(text.encode())
    except FileExistsError:
        return False
    except FileNotFoundError:
        if path.parent.exists():
            return False
        raise
    return True


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        # NFS repeats a request whose answer was lost. The second request then finds the link of the first.
        if os.stat(temporary).st_nlink != 2:
            raise


def _content(path: Path) -> bytes:
    """What a file holds; nothing if there is no file."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        try:
            return path.read_bytes()
        except OSError as error:
            if error.errno != errno.ESTALE:  # on NFS: another node has replaced the file
                raise
            return path.read_bytes()
    return b""


def parse_json(data: bytes) -> Any:
    """The value of a JSON text that anybody may have written.

    Raises:
        ValueError: it is not JSON in UTF-8, or more than our code can work with: a number that is not finite
            or has hundreds of digits, values nested deeper than Python's stack, half a surrogate pair.
    """
    try:
        value = (_CAREFUL if _has_odd_numbers(data) else _QUICK).decode(data.decode())
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isfinite(value):
        return value
    raise ValueError(f"{text} is not finite")


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _refused(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _has_odd_numbers(data: bytes) -> bool:
    """Whether a number of the text may be too large: three digits of an exponent, or hundreds in a row."""
    shape = data.translate(_AS_SHAPES, b"+")
    return _LARGE.search(shape) is not None or b"0" * 200 in shape


_AS_SHAPES = bytes.maketrans(b"123456789E", b"000000000e")  # a digit is 0
_LARGE = re.compile(rb"0e000+(?:[],}\s]|$)")  # with what ends a number: hex digits of a word end otherwise
_QUICK = json.JSONDecoder(parse_constant=_refused)  # in half the time, as it calls us for no number
_CAREFUL = json.JSONDecoder(parse_float=_finite, parse_int=_whole, parse_constant=_refused)


def read_json(path: Path) -> Any | None:
    """The JSON in `path`; None if the file is absent or not JSON (`parse_json`)."""
    try:
        return parse_json(_content(path))
    except ValueError:
        return None


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file without its damaged lines; none if there is no file."""
    return json_objects(read_lines(path))


def json_objects(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """The JSON objects in `lines`; other lines are left out."""
    lines = list(lines)
    try:  # all at once takes half the time of one by one; a torn line may not merge with the next one
        rows = parse_json(b"[" + b",".join(lines) + b"]")
    except ValueError:
        rows = []
    if len(rows) != len(lines):
        middle = len(lines) // 2
        return json_objects(lines[:middle]) + json_objects(lines[middle:]) if middle else []
    return [row for row in rows if isinstance(row, dict)]


def read_lines(path: Path, word: bytes = b"") -> list[bytes]:
    """The lines of a file, or those with a word; none if there is no file."""
    data = _content(path)
    if not word:
        return data.splitlines()
    lines, at, data = [], data.find(word), data + b"\n"
    while at >= 0:  # a study looks at each report of a trial for a few lines of a million
        end = data.index(b"\n", at)
        lines.append(data[data.rfind(b"\n", 0, at) + 1 : end])
        at = data.find(word, end)
    return lines


def append_line(path: Path, row: dict[str, Any]) -> None:
    """Append one JSON line, as `append_text` does it."""
    append_text(path, json.dumps(row, allow_nan=False) + "\n")


def append_text(path: Path, text: str) -> None:
    """Append whole lines with a single write. An incomplete last line, left by a crash, is ended first.

    Each of several writers must hold a lock: on network file systems a client may take an old size for the
    end of the file (open(2), O_APPEND).

    Raises:
        LinkError: the file is a link.
    """
    refresh_file_cache(path)
    handle = no_follow(str(path), os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        line = (("\n" if torn else "") + text).encode()
        with name_file_in_errors(path):
            while line:  # a disk that gets full writes a part and raises at the next write only
                line = line[os.write(handle, line) :]
    finally:
        os.close(handle)


def temporaries(folder: Path, name: str = "") -> Iterator[Path]:
    """The temporary files and folders in `folder`, or those of its file `name`."""
    start = f".{name}." if name else "."
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for entry in os.listdir(folder):
            if entry.startswith(start) and entry.endswith(TEMPORARY_SUFFIX):
                yield folder / entry


def remove_temporaries(folder: Path, name: str = "") -> None:
    """Delete the files among `temporaries`. Only their sole owner may call this."""
    for path in temporaries(folder, name):
        path.unlink(missing_ok=True)


def replace_folder(folder: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill(empty folder)` make the files of a folder, none in a subfolder, and put them in its place.

    Raises:
        OSError: the disk is full, for example; `folder` is what it was.
    """
    temporary, discarded = temporary_name(folder), temporary_name(folder)
    try:
        temporary.mkdir()
        fill(temporary)
        for path in temporary.iterdir():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        sync_folder(temporary)
        if folder.exists():
            os.rename(folder, discarded)
        try:
            os.rename(temporary, folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.rename(discarded, folder)
            raise
        sync_folder(folder.parent)
    finally:
        for remains in (temporary, discarded):
            shutil.rmtree(remains, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Hold the advisory lock `path`. The kernel releases it when its holder dies.

    The holder sees all changes that other nodes have made in the lock's folder. `waiting` is called once if
    another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", opener=no_follow) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        refresh_file_cache(path.parent)
        yield


def refresh_file_cache(path: Path) -> None:
    """Drop cached attributes of a file or a folder, so that changes by other nodes become visible.

    Network file systems cache: NFS the names in a folder for up to a minute, GlusterFS the size of a file
    for a second. Setting the times of a file fetches its attributes and drops the cached ones (nfs(5), "Data
    and metadata coherence").
    """
    with contextlib.suppress(OSError):  # it is not there, or not ours to write: then nothing depends on it
        os.utime(path)
