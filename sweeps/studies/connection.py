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
from htbench.sweeps.plan.slots import Study
from htbench.sweeps.studies import drawing
from htbench.sweeps.studies.drawing import NoRepeats, distribution
from htbench.sweeps.studies.storage import storage_of
from htbench.sweeps.studies.study import Description, constraints, outcome, params, reports, trial_of_run


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
        self.described = Description(resolve_config(study.fixed), about, without=study.axes)
        self.metric = self.described.metric
        self.kept = storage_of(root, study)
        self.open()

    def open(self) -> None:
        """Connect, and create the study if there is none."""
        self.storage, self.optuna = self.kept.connect(self._load)

    def _load(self, storage: BaseStorage) -> optuna.Study:
        return self.described.open(self.kept.study_name, storage, drawing.pruner(self.study))

    def release(self) -> None:
        """Close the connection to a server until it is needed again."""
        self.kept.release(self.storage)

    def trials(self) -> list[FrozenTrial]:
        """All trials by number."""
        return self.optuna.get_trials(deepcopy=False)

    def trial_id(self, number: int) -> int:
        """The id of a trial in the storage."""
        if not self.kept.is_current():
            self.open()
        return self.storage.get_trial_id_from_study_id_trial_number(
            self.storage.get_study_id_from_name(self.kept.study_name), number
        )

    def name(self, number: int, key: str) -> None:
        """Store the key of a trial's run in the trial, for people."""
        trial_id = self.trial_id(number)
        if self.storage.get_trial(trial_id).state is TrialState.RUNNING:
            self.storage.set_trial_user_attr(trial_id, "key", key)

    def report(self, number: int, step: int, value: float) -> bool:
        """Store an evaluation, once; whether the pruner ends the trial here.

        A run that another study has pruned goes on from there. Its first report brings the earlier curve.
        """
        trial_id = self.trial_id(number)
        known = self.storage.get_trial(trial_id)
        earlier = {} if known.intermediate_values else self._curve(known.user_attrs["key"])
        self._note(trial_id, {s: v for s, v in earlier.items() if s < step} | {step: value})
        # A resumed run has reports beyond its checkpoint. The pruner shall decide as it did the first time.
        trial = copy.copy(self.storage.get_trial(trial_id))
        trial.intermediate_values = {s: v for s, v in trial.intermediate_values.items() if s <= step}
        return bool(self.optuna.pruner.prune(self.optuna, trial))

    def tell(self, number: int, record: RunRecord) -> None:
        """Store how a trial ended and what is missing of its curve, unless it has ended already.

        All of the curve is missing if another sweep has trained the run.
        """
        trial_id = self.trial_id(number)
        if self.storage.get_trial(trial_id).state is not TrialState.RUNNING:
            return
        state, value = outcome(record, self.metric)
        with contextlib.suppress(UpdateFinishedTrialError):  # another process tells it at this moment
            self._note(trial_id, self._curve(record.key, record))
            for name, bound in constraints(record, self.metric).items():
                self.storage.set_trial_system_attr(trial_id, f"constraints:{name}", bound)
            self.storage.set_trial_user_attr(trial_id, "status", record.status)
            self.optuna.tell(number, value, state=state, skip_if_finished=True)

    def _note(self, trial_id: int, curve: Mapping[int, float]) -> None:
        for step in sorted(curve.keys() - self.storage.get_trial(trial_id).intermediate_values.keys()):
            self.storage.set_trial_intermediate_value(trial_id, step, curve[step])

    def _curve(self, key: str, record: RunRecord | None = None) -> dict[int, float]:
        return reports(self.store.run_folder(key), self.metric, record)

    # --- asking ---

    def lost(self, filled: Mapping[int, Mapping[str, Any]]) -> list[FrozenTrial]:
        """The trials that are in no slot: the worker died before it wrote the slot, or its file is lost."""
        taken = {content["trial"] for content in filled.values()}
        return [t for t in self.trials() if t.number not in taken and t.state is not TrialState.FAIL]

    def ask(self, filled: Mapping[int, Mapping[str, Any]]) -> tuple[int, dict[str, Value]]:
        """A trial that is in no slot: a lost one, or a new one.

        Returns:
            its number, and its value on each axis.
        """
        lost = self.lost(filled)
        number = lost[0].number if lost else len(self.trials())
        if lost and lost[0].params.keys() >= self.study.axes.keys():
            drawn = lost[0].params
        else:
            axes = {name: distribution(axis) for name, axis in self.study.axes.items()}
            self.optuna.sampler = NoRepeats(drawing.sampler(self.study, number), axes)
            trial = optuna.Trial(self.optuna, lost[0]._trial_id) if lost else self.optuna.ask()
            drawn = {name: trial._suggest(name, axis) for name, axis in axes.items()}
        return number, {name: drawing.value_of(axis, drawn[name]) for name, axis in self.study.axes.items()}

    # --- repair ---

    def agrees(self, filled: Mapping[int, Mapping[str, Any]]) -> bool:
        """Whether the study has the trial of every slot, with its key and parameters."""
        known = [(trial.user_attrs.get("key"), trial.params) for trial in self.trials()]
        return all(
            content["trial"] < len(known)
            and known[content["trial"]] == (content["key"], params(self.study.axes, content["overrides"]))
            for content in filled.values()
        )

    def rebuild(self, filled: Mapping[int, Mapping[str, Any]]) -> None:
        """Rebuild the study from slots and run folders. Trials keep their numbers. Those of no slot fail."""
        by_number = {content["trial"]: content for content in filled.values()}
        rows = [self._frozen(by_number.get(number)) for number in range(max(by_number, default=-1) + 1)]
        self.storage, self.optuna = self.kept.rewrite(self._load, self.storage, rows)

    def _frozen(self, content: Mapping[str, Any] | None) -> FrozenTrial:
        if content is None:
            return create_trial(state=TrialState.FAIL)
        key = content["key"]
        record = self.store.record(key)
        record = record if record is not None and record.ends(self.study.name) else None
        return trial_of_run(
            record,
            self.metric,
            without_record=TrialState.RUNNING,
            curve=self._curve(key, record),
            axes=self.study.axes,
            settings=content["overrides"],
            attributes={"key": key} | ({"status": record.status} if record else {}),
            as_told=True,
        )
