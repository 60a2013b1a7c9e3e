"""What the place of a store can do: room, writing, locks, hard links."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from htbench.harness.show.note import Note
from htbench.harness.system import atomic
from htbench.harness.system.finding import Finding, note, ok, problem

LITTLE_SPACE, NO_SPACE = 5 * 2**30, 2**28  # free bytes below which: a note, a problem


def root(root: Path) -> Iterator[Finding]:
    """The disk, whether it is writable, locks and links; nothing is left there."""
    whole = root.absolute()
    place = next(folder for folder in (whole, *whole.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    fact = Note("disk_free", free=free / 2**30, system=_find_mount(place)[0])
    if free < NO_SPACE:
        yield problem("disk", fact, Note("make_room"))
    else:
        yield note("disk", fact, Note("little_room")) if free < LITTLE_SPACE else ok("disk", fact)
    try:
        with tempfile.TemporaryDirectory(prefix=".htbench-doctor-", dir=place) as folder:
            yield ok("root", Note("root_writable", root=whole, there=place == whole))
            yield _check_locks(Path(folder))
            yield _check_links(Path(folder))
    except OSError as error:
        fact = Note("root_not_writable", root=whole, why=error.strerror)
        yield problem("root", fact, Note("choose_another_root"))


def _find_mount(place: Path) -> tuple[str, list[str]]:
    """The type of the file system that holds `place`, and its mount options."""
    mounts = [p for p in psutil.disk_partitions(all=True) if place.resolve().is_relative_to(p.mountpoint)]
    if not mounts:
        return "unknown file system", []
    mount = max(mounts, key=lambda p: len(p.mountpoint))
    return mount.fstype, mount.opts.split(",")


def _check_locks(folder: Path) -> Finding:
    """Check that `flock` excludes a second holder. Plans and caches are written under such locks."""
    local = {"localflock", "nolock", "local_lock=flock", "local_lock=all"}.intersection(
        _find_mount(folder)[1]
    )
    advice = Note("mount_with_locks")
    try:
        # On NFS an exclusive lock needs a file that is open for writing.
        with atomic.locked(folder / "lock"), open(folder / "lock", "a") as second:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if local:
            return note("locks", Note("locks_are_local", options=sorted(local)), advice)
        return ok("locks", Note("locks_work"))
    except OSError as error:
        return problem("locks", Note("lock_fails", why=error.strerror), advice)
    return problem("locks", Note("lock_lets_two_in"), advice)


def _check_links(folder: Path) -> Finding:
    """Check that only the first of two creations of one file succeeds. The store creates by hard links."""
    advice = Note("root_with_links")
    try:
        wins = [atomic.create_json(folder / "once.json", {}) for _ in range(2)]
    except OSError as error:
        return problem("links", Note("links_fail", why=error.strerror), advice)
    if wins != [True, False]:
        return problem("links", Note("links_of_two", winners=sum(wins)), advice)
    return ok("links", Note("links_work"))
