"""Each objective of a grid as an Optuna study, for its dashboard and plots.

The studies are a picture of the run folders: one writer at a time, under a lock, appends what
changed to a journal file per objective. Where that can't be done (a trial that has ended is open again, or no
longer wanted; the journal is damaged), or when it is asked for anew, a journal is remade from the folders.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config import Value
from harness.data import registry as tasks
from harness.store import Kind, RunState, Store
from harness.store import curve as metrics
from harness.store.points import sweep_folder
from harness.system import atomic
from harness.system.folders import make_folder
from sweeps.plan.params import param_of
from sweeps.plan.planned import Planned, objective
from sweeps.plan.states import states, word
from sweeps.spec.sweep import SweepSpec
from sweeps.studies.journal import Journal

if TYPE_CHECKING:
    import optuna
    from optuna.storages.journal import JournalStorage

# Bounds of numbers without a range of their own: so wide that no grid leaves them, as a distribution may
# never change within a study.
WIDEST, WIDEST_INT = 1e300, 2**53


@dataclass(frozen=True)
class Row:
    """What a trial should say."""

    planned: Planned
    state: RunState

    @property
    def word(self) -> str:
        """Its state in one word; a trial changes when this does."""
        return word(self.state)


def refresh(
    store: Store, spec: SweepSpec, planned: Sequence[Planned], *, rebuild: bool = False
) -> list[Path]:
    """Bring the studies of a sweep up to date with the run folders.

    Args:
        store: the store.
        spec: the sweep.
        planned: its points.
        rebuild: write the journals anew.

    Returns:
        the journal files, one per objective, for `optuna-dashboard`.
    """
    known = states(store, [one.point for one in planned])
    groups: dict[str, list[Row]] = {}
    for one in planned:
        groups.setdefault(study_name(one, spec), []).append(Row(one, known[one.point.id]))
    folder = store.root / "studies"
    make_folder(folder)
    paths = []
    for name, rows in groups.items():
        path = folder / f"{name}.journal"
        paths.append(path)
        with atomic.locked(sweep_folder(store.root, spec.name) / ".lock"):
            _refresh(store, path, name, rows, rebuild)
    return paths


def study_name(one: Planned, spec: SweepSpec) -> str:
    """The study that a point belongs to; also the name of its journal file."""
    return re.sub(r"[^\w.=-]+", "_", ".".join((spec.name, *objective(one.point, spec))))


def _refresh(store: Store, path: Path, name: str, rows: list[Row], rebuild: bool) -> None:
    digest_path = path.with_suffix(".json")
    digest = hashlib.sha256(
        "".join(f"{row.planned.point.key} {row.word}\n" for row in rows).encode()
    ).hexdigest()
    noted = atomic.read_json(digest_path)
    size = path.stat().st_size if path.exists() else -1
    if not rebuild and noted == {"digest": digest, "size": size}:
        return  # nothing has changed: importing Optuna alone would cost a second
    atomic.remove_temporaries(path.parent, digest_path.name)
    whole = rebuild or not isinstance(noted, dict) or noted.get("size") != size
    try:
        journal = Journal([] if whole else path.read_bytes().splitlines())
        _update(journal, store, name, rows)
    # What can't be appended, and whatever Optuna makes of a damaged journal.
    except (ValueError, KeyError, TypeError, AttributeError):
        whole, journal = True, Journal([])
        _update(journal, store, name, rows)
    journal.write(path, whole)
    atomic.write_json(digest_path, {"digest": digest, "size": path.stat().st_size})


def _update(journal: Journal, store: Store, name: str, rows: list[Row]) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = journal.storage()
    task = tasks.spec(rows[0].planned.config.task)
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        direction="maximize" if task.higher_is_better else "minimize",
        load_if_exists=True,
    )
    known = {trial.user_attrs["key"]: trial for trial in study.get_trials(deepcopy=False)}
    if gone := known.keys() - {row.planned.point.key for row in rows}:
        raise ValueError(f"trials that are no longer wanted: {gone}")
    for row in rows:
        wanted, trial = _trial(row, store, task.metric), known.get(row.planned.point.key)
        if trial is None:
            study.add_trial(wanted)
        elif trial.state is not wanted.state:
            if trial.state.is_finished():
                raise ValueError(f"the trial of {row.planned.point.key}, such as a failed one, is open again")
            _advance(storage, trial._trial_id, wanted)


def _advance(storage: JournalStorage, trial_id: int, wanted: optuna.trial.FrozenTrial) -> None:
    for step, value in wanted.intermediate_values.items():
        storage.set_trial_intermediate_value(trial_id, step, value)
    for key, value in wanted.user_attrs.items():
        storage.set_trial_user_attr(trial_id, key, value)
    storage.set_trial_state_values(trial_id, wanted.state, wanted.values)


def _trial(row: Row, store: Store, metric: str) -> optuna.trial.FrozenTrial:
    """The trial as the run folder has it."""
    from optuna.trial import TrialState, create_trial

    from sweeps.studies.outcome import outcome  # imports Optuna

    point, record = row.planned.point, row.state.record
    open_states = {
        Kind.FAILED: TrialState.FAIL,
        Kind.LIVE: TrialState.RUNNING,
        Kind.WAITING: TrialState.WAITING,
    }
    name = f"val_{metric}"
    state, value = outcome(record, name) if record is not None else (open_states[row.state.kind], None)
    curve = metrics.read(store.run_folder(point.key) / "metrics.jsonl") if record is not None else []
    return create_trial(
        state=state,
        value=value,
        params={axis: _plain(row.planned, axis) for axis in _axes(row.planned)},
        distributions={axis: _distribution(row.planned, axis) for axis in _axes(row.planned)},
        user_attrs={"key": point.key, "stage": point.stage, "status": row.word} | _remark(row.state),
        intermediate_values={r["step"]: r[name] for r in curve if r.get(name) is not None},
    )


def _remark(state: RunState) -> dict[str, str]:
    text = state.record.note if state.record is not None else state.message
    return {"remark": text} if text else {}


# --- parameters and their distributions ---


def _axes(planned: Planned) -> list[str]:
    """The parameters shown: every numeric hyperparameter and both seeds, whether varied here or not."""
    hyper = [f"optimizer.{name}" for name in planned.config.optimizer.hyper]
    shown = ["optimizer.lr", "optimizer.weight_decay", *hyper, "seed", "data_seed"]
    return [
        name
        for name in shown
        if isinstance(_plain(planned, name), bool | int | float | str) and _is_closed(planned, name)
    ]


def _is_closed(planned: Planned, axis: str) -> bool:
    """Whether all values are known beforehand, as a distribution must not change: a free word may be any."""
    param = param_of(planned.config.optimizer.name, axis)
    return param.type in (float, int, bool, Real) or bool(param.choices)


def _plain(planned: Planned, axis: str) -> Value:
    config = planned.config
    name = axis.removeprefix("optimizer.")
    if name in config.optimizer.hyper:
        return config.optimizer.hyper[name]
    return getattr(config.optimizer if axis.startswith("optimizer.") else config, name)


def _distribution(planned: Planned, axis: str) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

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
