"""A destination that is a folder of folders, one per run, each complete or not there.

A run's folder is filled under a temporary name, gets a marker as its last file, and is renamed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.exchange.outgoing import Outgoing
from harness.system import atomic
from harness.system.folders import make_folder

MARKER = "htbench.json"  # {"key": ..., "digest": ...}
_LOCK = ".htbench.lock"


class Folders:
    """The folders of exported runs below `home`; `held` makes one.

    Args:
        home: it exists, and this process holds its lock.
        pattern: where the folders of runs are, such as `*/*`.
    """

    def __init__(self, home: Path, pattern: str) -> None:
        self.home = home
        self.found: dict[str, list[tuple[Path, str]]] = {}  # key -> folders with their digests
        for path in sorted(home.glob(f"{pattern}/{MARKER}")):
            content = atomic.read_json(path)
            if isinstance(content, dict) and {"key", "digest"} <= content.keys():
                self.found.setdefault(content["key"], []).append((path.parent, content["digest"]))

    def digests(self) -> dict[str, str]:
        """The digest of each run that is here."""
        return {key: folders[-1][1] for key, folders in self.found.items()}

    def put(self, run: Outgoing, digest: str, fill: Callable[[Path], Path], within: str = "") -> Path:
        """Replace all that is here of a run.

        Args:
            run: whose folder it is.
            digest: for the marker.
            fill: makes the run's folder in an empty one and returns its path; its name stays.
            within: the folder below `home` that it goes into.

        Returns:
            the new folder.
        """
        temporary = atomic.temporary_name(self.home / run.key)
        temporary.mkdir()
        try:
            made = fill(temporary)
            atomic.write_json(made / MARKER, {"key": run.key, "digest": digest})
            _flush(made)
            for old, _ in self.found.pop(run.key, []):
                self._discard(old)
            target = self.home / within / made.name
            make_folder(target.parent)
            os.rename(made, target)
            atomic.sync_folder(target.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self.found[run.key] = [(target, digest)]
        return target

    def _discard(self, folder: Path) -> None:
        """Remove a folder; what a killed process leaves of it is a temporary one."""
        temporary = atomic.temporary_name(self.home / folder.name)
        os.rename(folder, temporary)
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def held(home: Path, pattern: str) -> Iterator[Folders]:
    """Make the folder, hold its lock, and remove what a killed export has left.

    Raises:
        UsageError: it can't be made or written to.
    """
    make_folder(home)
    with atomic.locked(home / _LOCK):
        _clear(home)
        yield Folders(home, pattern)
        _clear(home)  # a tracker's own process may have written after its run had ended


def _clear(home: Path) -> None:
    for remains in list(atomic.temporaries(home)):
        shutil.rmtree(remains, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Wait until all that a folder holds is on the disk."""
    for place, _, names in os.walk(folder):
        for name in names:
            with open(Path(place, name), "rb") as file:
                os.fsync(file.fileno())
        atomic.sync_folder(Path(place))
