"""Brings packed runs back into their folders, and what can be read of damaged archives, too.

An archive goes once the files of its runs are on the disk, and those that stay packed are in another one.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.store import Store, archive
from harness.store.archive import Content
from harness.store.record import RunRecord
from harness.store.run_folder import RECORD
from harness.system import atomic
from harness.system.folders import make_folder
from harness.upkeep import packing


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
    for one in old:
        begin(str(one.path.relative_to(store.root)))
        for key in one.runs:
            if key in keys and packed.runs[key] is one:
                for name in one.runs[key]:
                    _restore(
                        store.run_folder(key) / name, Content(one.read(key, name), one.runs[key][name][-1])
                    )
                atomic.crash_point("unpack")
                advance()
    kept = dict.fromkeys(
        key for one in old for key in one.runs if key not in keys and packed.runs[key] is one
    )
    packing.write(store, packing.chunks(list(kept)), lambda name: None, lambda: None)
    packing.remove(store, [one.path for one in old])


def _restore(path: Path, content: Content) -> None:
    """Write a file with its time, unless the folder has another one, which is newer."""
    here = Path(path)
    if not here.exists():
        make_folder(here.parent)
        atomic.write_with(here, lambda file: _fill(file, content))


def _fill(file: IO[bytes], content: Content) -> None:
    file.write(content.data)
    file.flush()
    os.utime(file.fileno(), ns=(content.modified, content.modified))


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

    The archives stay, renamed: `NNNN.zip.damaged`.
    """
    packed, noted, done = store.packed.look(), store.index.rows(), []
    for path in [
        *packed.damaged,
        *(one.path for one in packed.archives.values() if not packing.is_sound(one)),
    ]:
        keys = set()
        for key, name, content in archive.salvage(path):
            own = packed.runs.get(key)
            if own is None or own.path == path:
                _restore(store.run_folder(key) / name, content)
                keys.add(key)
        aside = path.with_name(f"{path.name}.damaged")
        os.replace(path, aside)
        whole = sum(_has_record(store, key, noted.get(key, (0, None))[1]) for key in keys)
        done.append(Saved(aside, whole, len(keys) - whole))
    return done


def _has_record(store: Store, key: str, noted: RunRecord | None) -> bool:
    """Whether a run has its record, from the index if need be."""
    path = Path(store.run_folder(key), RECORD)
    if not path.exists() and noted is not None:
        atomic.write_json(path, noted.to_json())
    return path.exists()
