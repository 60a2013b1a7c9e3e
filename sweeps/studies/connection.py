"""The connection to one study in its storage: ask, report, tell, and write it anew from slots and folders."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from harness.config import Value
from harness.config.settings import resolve_config
from harness.data import registry as tasks
from harness.store import Store
from harness.store.record import RunRecord
from sweeps.plan.slots import Study
from sweeps.studies import pruners, samplers
from sweeps.studies.distributions import distribution, label, suggest, value_of
from sweeps.studies.no_repeats import NoRepeats
from sweeps.studies.outcome import constraints, outcome, reports, trial_of_run
from sweeps.studies.storage import storage_of

optuna.logging.set_verbosity(optuna.logging.ERROR)


class Connection:
    """The connection to one study; opened anew when the study was written anew meanwhile.

    Args:
        root: the store.
        study: which study.

    Raises:
        UsageError: the database does not answer.
    """

    def __init__(self, root: Path, study: Study) -> None:
        self.store, self.study = Store(root), study
        self.task = tasks.spec(resolve_config(study.fixed).task)
        self.metric = f"val_{self.task.metric}"
        self.kept = storage_of(root, study)
        self.open()

    def open(self) -> None:
        """Connect, and create the study if there is none."""
        self.storage, self.optuna = self.kept.connect(self._load)

    def _load(self, storage: BaseStorage) -> optuna.Study:
        name, pruner = self.kept.study_name, pruners.pruner(self.study)
        with contextlib.suppress(KeyError):  # first, as a journal notes every creation
            return optuna.load_study(study_name=name, storage=storage, pruner=pruner)
        return optuna.create_study(
            study_name=name,
            storage=storage,
            direction="maximize" if self.task.higher_is_better else "minimize",
            pruner=pruner,
            load_if_exists=True,
        )

    def release(self) -> None:
        """Close the connection to a server until it is needed again."""
        self.kept.release(self.storage)

    def trials(self) -> list[FrozenTrial]:
        """All trials by number."""
        return self.optuna.get_trials(deepcopy=False)

    def trial_id(self, number: int) -> int:
        """How the storage calls a trial."""
        if not self.kept.is_current():
            self.open()
        return self.storage.get_trial_id_from_study_id_trial_number(
            self.storage.get_study_id_from_name(self.kept.study_name), number
        )

    def name(self, number: int, key: str) -> None:
        """Note which run a trial is, for people."""
        trial_id = self.trial_id(number)
        if self.storage.get_trial(trial_id).state is TrialState.RUNNING:
            self.storage.set_trial_user_attr(trial_id, "key", key)

    def report(self, number: int, step: int, value: float) -> bool:
        """Note an evaluation, once; whether the trial should end here.

        The first of a run that goes on from where another study stopped it brings the curve so far along.
        """
        trial_id = self.trial_id(number)
        known = self.storage.get_trial(trial_id)
        earlier = {} if known.intermediate_values else self._curve(known.user_attrs["key"])
        self._note(trial_id, {s: v for s, v in earlier.items() if s < step} | {step: value})
        # A run that died has reports beyond its checkpoint: it is judged by where it is, as it was then.
        trial = copy.copy(self.storage.get_trial(trial_id))
        trial.intermediate_values = {s: v for s, v in trial.intermediate_values.items() if s <= step}
        return bool(self.optuna.pruner.prune(self.optuna, trial))

    def tell(self, number: int, record: RunRecord) -> None:
        """Note how a trial ended, unless that is known, and of its curve what was not reported.

        That is all of it if somebody else made the run.
        """
        trial_id = self.trial_id(number)
        if self.storage.get_trial(trial_id).state is not TrialState.RUNNING:
            return
        state, value = outcome(record, self.metric)
        with contextlib.suppress(UpdateFinishedTrialError):  # somebody else tells at the same instant
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
        """The trials that are in no slot: asked for in vain, or their slot's file is lost."""
        taken = {content["trial"] for content in filled.values()}
        return [t for t in self.trials() if t.number not in taken and t.state is not TrialState.FAIL]

    def ask(self, filled: Mapping[int, Mapping[str, Any]]) -> tuple[int, dict[str, Value]]:
        """A trial that is in no slot: a lost one, or a new one.

        Returns:
            its number, and what it says about the axes.
        """
        lost = self.lost(filled)
        number = lost[0].number if lost else len(self.trials())
        if lost and lost[0].params.keys() >= self.study.axes.keys():
            params = lost[0].params
        else:
            axes = {name: distribution(axis) for name, axis in self.study.axes.items()}
            self.optuna.sampler = NoRepeats(samplers.sampler(self.study, number), axes)
            trial = optuna.Trial(self.optuna, lost[0]._trial_id) if lost else self.optuna.ask()
            params = {name: suggest(trial, name, axis) for name, axis in self.study.axes.items()}
        return number, {name: value_of(axis, params[name]) for name, axis in self.study.axes.items()}

    # --- mending ---

    def agrees(self, filled: Mapping[int, Mapping[str, Any]]) -> bool:
        """Whether the study knows the trial of every slot as the slot has it."""
        known = [(trial.user_attrs.get("key"), trial.params) for trial in self.trials()]
        return all(
            content["trial"] < len(known)
            and known[content["trial"]] == (content["key"], self._params(content))
            for content in filled.values()
        )

    def rebuild(self, filled: Mapping[int, Mapping[str, Any]]) -> None:
        """Write the study anew from slots and run folders. Numbers stay; those without a slot have failed."""
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
            params=self._params(content),
            distributions={name: distribution(axis) for name, axis in self.study.axes.items()},
            attributes={"key": key} | ({"status": record.status} if record else {}),
            as_told=True,
        )

    def _params(self, content: Mapping[str, Any]) -> dict[str, Value]:
        return {name: label(axis, content["overrides"].get(name)) for name, axis in self.study.axes.items()}
