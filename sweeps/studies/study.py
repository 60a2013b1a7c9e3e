"""Runs and points in the form of Optuna: studies and their descriptions, trials and their curves."""

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from htbench.harness import tasks
from htbench.harness.config import RunConfig, Value, programs
from htbench.harness.config.settings import resolve_config, to_settings
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store, curve
from htbench.harness.store.points import SEARCH, SEED_FIELDS
from htbench.harness.store.record import RunRecord
from htbench.harness.store.run_folder import RunFolder
from htbench.harness.store.study import Axis, Study
from htbench.sweeps.plan.planned import Planned
from htbench.sweeps.plan.slots import Slots
from htbench.sweeps.studies.drawing import encode_value, make_axis, make_distribution, make_pruner
from htbench.sweeps.studies.storage import write_journal, write_to_database

optuna.logging.set_verbosity(optuna.logging.ERROR)

_WITHOUT_RECORD = {Status.FAILED: TrialState.FAIL, Status.RUNNING: TrialState.RUNNING}


# --- a study ---


class Description:
    """The direction, the metric and the attributes of a study, in a grid as in a search.

    Args:
        name: of the study.
        config: of one of its trials.
        more: other attributes, such as the block.
        without: settings that are attributes or parameters of its trials.
        trials: the settings of all its trials. Those that differ among them are left out, too.

    Attributes:
        metric: the name of its objective, a key in the metrics of a record, such as `val_loss`.
        attributes: the settings that all of its trials share, for people, who see them in the dashboard.
    """

    def __init__(
        self,
        name: str,
        config: RunConfig,
        more: Mapping[str, Value],
        *,
        without: Collection[str],
        trials: Sequence[Mapping[str, Value]] = (),
    ) -> None:
        task = programs.task(config) if config.program else tasks.spec(config.task)
        settings = {n: value for n, value in to_settings(config).items() if n not in without}
        shared = {n: _to_json(v) for n, v in settings.items() if all(n in t and t[n] == v for t in trials)}
        self.metric, self.attributes = f"val_{task.metric}", {**more, **shared}
        self._name = name
        self._direction = StudyDirection.MAXIMIZE if task.higher_is_better else StudyDirection.MINIMIZE

    def create(self, storage: BaseStorage) -> optuna.Study:
        """The study in a storage, with its attributes; a new one if there is none."""
        study = optuna.create_study(
            study_name=self._name, storage=storage, direction=self._direction, load_if_exists=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            study.set_metric_names([self.metric])
        known = study.user_attrs  # fewer, if a process died here
        for attribute, value in self.attributes.items():
            if attribute not in known:
                study.set_user_attr(attribute, value)
        return study


def _to_json(value: Value) -> Any:
    """A value as it comes back from a storage, which keeps JSON."""
    return list(value) if isinstance(value, tuple) else value


# --- a trial ---


def number_or_nan(value: float | None) -> float:
    """A metric for Optuna: NaN if it is not finite, for which a curve on disk has null."""
    return value if value is not None and math.isfinite(value) else math.nan


def read_reports(folder: Path, metric: str, record: RunRecord | None) -> dict[int, float]:
    """The evaluations of a run by step. The last of a completed run, if its record is given, is its value."""
    last = record.steps if record is not None and record.status is Status.COMPLETED else math.inf
    return {
        row["step"]: number_or_nan(row[metric])
        for row in curve.read(RunFolder(folder).metrics, metric)
        if metric in row and 0 < row["step"] < last
    }


def make_trial(
    record: RunRecord | None,
    metric: str,
    *,
    without_record: TrialState,
    curve: Mapping[int, float],
    axes: Mapping[str, Axis],
    settings: Mapping[str, Value],
    attributes: Mapping[str, Any],
) -> FrozenTrial:
    """The trial of a run, from its run folder, as if Optuna had been told.

    A run without a finite metric has not failed: its trial is pruned.

    Args:
        record: of the run; None if it has not ended for the study.
        metric: its key in the metrics of a record.
        without_record: the state of the trial if there is no record.
        curve: evaluations by step.
        axes: the parameters.
        settings: of the run, those on the axes among them.
        attributes: for people, who see them in the dashboard.
    """
    value = record.metrics.get(metric) if record is not None else None
    violations: dict[str, float] | None = {}
    if record is None:
        state, violations = without_record, None
    elif record.status is Status.COMPLETED and value is not None:
        state = TrialState.COMPLETE
    else:
        state, value = TrialState.PRUNED, curve[max(curve)] if curve else None
        if record.status is not Status.PRUNED:
            # TPE prefers pruned trials that have come far; one without a finite metric shall rank last.
            violations = {"diverged": 1.0}
    return create_trial(
        state=state,
        value=None if value is None or math.isnan(value) else value,
        params=encode_params(axes, settings),
        distributions={name: make_distribution(axis) for name, axis in axes.items()},
        intermediate_values=dict(curve),
        user_attrs=dict(attributes),
        constraints=violations,
    )


def encode_params(axes: Mapping[str, Axis], settings: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters of a trial with these settings."""
    return {name: encode_value(axis, settings.get(name)) for name, axis in axes.items()}


# --- a grid ---


def write_grid(
    store: Store, path: Path, searched: Sequence[str], rows: Sequence[tuple[Planned, RunState]]
) -> None:
    """Write the journal of a grid's study. Searched settings are its parameters, all others attributes.

    Args:
        store: where the runs are.
        path: the journal; its stem is the name of the study.
        searched: the settings that are its parameters.
        rows: its points, each with the state of its run.
    """
    settings = [to_settings(planned.config) for planned, _ in rows]
    axes = {name: make_axis([one.get(name) for one in settings]) for name in searched}
    first = rows[0][0]
    about = {"sweep": first.point.sweep, "block": first.point.block, "stage": first.point.stage}
    description = Description(path.stem, first.config, about, without={*axes, *SEED_FIELDS}, trials=settings)
    metric, shared = description.metric, axes.keys() | description.attributes.keys()
    trials = []
    for (planned, state), own in zip(rows, settings, strict=True):
        key, record = planned.point.key, state.record
        remark = record.note if record is not None else state.message
        attributes = {"key": key, "status": state.status.value} | ({"remark": remark} if remark else {})
        attributes |= {name: _to_json(value) for name, value in own.items() if name not in shared}
        trials.append(
            make_trial(
                record,
                metric,
                without_record=_WITHOUT_RECORD.get(state.status, TrialState.WAITING),
                curve=read_reports(store.run_folder(key), metric, None) if record is not None else {},
                axes=axes,
                settings=own,
                attributes=attributes,
            )
        )
    write_journal(path, description.create, trials)


# --- a search ---


def load_search(store: Store, study: Study, filled: Slots) -> optuna.Study:
    """The study of a search, in memory.

    Args:
        store: where the runs are.
        study: which study.
        filled: its slots, as `slots.read_slots` returns them.
    """
    description = _describe_search(study)
    loaded = description.create(InMemoryStorage())
    loaded.pruner = make_pruner(study)
    loaded.add_trials(_make_search_trials(store, study, filled, description.metric))
    return loaded


def write_search(store: Store, study: Study, filled: Slots, path: Path, rebuild: bool) -> None:
    """Write the study of a search to its database, or to this journal if it has none."""
    description = _describe_search(study)
    trials = _make_search_trials(store, study, filled, description.metric)
    if study.storage:
        write_to_database(study, description.create, trials, rebuild)
    else:
        write_journal(path, description.create, trials)


def _describe_search(study: Study) -> Description:
    about = {"sweep": study.sweep, "block": study.block, "stage": SEARCH}
    return Description(study.name, resolve_config(study.fixed), about, without=study.axes)


def _make_search_trials(store: Store, study: Study, filled: Slots, metric: str) -> list[FrozenTrial]:
    """The trials of the slots by number. A number that is in no slot has failed."""
    numbers = [content["trial"] for content in filled.values()]
    trials = [create_trial(state=TrialState.FAIL) for _ in range(max(numbers, default=-1) + 1)]
    for content in filled.values():
        key = content["key"]
        record = store.record(key)
        record = record if record is not None and record.ends(study.name) else None
        trials[content["trial"]] = make_trial(
            record,
            metric,
            without_record=TrialState.RUNNING,
            curve=read_reports(store.run_folder(key), metric, record),
            axes=study.axes,
            settings=content["overrides"],
            attributes={"key": key} | ({"status": record.status} if record else {}),
        )
    return trials
