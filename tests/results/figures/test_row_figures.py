"""The figures with a row per optimizer: seed_spread, to_target and lr_width, and how rows are drawn."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
from matplotlib.figure import Figure as Canvas

from htbench.harness.store.points import REPLICATE
from htbench.results.figures.kinds import DOT, MARK, MISSED, POINT, PUBLISHED, SPAN, About, Panel, Row, tidy
from htbench.results.figures.marks import _find_beyond, draw_rows
from htbench.results.figures.run_figures import _SECONDS, choose_unit, make_entry, published_widths
from htbench.results.figures.style import label_log
from htbench.results.frames.load import load_rows
from tests.helpers.frames import plot

NAMES = ("seed_spread", "to_target", "lr_width", "best_of_k")
seed_spread, to_target, lr_width, best_of_k = plot(*NAMES)
STEPS = 100  # of a run on digits


def falling(bench, key, values):
    """A curve that ends as its record says, with evaluations at equal distances."""
    path = bench.store.files(key).metrics
    ends = [row for row in map(json.loads, path.read_text().splitlines()) if row["step"] == STEPS]
    steps = [STEPS * i // len(values) for i in range(1, len(values))]
    rows = [{"step": step, "val_accuracy": value} for step, value in zip(steps, values, strict=False)]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *ends]))


def replicas(bench, make, optimizer, curves, **more):
    """A searched setting and its replicas, whose evaluations are as given; the last one is the result."""
    bench.add("digits", optimizer, 0.02, metrics=make.image(0.9, 0.4), **more)
    for seed, values in enumerate(curves, 1):
        metrics = make.image(values[-1], 0.4)
        key = bench.add("digits", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=metrics, **more)
        falling(bench, key, values)


def entries(panel):
    """By optimizer, in the order of the panel: its mark, and its rows of each other role."""
    found = {}
    for name, own in panel.frame.groupby("optimizer", sort=False):
        roles = {role: list(own[own["role"] == role].itertuples()) for role in (MARK, DOT, MISSED, SPAN)}
        found[name] = SimpleNamespace(mark=roles[MARK][0], dots=roles[DOT] + roles[MISSED], spans=roles[SPAN])
    return found


# --- seed_spread ---


def test_every_seed_is_a_dot_and_the_best_mean_is_on_top(bench, make):
    for name, tests in (("adamw", (0.80, 0.84)), ("muon", (0.90, 0.92, 0.94))):
        bench.add("digits", name, 0.02, metrics=make.image(0.9, 0.4))
        for seed, test in enumerate(tests, 1):
            metrics = make.image(0.9, 0.4, test=test)
            bench.add("digits", name, 0.02, stage=REPLICATE, seed=seed, metrics=metrics)
    bench.add("digits", "adamw", 0.02, stage=REPLICATE, seed=3, state="failed", reason="oom")
    bench.add("digits", "sgdm", 0.3, metrics=make.image(0.9, 0.4))
    (panel,) = seed_spread(load_rows(bench.write()), bench.store)
    assert list(entries(panel)) == ["muon", "adamw", "sgdm"]
    muon, adamw, sgdm = entries(panel).values()
    assert [dot.y for dot in muon.dots] == pytest.approx([90, 92, 94]) and muon.mark.y == pytest.approx(92)
    (interval,) = muon.spans
    half = 4.302653 * 2 / 3**0.5  # Student's t, 2 degrees of freedom
    assert interval.y_high - muon.mark.y == pytest.approx(half)
    assert (muon.mark.text, adamw.mark.text, sgdm.mark.text) == (
        "92.00 ± 2.00",
        "82.00 ± 2.83 (2/3)",
        "waiting",
    )
    assert sorted(panel.about.seeds) == [2, 3]


# --- to_target ---


def test_the_target_is_the_end_of_muons_run_of_the_same_seeds_and_who_misses_it_is_marked(bench, make):
    replicas(bench, make, "muon", [(0.2, 0.4, 0.6, 0.8), (0.2, 0.4, 0.6, 0.9)])
    replicas(bench, make, "htmuon", [(0.6, 0.7, 0.9, 0.95), (0.9, 0.8, 0.8, 0.8)], p=0.125)
    replicas(bench, make, "adamw", [(0.1, 0.2, 0.3, 0.79), (0.7, 0.91, 0.7, 0.7)])
    steps, time = to_target(load_rows(bench.write()), bench.store)
    assert [str(note) for note in steps.about.facts[1:]] == [
        "target: where a run of muon ends",
        "4 evaluations a run",
    ]
    assert (steps.about.metric, set(steps.about.seeds)) == ("validation accuracy (%)", {2})
    htmuon, muon, adamw = entries(steps).values()
    assert [dot.y for dot in muon.dots] == [100, 100]
    assert [dot.y for dot in htmuon.dots] == [75, 25]
    assert [(dot.y, dot.role) for dot in adamw.dots] == [(50, DOT), (100, MISSED)]
    assert adamw.mark.text == "(1/2)" and adamw.mark.y is None, "a mean of those that reach it is too good"
    assert entries(time)["htmuon"].dots[1].y == pytest.approx(25 * 0.01) and "(seconds)" in time.labels[0]


def test_times_of_different_hardware_are_not_drawn(bench, make):
    replicas(bench, make, "muon", [(0.2, 0.4, 0.6, 0.8)])
    replicas(bench, make, "adamw", [(0.2, 0.4, 0.6, 0.9)], cpu="Testium 2")
    (steps,) = to_target(load_rows(bench.write()), bench.store)
    assert "steps" in steps.labels[0]
    assert str(steps.about.facts[-1]) == "no times: the runs are from 2 kinds of hardware"


def test_without_muon_the_worst_run_of_all_is_the_target_and_diverged_runs_miss_it(bench, make):
    replicas(bench, make, "adamw", [(0.2, 0.4, 0.6, 0.8)])
    replicas(bench, make, "sgdm", [(0.2, 0.4, 0.6, 0.7)])
    bench.add(
        "digits",
        "sgdm",
        0.02,
        stage=REPLICATE,
        seed=2,
        state="diverged",
        steps=9,
        curve=False,
    )
    steps, _ = to_target(load_rows(bench.write()), bench.store)
    assert "target: the worst end of all runs" in map(str, steps.about.facts)
    _, sgdm = entries(steps).values()
    assert [(dot.y, dot.role) for dot in sgdm.dots] == [(100, DOT), (9, MISSED)]


def test_a_task_with_a_published_target_has_that_one(bench, make):
    for name, loss in (("muon", 3.27), ("adamw", 3.29)):
        base = {"task": "fineweb", "model": "modded-gpt-nano"}
        bench.add("pydocs", name, 0.02, metrics=make.text(loss), base=base)
        for seed in (1, 2):
            bench.add("pydocs", name, 0.02, stage=REPLICATE, seed=seed, metrics=make.text(loss), base=base)
    steps, _ = to_target(load_rows(bench.write()), bench.store)
    assert "target: perplexity 26.58, that of the task's benchmark" in map(str, steps.about.facts)
    muon, adamw = entries(steps).values()
    assert [(dot.y, dot.role) for dot in muon.dots] == [(200, DOT)] * 2
    assert [(dot.y, dot.role) for dot in adamw.dots] == [(200, MISSED)] * 2


def test_curves_with_one_evaluation_have_no_panel(bench, make):
    replicas(bench, make, "muon", [(0.8,)])
    assert to_target(load_rows(bench.write()), bench.store) == []


# --- lr_width ---


def test_a_searched_p_does_not_widen_the_optimum(bench, make):
    grid = {(0.01, 0.1): 0.80, (0.02, 0.1): 0.90, (0.04, 0.1): 0.72, (0.04, 0.2): 0.895, (0.01, 0.2): 0.89}
    for (lr, p), accuracy in grid.items():
        bench.add("digits", "htmuon", lr, p=p, metrics=make.image(accuracy, 0.4))
    bench.add("digits", "htmuon", 0.08, p=0.1, state="diverged", steps=3, curve=False)
    bench.add("digits", "muon", 0.02, metrics=make.image(0.9, 0.4))
    (panel,) = lr_width(load_rows(bench.write()), bench.store)
    htmuon, muon = entries(panel).values()
    five, one = htmuon.spans
    assert (htmuon.mark.y, muon.mark.text) == (0.02, "one rate only")
    assert (five.y_low, five.y_high) == (pytest.approx(0.02 / 2**0.45), pytest.approx(0.02 * 2**0.25))
    assert five.y_low < one.y_low < one.y_high < five.y_high and five.ends == (False, False)
    assert htmuon.mark.text == f"{0.09 + 0.05:.1f} / 0.7"


def test_published_rates_have_widths_too():
    points = {0.01: 30.0, 0.02: 29.0, 0.03: 28.0}
    rows = [Row("y", "muon", x, y, source=PUBLISHED) for x, y in points.items()]
    (panel,) = published_widths([Panel("rates", About("t"), tidy(rows))])
    (muon,) = entries(panel).values()
    assert muon.mark.y == 0.03 and muon.mark.source == PUBLISHED and muon.mark.text.startswith(">")
    rows = list(panel.frame.itertuples())
    assert [row.x for row in rows] == [
        "chosen learning rate",
        "within 5% of its best, open at the high end",
        "within 1% of its best, open at the high end",
    ]
    assert {row.source for row in rows} == {PUBLISHED} and rows[1].y_high == 0.03


# --- how rows are drawn ---


def beyond(values, kind="seeds", **more):
    found = pd.Series(values, dtype=float)
    return found[_find_beyond(Panel(kind, About("t"), tidy([]), **more), found)].tolist()


def test_one_very_bad_result_is_left_to_a_mark_at_the_end():
    assert beyond([50, 52, 55, 60, 200]) == [200]
    assert beyond([95, 94, 92, 90, 10], higher_is_better=True) == [10]
    assert beyond([50, 52, 55, 60]) == []
    assert beyond([50, 50, 50, 90]) == [], "half of them tie: nothing to scale by"
    assert beyond([1, 100]) == []
    assert beyond([50, 52, 55, 60, 200], kind="targets") == [], "only where means are compared"


def shown_ticks(*limits):
    axis = Canvas(figsize=(3.3, 2.1)).subplots().xaxis
    axis.axes.set(xscale="log", xlim=limits)
    label_log(axis)
    ticks = [tick for tick in axis.get_majorticklocs() if limits[0] <= tick <= limits[1]]
    return axis.get_major_formatter().format_ticks(ticks)


@pytest.mark.parametrize(
    "limits", [(0.0145, 0.031), (1e-4, 1), (0.5, 6), (0.041, 0.0498), (0.0421, 0.0425), (1e-7, 1e2), (3, 31)]
)
def test_a_logarithmic_axis_has_a_few_round_ticks(limits):
    ticks = shown_ticks(*limits)
    assert 2 <= len(ticks) <= 7 and "e" not in "".join(ticks[2:]), ticks
    assert max(len(tick.replace(".", "").strip("0")) for tick in ticks if "e" not in tick) <= 4, ticks


def test_it_writes_no_power_of_ten():
    assert shown_ticks(2.4e4, 2e6) == ["50k", "100k", "200k", "500k", "1M", "2M"]


def test_units_are_the_largest_that_can_be_read():
    assert choose_unit(_SECONDS, 0.2) == ("seconds", 1) and choose_unit(_SECONDS, 599) == ("seconds", 1)
    assert choose_unit(_SECONDS, 600) == ("minutes", 60) and choose_unit(_SECONDS, 36000) == ("hours", 3600)


def drawn_rows(kind, rows):
    ax = Canvas().subplots()
    draw_rows(ax, Panel(kind, About("t"), tidy(rows)))
    return ax, list(dict.fromkeys(ax.get_legend_handles_labels()[1]))


def test_the_drawing_has_every_row_and_explains_what_it_shows():
    run, spans = {"seed": 1, "key": "a"}, {"range": (1.0, 3.0, False, True)}
    muon, adamw = Row("x", "muon", "", 2.0, text="2.0"), Row("x", "adamw", "", None, text="(0/1)")
    rows = [
        *make_entry("targets", muon, spans, [(2.0, run, True)]),
        *make_entry("targets", adamw, dots=[(3.0, run, False)]),
    ]
    ax, labels = drawn_rows("targets", rows)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["muon", "adamw"]
    assert [text.get_text() for text in ax.texts] == ["mean ± sd", "2.0", "(0/1)"]
    ends = ("ended without reaching it", "range", "nothing worse was tried beyond")
    assert labels == ["mean", "one run", *ends]


def test_a_row_beyond_the_axis_has_a_mark_at_its_end():
    rows = []
    for name, value in (("muon", 2.0), ("htmuon", 2.1), ("adamw", 2.2), ("sgdm", 9.0)):
        mark = Row("x", name, "", value, text=str(value))
        rows += make_entry("seeds", mark, dots=[(value, {"seed": 1, "key": "a"}, True)])
    ax, labels = drawn_rows("seeds", rows)
    assert [text.get_text() for text in ax.texts] == ["mean ± sd", "2.0", "2.1", "2.2", "9.0"]
    assert labels == ["mean", "one run", "beyond the axis"]
    assert ax.get_xlim()[1] < 9, "the axis ends before the row that is marked as beyond it"


# --- best_of_k ---


def test_a_smaller_budget_finds_less_and_a_divergence_is_never_the_best(bench, make):
    for lr, accuracy in ((0.01, 0.8), (0.02, 0.9), (0.04, 0.7)):
        bench.add("digits", "muon", lr, metrics=make.image(accuracy, 0.4))
    bench.add("digits", "adamw", 0.01, metrics=make.image(0.6, 0.4))
    bench.add("digits", "adamw", 0.02, state="diverged", steps=3)
    (panel,) = best_of_k(load_rows(bench.write()), bench.store)
    rows = panel.of(POINT)
    muon, adamw = (rows[rows["series"] == name] for name in ("muon", "adamw"))
    assert muon["x"].tolist() == [1, 2, 3]
    assert muon["y"].tolist() == pytest.approx([80, (0.9 * 2 + 0.8) / 3 * 100, 90])
    assert adamw["x"].tolist() == [2] and adamw["y"].tolist() == pytest.approx([60])
