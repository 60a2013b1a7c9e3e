"""What a Linux NFS client remembers of folders, played in a process, which is a node of its own then.

Its files are those of the local file system and always up to date: NFS asks its server at every `open`. But
names it asks for only now and then: which of them are in a folder, which are not, and its listing. A change
of its own shows it whether somebody else has changed the folder before, and then it forgets all it knew of
it. (nfs(5), "Data and metadata coherence".)
"""

import builtins
import contextlib
import errno
import fcntl
import io
import math
import os
import time
from pathlib import Path
from types import SimpleNamespace


class Server:
    """Counts the changes of each folder, as an NFS server's change attribute does.

    Args:
        root: of the folders that it serves; beside it, it keeps files of its own.
    """

    def __init__(self, root):
        self.root, self.counts = str(root), Path(f"{root}.changes")
        self.counts.mkdir(exist_ok=True)

    def serves(self, path):
        return isinstance(path, str | os.PathLike) and f"{os.fspath(path)}/".startswith(f"{self.root}/")

    def changes(self, folder):
        with contextlib.suppress(OSError):
            return _real.stat(self._file(folder)).st_size
        return 0

    @contextlib.contextmanager
    def changing(self, folder):
        """One change at a time; gives the number of those before it."""
        handle = _real.open(self.counts / "lock", os.O_CREAT | os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield self.changes(folder)
            count = _real.open(self._file(folder), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.write(count, b".")
            os.close(count)
        finally:
            os.close(handle)

    def _file(self, folder):
        return str(self.counts / folder.strip("/").replace("/", "%"))


class Memory:
    """What a client knows of one folder: which names are there, and all of them once it has listed them."""

    def __init__(self, changes):
        self.asked, self.changes, self.there, self.listing = time.monotonic(), changes, {}, None


CHANGES = ("link", "replace", "rename", "unlink", "remove", "mkdir", "rmdir")
LOOKS = ("stat", "lstat", "open", "listdir", "scandir", "utime")
_real = SimpleNamespace(file=io.open, **{name: getattr(os, name) for name in CHANGES + LOOKS})


def _exists(path):
    with contextlib.suppress(OSError):
        return bool(_real.lstat(path))
    return False


class Client:
    """A node. Within `with` it stands before the functions of `os` that see or change names.

    Args:
        server: whose folders it sees.
        seconds: for which it trusts its memory; on real nodes 30 to 60 (acdirmin, acdirmax).
    """

    def __init__(self, server, seconds=math.inf):
        self.server, self.seconds, self.known = server, seconds, {}

    def __enter__(self):
        for name in CHANGES:
            setattr(os, name, self._changes(getattr(_real, name)))
        for name in LOOKS:
            setattr(os, name, getattr(self, name))
        builtins.open = io.open = self.file
        return self

    def __exit__(self, *_):
        for name in CHANGES + LOOKS:
            setattr(os, name, getattr(_real, name))
        builtins.open = io.open = _real.file

    def _memory(self, folder):
        known = self.known.get(folder)
        if known is None or time.monotonic() > known.asked + self.seconds:
            changes = self.server.changes(folder)
            if known is None or known.changes != changes:
                known = self.known[folder] = Memory(changes)
            known.asked = time.monotonic()
        return known

    def _find(self, path):
        """Raise FileNotFoundError if the client remembers that there is no such file."""
        path = os.path.abspath(os.fspath(path))
        folder, name = os.path.split(path)
        there = self._memory(folder).there
        if name not in there:
            there[name] = _exists(path)
        if not there[name]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _changes(self, real):
        def change(*words, **options):
            paths = [os.path.abspath(os.fspath(word)) for word in words if self.server.serves(word)]
            if not paths:
                return real(*words, **options)
            folder, *others = {os.path.dirname(path) for path in paths}
            assert not others, f"a change of two folders is not played here: {paths}"
            if self.server.serves(os.path.dirname(folder)):
                self._find(folder)  # on its way to the name the kernel passes the folder
            try:
                with self._changing(folder):
                    return real(*words, **options)
            finally:  # of a name that it tries in vain it asks the server next time
                for path in paths:
                    self._memory(folder).there.pop(os.path.basename(path), None)

        return change

    @contextlib.contextmanager
    def _changing(self, folder):
        with self.server.changing(folder) as before:
            yield
        memory = self._memory(folder)
        if memory.changes not in (before, before + 1):  # somebody else was here
            memory.there.clear()
        memory.changes, memory.listing = before + 1, None

    def stat(self, path, **options):
        if self.server.serves(path):
            self._find(path)
        return _real.stat(path, **options)

    def lstat(self, path, **options):
        if self.server.serves(path):
            self._find(path)
        return _real.lstat(path, **options)

    def utime(self, path, *rest, **options):
        if self.server.serves(path) and os.path.isdir(path):
            with self._changing(os.path.abspath(os.fspath(path))):
                return _real.utime(path, *rest, **options)
        return _real.utime(path, *rest, **options)

    def listdir(self, path="."):
        if not self.server.serves(path):
            return _real.listdir(path)
        memory = self._memory(os.path.abspath(os.fspath(path)))
        if memory.listing is None:
            memory.listing = _real.listdir(path)
        return list(memory.listing)

    def scandir(self, path="."):
        if not self.server.serves(path):
            return _real.scandir(path)
        names = set(self.listdir(path))
        with _real.scandir(path) as entries:
            return contextlib.nullcontext([entry for entry in entries if entry.name in names])

    def open(self, path, flags, *rest, **options):
        with self._opening(path, flags & os.O_CREAT):
            return _real.open(path, flags, *rest, **options)

    def file(self, path, mode="r", *rest, **options):
        if "opener" in options:  # it calls `os.open`
            return _real.file(path, mode, *rest, **options)
        with self._opening(path, set(mode) & set("wax")):
            return _real.file(path, mode, *rest, **options)

    @contextlib.contextmanager
    def _opening(self, path, creates):
        if not self.server.serves(path):
            yield
        elif creates and not _exists(path):
            folder, name = os.path.split(os.path.abspath(os.fspath(path)))
            with self._changing(folder):
                yield
            self._memory(folder).there[name] = True
        else:
            if not creates:
                self._find(path)
            yield
