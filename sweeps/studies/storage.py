"""Where a study is kept: in a journal file of the store, or in a database. One class for each kind.

Both have the same methods. The caller of `rewrite`, `refresh` and `clear` holds the lock of the study.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial

from harness.errors import UsageError
from harness.store.layout import studies_folder
from harness.system import atomic
from harness.system.folders import make_folder
from sweeps.plan.slots import Study
from sweeps.spec import database
from sweeps.studies import journal

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
        self.path = studies_folder(root) / f"{study.name}.journal"
        self.shown = str(self.path)
        self._connected_to = b""

    def connect(self, load: Load) -> Opened:
        """Open the study, which is created if it is not there."""
        make_folder(self.path.parent)
        if not self.path.exists():  # at once: what a study says of itself has many lines
            self._written(load, []).create(self.path)
        storage = journal.shared(self.path)
        study = load(storage)
        self._connected_to = self._first_line()
        return storage, study

    def is_current(self) -> bool:
        """Whether the file is the one that `connect` has opened; `rewrite` of another process replaces it."""
        return self._first_line() == self._connected_to

    def _first_line(self) -> bytes:
        """The first line of a journal, which differs for each: it has a random name of its writer.

        The inode does not differ: file systems soon give that of a deleted file to a new one.
        """
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as file:
            return file.readline()
        return b""

    def refresh(self) -> bool:
        """Drop cached NFS attributes, so that lines of other nodes become visible; True: open it again."""
        atomic.refresh_file_cache(self.path)
        return True

    def clear(self) -> None:
        """Replace a file that can't be read by an empty one."""
        atomic.write_bytes(self.path, b"")

    def rewrite(self, load: Load, storage: BaseStorage, trials: Sequence[FrozenTrial]) -> Opened:
        """Replace the study by one with these trials, in one durable write, and open it."""
        self._written(load, trials).write(self.path)
        return self.connect(load)

    def _written(self, load: Load, trials: Sequence[FrozenTrial]) -> journal.Journal:
        written = journal.Journal()
        load(written.storage()).add_trials(trials)
        return written

    def release(self, storage: BaseStorage) -> None:
        """Nothing is held between two calls."""


class Database:
    """A study in a database, which may serve several stores.

    Args:
        study: which study; its nonce tells it from those of other stores.
    """

    def __init__(self, study: Study) -> None:
        self.study_name = f"{study.name}.{study.nonce}"
        self.shown = study.shown_url
        self._study, self._url = study, study.url

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
            first = database.without_secrets(str(error).partition("\n")[0], self._url)
            raise UsageError(
                f"The storage of study '{self._study.name}' can't be used ({type(error).__name__}: {first}); "
                "PostgreSQL needs `pip install 'htbench[postgres]'` and a server that answers."
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

    def refresh(self) -> bool:
        """Nothing is cached; False: opening it again would show nothing new."""
        return False

    def clear(self) -> None:
        """Nothing: `connect` turns every error into a UsageError."""

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


def storage_of(root: Path, study: Study) -> JournalFile | Database:
    """Where a study is kept."""
    return Database(study) if study.storage else JournalFile(root, study)
