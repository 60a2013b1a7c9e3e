"""Whatever became of a run, its cell in a table of the paper says so; no run is dropped silently."""

import pytest

from htbench.harness.show.status import Status
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import TABLES
from tests.helpers.rendering import render
from tests.results.conftest import Bench, text

MODELS = ("llama-nano-60m", "llama-nano-135m", "llama-nano-350m")
SWEEP = "nano-main_result"
NOT_FINITE = "the loss was not finite at step 17"


def plan(bench, optimizer, model, **run):
    settings = {"sweep": SWEEP, "block": f"{optimizer} {model}", "base": {"model": MODELS[model]}}
    hyper = {"p": 0.125, "interval": 1} if optimizer == "htmuon" else {}
    return bench.add("pydocs", optimizer, 0.02, **settings | hyper | run)


def finish(bench, optimizer, model, environments=({}, {}, {}), last="completed", **where):
    """A search run and three replicas, the last one in some state."""
    plan(bench, optimizer, model, metrics=text(3.0), **where)
    for seed, environment in enumerate(environments, 1):
        state = last if seed == 3 else "completed"
        run = {"seed": seed, "metrics": text(3 + seed / 100), "environment": environment, "state": state}
        reason = "" if state == "completed" else "oom"
        plan(bench, optimizer, model, stage="replicate", reason=reason, **run | where)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("symbols") / "store")
    plan(bench, "adam", 0, state="failed", reason="oom")
    plan(bench, "adam", 1, state="diverged", reason=NOT_FINITE, steps=17, curve=False)
    plan(bench, "adam", 2, state="running")
    plan(bench, "adamw", 0, state="waiting")
    plan(bench, "adamw", 1, state="pruned", metrics={"val_loss": 3.0})
    plan(bench, "adamw", 2, metrics=text(3.0))  # no fresh seed yet
    finish(bench, "muon", 0, ({}, {}, {"cpu": "Other 2"}))
    edited = plan(bench, "muon", 1, metrics=text(4.3))
    bench.edit(edited, metrics=text(3.0))
    for sweep in (SWEEP, "nano-interval"):  # the same runs in two sweeps
        finish(bench, "muon", 2, sweep=sweep)
    finish(bench, "htmuon", 0, last="failed")
    finish(bench, "htmuon", 1)
    return bench.write()


def section(store):
    frame = load_rows(store)
    return TABLES["main_result"](View(frame, "runs", ["nano"], store)).sections[0]


def cells(store):
    """The cells of our runs by optimizer and model."""
    found = section(store)
    return {(row[0].text(), model): cell for row in found.rows for model, cell in enumerate(row[1:])}


@pytest.mark.parametrize(
    ("optimizer", "model", "state", "note"),
    [
        ("adam", 0, "failed", "out of memory"),
        ("adam", 1, "diverged", "the loss was not finite"),
        ("adam", 2, "running", ""),
        ("adamw", 0, "waiting", ""),
        ("adamw", 1, "pruned", ""),
        ("adamw", 2, "waiting", "no run on a fresh seed"),
        ("muon", 1, "damaged", "record.json was changed"),
    ],
)
def test_a_cell_without_value_says_why(store, optimizer, model, state, note):
    cell = cells(store)[optimizer, model]
    assert cell.state == state and cell.text().startswith(Status(state).symbol)
    assert note in " ".join(map(str, cell.notes))


def test_each_symbol_is_explained(store):
    meanings = dict(section(store).legend())
    used = {cell.state for cell in cells(store).values()} - {None}
    assert used >= {"failed", "diverged", "running", "waiting", "pruned", "damaged"}
    assert {Status(state).symbol for state in used} <= meanings.keys()


def test_a_run_in_two_sweeps_counts_once(store):
    assert cells(store)["muon", 2].value.n == 3


def test_a_missing_replica_is_counted_in_a_footnote(store):
    cell = cells(store)["htmuon", 0]
    assert cell.value.n == 2 and "2 of 3 runs count; the rest: 1 failed" in " ".join(map(str, cell.notes))


def test_runs_of_different_machines_are_marked(store):
    assert "a mixture: the runs differ in machine" in " ".join(map(str, cells(store)["muon", 0].notes))
    assert any("machine" in str(mixture) for mixture in section(store).mixtures)


def test_what_is_not_planned_is_empty(store):
    assert cells(store)["htmuon", 2].text() == ""


@pytest.mark.parametrize("fmt", ["md", "csv", "latex", "html"])
def test_every_format_has_the_symbols(store, fmt):
    shown = render(TABLES["main_result"](View(load_rows(store), "runs", ["nano"], store)), fmt)
    states = set(Status) - {Status.COMPLETED, Status.QUEUED}
    for word in states if fmt == "csv" else ("div.", "pruned", "failed", "damaged"):
        assert word in shown
