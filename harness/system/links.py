"""Files of a store are never links: one that a stranger left could show or overwrite what is not the store's.

The root of a store and the folders right below it may be links: people put `runs/` on another disk. What is
below is opened by these functions only. To a reader a link is not there; a writer is told.
"""

import errno
import os
import stat
from pathlib import Path, PosixPath
from typing import Any

from htbench.harness.errors import UsageError

_folders: set[str] = set()  # that are no links


class LinkError(UsageError, OSError):
    """A link stands in the way; it is an OSError, too, for who can do without the file."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            f"'{path}' is a link, and htbench follows none within a store; put the file or the folder itself "
            "there, or remove it."
        )


def no_follow(path: str, flags: int) -> int:
    """The opener for `open`: it opens no link, and does not wait for the other end of a pipe.

    Raises:
        FileNotFoundError: there is no such file, or only a link, and it is to be read.
        LinkError: it is a link, and is to be written.
    """
    reads = flags & os.O_ACCMODE == os.O_RDONLY
    try:
        return os.open(path, flags | os.O_NOFOLLOW | (os.O_NONBLOCK if reads else 0), 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        if reads:
            raise FileNotFoundError(errno.ENOENT, "a link is not followed", path) from None
        raise LinkError(path) from None


def leads_away(folder: str, levels: int, *, again: bool = False) -> bool:
    """Whether one of the last `levels` parts of the path of a folder is a link.

    A folder is looked at once in a process, as `sweep status` asks of thousands; with `again`, every time.
    """
    if folder in _folders and not again:
        return False
    if levels > 1 and leads_away(os.path.dirname(folder), levels - 1, again=again):
        return True
    try:
        is_link = stat.S_ISLNK(os.lstat(folder).st_mode)
    except OSError:
        return False
    if not is_link:
        _folders.add(folder)
    return is_link


class OwnFile(PosixPath):
    """The path of a file of a store; no link to another file is followed, `leads_away` is about folders."""

    def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
        """As `Path.open`.

        Raises:
            FileNotFoundError: there is no such file, or only a link, and it is to be read.
            LinkError: it is a link, and is to be written.
        """
        return open(self, mode, *args, **(options | {"opener": no_follow}))

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As `os.stat`.

        Raises:
            FileNotFoundError: there is no such file, or only a link to one.
        """
        status = os.lstat(self)
        if follow_symlinks and stat.S_ISLNK(status.st_mode):
            status = os.stat(self)
            if not stat.S_ISDIR(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, "a link is not followed", str(self))
        return status
