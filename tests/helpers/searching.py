"""Shared by the tests of searches: sweep files, workers without training, and what must hold in the end."""

import optuna
from optuna.storages import RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import TrialState

from htbench.harness.store import Store
from htbench.harness.store.points import read_points
from htbench.harness.system.atomic import read_json_lines
from htbench.sweeps.plan import slots
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec import database
from htbench.sweeps.spec import sweep_file as specs
from htbench.sweeps.studies import refresh
from htbench.sweeps.studies.study import encode_params, load_search

SEARCH = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, checkpoint.every_steps: 3, log_every: 2,
       evaluation.every: 2}
blocks:
  - name: sgdm
    set: {optimizer.name: sgdm}
    space: {optimizer.lr: {low: 0.001, high: 1, log: true}}
search: {mode: tpe, trials: 4}
replicate: {seeds: 1}
"""


def plan(root, path):
    """Write the plan of a sweep file; its studies."""
    spec = specs.load(path)
    write_plan(root, spec, search_points(spec))
    return studies(root, path)


def studies(root, path):
    """The studies of a sweep file that has been planned."""
    spec = specs.load(path)
    return [slots.read_study(root, spec.name, study.name) for study in slots.studies(spec)]


def join(*workers):
    """Wait until workers have done all there is to do."""
    assert [worker.wait() for worker in workers] == [0] * len(workers)


def trained(root):
    """One row per run that the workers made."""
    return read_json_lines(root / "trained.jsonl")


def check_search(root, study):
    """Every slot is one trial of its own and one run, told as the run's record says."""
    store = Store(root)
    filled = slots.read_slots(root, study)
    assert sorted(filled) == list(range(study.trials)), "every slot is filled"
    assert sorted(content["trial"] for content in filled.values()) == list(range(study.trials))
    keys = [content["key"] for content in filled.values()]
    assert len(set(keys)) == study.trials, "distinct points"
    found = trials(root, study)
    assert [trial.number for trial in found] == list(range(study.trials))
    for content in filled.values():
        trial, record = found[content["trial"]], store.record(content["key"])
        assert record is not None and record.ends(study.name)
        assert trial.state is (TrialState.COMPLETE if record.status == "completed" else TrialState.PRUNED)
        assert trial.user_attrs["key"] == content["key"]
        params = encode_params(study.axes, content["overrides"])
        assert trial.params == params, "the same settings there and here"
        if record.status == "completed":
            assert trial.value == record.metrics["val_accuracy"]
    points = [point for point in read_points(root, study.sweep) if point.study == study.name]
    assert {point.key for point in points} == set(keys)


def state_of(study, root):
    """All that a study knows, as plain values."""
    return as_values(trials(root, study))


def as_values(trials):
    return [(t.number, t.state.name, t.params, t.value, t.intermediate_values) for t in trials]


def trials(root, study):
    """The trials of a study, from slots and run folders."""
    return load_search(Store(root), study, slots.read_slots(root, study)).trials


def written(root, study):
    """The trials of a study as it was written last, read by Optuna alone."""
    storage = RDBStorage(database.resolved(study.storage)) if study.storage else journal(root, study)
    return optuna.load_study(study_name=study.name, storage=storage).trials


def journal(root, study):
    return JournalStorage(JournalFileBackend(str(journal_path(root, study))))


def journal_path(root, study):
    return root / "studies" / f"{study.name}.journal"


def bring_up_to_date(root, study, **options):
    """As every command on a sweep does it."""
    place = refresh.refresh_search(Store(root), study, **options)
    there, here = written(root, study), trials(root, study)
    if study.storage:  # it has the trials that have ended, in their order
        there = sorted(there, key=lambda trial: trial.user_attrs["key"])
        ended = [trial for trial in here if trial.state.is_finished() and "key" in trial.user_attrs]
        here = sorted(ended, key=lambda trial: trial.user_attrs["key"])
        there, here = ([values[1:] for values in as_values(found)] for found in (there, here))
    else:
        there, here = as_values(there), as_values(here)
    assert repr(there) == repr(here), "NaN equals nothing"
    return place


def forget(root, study):
    """Delete a study, wherever it is kept."""
    if study.storage:
        optuna.delete_study(study_name=study.name, storage=RDBStorage(database.resolved(study.storage)))
    else:
        journal_path(root, study).unlink()
