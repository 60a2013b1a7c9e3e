"""A job's side of a search: ask for the trial of a slot, report to its study, tell how it ended.

A job that dies leaves the search in one of these states, and the next job goes on from there:

    asked, slot not written     the next empty slot takes the trial, so none is lost or drawn twice
    slot written, no record     the same slot again: the run goes on from its checkpoint
    record on disk, not told    `reconcile` tells the study
    study lost or damaged       written anew from slots and run folders
    slot file lost or damaged   its trial is in the study and fills the next empty slot

One lock per study orders the asking jobs on all machines; reports and tells need no lock.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from optuna.trial import TrialState

from htbench.harness.config import Value
from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import PrunedError
from htbench.harness.store import Store
from htbench.harness.store.points import slot_path
from htbench.harness.store.record import RunRecord
from htbench.harness.store.study import Study, study_path
from htbench.harness.system import atomic, seal
from htbench.sweeps.plan import slots
from htbench.sweeps.studies.connection import Connection
from htbench.sweeps.studies.storage import journal_path
from htbench.sweeps.studies.study import number_or_nan

log = logging.getLogger("htbench")


class Trial:
    """The trial of one slot, for the process that works on it.

    Attributes:
        key: of its run.
        settings: of the run.
        study: the name of its study.
    """

    def __init__(self, connection: Connection, content: Mapping[str, Any]) -> None:
        self._connection, self._number = connection, int(content["trial"])
        self.key = str(content["key"])
        self.settings: dict[str, Value] = dict(content["overrides"])
        self.study = connection.study.name

    def report(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Report an evaluation to the study.

        A run does not depend on its study: an error is logged, and the value is in the run's curve for later.

        Raises:
            PrunedError: the pruner ends the trial.
        """
        ends = False
        with self._log_errors(f"step {step} was not reported to {self.study}"):
            value = number_or_nan(metrics.get(self._connection.metric))
            ends = self._connection.report(self._number, step, value)
        if ends:
            raise PrunedError(f"stopped at step {step} by {self.study}")

    def tell(self, record: RunRecord) -> None:
        """Tell the study how it ended; the record must be on disk."""
        atomic.crash_point("tell")
        with self._log_errors(f"{self.study} was not told of run {self.key}"):  # `reconcile` will tell
            self._connection.tell(self._number, record)

    @contextlib.contextmanager
    def _log_errors(self, consequence: str) -> Iterator[None]:
        """Use the connection; an error is logged, with its consequence."""
        try:
            yield
        except Exception as error:
            log.warning("%s: %s: %s", consequence, type(error).__name__, error)
        finally:
            self._connection.release()


def take(store: Store, sweep: str, slot: str) -> Trial:
    """The trial of a slot: the one that fills it, else a new one.

    Args:
        store: the store.
        sweep: the sweep's name.
        slot: `<study>/<number>`.

    Raises:
        UsageError: the study was never planned, or its database does not answer.
    """
    name, _, number = slot.rpartition("/")
    study = slots.read_study(store.root, sweep, name)
    with _lock_and_repair(store, study) as (connection, filled):
        content = filled.get(int(number)) or _fill_slot(connection, int(number), filled)
    return Trial(connection, content)


def reconcile(store: Store, sweep: str, name: str, *, rebuild: bool = False) -> str:
    """Bring a study up to date with slots and run folders: tell it the runs that have ended.

    Args:
        store: the store.
        sweep: the sweep's name.
        name: the study's.
        rebuild: write the study anew in any case.

    Returns:
        where `optuna-dashboard` finds it.
    """
    study = slots.read_study(store.root, sweep, name)
    with _lock_and_repair(store, study, rebuild) as (connection, filled):
        running = {trial.number for trial in connection.list_trials() if trial.state is TrialState.RUNNING}
        for content in filled.values():
            record = store.record(content["key"]) if content["trial"] in running else None
            if record is not None and record.ends(study.name):
                connection.tell(content["trial"], record)
    return connection.home.address


@contextlib.contextmanager
def _lock_and_repair(
    store: Store, study: Study, rebuild: bool = False
) -> Iterator[tuple[Connection, dict[int, dict[str, Any]]]]:
    folder = study_path(store.root, study.sweep, study.name).parent
    with atomic.locked(folder / ".lock"):
        atomic.remove_temporaries(folder)
        filled = slots.read_slots(store.root, study)
        connection = _open_study(store, study)
        is_whole = connection.has_slots(filled)
        if not (is_whole or study.storage):  # a network file system may hide new lines of other processes
            atomic.refresh_file_cache(journal_path(store.root, study))
            connection = _open_study(store, study)
            is_whole = connection.has_slots(filled)
        if is_whole and rebuild:  # `rebuild` keeps the trials of slots only, so lost ones get slots first
            empty = [number for number in range(study.trials) if number not in filled]
            for number, _ in zip(empty, connection.list_lost_trials(filled), strict=False):
                filled[number] = _fill_slot(connection, number, filled)
        if rebuild or not is_whole:
            connection.rebuild(filled)
        try:
            yield connection, filled
        finally:
            connection.release()


def _open_study(store: Store, study: Study) -> Connection:
    """Open a study. A new journal replaces one that can't be read, whatever Optuna raises then."""
    try:
        return Connection(store.root, study)
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, IndexError):
        journal_path(store.root, study).unlink()
        return Connection(store.root, study)


def _fill_slot(
    connection: Connection, number: int, filled: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    trial, values = connection.ask(filled)
    overrides = connection.study.fixed | values
    key = run_key(resolve_config(overrides))
    connection.store_key(trial, key)
    content = {"study": connection.study.name, "trial": trial, "key": key, "overrides": overrides}
    atomic.write_json(
        slot_path(connection.store.root, connection.study.sweep, connection.study.slot(number)),
        seal.sealed(content),
    )
    return content
