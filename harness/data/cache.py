"""Prepared data on disk: a folder is complete and intact, or it is built again.

A folder is built under a temporary name, sealed by a manifest with the digest of every file, and renamed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from harness.system import atomic

MANIFEST = "manifest.json"


def cached(folder: Path, fill: Callable[[Path], None]) -> Path:
    """`folder`, built by `fill(empty folder)` unless an intact one is there already.

    Of several processes one builds the folder and the others wait. An intact folder is only read, so a cache
    may be shared read-only.
    """
    if not _intact(folder):
        with atomic.locked(folder.with_name(f".{folder.name}.lock")):
            if not _intact(folder):
                _build(folder, fill)
    return folder


def _build(folder: Path, fill: Callable[[Path], None]) -> None:
    for remains in atomic.temporaries(folder.parent, folder.name):
        shutil.rmtree(remains)  # we hold the lock, so the processes that made them are dead
    temporary, discarded = atomic.temporary_name(folder), atomic.temporary_name(folder)
    try:
        temporary.mkdir()
        fill(temporary)
        _seal(temporary)
        if folder.exists():
            os.rename(folder, discarded)
        os.rename(temporary, folder)
        atomic.sync_folder(folder.parent)
    finally:
        for remains in (temporary, discarded):
            shutil.rmtree(remains, ignore_errors=True)


def _seal(folder: Path) -> None:
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    atomic.write_json(folder / MANIFEST, _digests(folder))


def _intact(folder: Path) -> bool:
    manifest = atomic.read_json(folder / MANIFEST)
    return manifest is not None and bool(manifest == _digests(folder))


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST}


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
