"""The tables: golden texts, same records same bytes, every state with its symbol, nobody bold unfairly."""

import dataclasses
import os
import re
import shutil
from pathlib import Path

import pytest

from htbench.harness.show.note import Note, text
from htbench.harness.show.report import Cell, Column, Section
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.store.points import DROPPED, REPLICATE
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import GENERAL
from tests.helpers.rendering import FORMATS, SUFFIXES, render

STATES = [state for state in Status if state != Status.QUEUED]  # only a screen looks into the queue
GOLDEN = Path(__file__).parents[2] / "golden" / "tables"
UPDATE = os.environ.get("HTBENCH_UPDATE_GOLDEN") == "1"


def written(store, name, fmt="md"):
    return render(GENERAL[name](View(load_rows(store))), fmt)


def row(text, optimizer):
    """The cells of one row of a Markdown table, by column."""
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")
    ]
    found = next(line for line in lines if line[0].split()[0] == optimizer)
    return dict(zip(lines[0], found, strict=True))


@pytest.mark.parametrize("name", GENERAL)
def test_golden_without_a_path_or_a_date(name, mixed_store):
    report = GENERAL[name](View(load_rows(mixed_store)))
    for fmt in FORMATS:
        path, text = GOLDEN / f"{name}.{SUFFIXES[fmt]}", render(report, fmt)
        if UPDATE:
            path.write_text(text)
        assert text == path.read_text(), (
            "if this is meant: HTBENCH_UPDATE_GOLDEN=1 pytest tests/results/tables/test_tables.py"
        )
        assert str(mixed_store.root) not in text
        assert "/a/path" not in text  # the message of the failed run
        assert not re.search(r"20\d\d-\d\d|20\d\d/\d\d", text)


def test_same_records_and_plans_same_bytes(demo_copy, tmp_path):
    def tables(store):
        view = View(load_rows(store))
        return [render(make(view), "md") for make in GENERAL.values()]

    first = tables(demo_copy)
    moved = Store(shutil.move(demo_copy.root, tmp_path / "elsewhere"))
    lines = moved.index.path.read_text().splitlines(keepends=True)
    moved.index.path.write_text("".join(reversed(lines)))
    assert tables(moved) == first
    moved.index.path.unlink()
    assert tables(moved) == first


def test_each_symbol_is_shown_and_explained(mixed_store):
    text = "".join(written(mixed_store, name) for name in GENERAL)
    for state in STATES:
        assert re.search(rf"\| +{re.escape(state.symbol)}[ @]", text), state
        assert f"- `{state.symbol}` {Note(f'status_{state}')}" in text


def test_the_legend_names_only_what_is_there(demo_store):
    text = written(demo_store, "main_result")
    assert not any(f"- `{state.symbol}`" in text for state in Status)
    assert "- `div.`" in written(demo_store, "lr_grid")
    assert "- `…`" not in written(demo_store, "lr_grid")


# --- main_result ---


def main_result(bench):
    return written(bench.write(), "main_result")


def test_test_figures_come_from_the_winners_replicas_only(bench, make):
    bench.add("digits", "adamw", 0.001, metrics=make.image(0.90, 0.4, test=0.11))
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.95, 0.4, test=0.22))
    for seed, test in ((1, 0.80), (2, 0.82)):
        bench.add(
            "digits", "adamw", 0.003, stage=REPLICATE, seed=seed, metrics=make.image(0.9, 0.4, test=test)
        )
    found = row(main_result(bench), "adamw")
    assert (found["test accuracy (%)"], found["n"], found["val accuracy (%)"]) == (
        "81.00 ± 1.41",
        "2",
        "95.00",
    )


def test_unfinished_replicas_are_counted(bench, make):
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.95, 0.4))
    states = ["completed", "running", "waiting", "failed", "pruned"]
    for seed, state in enumerate(states, start=1):
        metrics = make.image(0.9, 0.4, test=0.8)
        bench.add(
            "digits", "adamw", 0.003, stage=REPLICATE, seed=seed, state=state, metrics=metrics, reason="oom"
        )
    text = main_result(bench)
    assert row(text, "adamw")["test accuracy (%)"] == "80.00 [a]"
    assert "- [a] 1 of 5 replicas count; the rest: 1 not run yet, 1 running, 1 pruned, 1 failed" in text


def test_replicas_that_all_diverged_say_so(bench, make):
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.95, 0.4))
    for seed, step in ((1, 40), (2, 60)):
        why = f"the loss was not finite at step {step}"
        bench.add(
            "digits", "adamw", 0.003, stage=REPLICATE, seed=seed, state="diverged", reason=why, steps=step
        )
    text = main_result(bench)
    assert row(text, "adamw")["test accuracy (%)"] == "div.@40-60 [a,b]"
    assert "- [b] 0 of 2 replicas count; the rest: 2 diverged" in text


