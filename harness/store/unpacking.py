"""Brings packed runs back into their folders, and what can be read of damaged archives, too.

An archive goes once the files of its runs are on the disk, and those that stay packed are in another one.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.store import Store, archive, archives, copies, packing
from harness.store.archive import Archive, Content
from harness.store.record import RunRecord
from harness.system import atomic
from harness.system.folders import make_folder
from harness.system.links import OwnFile


def unpack(store: Store, keys: Collection[str], begin: packing.Begin, advance: packing.Advance) -> None:
    """Bring runs back into their folders. The caller holds the lock `packing.packing`.

    Args:
        store: the store.
        keys: of packed runs.
        begin: called with the name of each archive that is opened.
        advance: called once for each run that is back in its folder.

    Raises:
        DamagedError: an archive can't be read.
    """
    packed = store.packed.now()
    old = [one for one in packed.archives.values() if any(key in keys for key in one.runs)]
    elsewhere = copies.several(store, (key for one in old for key in one.runs))
    for one in old:
        begin(str(one.path.relative_to(store.root)))
        for key in one.runs:
            if key in keys and packed.runs[key] is one:
                _bring_back(store, key)
                atomic.crash_point("unpack")
                advance()
    stay = dict.fromkeys(key for one in old for key in one.runs if key not in keys)
    packing.write(store, packing.chunks(list(stay)), lambda name: None, lambda: None)
    kept = copies.contradicting(copies.find(store, key) for key in elsewhere)
    packing.remove(store, [one.path for one in old if one.path not in kept])


def _bring_back(store: Store, key: str) -> None:
    run = copies.find(store, key)
    for name, content in run.files():
        _restore(store.run_folder(key) / name, content)
    whole = run.merged()
    if whole is not None and whole != run.record:
        store.amend(key, lambda now: copies.completed(now, whole))


def _restore(path: Path, content: Content) -> None:
    """Write a file with its time, unless the folder has another one, which is newer."""
    if not OwnFile(path).exists():
        make_folder(path.parent)
        atomic.write_from(path, io.BytesIO(content.data), content.modified)


# --- damaged archives ---


@dataclass
class Saved:
    """What became of a damaged archive.

    Attributes:
        path: where it is now.
        runs: how many runs have their record back.
        lost: how many have files, but no record any more.
    """

    path: Path
    runs: int
    lost: int


def salvage(store: Store) -> list[Saved]:
    """Bring every sound file of damaged archives back. The caller holds the lock `packing.packing`.

    The archives stay beside the others, each under a name of its own that ends in `.damaged`.
    """
    packed, noted = store.packed.look(), store.index.rows()
    sound = [archive for path, archive in packed.archives.items() if packing.is_sound(path)]
    damaged = {*packed.archives, *packed.damaged}.difference(archive.path for archive in sound)
    newest_first = sorted(damaged, key=archives.rank, reverse=True)  # what is there stays
    keys = [_bring_back_from(path, store, sound) for path in newest_first]
    saved = []
    for aside, runs in zip([_set_aside(path) for path in newest_first], keys, strict=True):
        whole = sum(_has_record(store, key, noted.get(key, (None, None))[1]) for key in runs)
        saved.append(Saved(aside, whole, len(runs) - whole))
    return saved


def _bring_back_from(path: Path, store: Store, sound: Sequence[Archive]) -> set[str]:
    """Restore what can be read of an archive, unless a newer one has it; returns the keys of these runs."""
    newer = {key: one for one in sound if archives.rank(one.path) > archives.rank(path) for key in one.runs}
    keys = set()
    for key, name, content in archive.salvage(path):
        if key not in newer or name not in newer[key].runs[key]:
            _restore(store.run_folder(key) / name, content)
            keys.add(key)
    return keys


def _set_aside(path: Path) -> Path:
    """Rename a damaged archive. With its digest in the name it never replaces another one."""
    what = "link" if path.is_symlink() else archive.digest(path)
    aside = path.with_name(f"{path.name}.{what}.damaged")
    os.replace(path, aside)
    return aside


def _has_record(store: Store, key: str, noted: RunRecord | None) -> bool:
    """Whether a run has its record, from the index if no archive has it."""
    path = store.files(key).record
    if not path.exists() and noted is not None:
        atomic.write_json(path, noted.to_json())
    return path.exists()
