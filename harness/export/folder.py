"""A folder that is complete or not there: it is filled under a temporary name, and renamed.

Only an earlier export is replaced, never a folder with files of somebody else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from harness.errors import UsageError
from harness.system import atomic
from harness.system.folders import make_folder

STAMP = "htbench.json"  # names the run, the step and the files


def check(folder: Path, key: str, force: bool) -> None:
    """Raise UsageError unless `folder` may become the export of run `key`.

    Args:
        folder: it may be missing, empty, or an earlier export.
        key: of the run.
        force: replace the export of another run, too.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"'{folder}' is a file; name a folder that is new or empty.")
    names = set(os.listdir(folder))
    if not names:
        return
    stamp = atomic.read_json(folder / STAMP)
    written = stamp.get("files") if isinstance(stamp, dict) else None
    if not isinstance(stamp, dict) or not isinstance(written, list) or not names <= {*written, STAMP}:
        raise UsageError(f"'{folder}' has other files; name a folder that is new or empty.")
    if stamp.get("key") != key and not force:
        raise UsageError(f"'{folder}' is the export of run {stamp.get('key')}; --force replaces it.")


def write(folder: Path, fill: Callable[[Path], None], key: str, step: int | None) -> None:
    """Let `fill(empty folder)` make the files, stamp them, and put them in the place of `folder`.

    Args:
        folder: as `check` allows it.
        fill: makes the files, none in a subfolder.
        key: of the run.
        step: of the weights; None: final ones.

    Raises:
        OSError: the disk is full, for example; `folder` is what it was.
    """
    make_folder(folder.parent)
    temporary, discarded = atomic.temporary_name(folder), atomic.temporary_name(folder)
    try:
        temporary.mkdir()
        fill(temporary)
        atomic.write_json(
            temporary / STAMP, {"key": key, "step": step, "files": sorted(os.listdir(temporary))}
        )
        _flush(temporary)
        if folder.exists():
            os.rename(folder, discarded)
        try:
            os.rename(temporary, folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.rename(discarded, folder)
            raise
        atomic.sync_folder(folder.parent)
    finally:
        for remains in (temporary, discarded):
            shutil.rmtree(remains, ignore_errors=True)


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    atomic.sync_folder(folder)
