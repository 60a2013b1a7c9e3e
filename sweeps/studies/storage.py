"""Where studies are kept for people: a journal file of the store, or a database.

A study is made from slots and run folders and written whole, by one process at a time. No code reads it back.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages.journal import BaseJournalBackend, JournalStorage
from optuna.trial import FrozenTrial

from htbench.harness.errors import UsageError
from htbench.harness.system import atomic
from htbench.sweeps.plan.slots import Study
from htbench.sweeps.spec import database

Create: TypeAlias = Callable[[BaseStorage], optuna.Study]  # an empty study in a storage


def write_journal(path: Path, create: Create, trials: Sequence[FrozenTrial]) -> None:
    """Replace a journal by one of a study with these trials, in one durable write.

    Optuna's backend would make a write for each change.
    """
    lines: list[dict[str, Any]] = []

    class Memory(BaseJournalBackend):
        def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
            return lines[log_number_from:]

        def append_logs(self, new: list[dict[str, Any]]) -> None:
            lines.extend(new)

    create(JournalStorage(Memory())).add_trials(trials)
    atomic.remove_temporaries(path.parent, path.name)  # of a process that died here
    atomic.write_text(path, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def write_to_database(study: Study, create: Create, trials: Sequence[FrozenTrial]) -> None:
    """Replace a study in its database by one with these trials.

    Raises:
        UsageError: the database does not answer.
    """
    url = study.url
    try:
        storage = RDBStorage(url)
        with contextlib.suppress(KeyError):
            optuna.delete_study(study_name=study.name_in_database, storage=storage)
        create(storage).add_trials(trials)
        storage.engine.dispose()
    except Exception as error:  # of whatever class: drivers and databases differ
        reason = database.without_secrets(str(error).partition("\n")[0], url)
        raise UsageError(
            f"The storage of study '{study.name}' can't be used ({type(error).__name__}: {reason}); "
            "PostgreSQL needs `pip install 'htbench[postgres]'` and a server that answers."
        ) from None
