"""Folders that a group of users shares."""

import os
import stat
from pathlib import Path

from htbench.harness.errors import UsageError, refused
from htbench.harness.system.links import LinkError


def write_for_the_group(root: Path) -> None:
    """If the folder has the setgid bit, let its group read and write all files that this process creates."""
    existing = next(place for place in (root, *root.absolute().parents) if place.exists())
    if existing.stat().st_mode & stat.S_ISGID:
        os.umask(os.umask(0o077) & ~stat.S_IRWXG)


def make_folder(folder: Path) -> None:
    """Create a folder below the root and its parents.

    Raises:
        UsageError: the place is not writable, or a file stands in the way.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except LinkError:
        raise
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise UsageError(
            f"The folder '{folder}' can't be made ({error.strerror}); choose another place."
        ) from None
    except OSError as error:
        raise UsageError(f"{refused(error, folder)}.") from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"The folder '{folder}' is not writable; choose another place.")


def check_ours(path: Path, is_ours: bool) -> None:
    """Raise UsageError if there is something at `path` that is not ours to replace."""
    if not is_ours and os.path.lexists(path):
        raise UsageError(
            f"'{path}' was not written by htbench and would be replaced; name another place with --out, or "
            f"move it away."
        )
