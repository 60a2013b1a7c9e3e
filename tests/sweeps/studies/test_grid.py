"""The studies as Optuna's dashboard sees them: every state, the parameters, the curve, one trial per run."""

import dataclasses

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import TrialState

from htbench.harness.config.key import resolved
from htbench.harness.show.note import Note
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Reason, RunState, Store
from htbench.harness.store.record import RunRecord
from htbench.harness.train import run
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.run.runner import outcome
from htbench.sweeps.spec import sweep_file as specs
from htbench.sweeps.studies import refresh as grid
from tests.helpers.searching import as_values
from tests.helpers.sweeping import SPEC

CREATED = b'"op_code":4,'  # the line of a journal that adds a trial


def trials(path):
    storage = JournalStorage(JournalFileBackend(str(path)))
    (summary,) = optuna.get_all_study_summaries(storage)
    return optuna.load_study(study_name=summary.study_name, storage=storage)


@pytest.fixture
def sweep(tmp_path, write_spec):
    text = SPEC.replace("[0.03, 0.1]", "[0.03, 0.1, 0.2, 1e30]").replace(
        "log_every: 2", "evaluation.every: 4"
    )
    spec = specs.load(write_spec(text))
    return Store(tmp_path / "store"), spec, search_points(spec)


def test_a_study_grows_with_its_runs(sweep):
    store, spec, planned = sweep
    (path,) = grid.refresh_grid(store, spec, planned)
    assert [t.state for t in trials(path).trials] == [TrialState.WAITING] * 4

    attempt = store.claim(planned[1].point.key, "")
    assert isinstance(attempt, Attempt)
    grid.refresh_grid(store, spec, planned)
    assert trials(path).trials[1].state is TrialState.RUNNING

    attempt.end(Reason.ERROR, "it broke")
    records = {one.point.key: run.run(resolved(one.config), store) for one in (planned[0], planned[3])}
    grid.refresh_grid(store, spec, planned)
    now = trials(path)
    assert [t.state.name for t in now.trials] == ["COMPLETE", "FAIL", "WAITING", "PRUNED"]
    assert now.direction is optuna.study.StudyDirection.MAXIMIZE
    first = now.trials[0]
    assert first.params == {"optimizer.lr": 0.03} and first.user_attrs["seed"] == 0
    assert first.value == records[planned[0].point.key].metrics["val_accuracy"]
    assert sorted(first.intermediate_values) == [4, 8]
    assert "not finite" in now.trials[3].user_attrs["remark"]

    store.reset_failure(planned[1].point.key)
    run.run(resolved(planned[1].config), store)
    grid.refresh_grid(store, spec, planned)
    grown = as_values(trials(path).trials)
    assert [state for _, state, *_ in grown] == ["COMPLETE", "COMPLETE", "WAITING", "PRUNED"]
    lines = path.read_bytes().count(b"\n")
    grid.refresh_grid(store, spec, planned, rebuild=True)
    assert as_values(trials(path).trials) == grown and path.read_bytes().count(b"\n") == lines
    assert path.read_bytes().count(CREATED) == len(planned), "it is written whole at every change"


def test_nothing_is_written_while_nothing_changes_and_a_damaged_journal_is_written_anew(sweep):
    store, spec, planned = sweep
    (path,) = grid.refresh_grid(store, spec, planned)
    before = path.read_bytes()
    grid.refresh_grid(store, spec, planned)
    assert path.read_bytes() == before
    for damage in (before[:-7], before + b'{"op_code": 4, "torn', b"\x00garbage", b""):
        path.write_bytes(damage)
        grid.refresh_grid(store, spec, planned)
        assert len(trials(path).trials) == 4
    path.unlink()
    grid.refresh_grid(store, spec, planned, rebuild=True)
    assert len(trials(path).trials) == 4


def test_an_extended_grid_extends_the_study(sweep, write_spec):
    store, spec, planned = sweep
    (path,) = grid.refresh_grid(store, spec, planned[:2])
    grid.refresh_grid(store, spec, planned)
    assert [t.params["optimizer.lr"] for t in trials(path).trials] == [0.03, 0.1, 0.2, 1e30]
    grid.refresh_grid(store, spec, planned[2:])
    assert [t.params["optimizer.lr"] for t in trials(path).trials] == [0.2, 1e30], (
        "a shortened one shortens it"
    )


def test_a_killed_run_waits_again_and_is_told_once(sweep):
    store, spec, planned = sweep
    store.alive = lambda owner, path: True
    assert isinstance(store.claim(planned[0].point.key, ""), Attempt)
    (path,) = grid.refresh_grid(store, spec, planned)
    store.alive = lambda owner, path: False
    grid.refresh_grid(store, spec, planned)
    assert [t.state for t in trials(path).trials] == [TrialState.WAITING] * 4
    run.run(resolved(planned[0].config), store)
    grid.refresh_grid(store, spec, planned)
    assert [t.state.name for t in trials(path).trials] == ["COMPLETE", *["WAITING"] * 3]


def test_a_run_that_ends_without_a_finite_figure_is_no_mishap(sweep):
    store, spec, planned = sweep
    attempt = store.claim(planned[0].point.key, "")
    metrics = {"val_accuracy": None, "val_loss": 800.0}  # as a perplexity of e^800
    config = dataclasses.asdict(planned[0].config)
    record = attempt.finish(
        RunRecord(attempt.key, config, Status.COMPLETED, metrics, 8, 1.0, None, 0, {}, 1, {})
    )
    (path,) = grid.refresh_grid(store, spec, planned)
    assert trials(path).trials[0].state is TrialState.PRUNED
    assert outcome(RunState(record.status, record=record)) == Note(
        "run_not_finite", metric="accuracy", seconds=1.0
    )
