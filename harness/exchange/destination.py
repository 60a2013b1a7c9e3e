"""What every tracker can do, and the table of trackers. None of them is imported before it is asked for.

Some are a folder of folders, one per run, each complete or not there: a run's folder is filled under a
temporary name, gets a marker as its last file, and is renamed.
"""

import contextlib
import importlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.exchange.outgoing import Outgoing
from harness.system import atomic
from harness.system.environment import require
from harness.system.folders import make_folder

MARKER = "htbench.json"  # {"key": ..., "digest": ...}
_LOCK = ".htbench.lock"

# name -> (the options that it takes, the modules that it needs); `to_<name>` has `destination(options)`
TRACKERS = {
    "tensorboard": (("out",), ("tensorboard",)),
    "wandb": (("out", "project"), ("wandb",)),
}


@dataclass(frozen=True)
class Options:
    """Where an export goes; None: the tracker's own default.

    Attributes:
        root: the store.
        out: a folder.
        project: the name that holds all groups.
    """

    root: Path
    out: Path | None = None
    project: str | None = None


@dataclass(frozen=True)
class Destination:
    """A place that runs are exported to. Only one process at a time writes to it.

    Attributes:
        place: in words.
        present: the digests of the runs that are completely there, by key, read from the destination.
        write: writes a run in place of all that is there of its key. A process that is killed meanwhile
            leaves nothing that `present` counts.
    """

    place: str
    present: Mapping[str, str]
    write: Callable[[Outgoing], None]


def open_destination(name: str, options: Options) -> AbstractContextManager[Destination]:
    """The tracker `name`, ready to be written to.

    Raises:
        UsageError: an option that it does not take, a package that is not installed, a bad place.
    """
    takes, modules = TRACKERS[name]
    for option in ("out", "project"):
        if option not in takes and getattr(options, option) is not None:
            raise UsageError(f"--{option} is not for {name}, which takes --{' and --'.join(takes)}.")
    require(name, *modules)
    tracker = importlib.import_module(f"harness.exchange.to_{name}")
    opened: AbstractContextManager[Destination] = tracker.destination(options)
    return opened


# --- destinations that are folders ---


class Folders:
    """The folders of exported runs below `home`; `held` makes one.

    Args:
        home: it exists, and this process holds its lock.
        pattern: where the folders of runs are, such as `*/*`.
    """

    def __init__(self, home: Path, pattern: str) -> None:
        self.home = home
        self.folders: dict[str, list[tuple[Path, str]]] = {}  # key -> folders with their digests
        for path in sorted(home.glob(f"{pattern}/{MARKER}")):
            content = atomic.read_json(path)
            if isinstance(content, dict) and {"key", "digest"} <= content.keys():
                self.folders.setdefault(content["key"], []).append((path.parent, content["digest"]))

    def present(self) -> dict[str, str]:
        """The digest of each run that is here."""
        return {key: folders[-1][1] for key, folders in self.folders.items()}

    def put(self, run: Outgoing, digest: str, fill: Callable[[Path], Path], within: str = "") -> None:
        """Replace all that is here of a run.

        Args:
            run: whose folder it is.
            digest: for the marker.
            fill: makes the run's folder in an empty one and returns its path; its name stays.
            within: the folder below `home` that it goes into.
        """
        temporary = atomic.temporary_name(self.home / run.key)
        temporary.mkdir()
        try:
            made = fill(temporary)
            atomic.write_json(made / MARKER, {"key": run.key, "digest": digest})
            for place, _, names in os.walk(made):  # wait until all of it is on the disk
                for name in names:
                    with open(Path(place, name), "rb") as file:
                        os.fsync(file.fileno())
                atomic.sync_folder(Path(place))
            for old, _ in self.folders.pop(run.key, []):  # what a killed process leaves of it is temporary
                discarded = atomic.temporary_name(self.home / old.name)
                os.rename(old, discarded)
                shutil.rmtree(discarded, ignore_errors=True)
            target = self.home / within / made.name
            make_folder(target.parent)
            os.rename(made, target)
            atomic.sync_folder(target.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self.folders[run.key] = [(target, digest)]


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
