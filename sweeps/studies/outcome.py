"""What a study is told of a run, in Optuna's words."""

from __future__ import annotations

import math
from pathlib import Path

from optuna.trial import TrialState

from harness.store import curve
from harness.store.record import RunRecord
from harness.store.run_folder import RunFolder


def outcome(record: RunRecord, metric: str) -> tuple[TrialState, float | None]:
    """State and value of a trial. A run without a finite figure is no failure: it is called pruned."""
    value = record.metrics.get(metric)
    if record.status == "completed" and value is not None:
        return TrialState.COMPLETE, value
    return TrialState.PRUNED, None


def constraints(record: RunRecord, metric: str) -> dict[str, float]:
    """What makes TPE rank a trial without a finite figure last: that it broke a constraint.

    Of pruned trials TPE prefers those that came farthest, so late divergences would attract it.
    """
    good = record.status == "pruned" or outcome(record, metric)[0] is TrialState.COMPLETE
    return {} if good else {"diverged": 1.0}


def number_or_nan(value: float | None) -> float:
    """A figure as Optuna takes it: NaN if it is not finite, of which a curve on disk has null."""
    return value if value is not None and math.isfinite(value) else math.nan


def reports(folder: Path, metric: str, record: RunRecord | None) -> dict[int, float]:
    """The evaluations of a run by step, as they are reported: that at the end of a run is its value."""
    last = record.steps if record is not None and record.status == "completed" else math.inf
    return {
        row["step"]: number_or_nan(row[metric])
        for row in curve.read(RunFolder(folder).metrics)
        if metric in row and 0 < row["step"] < last
    }
