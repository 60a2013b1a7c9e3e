"""Draws without repetition: a search over choices and whole numbers has as many settings as trials."""

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.samplers import RandomSampler

from htbench.sweeps.studies.drawing import NoRepeats
from tests.helpers.searching import SEARCH, check_search, join, plan
from tests.helpers.slot_worker import Worker

RATE = "optimizer.lr: {low: 0.001, high: 1, log: true}"
TWELVE = "optimizer.lr: [0.001, 0.01, 0.1, 1], optimizer.weight_decay: [0, 0.01, 0.1]"
AXES = {"p": CategoricalDistribution(["a", "b"]), "k": IntDistribution(1, 3)}


@pytest.mark.parametrize("mode", ["tpe", "random", "sobol"])
def test_twelve_trials_of_twelve_settings_are_all_of_them(tmp_path, write_spec, mode):
    text = SEARCH.replace("steps: 8", "steps: 81").replace("trials: 4", "trials: 12").replace(RATE, TWELVE)
    (study,) = plan(tmp_path, write_spec(text.replace("mode: tpe", f"mode: {mode}")))
    join(*(Worker(tmp_path) for _ in range(2)))
    check_search(tmp_path, study)


class Stubborn(RandomSampler):
    """Always draws the same."""

    def sample_independent(self, study, trial, name, distribution):
        return "b" if name == "p" else 3


def test_what_is_drawn_again_and_again_gives_way_to_the_first_setting_that_is_left():
    study = optuna.create_study(sampler=NoRepeats(Stubborn(), AXES))
    drawn = [tuple(study.ask(AXES).params.values()) for _ in range(8)]
    assert drawn[:2] == [("b", 3), ("a", 1)] and len(set(drawn[:6])) == 6
    assert drawn[6:] == [("b", 3)] * 2, "all are known"


def test_a_wide_axis_is_not_listed_to_find_what_is_left():
    wide = {"p": CategoricalDistribution(["b"]), "k": IntDistribution(1, 2**53)}
    study = optuna.create_study(sampler=NoRepeats(Stubborn(), wide))
    assert [study.ask(wide).params["k"] for _ in range(5)] == [3, 1, 2, 4, 5]
