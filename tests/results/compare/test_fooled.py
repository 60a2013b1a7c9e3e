"""The thirteen ways in which a table was fooled: a store for each."""

import json
import shutil

from harness.show.report import Report
from harness.store.points import REPLICATE
from results.compare.view import View
from results.frames.load import load
from results.tables.registry import TABLES
from tests.helpers.rendering import render


def table(bench, form="md", name="main_result"):
    return render(TABLES[name](View(load(bench.write()))), form)


def lines(bench, name="main_result"):
    """The rows of a table in JSON, by their optimizer."""
    [report] = json.loads(table(bench, "json", name))
    [section] = report["sections"]
    heads = [column["name"] for column in section["columns"]]
    return {row[0]["value"]: dict(zip(heads, row, strict=True)) for row in section["rows"]}


def bold(bench):
    return [name for name, cells in lines(bench).items() if any(cell["bold"] for cell in cells.values())]


def contest(bench, make, search, replicas, workload="digits", **hyper):
    """Optimizers with the validation accuracy at each rate and the images right on each fresh seed."""
    for optimizer, rates in search.items():
        own = hyper.get(optimizer, {})
        for rate, level in rates.items():
            bench.add(workload, optimizer, rate, metrics=make.image(level, 0.4), **own)
        best = max(rates, key=rates.get)
        for seed, right in enumerate(replicas[optimizer], start=1000):
            metrics = make.image(0.95, 0.4, test=right / 299)
            bench.add(workload, optimizer, best, stage=REPLICATE, seed=seed, metrics=metrics, **own)


MUON = {0.03: 0.92, 0.06: 0.95, 0.12: 0.91}


def test_1_fixed_settings_that_are_no_defaults_are_seen(bench, make):
    contest(
        bench,
        make,
        {"muon": MUON, "adamw": {0.003: 0.1, 0.01: 0.2, 0.03: 0.1}},
        {"muon": [280, 281, 279], "adamw": [30, 31, 32]},
        adamw={"betas": [0, 0.5], "weight_decay": 10},
    )
    text = table(bench)
    assert "betas [0,0.5] (default [0.9,0.999])" in text and "weight_decay 10 (default 0.1)" in text
    assert "weight_decay 0.1 of muon, 10 of adamw" in text
    assert "fixed_not_default" in lines(bench)["adamw"]["optimizer"]["kinds"]
    assert "fixed_not_default" in table(bench, "csv"), "marks are a field of CSV"


SEVEN = {0.015: 0.9, 0.02: 0.91, 0.04: 0.93, 0.08: 0.93}


def test_3_what_other_sweeps_tried_counts_in_the_budget(bench, make):
    """The sweep of three rates is what is left of one of seven: no matter whose file asked for them."""
    contest(bench, make, {"muon": MUON}, {"muon": [280, 281, 279]})
    for rate, level in SEVEN.items():
        bench.add("digits", "muon", rate, sweep="before", metrics=make.image(level, 0.4))
    assert lines(bench)["muon"]["tried"]["value"] == 7
    shown = load(bench.write(), ["demo-digits"])
    [section] = TABLES["main_result"](View(shown)).sections
    tried = section.rows[0][[column.name for column in section.columns].index("tried")]
    assert tried.value == 7 and "tried_elsewhere" in [note.kind for note in tried.notes]
    assert "3 of 7" in render(TABLES["main_result"](View(shown)), "md")


def test_3_runs_whose_plan_is_gone_count_too(bench, make):
    contest(bench, make, {"muon": MUON}, {"muon": [280, 281, 279]})
    for rate, level in SEVEN.items():
        bench.add("digits", "muon", rate, sweep="before", metrics=make.image(level, 0.4))
    store = bench.write()
    shutil.rmtree(store.root / "sweeps" / "before")
    [section, _] = TABLES["main_result"](View(load(store))).sections
    assert "3 of 7" in render(Report("t", "", [section]), "md")


def test_7_a_sweep_that_is_left_out_still_makes_seeds_stale(bench, make):
    contest(bench, make, {"muon": MUON}, {"muon": [280, 281, 279]})
    bench.add("digits", "muon", 0.08, sweep="before", seed=1001, metrics=make.image(0.9, 0.4))
    bench.add("digits", "muon", 0.06, sweep="before", seed=1002, metrics=make.image(0.9, 0.4))
    for sweeps in (None, ["demo-digits"]):
        [section] = TABLES["main_result"](View(load(bench.write(), sweeps))).sections
        text = render(Report("t", "", [section]), "md")
        assert "2 replicas share a seed with the search of sweep before: not counted" in text
