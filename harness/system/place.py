"""What the place of a store can do: room, writing, locks, hard links."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from harness.system import atomic
from harness.system.finding import Finding, note, ok, problem

LITTLE_SPACE, NO_SPACE = 5 * 2**30, 2**28  # free bytes below which: a note, a problem


def root(root: Path) -> Iterator[Finding]:
    """The disk, whether it is writable, locks and links; nothing is left there."""
    whole = root.absolute()
    place = next(folder for folder in (whole, *whole.parents) if folder.exists())
    elsewhere = "choose another place with --root or HTBENCH_ROOT"
    yield _space(place)
    try:
        with tempfile.TemporaryDirectory(prefix=".htbench-doctor-", dir=place) as folder:
            yield ok("root", f"{whole} {'is' if place == whole else 'can be made and is'} writable")
            yield _locks(Path(folder))
            yield _links(Path(folder))
    except OSError as error:
        yield problem("root", f"{whole} is not writable: {error.strerror}", f"to train, {elsewhere}")


def _space(place: Path) -> Finding:
    free = shutil.disk_usage(place).free
    text = f"{free / 2**30:.1f} GiB free ({_mount(place)[0]})"
    if free < NO_SPACE:
        return problem("disk", text, "make room; a run that meets a full disk stops and can go on later")
    if free < LITTLE_SPACE:
        return note("disk", text, "enough for nano models; checkpoints of large ones take gigabytes")
    return ok("disk", text)


def _mount(place: Path) -> tuple[str, list[str]]:
    """The type of the file system that holds `place`, and its mount options."""
    mounts = [p for p in psutil.disk_partitions(all=True) if place.resolve().is_relative_to(p.mountpoint)]
    if not mounts:
        return "unknown file system", []
    mount = max(mounts, key=lambda p: len(p.mountpoint))
    return mount.fstype, mount.opts.split(",")


def _locks(folder: Path) -> Finding:
    """Check that `flock` excludes a second holder. Plans and caches are written under such locks."""
    local = {"localflock", "nolock", "local_lock=flock", "local_lock=all"}.intersection(_mount(folder)[1])
    advice = "mount the file system with flock (Lustre: -o flock), or choose another --root"
    try:
        # On NFS an exclusive lock needs a file that is open for writing.
        with atomic.locked(folder / "lock"), open(folder / "lock", "a") as second:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if local:
            return note("locks", f"flock works on this machine only ({', '.join(local)})", advice)
        return ok("locks", "flock works")
    except OSError as error:
        return problem("locks", f"flock fails: {error.strerror}", advice)
    return problem("locks", "flock lets two processes in at once", advice)


def _links(folder: Path) -> Finding:
    """Check that only the first of two creations of one file succeeds. The store creates by hard links."""
    advice = "choose a --root on a file system that has hard links"
    try:
        wins = [atomic.create_json(folder / "once.json", {}) for _ in range(2)]
    except OSError as error:
        return problem("links", f"hard links fail: {error.strerror}", advice)
    if wins != [True, False]:
        return problem("links", f"of two creators {sum(wins)} won instead of one", advice)
    return ok("links", "hard links work")
