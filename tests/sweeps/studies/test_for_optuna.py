"""The studies as Optuna's own tools see them: its dashboard, its importances, its frame of trials."""

import dataclasses
import io
import json
import math
from wsgiref.util import setup_testing_defaults

import optuna
import pytest
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import TrialState

from htbench.harness.config.settings import resolve_config
from htbench.harness.show.status import Status
from htbench.harness.store import Store, layout
from htbench.harness.store.points import Point
from htbench.harness.store.record import RunRecord
from htbench.sweeps.plan.planned import Planned, search_points
from htbench.sweeps.plan.replicas import everything
from htbench.sweeps.spec import sweep_file as specs
from htbench.sweeps.studies import refresh
from htbench.sweeps.studies import trial as jobs
from tests.helpers.searching import SEARCH, bring_up_to_date, journal_path, plan, state_of

GRID = """
name: own
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, optimizer.name: htmuon}
seeds: [0, 1]
space:
  optimizer.lr: [0.003, 0.01, 0.03, 0.1]
  optimizer.aux_lr: [0.0003, 0.001, 0.003, 0.01, 0.03]
  optimizer.p: [0, 0.125, 0.25]
replicate: {seeds: 3}
"""
SAID = {2, 3}  # the lines of a journal with what a study says of itself
AXES = ["optimizer.lr", "optimizer.aux_lr", "optimizer.p"]  # in the order of what they matter to `accuracy`


def accuracy(config):
    rule = config.optimizer
    lr, aux = math.log10(rule.lr / 0.03), math.log10((rule.aux_lr or 0.001) / 0.001)
    return 0.9 - 0.2 * lr**2 - 0.02 * aux**2 - 0.01 * rule.hyper.get("p", 0) + 1e-5 * config.seed


def finish(store, planned):
    """Write a result of each point, as if it had been trained."""
    layout.begin(store.root)
    for one in planned:
        figures = {"val_accuracy": accuracy(one.config), "val_loss": 1.0}
        config = dataclasses.asdict(one.config)
        record = RunRecord(one.point.key, config, Status.COMPLETED, figures, 8, 1.0, None, 0, {}, 1, {})
        path = store.run_folder(one.point.key) / "record.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record.to_json()))
    store.rebuild_index()


def planned_and_finished(root, path):
    """A sweep with results of the grid, not yet of the replicas."""
    store, spec = Store(root), specs.load(path)
    finish(store, search_points(spec))
    return store, spec, everything(store, spec)


def opened(path):
    storage = JournalStorage(JournalFileBackend(str(path)))
    return storage, optuna.load_study(study_name=None, storage=storage)


@pytest.fixture
def sweep(tmp_path, write_spec):
    return planned_and_finished(tmp_path / "store", write_spec(GRID))


def test_the_parameters_of_a_study_are_all_that_was_searched_and_nothing_else(sweep):
    _, study = opened(refresh.refresh(*sweep)[0])
    trials = study.trials
    assert {tuple(t.params) for t in trials} == {tuple(AXES)}
    assert len({tuple(t.params.values()) for t in trials}) == 4 * 5 * 3, "none looks like another"
    assert study.metric_names == ["val_accuracy"] and study.direction.name == "MAXIMIZE"
    first, twin = trials[:2]
    assert first.params == twin.params and first.number != twin.number, "a seed is no parameter"
    assert [one.user_attrs["seed"] for one in (first, twin)] == [0, 1]
    assert first.user_attrs.keys() == {"key", "status", "seed", "data_seed"}
    said = study.user_attrs
    assert [said[name] for name in ("sweep", "block", "stage")] == ["own", "own", "search"]
    assert (said["steps"], said["optimizer.momentum"]) == (8, 0.95)
    assert said["optimizer.aux_betas"] == [0.9, 0.95]
    assert not said.keys() & {*AXES, "seed", "data_seed"}


@pytest.mark.parametrize("evaluator", [None, FanovaImportanceEvaluator(seed=0)], ids=["ped-anova", "fanova"])
def test_importances_are_those_of_the_searched_settings(sweep, evaluator):
    _, study = opened(refresh.refresh(*sweep)[0])
    found = get_param_importances(study, evaluator=evaluator)
    assert set(found) == set(AXES) and list(found)[0] == "optimizer.lr" and found["optimizer.lr"] > 0.5
    assert found["optimizer.aux_lr"] > 0


def test_replicas_are_a_study_of_their_own(sweep):
    store, spec, planned = sweep
    (_, path) = refresh.refresh(store, spec, planned)
    assert path.endswith("own.own-replicas.journal")
    _, study = opened(path)
    assert [t.state for t in study.trials] == [TrialState.WAITING] * 3
    finish(store, planned[-3:])
    grid, _ = refresh.refresh(store, spec, planned)
    _, study = opened(path)
    assert len({t.user_attrs["seed"] for t in study.trials}) == 3 == len(study.trials)
    assert {tuple(t.params.items()) for t in study.trials} == {tuple(study.best_trial.params.items())}
    assert study.best_params == opened(grid)[1].best_params, "they are of the winner"
    assert study.user_attrs["stage"] == "replicate" and len(opened(grid)[1].trials) == 4 * 5 * 3 * 2


SEVERAL_KINDS = """
name: kinds
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, optimizer.name: htmuon}
space:
  grad_clip: [null, 0.5, 1]
  optimizer.aux_betas: [[0.9, 0.95], [0.9, 0.99]]
  optimizer.aux_lr: [null, 0.5]
  optimizer.ns_steps: [5, 6]
  optimizer.nesterov: [true, false]
  optimizer.routing: [released, matrix]
  schedule.p: {name: [linear, cosine], to: [0, 0.25]}
"""


