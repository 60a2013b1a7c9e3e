"""The folder of one run, and what its attempts have noted. Torch-free."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict

from htbench.harness.config.yaml_text import read_yaml
from htbench.harness.store import layout
from htbench.harness.system import atomic, typed
from htbench.harness.system.links import LinkError, OwnFile, leads_away

_BELOW_RUNS = re.compile(r"(?:.*/)?runs/([0-9a-f]{2}(?:/[0-9a-f]{12}(?:/.*)?)?)", re.DOTALL)


class Reason(str, Enum):
    """How an attempt ended. One that stopped or died may be resumed by any process; below are failures."""

    FINISHED = "finished"
    STOPPED = "stopped"
    DIED = "died"  # noted by its launcher, which saw it die
    OOM = "oom"
    TIMEOUT = "timeout"
    ERROR = "error"
    KILLED = "killed"  # never noted: two attempts in a row have died and left nothing

    def __str__(self) -> str:
        return self.value

    @property
    def is_failure(self) -> bool:
        """Whether the run begins again only after `retry`."""
        return self not in (Reason.FINISHED, Reason.STOPPED, Reason.DIED)


class _Outcome(TypedDict, total=False):
    """How an attempt ended; the message is for people."""

    reason: Reason
    message: str


class _AttemptFile(TypedDict, total=False):
    """What an attempt's file says (`Attempt.to_json`); any of it may be missing."""

    owner: dict[str, Any] | None
    began: float
    ended: float | None
    start_step: int | None
    checkpoint_found: int | None
    repeats: int
    outcome: _Outcome | None


class RunFile(OwnFile):
    """A path in a run's folder: a link is not there, be it the file or a folder on the way below `runs/`."""

    def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
        """As `OwnFile.open`; a folder that is a link is the same error as a file that is one."""
        writes = not set(mode).isdisjoint("wax+")
        if _is_behind_link(self.parent, again=writes):
            raise LinkError(self.parent) if writes else _make_missing_error(self)
        return super().open(mode, *args, **options)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As `os.stat`.

        Raises:
            FileNotFoundError: there is no such file, or only a link to one.
        """
        status = os.lstat(self)
        if _is_behind_link(self.parent) or (follow_symlinks and stat.S_ISLNK(status.st_mode)):
            raise _make_missing_error(self)
        return status

    def exists(self, **_: Any) -> bool:
        """Whether there is such a file or folder."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return bool(self.stat())  # `Path.exists` does not ask it in all versions of Python
        return False

    def is_file(self, **_: Any) -> bool:
        """Whether there is such a file."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return stat.S_ISREG(self.stat().st_mode)
        return False

    def mkdir(self, *args: Any, **options: Any) -> None:
        """As `Path.mkdir`.

        Raises:
            LinkError: a folder on the way is a link.
        """
        if _is_behind_link(self, again=True):
            raise LinkError(self)
        super().mkdir(*args, **options)


def _make_missing_error(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "a link is not followed", str(path))


def _is_behind_link(folder: Path, *, again: bool = False) -> bool:
    """Whether a folder below `runs/`, or one on the way to it from there, is a link (`leads_away`)."""
    parts = _BELOW_RUNS.fullmatch(str(folder))
    return parts is not None and leads_away(str(folder), 1 + parts[1].count("/"), again=again)


class _FilePath:
    """A file of a run by its name; as an attribute of a `RunFolder` it is the path."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, files: RunFolder, _: type[RunFolder]) -> Path:
        return files.path / self.name


class RunFolder:
    """The paths of the files of one run (`layout`); any of them may be missing.

    Args:
        path: the folder.
    """

    config = _FilePath(layout.CONFIG)
    attempts = _FilePath(layout.ATTEMPTS)
    metrics = _FilePath(layout.METRICS)
    spectra = _FilePath(layout.SPECTRA)
    log = _FilePath(layout.LOG)
    checkpoint = _FilePath(layout.CHECKPOINT)
    weights = _FilePath(layout.WEIGHTS)
    test_items = _FilePath(layout.TEST_ITEMS)
    program = _FilePath(layout.PROGRAM)
    record = _FilePath(layout.RECORD)

    def __init__(self, path: Path) -> None:
        self.path = path if isinstance(path, RunFile) else RunFile(path)

    def attempt(self, number: int) -> Path:
        """The file of attempt `number`, from 1; its modification time is the heartbeat."""
        return RunFile(f"{self.path}/{layout.ATTEMPTS}/{number}.json")  # not by `/`: status has thousands

    def read_config(self) -> dict[str, Any]:
        """The nested config as it stands there: nothing of this user's environment is put into it.

        Raises:
            UsageError: there is none, or it can't be read.
        """
        return read_yaml(self.config, resolve=False)

    def last_attempt(self) -> int:
        """The highest number of an attempt; 0 if there is none."""
        names = list[str]()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not _is_behind_link(self.attempts):
                names = os.listdir(self.attempts)
        stems = (name.partition(".")[0] for name in names)
        return max((int(stem) for stem in stems if stem.isdigit()), default=0)

    def read_attempt(self, number: int) -> dict[str, Any]:
        """The content of an attempt's file; empty if it is missing or damaged."""
        return read_attempt(self.attempt(number)) if number else {}


def read_attempt(path: Path) -> dict[str, Any]:
    """What an attempt's file says (`_AttemptFile`); empty if it is missing or damaged."""
    value: Any = atomic.read_json(path)
    return value if typed.fits(_AttemptFile, value) else {}
