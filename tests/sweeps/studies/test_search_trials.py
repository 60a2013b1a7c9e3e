"""What a study hears of its runs: the same whether it is told, or written anew from the folders."""

import dataclasses

import pytest

from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import PrunedError
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.store.curve import MetricsFile
from htbench.harness.store.points import read_points
from htbench.harness.store.record import RunRecord
from htbench.harness.train.monitor import Monitor
from htbench.sweeps.plan import slots
from htbench.sweeps.run.execute import execute
from htbench.sweeps.studies import trial as trials
from htbench.sweeps.studies.study import load_search
from tests.helpers.searching import SEARCH, as_values, bring_up_to_date, forget, plan, state_of, written
from tests.helpers.slot_worker import made_up

LONG = SEARCH.replace("steps: 8", "steps: 81").replace("mode: tpe", "mode: random")
PRUNED = LONG.replace("trials: 4", "trials: 4, pruner: {asha: {min_resource: 3}}")
RATE = "optimizer.lr: {low: 0.001, high: 1, log: true}"


def work_on_all(root, sweep):
    for point in read_points(root, sweep):
        assert execute(root, point, Monitor(), print, train=made_up(81)) == 0


def rebuilt(root, study):
    """What the study says after it was lost."""
    bring_up_to_date(root, study)
    forget(root, study)
    bring_up_to_date(root, study)
    return as_values(written(root, study))


def taken(root, study, number=0):
    """The trial of a slot, its run owned by us."""
    trial = trials.take(Store(root), study.sweep, study.slot(number))
    attempt = Store(root).claim(trial.key, "", trial.study)
    return trial, attempt


def evaluate(trial, attempt, step, accuracy):
    """As the training loop does it: first into the curve, then to the study."""
    with MetricsFile(attempt.files.path / "metrics.jsonl", step - 1) as curve:
        curve.add(step, {"val_accuracy": accuracy})
    trial.report(step, {"val_accuracy": accuracy})


def end(trial, attempt, status, steps):
    ends = [trial.study] if status == "pruned" else []
    config = dataclasses.asdict(resolve_config(trial.settings))
    record = RunRecord(trial.key, config, Status(status), {}, steps, 0.0, None, 0, {}, 1, {}, pruned_by=ends)
    trial.tell(attempt.finish(record))


def test_a_study_hears_the_curve_of_a_run_that_another_sweep_has_made(tmp_path, write_spec):
    few = LONG.replace(RATE, "optimizer.lr: [0.001, 0.01, 0.1, 1]")
    plan(tmp_path, write_spec(few.replace("name: tiny", "name: other", 1), "other.yaml"))
    work_on_all(tmp_path, "other")
    (study,) = plan(tmp_path, write_spec(few.replace("trials: 4", "trials: 3, pruner: {asha: {}}")))
    work_on_all(tmp_path, "tiny")
    known = state_of(study, tmp_path)
    assert [sorted(curve) for *_, curve in known] == [[3, 9, 27]] * 3
    assert rebuilt(tmp_path, study) == known


def test_a_study_hears_the_curve_of_a_run_that_another_has_pruned_before_it_goes_on(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(PRUNED))
    trial, attempt = taken(tmp_path, study)
    with MetricsFile(attempt.files.path / "metrics.jsonl", 0) as curve:
        curve.add(3, {"val_accuracy": 0.1})
    evaluate(trial, attempt, 9, 0.9)
    assert state_of(study, tmp_path)[0][-1] == {3: 0.1, 9: 0.9}
    assert state_of(study, tmp_path) == rebuilt(tmp_path, study)


def test_an_evaluation_that_is_not_finite_is_told_as_it_stands_in_the_curve(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(LONG))
    trial, attempt = taken(tmp_path, study)
    evaluate(trial, attempt, 3, 0.5)
    evaluate(trial, attempt, 9, float("inf"))
    end(trial, attempt, "diverged", 12)
    known = state_of(study, tmp_path)
    assert known[0][1] == "PRUNED" and known[0][3] is None
    assert repr(rebuilt(tmp_path, study)) == repr(known), "NaN equals nothing"


def test_tpe_is_not_attracted_by_runs_that_diverge_late(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(LONG.replace("trials: 4", "trials: 24")))
    for number in range(24):
        trial, attempt = taken(tmp_path, study, number)
        late = trial.settings["optimizer.lr"] > 0.1
        for step in (3, 9, 27) if late else (3,):
            evaluate(trial, attempt, step, 0.1)
        word = ("diverged", "completed")[number % 2] if late else "pruned"  # completed without a figure
        end(trial, attempt, word, 40)

    def ranks():
        """Those that TPE takes for the good ones."""
        from optuna.samplers._tpe.sampler import _split_trials

        loaded = load_search(Store(tmp_path), study, slots.read_slots(tmp_path, study))
        good, _ = _split_trials(loaded, loaded.trials, 3)
        return [one.params["optimizer.lr"] for one in good]

    first = ranks()
    assert max(first) < 0.1
    rebuilt(tmp_path, study)
    assert ranks() == first


def test_a_trial_is_judged_by_the_step_it_is_at(tmp_path, write_spec):
    (study,) = plan(tmp_path, write_spec(PRUNED))
    for number in range(2):
        trial, attempt = taken(tmp_path, study, number)
        for step, accuracy in ((3, 0.1), (9, 0.9)):
            evaluate(trial, attempt, step, accuracy)
    last, attempt = taken(tmp_path, study, 2)
    evaluate(last, attempt, 3, 0.5)
    with pytest.raises(PrunedError):
        evaluate(last, attempt, 9, 0.5)
    # Its process dies there; the next goes on from a checkpoint before all of this.
    evaluate(last, attempt, 3, 0.5)
    with pytest.raises(PrunedError, match="step 9"):
        evaluate(last, attempt, 9, 0.5)
