"""Selection: on the validation split, reported only from fresh seeds; ties and edges are told."""

import pytest

from harness.plans import REPLICATE
from results.edges import edges
from results.load import load
from results.select import OPTIMIZER, choose, searched

pytest_plugins = ["synthetic_store"]


def only_choice(bench, fixed=OPTIMIZER):
    (choice,) = choose(load(bench.write()), fixed)
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
    bench.add("digits", "muon", 0.04, seed=1, state="diverged", reason="x at step 3", steps=3)
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
    assert only_choice(bench).replicas == []


def test_sweeps_that_share_runs_do_not_make_ties_of_them(bench, make):
    for sweep in ("a", "b"):
        bench.add("digits", "muon", 0.02, sweep=sweep, metrics=make.image(0.95, 0.4))
        bench.add("digits", "muon", 0.04, sweep=sweep, metrics=make.image(0.90, 0.4))
    choice = only_choice(bench)
    assert len(choice.candidates) == 2
    assert len(choice.winner.runs) == 1
    assert choice.tied == []


def test_budgets_do_not_compete(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.90, 0.4))
    bench.add("digits", "muon", 0.04, base={"steps": 1000}, metrics=make.image(0.99, 0.1))
    found = {
        choice.fixed["setting"]: choice.winner.value("lr")
        for choice in choose(load(bench.write()), OPTIMIZER)
    }
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
    assert choice.winner is None
    assert choice.state == expected
    assert choice.unfinished.total() == sum(state in ("waiting", "running", "failed") for state in states)


def test_only_what_varies_within_a_block_was_searched(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.9, 0.4))
    bench.add("digits", "htmuon", 0.03, p=0.1, metrics=make.image(0.9, 0.4))
    bench.add("digits", "htmuon", 0.03, p=0.2, metrics=make.image(0.9, 0.3))
    assert searched(load(bench.write()), ["lr", "p", "momentum"]) == ["p"]


# --- edges ---


def edge_hints(bench, make, values, chosen, name="lr", optimizer="muon", lr=0.02, **fixed):
    for value in values:
        settings = dict(fixed) if name == "lr" else {name: value, **fixed}
        metrics = make.image(0.99 if value == chosen else 0.9, 0.4)
        bench.add("digits", optimizer, value if name == "lr" else lr, metrics=metrics, **settings)
    frame = load(bench.write())
    (choice,) = choose(frame, OPTIMIZER)
    return [edge.hint for edge in edges(frame, choice.winner, [name])]


@pytest.mark.parametrize(
    ("values", "chosen", "hints"),
    [
        ([0.01, 0.02, 0.04], 0.04, ["optimizer.lr: [0.01, 0.02, 0.04, 0.08]  # block muon"]),
        ([0.01, 0.02, 0.04], 0.01, ["optimizer.lr: [0.005, 0.01, 0.02, 0.04]  # block muon"]),
        ([0.04, 0.01, 0.02], 0.04, ["optimizer.lr: [0.01, 0.02, 0.04, 0.08]  # block muon"]),
        ([0.001, 0.003, 0.01], 0.01, ["optimizer.lr: [0.001, 0.003, 0.01, 0.033]  # block muon"]),
        ([0.01, 0.02, 0.04], 0.02, []),
        ([0.02], 0.02, []),
    ],
)
def test_an_optimum_at_the_edge_shows_the_next_value(bench, make, values, chosen, hints):
    assert edge_hints(bench, make, values, chosen) == hints


@pytest.mark.parametrize(
    ("values", "chosen", "hints"),
    [
        ([0.0, 0.125, 0.25], 0.0, []),  # Muon: nothing lies below
        ([0.5, 1.0], 1.0, []),  # SGDM: nothing lies above
        (
            [0.25, 0.5, 0.8],
            0.8,
            ["optimizer.p: [0.25, 0.5, 0.8, 1]  # block htmuon"],
        ),  # not beyond the legal end
        ([0.1, 0.125, 0.2], 0.1, ["optimizer.p: [0.08, 0.1, 0.125, 0.2]  # block htmuon"]),
        ([0.0, 0.125], 0.125, ["optimizer.p: [0, 0.125, 0.25]  # block htmuon"]),
    ],
)
def test_the_legal_end_of_p_is_no_edge(bench, make, values, chosen, hints):
    assert edge_hints(bench, make, values, chosen, "p", "htmuon") == hints


def test_an_edge_with_nothing_allowed_behind_it_has_no_hint(bench, make):
    assert edge_hints(bench, make, [0.5, 0.95], 0.95, "momentum") == [""]  # 1.8 is illegal, and so is 1


def test_whole_numbers_stay_whole(bench, make):
    found = edge_hints(bench, make, [3, 5], 5, "ns_steps")
    assert found == ["optimizer.ns_steps: [3, 5, 8]  # block muon"]


def test_words_have_no_edge(bench, make):
    assert edge_hints(bench, make, ["shape", "rms0.2"], "rms0.2", "scale_rule") == []


def test_a_point_at_the_edge_of_one_block_but_inside_another_is_inside(bench, make):
    for block, lrs in (("low", (0.01, 0.02)), ("high", (0.02, 0.04))):
        for lr in lrs:
            bench.add("digits", "muon", lr, block=block, metrics=make.image(0.99 if lr == 0.02 else 0.9, 0.4))
    frame = load(bench.write())
    (choice,) = choose(frame, OPTIMIZER)
    assert edges(frame, choice.winner, ["lr"]) == []