def test_settings_of_every_kind_are_parameters(tmp_path, write_spec):
    store, spec = Store(tmp_path / "store"), specs.load(write_spec(SEVERAL_KINDS))
    planned = search_points(spec)
    _, study = opened(refresh.refresh(store, spec, planned)[0])
    assert {frozenset(t.params) for t in study.trials} == {frozenset(spec.blocks[0].space)}
    values = {name: {t.params[name] for t in study.trials} for name in spec.blocks[0].space}
    assert values["grad_clip"] == {None, 0.5, 1.0} and values["optimizer.nesterov"] == {True, False}
    assert values["optimizer.aux_betas"] == {"[0.9, 0.95]", "[0.9, 0.99]"}
    assert values["optimizer.aux_lr"] == {0.03, 0.5}, "an empty one is that of the task"
    assert values["schedule.p.name"] == {"linear", "cosine"} and values["schedule.p.to"] == {0, 0.25}
    assert len({tuple(t.params.values()) for t in study.trials}) == len(planned)


def test_names_that_look_alike_as_files_are_studies_of_their_own(tmp_path, write_spec):
    blocks = ["{name: a b, set: {optimizer.name: sgdm}}", "{name: a_b, set: {optimizer.name: adamw}}"]
    text = GRID.partition("space:")[0].replace(", optimizer.name: htmuon", "")
    text += f"space: {{optimizer.lr: [0.1]}}\nblocks: [{', '.join(blocks)}]"
    spec = specs.load(write_spec(text))
    paths = refresh.refresh(Store(tmp_path / "store"), spec, search_points(spec))
    found = [opened(path)[1].user_attrs["optimizer.name"] for path in paths]
    assert found == ["sgdm", "adamw"] and len(set(paths)) == 2


# --- a search ---


def replicated(root, path):
    """Refresh a search; the path of the study of its winner's replicas."""
    store, spec = Store(root), specs.load(path)
    return refresh.refresh(store, spec, everything(store, spec))[-1]


def test_a_search_says_the_same_of_itself_and_has_replicas_too(tmp_path, write_spec):
    path = write_spec(SEARCH)
    (study,) = plan(tmp_path, path)
    for number in range(study.trials):
        taken = jobs.take(Store(tmp_path), study.sweep, study.slot(number))
        point = Point(study.sweep, study.block, "search", taken.key, taken.settings)
        finish(Store(tmp_path), [Planned(point, resolve_config(taken.settings))])
    _, told = opened(replicated(tmp_path, path))
    assert told.study_name == f"{study.name}-replicas" and told.user_attrs["stage"] == "replicate"
    assert [t.user_attrs["seed"] for t in told.trials] == [1000]
    _, searched = opened(journal_path(tmp_path, study))
    assert searched.best_params == told.trials[0].params
    assert searched.metric_names == ["val_accuracy"] and len(searched.trials) == study.trials
    said = searched.user_attrs
    assert [said[name] for name in ("block", "stage", "steps", "seed")] == ["sgdm", "search", 8, 0]
    assert "optimizer.lr" not in said and {tuple(t.params) for t in searched.trials} == {("optimizer.lr",)}


def test_a_search_that_an_earlier_version_began_goes_on_and_its_journal_is_replaced(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(SEARCH))
    taken = jobs.take(Store(tmp_path), study.sweep, study.slot(0))
    bring_up_to_date(tmp_path, study)
    before, path = state_of(study, tmp_path), journal_path(tmp_path, study)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if json.loads(line)["op_code"] not in SAID))
    assert opened(path)[1].metric_names is None, "as it was"
    again = jobs.take(Store(tmp_path), study.sweep, study.slot(1))
    bring_up_to_date(tmp_path, study)
    assert state_of(study, tmp_path)[:1] == before and (again._number, again.key == taken.key) == (1, False)
    assert opened(path)[1].metric_names == ["val_accuracy"]


# --- the dashboard ---


def ask(app, path):
    """What the dashboard's API answers."""
    environ = {"PATH_INFO": path, "wsgi.input": io.BytesIO()}
    setup_testing_defaults(environ)
    answered = []
    body = b"".join(app(environ, lambda status, headers, error=None: answered.append(status)))
    assert answered == ["200 OK"], (path, answered, body[:300])
    return json.loads(body)


def test_the_dashboard_shows_the_searched_settings_under_the_name_of_the_metric(sweep):
    dashboard = pytest.importorskip("optuna_dashboard", reason="pip install optuna-dashboard runs this")
    app = dashboard.wsgi(opened(refresh.refresh(*sweep)[0])[0])
    (summary,) = ask(app, "/api/studies")["study_summaries"]
    assert summary["study_name"] == "own.own"
    detail = ask(app, f"/api/studies/{summary['study_id']}")
    assert detail["objective_names"] == ["val_accuracy"] and detail["directions"] == ["maximize"]
    assert {one["name"] for one in detail["union_search_space"]} == set(AXES)
    assert {one["key"] for one in detail["union_user_attrs"]} >= {"key", "seed", "status"}
    first, later = detail["trials"][0], detail["trials"][6]
    assert [p["param_external_value"] for p in first["params"]] != [
        p["param_external_value"] for p in later["params"]
    ], "they differ in aux_lr"
    found = ask(app, f"/api/studies/{summary['study_id']}/param_importances")["param_importances"]
    assert {one["name"] for one in found[0]} == set(AXES)
    assert max(found[0], key=lambda one: one["importance"])["name"] == "optimizer.lr"
