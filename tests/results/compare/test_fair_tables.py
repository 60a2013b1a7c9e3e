"""Tables that somebody would like to be fooled by: each of these once printed a winner that was none."""

import pytest

from htbench.harness.store.points import REPLICATE
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import TABLES
from tests.helpers.rendering import render

IMAGES = 299


def written(bench, name="main_result"):
    return render(TABLES[name](View(load_rows(bench.write()))), "md")


def bold(bench):
    return [line.split("|")[1].split()[0] for line in written(bench).splitlines() if "**" in line]


def image(make, right, samples=IMAGES):
    """A record with so many test images right; `samples=None`: of when records did not say how many."""
    metrics = make.image(0.95, 0.4, test=right / IMAGES)
    del metrics["test_samples"]
    return metrics | ({"test_samples": samples} if samples else {})


def contest(bench, make, first_seed=1000, samples=IMAGES, **rows):
    """Optimizers with so many test images right on each of their fresh seeds."""
    for optimizer, counts in rows.items():
        bench.add("digits", optimizer, 0.02, metrics=make.image(0.95, 0.4))
        for seed, right in enumerate(counts, start=first_seed):
            metrics = image(make, right, samples)
            bench.add("digits", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=metrics)


# --- differences that are none ---


def test_one_image_is_no_difference_however_often_it_repeats(bench, make):
    contest(bench, make, muon=[291] * 5, adamw=[290] * 5)
    assert "97.32 ± 0.00" in written(bench)
    assert bold(bench) == []


def test_many_images_are_a_difference_even_without_spread(bench, make):
    contest(bench, make, muon=[291] * 3, adamw=[260] * 3)
    assert bold(bench) == ["muon"]


@pytest.mark.parametrize(("muon", "adamw"), [([291] * 3, [260] * 3), ([290, 291, 292], [259, 260, 261])])
def test_without_the_number_of_test_images_no_spread_is_no_verdict(bench, make, muon, adamw):
    contest(bench, make, samples=None, muon=muon, adamw=adamw)
    assert bold(bench) == [], "the differences are constant, if not the figures"


def test_older_records_with_spread_are_compared_as_ever(bench, make):
    contest(bench, make, samples=None, muon=[288, 291, 290], adamw=[259, 260, 263])
    assert bold(bench) == ["muon"]


def test_the_best_must_beat_the_last_row_too(bench, make):
    """An outlier: worse than the runner-up on average, but on so wild seeds that nothing is known."""
    clear = {"muon": [288, 291, 290], "adamw": [240, 244, 239]}
    contest(bench, make, **clear)
    assert bold(bench) == ["muon"]
    contest(bench, make, sgdm=[298, 100, 290])
    assert bold(bench) == []


def test_a_row_with_one_seed_keeps_the_others_from_being_bold(bench, make):
    contest(bench, make, muon=[288, 291, 290], adamw=[240, 244, 239], sgdm=[100])
    text = written(bench)
    assert "**" not in text and "reported on 1 seed, others on 3" in text


# --- pairs ---

LOSSES = {"muon": (3.00, 3.21, 3.10), "adamw": (3.02, 3.23, 3.1195)}


@pytest.mark.parametrize(("first", "winner"), [(1000, ["muon"]), (2000, [])])
def test_pairs_of_the_same_seeds_see_what_welch_does_not(bench, make, first, winner):
    for optimizer, losses in LOSSES.items():
        bench.add("pydocs", optimizer, 0.02, metrics=make.text(3.0))
        start = 1000 if optimizer == "muon" else first
        for seed, loss in enumerate(losses, start=start):
            bench.add("pydocs", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=make.text(loss))
    assert bold(bench) == winner


# --- seeds that are not fresh ---


def test_a_replica_that_shares_a_seed_with_a_search_is_named_and_does_not_count(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.95, 0.4))
    for seed, right in ((4, 299), (5, 299), (1000, 280), (1001, 282)):
        bench.add("digits", "muon", 0.02, stage=REPLICATE, seed=seed, metrics=image(make, right))
    assert "95.99 ± 0.47" not in written(bench)
    for seed in (4, 5):
        bench.add("digits", "muon", 0.04, sweep="older", seed=seed, metrics=make.image(0.9, 0.4))
    text = written(bench)
    assert "93.98 ± 0.47" in text
    assert "] 2 replicas share a seed with the search of sweep older: not counted" in text


def test_without_any_fresh_replica_nothing_is_reported(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.95, 0.4))
    bench.add("digits", "muon", 0.02, stage=REPLICATE, seed=4, metrics=image(make, 299))
    bench.add("digits", "muon", 0.04, sweep="older", seed=4, metrics=make.image(0.9, 0.4))
    text = written(bench)
    assert "100.00" not in text and "nothing to report" in text
    assert "1 replica shares a seed with the search of sweep older: not counted" in text


