"""Brings back what can be read of damaged archives."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.store import Store, archive, archives, packing
from harness.store.archive import Archive
from harness.store.record import RunRecord
from harness.system import atomic


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
    sound = [whole for path, whole in packed.archives.items() if packing.is_sound(path)]
    damaged = {*packed.archives, *packed.damaged}.difference(whole.path for whole in sound)
    newest_first = sorted(damaged, key=archives.rank, reverse=True)  # what is there stays
    keys = [_bring_back_from(path, store, sound) for path in newest_first]
    saved = []
    for aside, runs in zip([_set_aside(path) for path in newest_first], keys, strict=True):
        kept = sum(_has_record(store, key, noted.get(key, (None, None))[1]) for key in runs)
        saved.append(Saved(aside, kept, len(runs) - kept))
    return saved


def _bring_back_from(path: Path, store: Store, sound: Sequence[Archive]) -> set[str]:
    """Restore what can be read of an archive, unless a newer one has it; returns the keys of these runs."""
    later = (whole for whole in sound if archives.rank(whole.path) > archives.rank(path))
    newer = {key: whole for whole in later for key in whole.runs}
    keys = set()
    for key, name, content in archive.salvage(path):
        if key not in newer or name not in newer[key].runs[key]:
            packing.restore(store.run_folder(key) / name, content)
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
