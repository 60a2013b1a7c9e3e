"""The paper's tables of runs in miniature: what is filled, bold, marked and footnoted."""

import csv
import dataclasses
import io
import shutil

import pytest

from htbench.harness.paper import reported
from htbench.harness.store import Store
from htbench.harness.store.points import ELSEWHERE, REPLICATE, read_points, write_points
from htbench.results.compare.measured import measure_line
from htbench.results.compare.paper_runs import PaperRuns
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import TABLES
from tests.helpers.miniature_store import Miniature
from tests.helpers.rendering import render

SWEEPS = ("main_result", "llama_1b", "p_grid_c4", "interval", "optimizer_variants")


def filled(tmp_path_factory, sweeps):
    return Miniature(tmp_path_factory.mktemp("miniature") / "store").add(sweeps).write()


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The runs of several sweeps, loaded once."""
    store = filled(tmp_path_factory, SWEEPS)
    return View(load_rows(store), "runs", store=store)


@pytest.fixture(scope="session")
def _small(tmp_path_factory):
    return filled(tmp_path_factory, ["main_result"]).root


@pytest.fixture
def store(_small, tmp_path):
    """A small store to be changed."""
    return Store(shutil.copytree(_small, tmp_path / "store"))


def view(store, source="runs"):
    return store if isinstance(store, View) else View(load_rows(store), source, store=store)


def rows(store, name):
    """The lines of a table as CSV, one per cell, of a store or a view."""
    return list(csv.DictReader(io.StringIO(render(TABLES[name](view(store)), "csv"))))


def text(store, name, source="runs"):
    return render(TABLES[name](view(store, source)), "md")


def amend(store, key, **changes):
    """Change the record of a run, and the end of its curve with it."""
    record = store.record(key)
    store.index.path.unlink(missing_ok=True)
    Miniature(store.root).write_record(dataclasses.replace(record, **changes))


def replicas(store, name, block):
    return [
        point.key
        for point in read_points(store.root, f"quick-{name}")
        if point.block == block and point.stage == REPLICATE
    ]


def is_muon_60m(line):
    return (line.model, line.optimizer) == ("llama-60m", "muon")


def test_every_cell_is_filled_from_three_fresh_seeds(whole):
    for name in ("main_result", "llama_1b", "p_grid_c4", "interval_step_time", "wall_clock"):
        found = rows(whole, name)
        assert {row["state"] for row in found} == {"completed"}
        assert {row[column] for row in found for column in row if column.endswith("_n")} <= {"3", ""}
        assert all(len(row["runs"].split()) == 3 for row in found)
    assert len(rows(whole, "main_result")) == len(reported.of_table("main_result"))


def test_bold_is_one_row_of_a_workload_or_it_has_ties(whole):
    shown = text(whole, "main_result")
    assert shown.count("**") // 2 + shown.count("can't be told from htmuon, the best one.") == 3
    assert all(line.startswith("| htmuon") for line in shown.splitlines() if "**" in line)
    assert "**" not in text(whole, "interval_step_time")


def test_a_single_run_is_never_bold(store):
    points = read_points(store.root, "quick-main_result")
    kept = [point for point in points if point.stage != REPLICATE or point.overrides["seed"] == 1000]
    write_points(store.root, "quick-main_result", kept)
    planned = [row for row in rows(store, "main_result") if "not planned" not in row["setting"]]
    assert {row["perplexity_n"] for row in planned} == {"1"}
    assert "**" not in text(store, "main_result")


def test_no_run_of_ours_stands_in_the_table_of_questions(whole):
    assert not TABLES["commonsense"](whole).sections
    both = TABLES["commonsense"](View(whole.frame, "both", store=whole.store))
    assert [section.identity["source"] for section in both.sections] == ["paper"]
    assert "lm-eval asks the folder that `htbench export" in render(both, "md")


def test_a_tuned_p_has_a_column_and_says_which_p(whole):
    found = [row for row in rows(whole, "p_grid_c4") if row["p"] == "tuned"]
    assert len(found) == 4
    assert all(row["notes"].startswith("p = 0.125; chosen among 12 settings") for row in found)
    fixed = {
        (row["model"], row["optimizer"], row["p"]): row["perplexity"] for row in rows(whole, "p_grid_c4")
    }
    for row in found:
        assert row["perplexity"] == fixed[row["model"], row["optimizer"], "0.125"]


def test_a_grid_has_the_rates_of_the_plan_and_marks_the_chosen_one(store):
    found = [row for row in rows(store, "lr_grid_c4") if row["model"] == "llama-nano-60m"]
    own = [row for row in found if row["optimizer"] == "muon"]
    (block,) = {
        p.block for p in read_points(store.root, "quick-main_result") if p.block == "c4-llama-60m-muon"
    }
    points = [p for p in read_points(store.root, "quick-main_result") if p.block == block]
    assert [float(row["lr"]) for row in own] == sorted({p.overrides["optimizer.lr"] for p in points})
    assert [row["chosen"] for row in own] == ["no", "yes", "no"]


def test_time_to_target_is_when_a_run_has_muons_perplexity(whole):
    found = {(row["optimizer"], row["model"]): row for row in rows(whole, "wall_clock_to_target")}
    whole = {
        (row["optimizer"], row["interval"], row["model"]): row
        for row in rows(whole, "wall_clock")
        if row["metric"] == "seconds"
    }
    muon, ns = found["muon", "llama-nano-60m"], found["htmuon_ns", "llama-nano-60m"]
    assert muon["seconds"] == whole["muon", "", "llama-nano-60m"]["seconds"]
    assert 0.85 < float(ns["seconds"]) / float(whole["htmuon_ns", "5", "llama-nano-60m"]["seconds"]) < 0.95


def test_times_of_two_machines_are_never_pooled(store):
    key, *others = replicas(store, "main_result", "c4-llama-60m-muon")
    record = store.record(key)
    amend(store, key, environment=record.environment | {"cpu": "Testium 2"}, seconds_per_step=9.0)
    ours = PaperRuns(load_rows(store), "quick", store)
    (line,) = (one for one in reported.of_table("interval_step_time", "quick") if is_muon_60m(one))
    found = measure_line(ours, line)
    assert sorted(found.keys) == sorted(others)
    assert tuple(map(str, found.notes)) == (
        "times of Testium 1 only; other runs are left out: 1 on Testium 2",
    )


def test_published_numbers_stand_before_ours_at_another_scale(store):
    titles = [line for line in text(store, "main_result", "both").splitlines() if line.startswith("###")]
    sections = ["### c4, perplexity, published", "### pydocs, perplexity, quick scale"]
    assert titles == [*sections, "### Legend"]


def test_what_other_sweeps_have_tried_brings_no_table_of_the_paper(store):
    planned = load_rows(store)
    assert View(planned).scales == ["quick"]
    tried = [row | {"stage": ELSEWHERE} for row in planned]
    assert not View([planned[0] | {"sweep": "mine"}, *tried]).scales


# --- what becomes of runs ---


def test_a_cell_holds_one_version_of_the_code_and_names_the_other(store):
    def cell():
        place = ("htmuon", "llama-nano-60m")
        [row] = [one for one in rows(store, "main_result") if (one["optimizer"], one["model"]) == place]
        return row

    before = cell()["perplexity"]
    points = read_points(store.root, "quick-main_result")
    block = "c4-llama-60m-htmuon-p0.125"
    older = []
    for point in points:
        if point.block == block:
            record = store.record(point.key)
            old = dataclasses.replace(
                record,
                key=f"{'0' * 6}{point.key[:6]}",
                config=record.config | {"revisions": {"optimizer": 7}},
                metrics={name: value / 2 for name, value in record.metrics.items()},
            )
            Miniature(store.root).write_record(old)
            older.append(dataclasses.replace(point, key=old.key))
    write_points(store.root, "quick-main_result", [*older, *points])
    assert cell()["perplexity"] == before
    assert "also planned, but not mixed in: htmuon (revision 7" in cell()["notes"]


def test_a_place_that_is_not_planned_is_empty(store):
    write_points(
        store.root,
        "quick-main_result",
        [p for p in read_points(store.root, "quick-main_result") if "htmuon" not in p.block],
    )
    planned = [row for row in rows(store, "main_result") if "not planned" not in row["setting"]]
    assert [row["optimizer"] for row in planned].count("htmuon") == 0
    assert "| htmuon" in text(store, "main_result")


def test_a_run_of_another_sweep_is_no_part_of_the_papers_tables(store):
    points = read_points(store.root, "quick-main_result")
    (store.root / "sweeps" / "mine").mkdir()
    write_points(store.root, "mine", [dataclasses.replace(point, sweep="mine") for point in points])
    shutil.rmtree(store.root / "sweeps" / "quick-main_result")
    assert not any("scale" in line for line in text(store, "main_result").splitlines() if line[:3] == "###")
    assert rows(store, "optimizer_variants") == []
