"""The search section of a sweep file: studies with equal budgets, and one sentence for every mistake."""

import pytest

from htbench.harness.errors import UsageError
from htbench.sweeps.plan import slots
from htbench.sweeps.plan.planned import by_objective, search_points
from htbench.sweeps.spec import sweep_file as specs
from tests.helpers.searching import SEARCH

TWO = """
name: two
base: {task: digits, steps: 8, batch_size: 16, evaluation.every: 2}
space: {optimizer.lr: {low: 0.001, high: 1, log: true}, model: [resnet-nano], batch_size: [16, 32]}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}}
  - name: htmuon
    set: {optimizer.name: htmuon}
    space: {optimizer.p: {low: 0.1, high: 0.5}, optimizer.interval: {low: 1, high: 4}}
search: {mode: random, trials: 3, seed: 5, pruner: {asha: {min_resource: 4}}}
"""


def load(write_spec, text):
    return specs.load(write_spec(text))


def names(write_spec, text):
    return [study.name for study in slots.studies(load(write_spec, text))]


def test_every_objective_of_every_block_gets_the_same_trials_in_turn(write_spec):
    spec = load(write_spec, TWO)
    points = [one.point for one in search_points(spec)]
    assert [len(group) for group in by_objective(spec, search_points(spec))] == [3] * 4
    assert {point.key for point in points} == {""}
    assert [point.slot.rpartition("/")[2] for point in points] == ["0"] * 4 + ["1"] * 4 + ["2"] * 4
    assert len({point.study for point in points}) == 4
    study = slots.studies(spec)[2]
    assert study.block == "htmuon" and study.fixed["batch_size"] == 16 and study.pruner_options == {
        "min_resource": 4,
        "reduction_factor": 3,
    }  # fmt: skip
    assert study.axes["optimizer.interval"] == {"low": 1, "high": 4, "log": False, "whole": True}


def test_more_trials_go_on_with_the_studies_and_any_other_change_begins_new_ones(write_spec):
    before = names(write_spec, TWO)
    assert names(write_spec, TWO.replace("trials: 3", "trials: 30")) == before
    for old, new in [
        ("steps: 8", "steps: 9"),
        ("seed: 5", "seed: 6"),
        ("random", "sobol"),
        ("min_resource: 4", "min_resource: 6"),
        ("evaluation.every: 2", "evaluation.every: 1"),
        ("high: 1,", "high: 2,"),
    ]:
        assert not set(names(write_spec, TWO.replace(old, new))) & set(before), old


def test_the_order_of_the_axes_in_the_file_decides_nothing(write_spec):
    axes = ["optimizer.p: {low: 0.1, high: 0.5}", "optimizer.interval: {low: 1, high: 4}"]
    turned = load(write_spec, TWO.replace(", ".join(axes), ", ".join(axes[::-1])))
    for study, other in zip(slots.studies(load(write_spec, TWO)), slots.studies(turned), strict=True):
        assert study == other and list(study.axes) == list(other.axes)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("mode: tpe", "mode: tpee", "search.mode 'tpee'.*'tpe'"),
        (", trials: 4", "", "needs search.trials"),
        ("trials: 4", "trials: 4, seed: x", "search.seed must be a whole number from 0, not 'x'"),
        ("trials: 4", "trials: 4, pruner: [asha]", "must be one pruner"),
        ("trials: 4", "trials: 4, pruner: {asha: {reduction_factor: 1}}", "reduction_factor.*from 2, not 1"),
        ("mode: tpe", "mode: tpe, storage: 'sqlite:///a.db'", "SQLite is not made for several machines"),
        ("mode: tpe", "mode: tpe, storage: here", "must be a database URL.*'here'"),
        ("mode: tpe", "mode: grid", "search.trials means nothing to mode 'grid'"),
        ("base:", "seeds: [0, 1]\nbase:", "one seed, not on"),
        ("high: 1, log: true", "log: true", "lacks 'high'; a search needs low and high"),
        ("low: 0.001, high: 1", "low: -1, high: 1", "above 0 if log"),
        ("optimizer.lr: {low", "optimizer.momentum: {low", "momentum"),
        ("optimizer.lr: {low", "steps: {low", "steps is no setting to search"),
        ("{low: 0.001, high: 1, log: true}", "[0.1, 0.2]", "search.trials=4 is more than its 2 settings"),
        ("optimizer.lr: {low: 0.001, high: 1, log: true}", "steps: [2, 4]", "nothing to search"),
        ("optimizer.lr: {low", "optimizer.aux_lr: {low", r"aux_lr: two of \[0.001, 1.0\] mean the same"),
        ("{low: 0.001, high: 1, log: true}", "[1, 2, 1.0, 3]", r"two of \[1, 2, 1.0, 3\] mean the same run"),
        ("search:", "exclude: [{optimizer.lr: 0.1}]\nsearch:", "'exclude' can't hold optimizer.lr"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(write_spec, old, new, sentence):
    assert old in SEARCH
    with pytest.raises(UsageError, match=sentence) as caught:
        search_points(load(write_spec, SEARCH.replace(old, new)))
    assert "\n" not in str(caught.value)


def test_a_pruner_needs_evaluations(write_spec):
    text = SEARCH.replace("evaluation.every: 2", "threads: 1").replace(
        "trials: 4", "trials: 4, pruner: median"
    )
    with pytest.raises(UsageError, match="set evaluation.every in base"):
        load(write_spec, text)
