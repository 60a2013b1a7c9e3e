"""Prepared data on disk: a folder is complete and intact, or it is built again.

A folder is built under a temporary name, sealed by a manifest with the digest of every file, and renamed.
Hashing takes 4 s for a GB, so the digests of a published set are checked by `htbench doctor --data` only; the
start of a run looks at the sizes of its files.
"""

import hashlib
import importlib.util
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from htbench.harness.errors import UsageError
from htbench.harness.system import atomic, typed

MANIFEST = "manifest.json"  # file -> SHA-256
TOKENIZER, TOKEN_BYTES = "tokenizer.json", "token_bytes.npy"  # of prepared text


def cached(folder: Path, fill: Callable[[Path], None]) -> Path:
    """`folder`, built by `fill(empty folder)` unless an intact one is there already.

    Of several processes one builds the folder and the others wait. An intact folder is only read, so a cache
    may be shared read-only.

    Args:
        folder: of the set; its name tells the fingerprint.
        fill: makes the files, none in a subfolder.
    """

    def fill_and_seal(empty: Path) -> None:
        fill(empty)
        atomic.write_json(empty / MANIFEST, _digests(empty))

    if not _intact(folder):
        with atomic.locked(folder.with_name(f".{folder.name}.lock")):
            if not _intact(folder):
                for remains in atomic.temporaries(folder.parent, folder.name):
                    shutil.rmtree(remains)  # we hold the lock, so the processes that made them are dead
                atomic.replace_folder(folder, fill_and_seal)
    return folder


def under_way(cache: Path) -> list[str]:
    """The folders that some process builds for the first time now, or died over."""
    locks = [lock.name.removeprefix(".").removesuffix(".lock") for lock in cache.glob(".*.lock")]
    return sorted(name for name in locks if not (cache / name).exists())


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


def installed_file(task: str, distribution: str, package: str, name: str) -> Path:
    """A file in a package of an installed distribution. Raises UsageError if it is not there."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(f"task {task} reads a file of {distribution}, which is not installed")
    file = Path(spec.origin).parent / name
    if not file.is_file():
        raise UsageError(f"task {task} needs {file}, which this {distribution} does not have")
    return file


def wrong_size(folder: Path, sizes: Mapping[str, int]) -> str:
    """The first of the files that has not its size in bytes; empty if there is none."""
    return next((name for name, size in sizes.items() if _size(folder / name) != size), "")


def check_sizes(folder: Path, sizes: Mapping[str, int]) -> None:
    """Raise UsageError unless the files of a prepared task have their sizes in bytes."""
    if name := wrong_size(folder, sizes):
        task = folder.name.rpartition("-")[0]
        raise UsageError(
            f"'{folder / name}' has {_size(folder / name)} bytes instead of {sizes[name]}; "
            f"`htbench data prepare {task}` writes it again."
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _intact(folder: Path) -> bool:
    manifest = atomic.read_json(folder / MANIFEST)
    return manifest is not None and bool(manifest == _digests(folder))


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: digest(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST}
