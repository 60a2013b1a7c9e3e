"""The kinds of errors that people see, with one exception and one exit status each."""

import argparse
import difflib
import errno
import os
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

EXIT_OK = 0
EXIT_RUN_FAILED = 1
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130

_MOST_WORDS = 24  # that a sentence may list
_OURS = [f"{Path(__file__).parents[1]}/{room}/" for room in ("harness", "sweeps", "optimizers", "models")]
_NOT_A_USERS = ("<", sysconfig.get_path("stdlib"), *_OURS)


class UsageError(Exception):
    """Bad input. The message is one sentence: the offending value and what would be right. Exit status 2."""


class NodeError(UsageError):
    """This node can't train the run, another one may: the run waits. The message names the node first."""


class RunFailedError(Exception):
    """Some run of the command failed; the message says which and what to do next. Exit status 1."""


class LostOwnershipError(Exception):
    """Another process has taken the run over: stop at once and write nothing more."""


class PeerLostError(RunFailedError):
    """Another process of the same run has ended, so this one cannot go on. The reason is in the store."""


class StoppedError(Exception):
    """A signal asked this run to stop; its checkpoint is on disk and the same command continues it."""


class PrunedError(Exception):
    """The study that asked for this run prunes it."""


def at_least(args: argparse.Namespace, least: int, *names: str) -> None:
    """Raise UsageError if one of these options is given and smaller than `least`."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value < least:
            raise UsageError(f"--{name.replace('_', '-')} must be at least {least}, not {value}.")


def is_full(error: BaseException | None) -> bool:
    """Whether an error says that a disk has no room, or that its user may take no more of it."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def refused(error: OSError, place: Path | str = "") -> str:
    """What the system refuses, without a full stop; `place` is where, unless the error names a file."""
    where, why = error.filename or place, error.strerror or error
    if not (where and is_full(error)):
        return f"the system refuses '{where}': {why}" if where else f"the system refuses: {why}"
    path = Path(os.path.realpath(where))
    disk = next(folder for folder in (path, *path.parents) if os.path.ismount(folder))
    return f"the disk at '{disk}' is full ({why}); make room there, and the same command goes on"


def reason(error: Exception) -> str:
    """The kind of an exception of a library or of a user's code, and the first line of what it says."""
    first, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {first[:300]}".rstrip(".")


def where(error: BaseException) -> str:
    """The line of a user's own code that an exception comes from: " (my_opt.py:12)"; empty without one."""
    lines = [
        f"{frame.filename.removeprefix(os.getcwd() + os.sep)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_A_USERS) and f"-packages{os.sep}" not in frame.filename
    ]
    return f" ({lines[-1]})" if lines else ""


def nearest(word: str, known: Iterable[str], listed: str = "docs/config.md lists them") -> str:
    """The end of a sentence on a misspelt `word`: the closest of `known`, else all of them if they are few.

    Where they are many, `listed` says who lists them.

    A group of settings (`optimizer`) gets what is in it, first of all its name.
    """
    known = sorted(known)
    inside = [name for name in known if name.startswith(f"{word}.")]
    if inside:
        first = f"{word}.name" if f"{word}.name" in inside else inside[0]
        return f"it is a group of settings, such as {first}"
    close = [name for name in known if name.endswith(f".{word}")]  # `lr` for optimizer.lr
    close = close or difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    if len(known) > _MOST_WORDS:
        return f"none of the {len(known)} known ones is like it; {listed}"
    return f"known are: {', '.join(known)}"
