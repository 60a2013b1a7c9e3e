"""Selection: on the validation split, reported only from fresh seeds; ties are told."""

import dataclasses

import pytest

from htbench.harness.store.points import REPLICATE
from htbench.results.compare.select import OPTIMIZER, choose
from htbench.results.frames.load import load_rows


def only_choice(bench, fixed=OPTIMIZER):
    (choice,) = choose(load_rows(bench.write()), fixed)
    return choice


def test_validation_decides_even_where_test_disagrees(bench, make):
    bench.add("digits", "adamw", 0.001, metrics=make.image(0.90, 0.4, test=0.99))
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.95, 0.4, test=0.10))
    assert only_choice(bench).winner.value("lr") == 0.003


def test_less_perplexity_and_more_accuracy_win(bench, make):
    bench.add("pydocs", "adamw", 0.001, metrics=make.text(4.2))
    bench.add("pydocs", "adamw", 0.003, metrics=make.text(4.1))
    assert only_choice(bench).winner.value("lr") == 0.003


def test_equal_metrics_are_decided_by_validation_loss_and_reported_as_ties(bench, make):
    bench.add("digits", "adamw", 0.001, metrics=make.image(0.95, 0.4))
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.95, 0.3))
    bench.add("digits", "adamw", 0.01, metrics=make.image(0.90, 0.1))
    choice = only_choice(bench)
    assert choice.winner.value("lr") == 0.003
    assert [one.value("lr") for one in choice.tied] == [0.001]


def test_search_seeds_are_averaged_and_one_divergence_disqualifies(bench, make):
    for seed, (good, wild) in enumerate([(0.90, 0.97), (0.92, 0.85)]):
        bench.add("digits", "muon", 0.01, seed=seed, metrics=make.image(good, 0.4))
        bench.add("digits", "muon", 0.02, seed=seed, metrics=make.image(wild, 0.4))
    bench.add("digits", "muon", 0.04, seed=0, metrics=make.image(0.99, 0.1))
    bench.add("digits", "muon", 0.04, seed=1, state="diverged", steps=3)
    choice = only_choice(bench)
    assert choice.winner.value("lr") == 0.01  # mean 0.91, not the lucky 0.97
    assert [candidate.state for candidate in choice.candidates] == ["completed", "completed", "diverged"]
    assert not choice.unfinished


def test_replicas_are_those_of_exactly_the_winner(bench, make):
    bench.add("digits", "htmuon", 0.02, p=0.125, metrics=make.image(0.95, 0.4))
    bench.add("digits", "htmuon", 0.02, p=0.25, metrics=make.image(0.90, 0.4))
    wanted = [
        bench.add("digits", "htmuon", 0.02, p=0.125, stage=REPLICATE, seed=seed, metrics=make.image(0.9, 0.4))
        for seed in (1, 2)
    ]
    bench.add("digits", "htmuon", 0.02, p=0.25, stage=REPLICATE, seed=1, metrics=make.image(0.99, 0.4))
    assert [run["key"] for run in only_choice(bench).replicas] == wanted


def test_a_run_that_took_part_in_the_choice_is_not_fresh(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.95, 0.4))
    point = bench.points["demo-digits"][0]
    bench.points["other"] = [type(point)("other", "muon", REPLICATE, point.key, point.overrides)]
    choice = only_choice(bench)
    assert choice.replicas == [] and choice.stale == {"demo-digits": 1}


@pytest.mark.parametrize(("seed", "data_seed"), [(5, 5), (5, 1001), (1001, 7)])
def test_a_replica_shares_no_seed_with_any_search_of_its_choice(bench, make, seed, data_seed):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.95, 0.4))
    searched_on = {"data_seed": 7}
    bench.add("digits", "muon", 0.04, sweep="other", seed=5, base=searched_on, metrics=make.image(0.9, 0.4))
    replica = {"stage": REPLICATE, "metrics": make.image(0.9, 0.4)}
    bench.add("digits", "muon", 0.02, seed=seed, base={"data_seed": data_seed}, metrics=replica["metrics"])
    points = bench.points["demo-digits"]
    points[-1] = dataclasses.replace(points[-1], stage=REPLICATE)
    bench.add("digits", "muon", 0.02, seed=1000, **replica)
    choice = only_choice(bench)
    assert [run["seed"] for run in choice.replicas] == [1000] and choice.stale == {"other": 1}


def test_the_seeds_of_another_optimizers_search_do_not_matter(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.95, 0.4))
    bench.add("digits", "muon", 0.02, stage=REPLICATE, seed=1000, metrics=make.image(0.9, 0.4))
    bench.add("digits", "adamw", 0.003, seed=1000, metrics=make.image(0.9, 0.4))
    muon, _ = choose(load_rows(bench.write()), OPTIMIZER)
    assert [run["seed"] for run in muon.replicas] == [1000] and not muon.stale


def test_sweeps_that_share_runs_do_not_make_ties_of_them(bench, make):
    for sweep in ("a", "b"):
        bench.add("digits", "muon", 0.02, sweep=sweep, metrics=make.image(0.95, 0.4))
        bench.add("digits", "muon", 0.04, sweep=sweep, metrics=make.image(0.90, 0.4))
    choice = only_choice(bench)
    assert (len(choice.candidates), len(choice.winner.runs), choice.tied) == (2, 1, [])


def test_budgets_do_not_compete(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.90, 0.4))
    bench.add("digits", "muon", 0.04, base={"steps": 1000}, metrics=make.image(0.99, 0.1))
    choices = choose(load_rows(bench.write()), OPTIMIZER)
    found = {choice.fixed["setting"]: choice.winner.value("lr") for choice in choices}
    assert found == {"batch_size=64, steps=100": 0.02, "batch_size=64, steps=1000": 0.04}


def test_schedules_do_compete(bench, make):
    bench.add("digits", "muon", 0.02, base={"schedule.warmup": 0.1}, metrics=make.image(0.90, 0.4))
    bench.add("digits", "muon", 0.02, base={"schedule.warmup": 0.2}, metrics=make.image(0.95, 0.4))
    assert len(only_choice(bench).candidates) == 2


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["diverged", "diverged"], "diverged"),
        (["diverged", "waiting"], "waiting"),
        (["failed", "diverged"], "failed"),
        (["waiting", "running", "failed"], "running"),
        (["pruned"], "pruned"),
    ],
)
def test_a_group_without_winner_is_called_after_its_best_hope(bench, states, expected):
    for index, state in enumerate(states):
        bench.add("digits", "muon", 0.01 * (index + 1), state=state, reason="oom", steps=3)
    choice = only_choice(bench)
    assert (choice.winner, choice.state) == (None, expected)
    assert choice.unfinished.total() == sum(state in ("waiting", "running", "failed") for state in states)


def test_only_what_varies_for_an_optimizer_was_searched(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.9, 0.4))
    bench.add("digits", "htmuon", 0.03, p=0.1, metrics=make.image(0.9, 0.4))
    bench.add("digits", "htmuon", 0.03, p=0.2, metrics=make.image(0.9, 0.3))
    assert [one.axes for one in choose(load_rows(bench.write()), OPTIMIZER)] == [[], ["p"]]


def test_what_varies_between_two_sweeps_of_an_optimizer_was_searched(bench, make):
    for sweep, lr in (("a", 0.02), ("b", 0.04)):
        bench.add("digits", "muon", lr, sweep=sweep, metrics=make.image(0.9, 0.4))
    assert only_choice(bench).axes == ["lr"]
