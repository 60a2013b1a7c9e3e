"""Samplers: functions of the seed, the number of the trial and what the study knows."""

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from htbench.harness.store.study import Study
from htbench.sweeps.plan import slots
from htbench.sweeps.spec import sweep_file as specs
from htbench.sweeps.studies import drawing as samplers
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
    trial = optuna.create_study(sampler=samplers.make_sampler(study, number)).ask()
    return trial.suggest_float("optimizer.lr", 0.001, 1.0, log=True)


AXES = {
    "optimizer.lr": {"low": 0.001, "high": 1.0, "log": True, "whole": False},
    "optimizer.momentum": {"low": 0.5, "high": 0.99, "log": False, "whole": False},
}


@pytest.mark.parametrize(
    ("mode", "draws"),
    [
        ("random", [0.024328655789894977, 0.6019213882767084, 0.6220546483842284, 0.0014498568721548306]),
        ("sobol", [0.013626087007368672, 0.899502912915213, 0.09791279348380602, 0.0016374124877276124]),
        ("tpe", [0.024328655789894977, 0.6019213882767084, 0.6220546483842284, 0.053043599822279804]),
    ],
)
def test_the_draws_of_a_study_are_fixed_to_the_last_bit(mode, draws):
    fixed = Study("fixed", "s", "b", 12, mode, 7, "", {}, "", {}, AXES)
    study, drawn = optuna.create_study(), []
    for number in range(12):
        study.sampler = samplers.make_sampler(fixed, number)
        trial = study.ask()
        drawn.append(trial.suggest_float("optimizer.lr", 0.001, 1.0, log=True))
        trial.suggest_float("optimizer.momentum", 0.5, 0.99)
        study.tell(trial, (drawn[-1] - 0.1) ** 2)
    assert [drawn[number] for number in (0, 1, 2, 11)] == draws


def test_sobol_points_fill_a_range_evenly(study):
    import math

    parts = sorted((math.log10(draw(study("sobol"), number)) + 3) / 3 for number in range(16))
    assert [int(part * 16) for part in parts] == list(range(16)), "one in each sixteenth"


def test_between_gives_equal_shares():
    parts = [i / 60 for i in range(60)]
    words = [samplers.interpolate(CategoricalDistribution(["a", "b", "c"]), part) for part in parts]
    assert [words.count(word) for word in "abc"] == [20, 20, 20]
    whole = [samplers.interpolate(IntDistribution(2, 5), part) for part in parts]
    assert [whole.count(number) for number in (2, 3, 4, 5)] == [15] * 4
    scaled = [samplers.interpolate(IntDistribution(1, 100, log=True), part) for part in parts]
    assert min(scaled) == 1 and 90 < max(scaled) <= 100 and sum(number <= 10 for number in scaled) > 25
    assert samplers.interpolate(RATE, 0.5) == pytest.approx(0.001**0.5)
    assert samplers.interpolate(FloatDistribution(1, 3), 0.25) == 1.5
