"""Rows of finished runs from an earlier command: `<root>/cache/rows.json`, which may be deleted at any time.

A row is made of a run's record. It counts only while that file is the one that it was made of and the code is
the same. Runs that have not ended, and plans, are never kept here.

The first line describes the second: {"code": ..., "crc": ...}. The second is a list of groups of rows with
the same columns: {"names": [...], "columns": [...]}. A column is a list of values, or {"of": [distinct
values], "at": [index of each row]}.

It is JSON, not Parquet: a store may come from anybody, so that no byte of the file may end a command, and a
column of settings may hold numbers, words and lists.
"""

import contextlib
import functools
import hashlib
import json
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from htbench.harness.store import Store
from htbench.harness.store.layout import RECORD, cache_folder, is_key
from htbench.harness.system import atomic
from htbench.harness.system.environment import HOME
from htbench.results.frames import run_row
from htbench.results.frames.run_row import MARK, Row

_FILE = "rows.json"
_CODE = ("harness", "models", "optimizers", "results/frames")  # what a row may depend on
_SETTLED = 2.0  # seconds; a younger file may change again within one tick of its file system's clock
_WORDS = {str, tuple, type(None)}
_FEW, _SHARE = 50, 0.02  # fewer new rows, or a smaller share, are not worth writing the file again


def mark(store: Store, key: str) -> str:
    """A word that changes with the record of a run; empty if there is no record.

    The time of the last change of the inode (ctime) is part of it: programs can't set it back.
    """
    found = store.look(key, RECORD)
    if found is None:
        return ""
    return f"{found.st_ino:x}.{found.st_size:x}.{found.st_mtime_ns:x}.{found.st_ctime_ns:x}"


def read(store: Store) -> dict[str, Row]:
    """The kept rows by key, each with its MARK; none if the file is missing, damaged, or of other code.

    Its checksum finds damage, not forgery: `differing` does.
    """
    try:
        head, _, body = (cache_folder(store.root) / _FILE).read_bytes().partition(b"\n")
        if json.loads(head) != _head(body):
            return {}
        found = (row for group in json.loads(body) for row in _rows(group))
        return {row["key"]: row for row in found if is_key(row["key"]) and type(row[MARK]) is str}
    except (OSError, ValueError, RecursionError, KeyError, TypeError, IndexError):  # not as `write` has it
        return {}


def differing(store: Store, seconds: float) -> tuple[int, list[str]]:
    """Make kept rows again from their records.

    Args:
        store: of the runs.
        seconds: time limit; the remaining rows are not compared.

    Returns:
        how many rows were compared, and the keys of those that are not what they were made of.
    """
    until, compared, found = time.monotonic() + seconds, 0, []
    for key, row in read(store).items():
        record = store.record(key) if row[MARK] == mark(store, key) else None
        if record is None or time.monotonic() > until:  # other rows are never used
            continue
        compared += 1
        if row != run_row.finished(record) | {MARK: row[MARK]}:
            found.append(key)
    return compared, found


def write(store: Store, kept: Mapping[str, Row], new: Mapping[str, Row]) -> None:
    """Keep rows for later commands, if that pays. A store that can't be written to is left as it is.

    Args:
        store: of the runs.
        kept: what `read` returned.
        new: further rows by key, each with its MARK. An empty one says that the row must not be kept.
    """
    settled = {key: row for key, row in new.items() if _is_settled(row[MARK])}
    if len(settled) < max(_FEW, _SHARE * len(kept)):
        return
    valid = [row for key, row in kept.items() if key not in new and row[MARK] == mark(store, key)]
    body = json.dumps(_groups([*valid, *settled.values()]), separators=(",", ":")).encode()
    folder = cache_folder(store.root)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(folder / _FILE, json.dumps(_head(body)).encode() + b"\n" + body)


def _is_settled(mark: str) -> bool:
    return bool(mark) and int(mark.rpartition(".")[2], 16) < (time.time() - _SETTLED) * 1e9


def _head(body: bytes) -> dict[str, Any]:
    return {"code": _code(), "crc": zlib.crc32(body)}


@functools.cache
def _code() -> str:
    """A digest of the code that this process runs."""
    digest = hashlib.sha256()
    for path in sorted(path for name in _CODE for path in Path(HOME, name).rglob("*.py")):
        digest.update(f"{path.relative_to(HOME)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


# --- rows as columns ---


def _groups(found: Iterable[Row]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(row), []).append(row)
    return [
        {"names": names, "columns": list(map(_packed, zip(*(row.values() for row in own), strict=True)))}
        for names, own in groups.items()
    ]


def _packed(values: Sequence[Any]) -> Sequence[Any] | dict[str, list[Any]]:
    """Few distinct words or tuples are listed once. Numbers stay: 1, 1.0 and True would be one key."""
    if not set(map(type, values)) <= _WORDS:
        return values
    places: dict[Any, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    return {"of": list(places), "at": at} if 2 * len(places) < len(values) else values


def _rows(group: Mapping[str, Any]) -> Iterable[Row]:
    names = group["names"]
    return (
        dict(zip(names, values, strict=True))
        for values in zip(*map(_unpacked, group["columns"]), strict=True)
    )


def _unpacked(column: Sequence[Any] | Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    if isinstance(column, Mapping):
        values = [_plain(value) for value in column["of"]]
        return [values[at] for at in column["at"]]
    return [_plain(value) for value in column]


def _plain(value: Any) -> Any:
    """JSON has no tuples, and rows have no lists."""
    return tuple(map(_plain, value)) if type(value) is list else value