# --- rivals that are not done ---

CLEAR = {"muon": [288, 291, 290], "adamw": [240, 244, 239]}


@pytest.mark.parametrize("stage", ["search", REPLICATE])
@pytest.mark.parametrize(
    ("optimizer", "state"),
    [("adamw", "failed"), ("adamw", "running"), ("adamw", "waiting"), ("muon", "failed"), ("sgdm", "failed")],
)
def test_nothing_is_bold_while_a_rival_may_still_change(bench, make, state, stage, optimizer):
    contest(bench, make, **CLEAR)
    lr = 0.02 if stage == REPLICATE else 0.04
    bench.add("digits", optimizer, lr, stage=stage, seed=1009, state=state, reason="oom")
    has_row = (optimizer, stage) != ("sgdm", REPLICATE)  # which is a replica of nobody's choice
    assert bold(bench) == ([] if has_row else ["muon"])


def test_a_rival_without_replicas_keeps_others_from_being_bold(bench, make):
    contest(bench, make, **CLEAR)
    bench.add("digits", "sgdm", 0.3, metrics=make.image(0.2, 2.0))
    assert bold(bench) == []


@pytest.mark.parametrize("seed", [0, 1009])
def test_a_divergence_is_a_result_and_no_obstacle(bench, make, seed):
    contest(bench, make, **CLEAR)
    bench.add("digits", "adamw", 0.01, metrics=make.image(0.5, 0.9))  # else its best rate is at an edge
    bench.add("digits", "adamw", 0.04, state="diverged", steps=3)
    bench.add("digits", "sgdm", 0.04, state="diverged", steps=3)
    stage = REPLICATE if seed else "search"
    lr = 0.02 if seed else 0.08
    bench.add("digits", "adamw", lr, stage=stage, seed=seed, state="diverged", steps=3)
    assert bold(bench) == ["muon"]


# --- unequal effort ---


def test_nine_settings_against_three_are_told(bench, make):
    for lr in (0.01, 0.02, 0.04):
        for optimizer in ("adamw", "sgdm", "muon"):
            bench.add("digits", optimizer, lr, metrics=make.image(0.9, 0.4))
        for p in (0.0625, 0.125, 0.25):
            bench.add("digits", "htmuon", lr, p=p, metrics=make.image(0.9, 0.4))
    assert "- htmuon was chosen among 9 settings, adamw, sgdm and muon among 3.\n" in written(bench)


def test_equal_budgets_are_told_and_settings_of_two_sweeps_count_once(bench, make):
    for sweep, lrs in (("a", (0.01, 0.02)), ("b", (0.02, 0.04))):
        for lr in lrs:
            for optimizer in ("adamw", "muon"):
                bench.add("digits", optimizer, lr, sweep=sweep, metrics=make.image(0.9, 0.4))
    assert "- Each optimizer: 3 settings.\n" in written(bench)


def test_two_sweeps_with_one_setting_each_are_a_choice(bench, make):
    for sweep, lr in (("a", 0.01), ("b", 0.02)):
        bench.add("digits", "muon", lr, sweep=sweep, metrics=make.image(0.9, 0.4))
    text = written(bench)
    assert "nothing chosen" not in text and "- lr chosen on validation" in text


def test_a_grid_beside_a_search_is_told(bench, make):
    from tests.helpers.past_searches import LOG, lrs, search

    search(bench, make, {"optimizer.lr": LOG}, lrs(0.01, 0.02, 0.03))
    bench.add("digits", "adamw", 0.001, metrics=make.image(0.9, 0.4))
    text = written(bench)
    assert "- muon was chosen among 3 settings, adamw among 1.\n" in text
    assert "- Not searched alike: adamw by a grid; muon by tpe in 3 trials.\n" in text


def test_a_candidate_with_fewer_seeds_than_its_rivals_is_marked(bench, make):
    for seed in (0, 1, 2):
        bench.add("digits", "muon", 0.02, seed=seed, metrics=make.image(0.90, 0.4))
    bench.add("digits", "muon", 0.04, metrics=make.image(0.99, 0.4))
    assert "] chosen on 1 seed, others on 3\n" in written(bench)
    assert "] on 1 seed, others on 3\n" in written(bench, "lr_grid")


def test_a_row_with_fewer_fresh_seeds_is_marked(bench, make):
    contest(bench, make, muon=[288, 291, 290, 289], adamw=[240, 244, 239])
    assert "] reported on 3 seeds, others on 4\n" in written(bench)
    assert bold(bench) == ["muon"]
