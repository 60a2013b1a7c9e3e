"""Moves finished runs into archives of a thousand, and back: some sites limit the number of files.

A run is in its folder, in an archive, or in both, never in neither: what goes is removed only after what
comes has been written and read again. So a process that is killed leaves nothing to repair, and the same
command goes on.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.display import duration
from harness.store import Store, archive, archives
from harness.store.archive import Archive, File
from harness.store.layout import packed_folder
from harness.store.run_folder import CHECKPOINT, WEIGHTS
from harness.system import atomic
from harness.system.folders import make_folder

PER_ARCHIVE = 1000  # runs
Watch = Callable[[Sequence[str]], Iterable[str]]


@dataclass
class Done:
    """What was packed or unpacked.

    Attributes:
        runs: their keys.
        files: how many files left their folders, or came back.
        size: of these, in bytes.
        archives: those that were written.
        left: why other finished runs stay where they are, with their number.
    """

    runs: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0
    archives: list[Path] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)


def pack(
    store: Store,
    keys: Collection[str] | None = None,
    *,
    older_than: float = 0.0,
    dry_run: bool = False,
    watch: Watch = iter,
) -> Done:
    """Move finished runs into archives. Weights stay in their folders: they are large, and few.

    Args:
        store: the store.
        keys: of which runs; None: all.
        older_than: the age that their records must have, in seconds.
        dry_run: only say what would be done.
        watch: takes the keys and gives one whenever that run is done, to show how far it is.
    """
    done = Done()
    with _locked(store):
        chosen = {key: names for key, names in _ready(store, keys, older_than, done.left)}
        done.runs, done.files = list(chosen), sum(map(len, chosen.values()))
        done.size = sum(store.files(key).file(name).stat().st_size for key in chosen for name in chosen[key])
        parts = _parts(store, chosen)
        done.archives = list(parts)
        if parts and not dry_run:
            make_folder(packed_folder(store.root))
        moved = iter(() if dry_run else watch(done.runs))
        for path, (before, new) in () if dry_run else parts.items():
            _write(store, path, before, {key: chosen[key] for key in new})
            written = Archive.read(path)
            for key in new:
                _clear(store, key, written)
                next(moved)
        next(moved, None)
    return done


def unpack(
    store: Store, keys: Collection[str] | None = None, *, dry_run: bool = False, watch: Watch = iter
) -> Done:
    """Move runs from archives back into their folders.

    Args:
        store: the store.
        keys: of which runs; None: all.
        dry_run: only say what would be done.
        watch: as for `pack`.
    """
    done = Done()
    with _locked(store):
        chosen = [(one, [key for key in one.runs if keys is None or key in keys]) for one in _archives(store)]
        chosen = [(one, own) for one, own in chosen if own]
        members = [member for one, own in chosen for key in own for member in one.members(key).values()]
        done.runs, done.files = [key for _, own in chosen for key in own], len(members)
        done.size, done.archives = sum(one.size for one in members), [one.path for one, _ in chosen]
        moved = iter(() if dry_run else watch(done.runs))
        for one, own in () if dry_run else chosen:
            for key in own:
                _lay_out(store, key, one.files(key))
                next(moved)
            atomic.crash_point("unpack")
            _without(store, one, set(own))
        next(moved, None)
    return done


def _locked(store: Store) -> AbstractContextManager[None]:
    """Hold the lock of all who write archives."""
    return atomic.locked(store.root / ".packed.lock")


def _archives(store: Store) -> list[Archive]:
    atomic.refresh_file_cache(packed_folder(store.root))
    if packed_folder(store.root).exists():
        atomic.remove_temporaries(packed_folder(store.root))
    return archives.of(os.path.abspath(store.root)).all()


# --- which runs ---


def _ready(
    store: Store, keys: Collection[str] | None, age: float, left: Counter[str]
) -> Iterator[tuple[str, list[str]]]:
    """The runs that can be packed, with the names of their files."""
    for key, record in store.records(store.keys() if keys is None else sorted(keys)).items():
        names = _names(store.files(key).path)
        if not names:
            continue  # it is packed
        if record.status == "pruned" or CHECKPOINT in names:
            left["pruned, which another study may resume"] += 1
        elif time.time() - store.files(key).record.stat().st_mtime < age:
            left[f"younger than {duration(age)}"] += 1
        elif not _is_over(store, key):
            left["with a process that has not ended"] += 1
        else:
            yield key, names


def _names(folder: Path) -> list[str]:
    """The files of a run's folder that go into an archive, relative to it."""
    paths = [Path(place, name) for place, _, names in os.walk(folder) for name in names]
    kept = [path for path in paths if path.is_file() and not atomic.is_temporary(path.name)]
    return sorted(name for path in kept if (name := str(path.relative_to(folder))) != WEIGHTS)


