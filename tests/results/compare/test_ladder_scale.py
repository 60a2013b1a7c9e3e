"""The ladder's runs in the tables of the paper: its published records are what they are made of."""

import pytest

from docs import reproduction_records as records
from docs.reproduction_page import LADDER
from htbench.harness.paper import reported
from htbench.harness.show.emit import as_text
from htbench.results.compare.measured import UNDECIDABLE, measure_line
from htbench.results.compare.paper_runs import PaperRuns
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.ledger import make_ledger
from htbench.results.tables.registry import TABLES


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return records.unpacked(tmp_path_factory.mktemp("store"), ["ladder-aux", "ladder-s1"], LADDER)


@pytest.fixture(scope="module")
def frame(store):
    return load_rows(store, ["ladder-aux", "ladder-s1"])


@pytest.fixture(scope="module")
def ours(store, frame):
    return PaperRuns(frame, "ladder", store)


def test_its_cells_are_those_of_fresh_seeds_and_no_other_sweep_competes(ours):
    assert {row["sweep"] for row in ours.frame} == {"ladder-s1"}
    lines = reported.of_table("main_result", "ladder")
    found = {(line.row, line.model): measure_line(ours, line) for line in lines}
    told = {row: own.summary for (row, model), own in found.items() if model == "llama-60m" and own.summary}
    assert {row: f"{own.mean:.2f} {own.std:.2f} {own.n}" for row, own in told.items()} == {
        "adamw": "13.32 0.24 16",
        "muon": "12.89 0.12 16",
        "htmuon": "12.93 0.10 16",
    }
    choice = found["muon", "llama-60m"].choice
    assert choice.axes == ["lr", "weight_decay"] and choice.winner.value("lr") == 0.01
    assert {model for (_, model), own in found.items() if own.reason == UNDECIDABLE} == {"llama-350m"}


def test_its_table_is_shown_without_a_word_and_says_what_it_can_not_decide(frame, store):
    view = View(frame, store=store)
    text = as_text([TABLES["main_result"](view)], "md")
    assert view.scales == ["ladder"] and "| llama-60m | llama-135m | llama-350m |" in text
    assert "### pydocs, perplexity, ladder scale" in text and "### pydocs, llama-s1 (batch_size=8" in text
    assert text.count("not decidable at this scale") == 1
    assert "Chosen on validation: the learning rate and the weight decay." in text
    text = as_text([TABLES["wall_clock"](view)], "md")
    assert "12.89 ± 0.12" in text and text.count("not decidable at this scale") == 1
    text = as_text([TABLES["hyperparameters"](view)], "md")
    assert "of other settings all that were tried" in text and "llama-s1 for c4 llama-60m" in text
    assert all(TABLES[name](view).sections for name in ("flops", "cifar", "p_grid_c4", "lr_grid_c4"))


def test_the_ledger_has_two_models_and_no_others(frame, store):
    (report,) = make_ledger(View(frame, store=store))
    assert report.name == "ledger_ladder"
    rows = {
        tuple(cell.value for cell in row[:4]): row[-2:] for section in report.sections for row in section.rows
    }
    assert {model for _, _, model, _ in rows} == {"llama-60m", "llama-135m"}
    assert {metric for *_, metric in rows} == {"perplexity"}
    rank, verdict = rows["muon", "c4", "llama-60m", "perplexity"]
    assert (rank.value, verdict.value) == ("1=", "best")
    told = [str(note) for section in report.sections for note in section.notes]
    assert any("pydocs llama-s1 for c4 llama-60m" in words for words in told)
