"""The connection to one study in its storage: ask, report, tell, and rebuild from slots and run folders."""

import contextlib
import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from htbench.harness.config import Value
from htbench.harness.config.settings import resolve_config
from htbench.harness.store import Store
from htbench.harness.store.points import SEARCH
from htbench.harness.store.record import RunRecord
from htbench.harness.store.study import Study
from htbench.sweeps.studies import drawing
from htbench.sweeps.studies.drawing import NoRepeats, make_distribution
from htbench.sweeps.studies.storage import Database, JournalFile
from htbench.sweeps.studies.study import (
    Description,
    encode_params,
    find_violations,
    judge_trial,
    make_trial,
    read_reports,
)


class Connection:
    """The connection to one study. It opens the study again if another process has rebuilt it.

    Args:
        root: the store.
        study: which study.

    Raises:
        UsageError: the database does not answer.
    """

    def __init__(self, root: Path, study: Study) -> None:
        self.store, self.study = Store(root), study
        about = {"sweep": study.sweep, "block": study.block, "stage": SEARCH}
        self.description = Description(resolve_config(study.fixed), about, without=study.axes)
        self.metric = self.description.metric
        self.home = Database(study) if study.storage else JournalFile(root, study)
        self.open()

    def open(self) -> None:
        """Connect, and create the study if there is none."""
        self.storage, self.optuna = self.home.connect(self._load)

    def _load(self, storage: BaseStorage) -> optuna.Study:
        return self.description.open(self.home.study_name, storage, drawing.make_pruner(self.study))

    def release(self) -> None:
        """Close the connection to a server until it is needed again."""
        self.home.release(self.storage)

    def list_trials(self) -> list[FrozenTrial]:
        """All trials by number."""
        return self.optuna.get_trials(deepcopy=False)

    def _find_id(self, number: int) -> int:
        """The id of a trial in the storage."""
        if not self.home.is_current():
            self.open()
        return self.storage.get_trial_id_from_study_id_trial_number(
            self.storage.get_study_id_from_name(self.home.study_name), number
        )

    def store_key(self, number: int, key: str) -> None:
        """Store the key of a trial's run in the trial, for people."""
        trial_id = self._find_id(number)
        if self.storage.get_trial(trial_id).state is TrialState.RUNNING:
            self.storage.set_trial_user_attr(trial_id, "key", key)

    def report(self, number: int, step: int, value: float) -> bool:
        """Store an evaluation, once; whether the pruner ends the trial here.

        A run that another study has pruned goes on from there. Its first report brings the earlier curve.
        """
        trial_id = self._find_id(number)
        trial = self.storage.get_trial(trial_id)
        earlier = {} if trial.intermediate_values else self._read_curve(trial.user_attrs["key"])
        self._store_curve(trial_id, {s: v for s, v in earlier.items() if s < step} | {step: value})
        # A resumed run has reports beyond its checkpoint. The pruner shall decide as it did the first time.
        trial = copy.copy(self.storage.get_trial(trial_id))
        trial.intermediate_values = {s: v for s, v in trial.intermediate_values.items() if s <= step}
        return bool(self.optuna.pruner.prune(self.optuna, trial))

    def tell(self, number: int, record: RunRecord) -> None:
        """Store how a trial ended, and the part of its curve that the study lacks; nothing if it has ended.

        The study lacks the whole curve if another sweep has trained the run.
        """
        trial_id = self._find_id(number)
        if self.storage.get_trial(trial_id).state is not TrialState.RUNNING:
            return
        state, value = judge_trial(record, self.metric)
        with contextlib.suppress(UpdateFinishedTrialError):  # another process tells it at this moment
            self._store_curve(trial_id, self._read_curve(record.key, record))
            for name, bound in find_violations(record, self.metric).items():
                self.storage.set_trial_system_attr(trial_id, f"constraints:{name}", bound)
            self.storage.set_trial_user_attr(trial_id, "status", record.status)
            self.optuna.tell(number, value, state=state, skip_if_finished=True)

    def _store_curve(self, trial_id: int, curve: Mapping[int, float]) -> None:
        for step in sorted(curve.keys() - self.storage.get_trial(trial_id).intermediate_values.keys()):
            self.storage.set_trial_intermediate_value(trial_id, step, curve[step])

    def _read_curve(self, key: str, record: RunRecord | None = None) -> dict[int, float]:
        return read_reports(self.store.run_folder(key), self.metric, record)

    # --- asking ---

    def list_lost_trials(self, filled: Mapping[int, Mapping[str, Any]]) -> list[FrozenTrial]:
        """The trials that are in no slot: the worker died before it wrote the slot, or its file is lost."""
        numbers = {content["trial"] for content in filled.values()}
        return [t for t in self.list_trials() if t.number not in numbers and t.state is not TrialState.FAIL]

    def ask(self, filled: Mapping[int, Mapping[str, Any]]) -> tuple[int, dict[str, Value]]:
        """A trial that is in no slot: a lost one, or a new one.

        Returns:
            its number, and its value on each axis.
        """
        lost_trials, axes = self.list_lost_trials(filled), self.study.axes
        number = lost_trials[0].number if lost_trials else len(self.list_trials())
        if lost_trials and lost_trials[0].params.keys() >= axes.keys():
            drawn = lost_trials[0].params
        else:
            distributions = {name: make_distribution(axis) for name, axis in axes.items()}
            self.optuna.sampler = NoRepeats(drawing.make_sampler(self.study, number), distributions)
            lost_id = lost_trials[0]._trial_id if lost_trials else None
            trial = self.optuna.ask() if lost_id is None else optuna.Trial(self.optuna, lost_id)
            drawn = {name: trial._suggest(name, axis) for name, axis in distributions.items()}
        return number, {name: drawing.decode_value(axis, drawn[name]) for name, axis in axes.items()}

    # --- repair ---

    def has_slots(self, filled: Mapping[int, Mapping[str, Any]]) -> bool:
        """Whether the study has the trial of every slot, with its key and parameters."""
        trials = [(trial.user_attrs.get("key"), trial.params) for trial in self.list_trials()]
        return all(
            content["trial"] < len(trials)
            and trials[content["trial"]]
            == (content["key"], encode_params(self.study.axes, content["overrides"]))
            for content in filled.values()
        )

    def rebuild(self, filled: Mapping[int, Mapping[str, Any]]) -> None:
        """Rebuild the study from slots and run folders. Trials keep their numbers. Those of no slot fail."""
        numbers = [content["trial"] for content in filled.values()]
        trials = [create_trial(state=TrialState.FAIL) for _ in range(max(numbers, default=-1) + 1)]
        for content in filled.values():
            key = content["key"]
            record = self.store.record(key)
            record = record if record is not None and record.ends(self.study.name) else None
            trials[content["trial"]] = make_trial(
                record,
                self.metric,
                without_record=TrialState.RUNNING,
                curve=self._read_curve(key, record),
                axes=self.study.axes,
                settings=content["overrides"],
                attributes={"key": key} | ({"status": record.status} if record else {}),
                after_tell=True,
            )
        self.storage, self.optuna = self.home.rewrite(self._load, self.storage, trials)
