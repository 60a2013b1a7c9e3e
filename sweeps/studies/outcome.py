"""Convert a run to Optuna's trial: its state, value, constraints and curve, or all of it at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from harness.store import curve
from harness.store.record import RunRecord
from harness.store.run_folder import RunFolder


def outcome(record: RunRecord, metric: str) -> tuple[TrialState, float | None]:
    """State and value of a trial. A run without a finite metric has not failed: its trial is pruned."""
    value = record.metrics.get(metric)
    if record.status == "completed" and value is not None:
        return TrialState.COMPLETE, value
    return TrialState.PRUNED, None


def constraints(record: RunRecord, metric: str) -> dict[str, float]:
    """The constraints of a trial: one without a finite metric violates one, so TPE ranks it last.

    TPE prefers pruned trials that have come far, so without this it would prefer late divergences.
    """
    good = record.status == "pruned" or outcome(record, metric)[0] is TrialState.COMPLETE
    return {} if good else {"diverged": 1.0}


def number_or_nan(value: float | None) -> float:
    """A metric as Optuna takes it: NaN if it is not finite, for which a curve on disk has null."""
    return value if value is not None and math.isfinite(value) else math.nan


def reports(folder: Path, metric: str, record: RunRecord | None) -> dict[int, float]:
    """The evaluations of a run that are reported, by step. The last of a completed run is its value."""
    last = record.steps if record is not None and record.status == "completed" else math.inf
    return {
        row["step"]: number_or_nan(row[metric])
        for row in curve.read(RunFolder(folder).metrics)
        if metric in row and 0 < row["step"] < last
    }


def evaluations(folder: Path, metric: str) -> dict[int, float]:
    """All finite evaluations of a run by step, that of the untrained model and that of the end included."""
    rows = curve.read(RunFolder(folder).metrics)
    return {row["step"]: row[metric] for row in rows if row.get(metric) is not None}


def trial_of_run(
    record: RunRecord | None,
    metric: str,
    *,
    without_record: TrialState,
    curve: Mapping[int, float],
    params: Mapping[str, Any],
    distributions: Mapping[str, BaseDistribution],
    attributes: Mapping[str, Any],
    as_told: bool = False,
) -> FrozenTrial:
    """A trial as its run folder has it.

    Args:
        record: of the run; None if it has not ended for the study.
        metric: its key in the metrics of a record.
        without_record: the state of the trial if there is no record.
        curve: evaluations by step.
        params: value of each parameter.
        distributions: distribution of each parameter.
        attributes: for people, who see them in the dashboard.
        as_told: have the value and the constraints that Optuna gives a trial when it is told, on which the
            next draws depend.
    """
    state, value = outcome(record, metric) if record is not None else (without_record, None)
    if as_told and state is TrialState.PRUNED and curve:
        value = curve[max(curve)]
    return create_trial(
        state=state,
        value=None if value is None or math.isnan(value) else value,
        params=dict(params),
        distributions=dict(distributions),
        intermediate_values=dict(curve),
        user_attrs=dict(attributes),
        constraints=constraints(record, metric) if as_told and record is not None else None,
    )
