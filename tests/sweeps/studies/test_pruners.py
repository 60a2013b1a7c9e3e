"""Pruners: functions of the reports; ASHA beside Optuna's own."""

import random

import optuna
import pytest

from htbench.sweeps.studies import drawing


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_asha_decides_as_optunas_successive_halving(direction):
    chance = random.Random(1)
    ours = optuna.create_study(direction=direction, pruner=drawing.Asha(2, 3))
    theirs = optuna.create_study(
        direction=direction, pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3)
    )
    ended = []
    for _ in range(60):
        pair = [ours.ask(), theirs.ask()]
        level = chance.random()
        for step in range(1, 30):
            value = level + 0.1 * chance.random()
            decisions = []
            for trial in pair:
                trial.report(value, step)
                decisions.append(trial.should_prune())
            assert decisions[0] == decisions[1]
            if decisions[0]:
                ended.append(step)
                break
        for one, trial in zip((ours, theirs), pair, strict=True):
            one.tell(trial, level)
    assert {2, 6, 18} == set(ended) and 30 < len(ended) < 60


def test_asha_repeats_a_decision_and_takes_reports_that_skip_rungs():
    study = optuna.create_study(pruner=drawing.Asha(2, 2))
    for value in (1.0, 2.0):
        good = study.ask()
        for step in (3, 7):
            good.report(value, step)
        study.tell(good, value)
    bad = study.ask()
    bad.report(5.0, 3)
    assert bad.should_prune() and bad.should_prune()
    late = study.ask()
    late.report(float("nan"), 9)
    assert late.should_prune()
