"""Runs that others made, beside our own: marked, in sections of their own, and with nothing made up."""

import dataclasses
import json

import pandas as pd
import pytest

from harness.exchange.foreign import ForeignRun
from harness.store import Store
from harness.store.points import Point, write_points
from results import frame as public_frame
from results.compare.view import View
from results.figures.of_losses import loss
from results.frames.load import load
from results.tables.registry import TABLES
from tests.helpers.rendering import render


def foreign(optimizer, number, end, metric="loss", higher_is_better=False, curve=None, run=None, **facts):
    curve = curve or [{"step": 0, "val_loss": 10.0}, {"step": 100, "val_loss": end}]
    told = {
        "result": optimizer,
        "task": "fineweb",
        "model": "gpt2-124m",
        "run": run or f"{optimizer}-{number}",
    }
    settings = facts.pop("settings", {})
    return ForeignRun("bench", told | facts | settings, metric, higher_is_better, curve)


@pytest.fixture
def put(tmp_path):
    def write(*runs, root=tmp_path / "store", name="bench"):
        store = Store(root)
        for run in runs:
            record = run.record()
            attempt = store.claim(record.key, "")
            text = "".join(json.dumps(row) + "\n" for row in run.curve)
            (store.run_folder(record.key) / "metrics.jsonl").write_text(text)
            attempt.finish(record)
        points = [
            Point(name, run.facts["result"], "search", run.record().key, run.record().settings)
            for run in runs
        ]
        (root / "sweeps" / name).mkdir(parents=True, exist_ok=True)
        write_points(root, name, points)
        return store

    return write


def table(store, name="main_result", fmt="md"):
    return render(TABLES[name](View(load(store), store=store)), fmt)


def test_a_row_says_what_its_file_says_and_no_more(put):
    store = put(foreign("muon", 1, 3.2, settings={"optimizer.lr": 0.02}, hardware="H100"))
    (row,) = load(store).to_dict("records")
    assert (row["imported"], row["run"], row["setting"]) == ("bench", "muon-1", "imported=bench")
    assert (row["lr"], row["val_loss"], row["test_loss"]) == (0.02, 3.2, 3.2)
    assert (row["machine"], row["device"], row["threads"]) == ("H100", None, None)
    assert "p" not in row and "momentum" not in row  # no default of our muon


def test_runs_of_unknown_seed_are_never_paired(put):
    store = put(*[foreign(name, n, 3.0 + n / 100) for name in ("a", "b") for n in (1, 2, 3)])
    seeds = load(store)["seed"]
    assert seeds.is_unique and pd.api.types.is_integer_dtype(seeds)


def test_told_seeds_stay(put):
    store = put(*[foreign("a", n, 3.0, seed=n) for n in (7, 8)])
    assert load(store)["seed"].tolist() == [7, 8]


def test_the_best_row_is_bold_if_nothing_was_chosen(put):
    ends = {"a": (3.20, 3.21, 3.22), "b": (3.40, 3.41, 3.42)}
    text = table(put(*[foreign(name, n, end) for name, own in ends.items() for n, end in enumerate(own)]))
    assert "**3.2100 ± 0.0100**" in text
    assert "Imported as bench" in text and "nothing chosen here" in text
    assert "Ours" not in text


def test_nothing_is_bold_if_a_setting_was_chosen_on_what_is_reported(put):
    runs = [
        foreign("a", f"{lr}-{n}", 3.2 + n / 100, settings={"optimizer.lr": lr})
        for lr in (1, 2)
        for n in (1, 2, 3)
    ]
    runs += [foreign("b", n, 3.4 + n / 100, settings={"optimizer.lr": 1}) for n in (1, 2, 3)]
    text = table(put(*runs))
    assert "reported on the same runs" in text and "**" not in text
    assert "to go on" not in text  # nobody can add a point to the grids of others


def test_they_never_share_a_section_or_a_cell_with_ours(put, bench):
    for seed in (1, 2, 3):
        bench.add("digits", "muon", 0.02, stage="replicate", seed=seed, metrics={"test_accuracy": 0.9})
    bench.add("digits", "muon", 0.02, metrics={"val_accuracy": 0.9, "val_loss": 0.1})
    bench.write()
    before = table(bench.store)
    store = put(
        *[foreign("muon", n, 3.2, task="digits", model="resnet-nano") for n in (1, 2, 3)],
        root=bench.store.root,
    )
    after = table(store)
    assert after.count("### ") == before.count("### ") + 1
    ours = before.partition("\n\n")[2].partition("### Legend")[0]
    assert ours.strip() in after  # our section is as it was


def test_machines_of_one_cell_that_differ_are_marked(put):
    text = table(
        put(*[foreign("a", n, 3.2 + n / 100, hardware=gpu) for n, gpu in enumerate(("A100", "H100", "H100"))])
    )
    assert "machine (A100 and H100)" in text


def test_a_diverged_run_is_shown(put):
    run = foreign("a", 1, None)
    assert "div.@100" in table(put(run))


def test_a_lost_record_says_how_to_get_it_back(put):
    store = put(foreign("a", 1, 3.2))
    key = load(store)["key"][0]
    store.files(key).record.unlink()
    store.index.path.unlink()
    (row,) = load(Store(store.root)).to_dict("records")
    assert row["state"] == "damaged" and "runs import --curves" in row["reason"]


def test_every_general_table_takes_them(put):
    store = put(foreign("a", 1, 3.2), foreign("a", 2, 3.3))
    for name in ("main_result", "lr_grid", "p_grid"):
        table(store, name)


def test_the_loss_figure_has_their_validation_loss(put):
    store = put(*[foreign("a", n, 3.2 + n) for n in (1, 2)])
    (panel,) = loss(load(store), store)
    drawn, warnings = panel.read(store)
    assert drawn.y_label == "validation loss" and not warnings
    assert list(drawn.frame["x"]) == [0, 100]


def test_an_accuracy_alone_can_win(put):
    curve = [{"step": 100, "val_accuracy": 0.9}]
    run = foreign("a", 1, 0, metric="accuracy", higher_is_better=True)
    text = table(put(dataclasses.replace(run, curve=curve)))
    assert "90.00" in text


def test_notebooks_see_the_mark(put, tmp_path):
    put(foreign("a", 1, 3.2))
    assert public_frame(tmp_path / "store")["imported"].tolist() == ["bench"]


def test_a_diverged_run_does_not_hide_the_others(put):
    store = put(foreign("a", 1, None), foreign("a", 2, 3.2), foreign("a", 3, 3.4))
    text = table(store)
    assert "3.3000 ± 0.1414" in text and "2 of 3 replicas count; the rest: 1 diverged" in text


def test_nothing_is_bold_while_a_run_of_theirs_is_damaged(put):
    ends = {"a": (3.20, 3.21, 3.22), "b": (3.40, 3.41, 3.42, 3.43)}  # three of b stay
    store = put(*[foreign(name, n, end) for name, own in ends.items() for n, end in enumerate(own)])
    assert "**" in table(store)
    key = load(store)["key"].iloc[-1]
    record = store.files(key).record
    record.write_text(record.read_text().replace('"steps": ', '"steps": 1'))
    text = table(Store(store.root))
    assert "damaged" in text and "**" not in text
