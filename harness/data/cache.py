"""Prepared data on disk: a folder is complete and intact, or it is built again.

A folder is built under a temporary name, sealed by a manifest with the digest of every file, and renamed.
Hashing takes 4 s for a GB, so the digests of a large set are checked by `htbench doctor --data` only; the
start of a run looks at sizes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from harness.system import atomic, typed

MANIFEST = "manifest.json"  # file -> SHA-256
SIZES = "sizes.json"  # file -> bytes, of a large set


def cached(folder: Path, fill: Callable[[Path], None], *, large: bool = False) -> Path:
    """`folder`, built by `fill(empty folder)` unless an intact one is there already.

    Of several processes one builds the folder and the others wait. An intact folder is only read, so a cache
    may be shared read-only.

    Args:
        folder: of the set; its name tells the fingerprint.
        fill: makes the files, none in a subfolder.
        large: intact is what has the right sizes; otherwise digests are compared at every call.
    """
    intact = _right_sizes if large else _intact
    if not intact(folder):
        with atomic.locked(folder.with_name(f".{folder.name}.lock")):
            if not intact(folder):
                _build(folder, fill, large)
    return folder


def damaged(folder: Path) -> list[str]:
    """The files of a sealed folder that are missing or differ from their digest, sorted. Reads all of it."""
    manifest = atomic.read_json(folder / MANIFEST)
    if manifest is None or not typed.fits(dict[str, str], manifest):
        return [MANIFEST]
    files = {name: folder / name for name in sorted(manifest)}
    return [name for name, path in files.items() if not path.is_file() or digest(path) != manifest[name]]


def differing(folder: Path, other: Path) -> list[str]:
    """The names of the files that only one of two folders has, or that differ, sorted; manifests aside."""
    ours, theirs = _digests(folder), _digests(other)
    return sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hex digits."""
    hashed = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            hashed.update(chunk)
    return hashed.hexdigest()


def _build(folder: Path, fill: Callable[[Path], None], large: bool) -> None:
    for remains in atomic.temporaries(folder.parent, folder.name):
        shutil.rmtree(remains)  # we hold the lock, so the processes that made them are dead
    temporary, discarded = atomic.temporary_name(folder), atomic.temporary_name(folder)
    try:
        temporary.mkdir()
        fill(temporary)
        _seal(temporary, large)
        if folder.exists():
            os.rename(folder, discarded)
        os.rename(temporary, folder)
        atomic.sync_folder(folder.parent)
    finally:
        for remains in (temporary, discarded):
            shutil.rmtree(remains, ignore_errors=True)


def _seal(folder: Path, large: bool) -> None:
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    sizes = _sizes(folder)
    atomic.write_json(folder / MANIFEST, _digests(folder))
    if large:
        atomic.write_json(folder / SIZES, sizes)


def _intact(folder: Path) -> bool:
    manifest = atomic.read_json(folder / MANIFEST)
    return manifest is not None and bool(manifest == _digests(folder))


def _right_sizes(folder: Path) -> bool:
    sizes = atomic.read_json(folder / SIZES)
    return sizes is not None and bool(sizes == _sizes(folder))


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: digest(path) for path in _files(folder)}


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in _files(folder)}


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.name not in (MANIFEST, SIZES)]
