"""Where studies are kept for people: a journal file of the store, or a database.

A study is made from slots and run folders, by one process at a time. No code goes by what is written there.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages.journal import BaseJournalBackend, JournalStorage
from optuna.trial import FrozenTrial

from htbench.harness.errors import UsageError
from htbench.harness.show.status import Status
from htbench.harness.store.study import Study
from htbench.harness.system import atomic
from htbench.sweeps.spec import database

Create = Callable[[BaseStorage], optuna.Study]  # an empty study in a storage


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


def write_to_database(study: Study, create: Create, trials: Sequence[FrozenTrial], rebuild: bool) -> None:
    """Bring a study in its database up to date with those trials that have ended.

    Stores that share a database add to the same study: its name tells all of its settings.

    Optuna can neither change a trial that has ended nor take one out. So the study is written anew if a run
    that was pruned has gone on since, and if a trial is there twice: two stores have added it at the same
    moment, or the server did what a process had asked that is dead by now. Meanwhile a second study has all
    of its trials; whoever finds that one goes on for a process that died.

    Args:
        study: which study.
        create: opens it, or creates it if it is not there.
        trials: all of it; those of slots have a key.
        rebuild: write it anew in any case. Trials of other stores stay, and none becomes a pruned one.

    Raises:
        UsageError: the database does not answer.
    """
    url, copy = database.resolved(study.storage), f"{study.name} (copy)"
    try:
        storage = RDBStorage(url)
        stored = create(storage)
        listed = _with_keys(stored.trials)
        known = dict(listed)
        if copy in optuna.get_all_study_names(storage):
            listed += _with_keys(optuna.load_study(study_name=copy, storage=storage).trials)
        ours = _with_keys(trials)
        found = [*listed, *ours] if rebuild else [*ours, *listed]  # the last of a key counts
        ended = {key: trial for key, trial in found if trial.user_attrs.get("status") != Status.PRUNED}
        wanted = dict(listed) | dict(found) | ended
        if rebuild or any(trial is not wanted[key] for key, trial in listed):
            second = optuna.create_study(study_name=copy, storage=storage, load_if_exists=True)
            second.add_trials(wanted.values())
            optuna.delete_study(study_name=study.name, storage=storage)
            stored, known = create(storage), {}
        stored.add_trials(trial for key, trial in wanted.items() if key not in known)
        if copy in optuna.get_all_study_names(storage):
            optuna.delete_study(study_name=copy, storage=storage)
        storage.engine.dispose()
    except Exception as error:  # of whatever class: drivers and databases differ
        reason = database.without_secrets(str(error).partition("\n")[0], url)
        raise UsageError(
            f"The storage of study '{study.name}' can't be used ({type(error).__name__}: {reason}); "
            "PostgreSQL needs `pip install 'htbench[postgres]'` and a server that answers."
        ) from None


def _with_keys(trials: Iterable[FrozenTrial]) -> list[tuple[str, FrozenTrial]]:
    """The trials that have ended with the keys of their runs."""
    return [(t.user_attrs["key"], t) for t in trials if t.state.is_finished() and "key" in t.user_attrs]
