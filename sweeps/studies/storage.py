"""The home of a study: a journal file of the store, or a database. One class for each kind.

Both have the same methods. The caller of `rewrite` holds the lock of the study.
A journal is written whole from memory, or shared by many workers under a lock.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages.journal import (
    BaseJournalBackend,
    JournalFileBackend,
    JournalFileOpenLock,
    JournalStorage,
)
from optuna.trial import FrozenTrial

from htbench.harness.errors import UsageError
from htbench.harness.store.layout import studies_folder
from htbench.harness.store.study import Study
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from htbench.harness.system.links import LinkError
from htbench.sweeps.spec import database

Load: TypeAlias = Callable[[BaseStorage], optuna.Study]  # loads the study, or creates it
Opened: TypeAlias = tuple[BaseStorage, optuna.Study]


class JournalFile:
    """A study in a journal file of its own.

    Args:
        root: the store.
        study: which study.
    """

    def __init__(self, root: Path, study: Study) -> None:
        self.study_name = study.name
        self.path = journal_path(root, study)
        self.address = str(self.path)
        self._connected_to = b""

    def connect(self, load: Load) -> Opened:
        """Open the study, which is created if it is not there.

        Raises:
            ValueError: the journal ends within a line. Other damage raises what Optuna says.
        """
        make_folder(self.path.parent)
        if not self.path.exists():  # at once: the attributes of a study take many lines
            atomic.create_text(self.path, _make_journal(load, []))
        storage = open_journal(self.path)
        study = load(storage)
        self._connected_to = self._read_first_line()
        return storage, study

    def is_current(self) -> bool:
        """Whether the file is the one that `connect` has opened; `rewrite` of another process replaces it."""
        return self._read_first_line() == self._connected_to

    def _read_first_line(self) -> bytes:
        """The first line of a journal, which differs for each: it has a random name of its writer.

        The inode does not differ: file systems soon give that of a deleted file to a new one.
        """
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as file:
            return file.readline()
        return b""

    def rewrite(self, load: Load, storage: BaseStorage, trials: Sequence[FrozenTrial]) -> Opened:
        """Replace the study by one with these trials, in one durable write, and open it."""
        write_journal(self.path, load, trials)
        return self.connect(load)

    def release(self, storage: BaseStorage) -> None:
        """Nothing is held between two calls."""


class Database:
    """A study in a database, which may serve several stores.

    Args:
        study: which study; its nonce tells it from those of other stores.
    """

    def __init__(self, study: Study) -> None:
        self.study_name = f"{study.name}.{study.nonce}"
        self.address = database.masked(database.with_driver(study.storage))
        self._study, self._url = study, database.resolved(study.storage)

    def connect(self, load: Load) -> Opened:
        """Open the study, which is created if it is not there.

        Raises:
            UsageError: the database does not answer.
        """
        try:
            try:
                return self._open(load)
            except Exception:
                with contextlib.suppress(Exception):  # another process may create the tables at this moment
                    RDBStorage(self._url, {"pool_size": 1})
                return self._open(load)
        except Exception as error:  # of whatever class: drivers and databases differ
            reason = database.without_secrets(str(error).partition("\n")[0], self._url)
            raise UsageError(
                f"The storage of study '{self._study.name}' can't be used "
                f"({type(error).__name__}: {reason}); PostgreSQL needs `pip install 'htbench[postgres]'` "
                "and a server that answers."
            ) from None

    def _open(self, load: Load) -> Opened:
        # To look for the tables and their version would take longer than everything else.
        storage = RDBStorage(
            self._url, {"pool_size": 1}, skip_compatibility_check=True, skip_table_creation=True
        )
        return storage, load(storage)

    def is_current(self) -> bool:
        """Always: `rewrite` of another process is visible at once."""
        return True

    def rewrite(self, load: Load, storage: BaseStorage, trials: Sequence[FrozenTrial]) -> Opened:
        """Replace the study by one with these trials."""
        with contextlib.suppress(KeyError):
            optuna.delete_study(study_name=self.study_name, storage=storage)
        study = load(storage)
        study.add_trials(trials)
        return storage, study

    def release(self, storage: BaseStorage) -> None:
        """Close the connection until the next call: a server allows about a hundred, and a run takes days."""
        assert isinstance(storage, RDBStorage)
        storage.engine.dispose()


def journal_path(root: Path, study: Study) -> Path:
    """The journal of a study."""
    return studies_folder(root) / f"{study.name}.journal"


# --- journals ---


def write_journal(path: Path, load: Load, trials: Sequence[FrozenTrial]) -> None:
    """Replace a journal by one of a study with these trials, in one durable write.

    No other process may write to it meanwhile. Optuna's backend would make a write for each change.
    """
    atomic.remove_temporaries(path.parent, path.name)  # of a process that died here
    atomic.write_text(path, _make_journal(load, trials))


def _make_journal(load: Load, trials: Sequence[FrozenTrial]) -> str:
    lines: list[dict[str, Any]] = []

    class Memory(BaseJournalBackend):
        def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
            return lines[log_number_from:]

        def append_logs(self, new: list[dict[str, Any]]) -> None:
            lines.extend(new)

    load(JournalStorage(Memory())).add_trials(trials)
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def open_journal(path: Path) -> JournalStorage:
    """The journal at `path` as a storage that many processes may use at once.

    Raises:
        LinkError: it is a link, or the file of its lock is.
        ValueError: it ends within a line, to which the next would be appended; so does every later change.
    """
    if path.is_symlink():
        raise LinkError(path)

    class Lock(JournalFileOpenLock):
        """A lock that the kernel frees when its holder dies; with Optuna's, others would wait for 30 s."""

        def __init__(self) -> None:
            self._stack = contextlib.ExitStack()

        def acquire(self) -> bool:
            with contextlib.ExitStack() as stack:
                stack.enter_context(atomic.locked(path.with_suffix(".lock")))
                atomic.refresh_file_cache(path)
                _refuse_incomplete_line(path)
                self._stack = stack.pop_all()
            return True

        def release(self) -> None:
            self._stack.close()

    with atomic.locked(path.with_suffix(".lock")):  # nobody is within a line now
        _refuse_incomplete_line(path)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=Lock()))


def _refuse_incomplete_line(path: Path) -> None:
    with open(path, "rb") as journal:
        journal.seek(max(0, journal.seek(0, os.SEEK_END) - 1))
        if journal.read() not in (b"", b"\n"):
            raise ValueError(f"the last line of '{path}' is incomplete")