def _is_over(store: Store, key: str) -> bool:
    """Whether the last attempt at a finished run has ended, too: its process notes that as its last word."""
    number = store.last_attempt(key)
    last = store.attempt(key, number)
    return bool(last.get("outcome")) or number == 0 or not store.lives(key, number)


def _parts(store: Store, chosen: Mapping[str, object]) -> dict[Path, tuple[Archive | None, list[str]]]:
    """The archives to write: each with what it was before and the runs that it takes in.

    A run that was changed after it was packed goes back into its archive. New ones fill up those with room.
    """
    before = _archives(store)
    parts = {one.path: (one, [key for key in one.runs if key in chosen]) for one in before}
    new = [key for key in chosen if not any(key in one.runs for one in before)]
    for one in before:
        room = max(0, PER_ARCHIVE - len(one.runs))
        parts[one.path][1].extend(new[:room])
        new = new[room:]
    found: dict[Path, tuple[Archive | None, list[str]]] = {}
    found |= {path: part for path, part in parts.items() if part[1]}
    last = max((int(one.path.stem) for one in before if one.path.stem.isdigit()), default=0)
    for first in range(0, len(new), PER_ARCHIVE):
        last += 1
        path = packed_folder(store.root) / f"{last:04}.zip"
        found[path] = (None, new[first : first + PER_ARCHIVE])
    return found


# --- moving ---


def _write(store: Store, path: Path, before: Archive | None, new: Mapping[str, list[str]]) -> None:
    """Write an archive with the runs that it had, and with new ones or new files of them."""

    def files(key: str) -> Iterable[File]:
        found = {one.name: one for one in before.files(key)} if before and key in before.runs else {}
        if key in new:
            found |= {name: _file(store.files(key).path, name) for name in new[key]}
        return found.values()

    keys = dict.fromkeys([*(before.runs if before else ()), *new])
    archive.write(path, ((key, partial(files, key)) for key in keys))


def _file(folder: Path, name: str) -> File:
    path = folder / name
    return File(name, path.read_bytes(), path.stat().st_mtime_ns)


def _clear(store: Store, key: str, written: Archive) -> None:
    """Remove those files of a run's folder that an archive has as they are now."""
    folder = store.files(key).path
    with store.index.locked():  # who changes a record holds this, too
        for one in written.files(key):
            with contextlib.suppress(FileNotFoundError):
                if zlib.crc32((folder / one.name).read_bytes()) == zlib.crc32(one.content):
                    (folder / one.name).unlink()
                    atomic.crash_point("pack.clear")
    for place, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):  # something is left in it
            os.rmdir(place)


def _lay_out(store: Store, key: str, files: Iterable[File]) -> None:
    """Write the files of a run into its folder; those that are there are newer."""
    for one in files:
        path = store.files(key).path / one.name
        if not path.exists():
            make_folder(path.parent)
            atomic.write_bytes(path, one.content)
            os.utime(path, ns=(one.time, one.time))


def _without(store: Store, one: Archive, gone: Collection[str]) -> None:
    kept = [key for key in one.runs if key not in gone]
    if kept:
        archive.write(one.path, ((key, partial(one.files, key)) for key in kept))
    else:
        one.path.unlink()
        atomic.sync_folder(one.path.parent)