def contest(bench, make, **tests):
    """Optimizers with these test accuracies on their fresh seeds."""
    for optimizer, values in tests.items():
        bench.add("digits", optimizer, 0.02, metrics=make.image(0.95, 0.4))
        for seed, test in enumerate(values, start=1):
            metrics = make.image(0.9, 0.4, test=test)
            bench.add("digits", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=metrics)


def bold(text):
    return [line.split("|")[1].strip() for line in text.splitlines() if "**" in line]


@pytest.mark.parametrize(
    "tests",
    [
        {"muon": [0.90, 0.94, 0.98], "adamw": [0.89, 0.93, 0.97]},  # not told apart
        {"muon": [0.9, 0.9], "adamw": [0.9, 0.9]},  # a tie
        {"muon": [0.95], "adamw": [0.80, 0.81]},  # one seed
        {"muon": [0.90, 0.91], "adamw": [0.50, 0.51]},  # two
        {"muon": [0.90001, 0.900011, 0.900009], "adamw": [0.90002, 0.900021, 0.900019]},  # prints alike
        {"muon": [0.90, 0.91, 0.92]},  # nobody to beat
    ],
)
def test_nobody_is_bold_without_a_clear_best(bench, make, tests):
    contest(bench, make, **tests)
    assert bold(main_result(bench)) == []


def test_a_best_whose_replicas_did_not_all_make_it_is_not_bold(bench, make):
    contest(bench, make, muon=[0.90, 0.91, 0.92], adamw=[0.80, 0.81, 0.82])
    bench.add("digits", "muon", 0.02, stage=REPLICATE, seed=9, state="diverged", steps=3)
    assert bold(main_result(bench)) == []


def test_other_tuned_settings_get_columns_and_times_a_caution(bench, make):
    metrics = make.image(0.96, 0.4)
    bench.add("digits", "muon", 0.02, weight_decay=0.0, metrics=make.image(0.95, 0.4), seconds=0.01)
    bench.add("digits", "muon", 0.02, weight_decay=0.1, metrics=metrics, seconds=0.02)
    for seed, seconds, cpu in ((1, 0.04, "Testium 1"), (2, 0.09, "Testium 2")):
        fresh = {"stage": REPLICATE, "seed": seed, "seconds": seconds, "cpu": cpu}
        bench.add("digits", "muon", 0.02, weight_decay=0.1, metrics=metrics, **fresh)
    text = main_result(bench)
    found = row(text, "muon")
    assert found["weight_decay"].startswith("0.1 [")
    assert found["ms/step"].startswith("30.00 ± 14.14 [")
    assert "1 run with machine=Testium 2 not counted: times of unlike conditions" in text
    assert "- weight_decay chosen on validation" in text


def test_language_models_report_perplexity_bits_and_progress(bench, make):
    bench.add("pydocs", "adamw", 0.003, metrics=make.text(3.0, untrained=6.0))
    bench.add("pydocs", "adamw", 0.003, stage=REPLICATE, seed=1, metrics=make.text(3.0, test=0.0))
    found = row(main_result(bench), "adamw")
    assert found["test perplexity"] == "20.09"
    assert found["test bits/byte"] == "1.731"
    assert found["val loss / untrained"] == "0.500"


def test_a_workload_per_section_and_their_budget_in_its_title(bench, make):
    bench.add("digits", "adamw", 0.003, metrics=make.image(0.9, 0.4))
    bench.add("digits", "adamw", 0.003, base={"steps": 500}, metrics=make.image(0.9, 0.4))
    titles = [line for line in main_result(bench).splitlines() if line.startswith("###")]
    assert titles == [
        "### digits, resnet-nano (batch_size=64, steps=100)",
        "### digits, resnet-nano (batch_size=64, steps=500)",
        "### Legend",
    ]


def test_what_was_chosen_on_the_reported_split_says_so_and_is_not_bold(bench, make):
    published = {"protocol": "paper"}
    for optimizer, tests in {"muon": [0.90, 0.91, 0.92], "adamw": [0.80, 0.81, 0.82]}.items():
        bench.add("digits", optimizer, 0.02, base=published, metrics=make.image(0.95, 0.4))
        for seed, test in enumerate(tests, start=1):
            metrics = make.image(0.9, 0.4, test=test)
            bench.add("digits", optimizer, 0.02, base=published, stage=REPLICATE, seed=seed, metrics=metrics)
    text = main_result(bench)
    assert "protocol=paper, steps=100)" in text
    assert "settings are chosen on that split" in text and bold(text) == []


# --- the grids ---


