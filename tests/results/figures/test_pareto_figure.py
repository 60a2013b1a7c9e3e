"""The figure `cost`: what enters it, its front, and stores whose records have no operations."""

import pytest

from harness.store.points import REPLICATE
from results.analysis.cost import COLUMNS
from results.analysis.load import load
from results.figures.cost_panels import Mean, Point, cost, pareto


def point(name, price, metric):
    return Point(name, Mean(price, 0.0), Mean(metric, 0.0), 1)


def test_the_front_has_what_no_other_beats():
    a, b, c, d = point("a", 1, 9), point("b", 2, 5), point("c", 3, 6), point("d", 3, 4)
    assert pareto([a, b, c, d], higher_is_better=False) == [a, b, d]
    assert pareto([a, b, c, d], higher_is_better=True) == [a]
    assert pareto([point("x", 1, 9), point("y", 1, 8)], higher_is_better=False) == [point("y", 1, 8)]


def test_older_records_have_a_panel_of_times_only(bench, make):
    for name, seconds, accuracy in (("muon", 0.5, 0.9), ("adamw", 0.1, 0.8)):
        bench.add("digits", name, 0.02, metrics=make.image(0.9, 0.4))
        for seed in (1, 2):
            metrics = make.image(accuracy + seed / 100, 0.4)
            bench.add("digits", name, 0.02, stage=REPLICATE, seed=seed, metrics=metrics, seconds=seconds)
    store = bench.write()
    frame = load(store).drop(columns=list(COLUMNS))
    (panel,) = cost(frame, store)
    assert panel.axis.startswith("training time") and panel.higher_is_better
    adamw, muon = panel.points
    fresh = frame[(frame["stage"] == REPLICATE) & (frame["optimizer"] == "adamw")]
    mean = 100 * fresh["test_accuracy"].mean()
    assert (adamw.optimizer, adamw.seeds, adamw.metric.value) == ("adamw", 2, pytest.approx(mean))
    assert adamw.metric.sd == pytest.approx(0.5**0.5) and panel.front == [adamw, muon]
    assert load(store)["total_flops"].dropna().unique().tolist() == [100 * 4e9]
    counted = frame.assign(total_flops=4e12)
    times, work = cost(counted, store)
    assert times == panel and work.axis == "model and optimizer (GFLOP)" and work.points[0].cost.value == 4000
    one_lacks = counted.assign(total_flops=counted["total_flops"].where(counted["seed"] != 1))
    assert len(cost(one_lacks, store)) == 1, "a mean of some seeds would mislead"
