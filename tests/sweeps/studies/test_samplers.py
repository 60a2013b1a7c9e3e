"""Samplers and pruners: functions of seed, trial number and reports; ASHA beside Optuna's own."""

import random

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sweeps.plan import slots
from sweeps.spec import sweep_file as specs
from sweeps.studies import samplers
from tests.helpers.searching import SEARCH


@pytest.fixture
def study(write_spec):
    def make(mode, axes="optimizer.lr: {low: 0.001, high: 1, log: true}"):
        text = SEARCH.replace("mode: tpe", f"mode: {mode}")
        text = text.replace("optimizer.lr: {low: 0.001, high: 1, log: true}", axes)
        (found,) = slots.studies(specs.load(write_spec(text)))
        return found

    return make


RATE = FloatDistribution(0.001, 1.0, log=True)


def draw(study, number):
    """Trial `number` of a study that nobody has used yet."""
    trial = optuna.create_study(sampler=samplers.sampler(study, number)).ask()
    return trial.suggest_float("optimizer.lr", 0.001, 1.0, log=True)


@pytest.mark.parametrize("mode", ["tpe", "random", "sobol"])
def test_a_draw_depends_on_seed_and_number_and_on_no_process(study, mode):
    first = [draw(study(mode), number) for number in range(12)]
    assert first == [draw(study(mode), number) for number in range(12)]
    assert len(set(first)) == 12 and all(0.001 <= value <= 1 for value in first)


def test_sobol_points_fill_a_range_evenly(study):
    import math

    parts = sorted((math.log10(draw(study("sobol"), number)) + 3) / 3 for number in range(16))
    assert [int(part * 16) for part in parts] == list(range(16)), "one in each sixteenth"


def test_between_gives_equal_shares():
    parts = [i / 60 for i in range(60)]
    words = [samplers.between(CategoricalDistribution(["a", "b", "c"]), part) for part in parts]
    assert [words.count(word) for word in "abc"] == [20, 20, 20]
    whole = [samplers.between(IntDistribution(2, 5), part) for part in parts]
    assert [whole.count(number) for number in (2, 3, 4, 5)] == [15] * 4
    scaled = [samplers.between(IntDistribution(1, 100, log=True), part) for part in parts]
    assert min(scaled) == 1 and 90 < max(scaled) <= 100 and sum(number <= 10 for number in scaled) > 25
    assert samplers.between(RATE, 0.5) == pytest.approx(0.001**0.5)
    assert samplers.between(FloatDistribution(1, 3), 0.25) == 1.5


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_asha_decides_as_optunas_successive_halving(direction):
    chance = random.Random(1)
    ours = optuna.create_study(direction=direction, pruner=samplers.Asha(2, 3))
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
    study = optuna.create_study(pruner=samplers.Asha(2, 2))
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