def test_lr_grid_shows_the_best_p_of_each_lr(bench, make):
    for lr, p, accuracy in ((0.01, 0.1, 0.80), (0.01, 0.2, 0.85), (0.02, 0.1, 0.90), (0.02, 0.2, 0.70)):
        bench.add("digits", "htmuon", lr, p=p, metrics=make.image(accuracy, 0.4))
    text = written(bench.write(), "lr_grid")
    found = row(text, "htmuon")
    assert found["lr 0.01"] == "85.00"
    assert found["lr 0.02"].startswith("90.00 *")
    assert "at the best p; n=1 per setting" in text


def test_search_seeds_show_their_spread(bench, make):
    for seed, accuracy in ((0, 0.80), (1, 0.82)):
        bench.add("digits", "muon", 0.02, seed=seed, metrics=make.image(accuracy, 0.4))
    text = written(bench.write(), "lr_grid")
    assert row(text, "muon")["lr 0.02"] == "81.00 ± 1.41 *"
    assert "n=2 per setting" in text


def test_p_grid_is_only_for_optimizers_whose_p_was_tuned(bench, make):
    bench.add("digits", "muon", 0.02, metrics=make.image(0.9, 0.4))
    bench.add("digits", "htmuon", 0.02, p=0.125, metrics=make.image(0.9, 0.4))
    assert "nothing to show" in written(bench.write(), "p_grid")
    bench.add("digits", "htmuon", 0.02, p=0.25, metrics=make.image(0.8, 0.4))
    text = written(bench.write(), "p_grid")
    assert "### digits, resnet-nano (batch_size=64, steps=100): htmuon" in text
    assert row(text, "0.25")["lr 0.02"] == "80.00"


def test_many_footnotes_have_many_letters():
    cells = [Cell(n, notes=(text(str(n)),)) for n in range(30)]
    marks = list(Section("", {}, [Column("x")], [[cell] for cell in cells]).marks().values())
    assert (marks[0], marks[25:27], marks[29]) == ("a", ["z", "aa"], "ad")


# --- statistics in main_result ---


def test_a_search_that_ends_before_its_budget_is_spent_is_no_unequal_budget(bench, make):
    for optimizer, lrs, best in (("adamw", (0.01, 0.02), 0.9), ("muon", (0.01, 0.02, 0.04), 0.8)):
        for lr in lrs:
            bench.add("digits", optimizer, lr, metrics=make.image(best - lr, 0.4))
        for seed in (1, 2, 3):
            bench.add("digits", optimizer, 0.01, stage=REPLICATE, seed=seed, metrics=make.image(best, 0.4))
    assert "unequal budget: 3 against 2 settings of adamw" in main_result(bench)
    points = bench.points["demo-digits"]
    bench.points["demo-digits"] = [dataclasses.replace(point, allowed=8) for point in points]
    text = main_result(bench)
    assert "unequal" not in text and "may try 8 settings" in text and "3 of muon, 2 of adamw" in text
    bench.points["demo-digits"] = [
        dataclasses.replace(point, allowed=8 * (point.block == "muon")) for point in points
    ]
    assert "unequal budget: 8 against 2 settings of adamw" in main_result(bench), "the other may not go on"


def test_an_unequal_budget_is_a_footnote_of_the_comparison(bench, make):
    contest(bench, make, muon=[0.90, 0.91, 0.92], adamw=[0.80, 0.81, 0.82])
    for lr in (0.01, 0.04):
        bench.add("digits", "muon", lr, metrics=make.image(0.5, 0.9))
    text = main_result(bench)
    assert row(text, "adamw")["tried"] == "1 [a]" and row(text, "muon")["tried"] == "3"
    assert "- [a] unequal budget: 1 against 3 settings of muon, the best row" in text


def test_dropped_runs_count_in_the_budget_and_can_not_win(bench, make):
    contest(bench, make, muon=[0.90, 0.91, 0.92], adamw=[0.80, 0.81, 0.82])
    before = row(main_result(bench), "muon")
    bench.add("digits", "muon", 0.04, stage=DROPPED, metrics=make.image(0.99, 0.1))
    bench.add("digits", "muon", 0.08, stage=DROPPED, state="waiting")  # never begun
    bench.add("digits", "muon", 0.2, stage=DROPPED, base={"steps": 5}, metrics=make.image(0.99, 0.1))
    bench.add("digits", "sgdm", 0.2, stage=DROPPED, metrics=make.image(0.99, 0.1))
    _, text, *rest, _ = main_result(bench).split("### ")  # the last part is the legend
    now = row(text, "muon")
    assert now | {"tried": "1"} == before | {"tried": "1"} and now["tried"] == "2 [a]"
    assert "[a] sgdm was in this sweep before: 1 run of it in the store, no row here" in text
    assert row(text, "adamw")["tried"] == "1 [a,b]" and "| sgdm" not in text
    assert "- muon was chosen among 2 settings, adamw among 1." in text
    assert "Settings dropped from the plan count as tried: 1 of muon." in text
    assert len(rest) == 2 and all("not planned" in other for other in rest), "no row is compared with them"
