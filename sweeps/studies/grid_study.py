"""The journal of one objective of a grid: its trials as the run folders have them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from pathlib import Path

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from harness.config import Value
from harness.config.settings import param_of
from harness.data import registry as tasks
from harness.store import Kind, RunState, Store
from sweeps.plan.planned import Planned
from sweeps.plan.states import word
from sweeps.studies.journal import Journal
from sweeps.studies.outcome import evaluations, trial_of_run

# Bounds of numbers without a range of their own. No grid leaves them, since a distribution
# may never change within a study.
WIDEST, WIDEST_INT = 1e300, 2**53

_WITHOUT_RECORD = {
    Kind.FAILED: TrialState.FAIL,
    Kind.LIVE: TrialState.RUNNING,
    Kind.WAITING: TrialState.WAITING,
}


def write(store: Store, path: Path, name: str, rows: Sequence[tuple[Planned, RunState]]) -> None:
    """Write the journal of a study.

    Args:
        store: where the runs are.
        path: the journal.
        name: of the study.
        rows: its points, each with what became of it.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    task = tasks.spec(rows[0][0].config.task)
    journal = Journal()
    study = optuna.create_study(
        study_name=name,
        storage=journal.storage(),
        direction="maximize" if task.higher_is_better else "minimize",
    )
    study.add_trials([_trial(store, planned, state, f"val_{task.metric}") for planned, state in rows])
    journal.write(path)


def _trial(store: Store, planned: Planned, state: RunState, metric: str) -> FrozenTrial:
    point, record, axes = planned.point, state.record, _axes(planned)
    return trial_of_run(
        record,
        metric,
        without_record=_WITHOUT_RECORD.get(state.kind, TrialState.WAITING),
        curve=evaluations(store.run_folder(point.key), metric) if record is not None else {},
        params={axis: _plain(planned, axis) for axis in axes},
        distributions={axis: _distribution(planned, axis) for axis in axes},
        attributes={"key": point.key, "stage": point.stage, "status": word(state)} | _remark(state),
    )


def _remark(state: RunState) -> dict[str, str]:
    text = state.record.note if state.record is not None else state.message
    return {"remark": text} if text else {}


# --- parameters and their distributions ---


def _axes(planned: Planned) -> list[str]:
    """The parameters of a trial: every numeric hyperparameter and both seeds, whether they vary or not."""
    hyper = [f"optimizer.{name}" for name in planned.config.optimizer.hyper]
    shown = ["optimizer.lr", "optimizer.weight_decay", *hyper, "seed", "data_seed"]
    return [
        name
        for name in shown
        if isinstance(_plain(planned, name), bool | int | float | str) and _is_closed(planned, name)
    ]


def _is_closed(planned: Planned, axis: str) -> bool:
    """Whether all values are known beforehand, as a distribution must not change. Those of a word are not."""
    param = param_of(planned.config.optimizer.name, axis)
    return param.type in (float, int, bool, Real) or bool(param.choices)


def _plain(planned: Planned, axis: str) -> Value:
    config = planned.config
    name = axis.removeprefix("optimizer.")
    if name in config.optimizer.hyper:
        return config.optimizer.hyper[name]
    return getattr(config.optimizer if axis.startswith("optimizer.") else config, name)


def _distribution(planned: Planned, axis: str) -> BaseDistribution:
    param = param_of(planned.config.optimizer.name, axis)
    if param.type in (float, Real):
        if axis == "optimizer.lr":
            return FloatDistribution(1 / WIDEST, WIDEST, log=True)
        return FloatDistribution(_bound(param.low, -WIDEST), _bound(param.high, WIDEST))
    if param.type is int:
        return IntDistribution(int(_bound(param.low, -WIDEST_INT)), int(_bound(param.high, WIDEST_INT)))
    return CategoricalDistribution(param.choices or (False, True))


def _bound(bound: float | None, otherwise: float) -> float:
    return otherwise if bound is None else bound
