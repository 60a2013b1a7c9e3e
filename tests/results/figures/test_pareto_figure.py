"""The figure `pareto`: what enters it, its front, its labels, and stores whose records have no operations."""

import random

import pytest
from matplotlib.figure import Figure as Canvas

from htbench.harness.store.points import REPLICATE
from htbench.results.compare.stats import Summary
from htbench.results.compare.view import Side
from htbench.results.figures.kinds import FRONT, POINT, PUBLISHED, About
from htbench.results.figures.marks import _find_beyond, draw_points
from htbench.results.figures.paper_figures import hours
from htbench.results.figures.run_figures import find_front, make_cost_panel, make_cost_point
from htbench.results.frames.columns import COST
from htbench.results.frames.load import load_rows
from tests.helpers.frames import load_frame, plot

(pareto,) = plot("pareto")


def point(name, price, metric):
    return make_cost_point(name, None, Summary(price, None, 1), Summary(metric, None, 1))


def legend(ax):
    return ax.get_legend_handles_labels()[1]


def said(panel):
    return [str(note) for note in panel.about.facts]


def test_the_front_has_what_no_other_beats():
    a, b, c, d = point("a", 1, 9), point("b", 2, 5), point("c", 3, 6), point("d", 3, 4)
    assert find_front([a, b, c, d], higher_is_better=False) == [a, b, d]
    assert find_front([a, b, c, d], higher_is_better=True) == [a]
    assert find_front([point("x", 1, 9), point("y", 1, 8)], higher_is_better=False) == [point("y", 1, 8)]


@pytest.fixture
def two(bench, make):
    """Muon is better, AdamW is faster."""
    for name, seconds, accuracy in (("muon", 0.5, 0.9), ("adamw", 0.1, 0.8)):
        bench.add("digits", name, 0.02, metrics=make.image(0.9, 0.4))
        for seed in (1, 2):
            metrics = make.image(accuracy + seed / 100, 0.4)
            bench.add("digits", name, 0.02, stage=REPLICATE, seed=seed, metrics=metrics, seconds=seconds)
    bench.write()
    return bench


def test_older_records_have_a_panel_of_times_only(two):
    store = two.store
    frame = load_frame(store).drop(columns=COST)
    (panel,) = pareto(frame.to_dict("records"), store)
    assert panel.labels[0].startswith("training time") and panel.higher_is_better
    adamw, muon = panel.of(POINT).itertuples()
    fresh = frame[(frame["stage"] == REPLICATE) & (frame["optimizer"] == "adamw")]
    mean = 100 * fresh["test_accuracy"].mean()
    assert (adamw.optimizer, adamw.n, adamw.y) == ("adamw", 2, pytest.approx(mean))
    assert adamw.y_sd == pytest.approx(0.5**0.5)
    assert list(panel.of(FRONT)["optimizer"]) == [adamw.optimizer, muon.optimizer]
    assert load_frame(store)["total_flops"].dropna().unique().tolist() == [100 * 4e9]
    counted = frame.assign(total_flops=4e12)
    times, work = pareto(counted.to_dict("records"), store)
    assert times.frame.equals(panel.frame) and work.labels[0].endswith("model and optimizer (GFLOP)")
    assert work.frame["x"].iloc[0] == 4000
    one_lacks = counted.assign(total_flops=counted["total_flops"].where(counted["seed"] != 1))
    assert len(pareto(one_lacks.to_dict("records"), store)) == 1, "a mean of some seeds would mislead"
    muon_lacks = counted.assign(total_flops=counted["total_flops"].where(counted["optimizer"] != "muon"))
    work = pareto(muon_lacks.to_dict("records"), store)[1]
    assert said(work)[-1] == "not counted: muon" and len(work.of(POINT)) == 1


def test_times_of_different_hardware_are_never_on_one_axis(two):
    other = {"muon": {"machine": "Testium 2"}}
    frame = [row | other.get(row["optimizer"], {}) for row in load_rows(two.store)]
    (panel,) = pareto(frame, two.store)
    assert panel.labels[0].endswith("(GFLOP)")
    assert said(panel)[-1] == "no times: the runs are from 2 kinds of hardware"


def test_each_interval_is_a_point_and_the_published_ones_are_known(bench, make):
    for interval, accuracy in ((1, 0.9), (5, 0.8), (10, 0.7)):
        common = {"p": 0.125, "interval": interval, "metrics": make.image(accuracy, 0.4)}
        bench.add("digits", "htmuon", 0.02, **common)
        if interval < 10:
            bench.add("digits", "htmuon", 0.02, stage=REPLICATE, seed=1, seconds=0.1 / interval, **common)
    panel = pareto(load_rows(bench.write()), bench.store)[0]
    assert list(panel.of(POINT)["series"]) == ["htmuon, interval 5", "htmuon, interval 1"]
    assert not any("without" in note for note in said(panel))
    small, _ = hours(Side(published=True))
    assert small.about.title == "c4 · llama-60m"
    assert said(small) == ["published numbers", "2x RTX PRO 6000"]
    assert list(small.of(FRONT)["text"]) == [
        *("muon", "htmuon_ns, interval 5", "htmuon_ns, interval 1", "htmuon, interval 1"),
    ]
    assert set(small.frame["source"]) == {PUBLISHED}


def test_who_has_no_result_is_named(two):
    two.add("digits", "sgdm", 0.3, state="diverged", steps=3, curve=False)
    panel = pareto(load_rows(two.write()), two.store)[0]
    assert said(panel)[-1] == "without a result: sgdm" and len(panel.of(POINT)) == 2


def test_the_rows_of_the_csv_have_both_spreads_and_the_front(two):
    rows = list(pareto(load_rows(two.store), two.store)[0].frame.itertuples())
    assert [row.series for row in rows] == ["adamw", "muon", "Pareto front", "Pareto front"]
    assert rows[0].quantity == "test accuracy (%) against training time (seconds)"
    assert rows[0].x_sd == 0 and rows[0].y_sd == pytest.approx(0.5**0.5) and len(rows[0].keys) == 2


def scattered(seed, count):
    noise = random.Random(seed)
    return [point(f"optimizer_{i}", noise.uniform(1, 3), noise.gauss(50, 5)) for i in range(count)]


@pytest.mark.parametrize("count", [2, 8, 9, 60])
@pytest.mark.parametrize("seed", range(3))
def test_the_legend_has_the_front_and_of_many_others_none(seed, count):
    points = scattered(seed, count)
    panel, ax = (
        make_cost_panel(About("t", metric="perplexity"), False, "seconds", points),
        Canvas().subplots(),
    )
    draw_points(ax, panel)
    shown = {label for label in legend(ax) if label.startswith("optimizer_")}
    best = {one.series for one in find_front(points, higher_is_better=False)}
    assert shown == (best if count > 8 else {one.series for one in points})
    assert ("others, named in the CSV file" in legend(ax)) == (count > 8 and len(best) < count)
    assert ("beyond the axis" in legend(ax)) == _find_beyond(panel, panel.of(POINT)["y"]).any()


def test_the_intervals_of_an_optimizer_stand_at_its_points():
    ax = Canvas().subplots()
    values = ((1, 3.0, 40.0), (5, 2.0, 41.0))
    points = [
        make_cost_point("htmuon", interval, Summary(x, None, 1), Summary(y, None, 1))
        for interval, x, y in values
    ]
    draw_points(ax, make_cost_panel(About("t", metric="perplexity"), False, "seconds", points))
    assert [text.get_text() for text in ax.texts] == ["5", "1"]
    assert set(legend(ax)) == {"htmuon", "front: nothing cheaper is better", "interval"}
