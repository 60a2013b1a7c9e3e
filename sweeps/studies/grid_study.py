"""The journal of the points of one objective: its trials as the run folders have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from harness.config import Value
from harness.config.settings import to_settings
from harness.store import Kind, RunState, Store
from harness.store.points import SEED_FIELDS
from sweeps.plan.planned import Planned
from sweeps.plan.slots import Axis
from sweeps.plan.states import word
from sweeps.studies.description import Description, describe, plain
from sweeps.studies.distributions import axis_of, distribution, label
from sweeps.studies.journal import Journal
from sweeps.studies.outcome import evaluations, trial_of_run

_WITHOUT_RECORD = {
    Kind.FAILED: TrialState.FAIL,
    Kind.LIVE: TrialState.RUNNING,
    Kind.WAITING: TrialState.WAITING,
}


def write(
    store: Store, path: Path, searched: Sequence[str], rows: Sequence[tuple[Planned, RunState]]
) -> None:
    """Write the journal of a study. What was searched are its parameters, all else that is known attributes.

    Args:
        store: where the runs are.
        path: the journal; its stem is the name of the study.
        searched: the settings that are its parameters.
        rows: its points, each with what became of it.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    settings = [to_settings(planned.config) for planned, _ in rows]
    axes = {name: axis_of([given.get(name) for given in settings]) for name in searched}
    first = rows[0][0]
    about = {"sweep": first.point.sweep, "block": first.point.block, "stage": first.point.stage}
    described = describe(first.config, about, without={*axes, *SEED_FIELDS}, trials=settings)
    journal = Journal()
    study = described.open(path.stem, journal.storage())
    study.add_trials(list(_trials(store, rows, settings, axes, described)))
    journal.write(path)


def _trials(
    store: Store,
    rows: Sequence[tuple[Planned, RunState]],
    settings: Sequence[Mapping[str, Value]],
    axes: Mapping[str, Axis],
    described: Description,
) -> Iterator[FrozenTrial]:
    distributions = {name: distribution(axis) for name, axis in axes.items()}
    said = axes.keys() | described.attributes.keys()
    for (planned, state), given in zip(rows, settings, strict=True):
        folder = store.run_folder(planned.point.key)
        own = {name: plain(value) for name, value in given.items() if name not in said}
        yield trial_of_run(
            state.record,
            described.metric,
            without_record=_WITHOUT_RECORD.get(state.kind, TrialState.WAITING),
            curve=evaluations(folder, described.metric) if state.record is not None else {},
            params={name: label(axis, given.get(name)) for name, axis in axes.items()},
            distributions=distributions,
            attributes=_state(planned, state) | own,
        )


def _state(planned: Planned, state: RunState) -> dict[str, Any]:
    """The key and the state of a point, and what there is to say about it."""
    remark = state.record.note if state.record is not None else state.message
    known = {"key": planned.point.key, "status": word(state)}
    return known | ({"remark": remark} if remark else {})
