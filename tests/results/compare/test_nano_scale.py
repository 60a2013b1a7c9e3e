"""The shipped nano scale has images only: its published records, and what is said of language models."""

import pytest

from docs import reproduction_records as records
from htbench.harness.paper import reported
from htbench.harness.show.emit import as_text
from htbench.results.compare.measured import UNDECIDABLE, measure_line
from htbench.results.compare.paper_runs import PaperRuns
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.ledger import make_ledger
from htbench.results.tables.registry import TABLES

SWEEPS = ["nano-imagenet"]
TOLD = "Language models are not decidable at nano scale: `htbench reproduce ladder` trains some long enough."


@pytest.fixture
def languages():
    """Nothing but what is shipped."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return records.unpacked(tmp_path_factory.mktemp("store"), SWEEPS)


@pytest.fixture(scope="module")
def frame(store):
    return load_rows(store, SWEEPS)


def test_a_language_model_has_no_number_and_one_sentence_says_what_has(frame, store):
    ours, view = PaperRuns(frame, "nano", store), View(frame, store=store)
    lines = reported.of_table("main_result", "nano")
    assert {measure_line(ours, line).reason for line in lines} == {UNDECIDABLE}
    for name in ("main_result", "openwebtext", "p_grid_c4", "wall_clock", "commonsense", "hyperparameters"):
        assert as_text([TABLES[name](view)], "md").count(TOLD) == 1, name
    for name in ("imagenet", "cifar", "p_grid_cifar", "flops"):
        assert TOLD not in as_text([TABLES[name](view)], "md"), name
    assert not TABLES["main_result"](View(None, "published")).notes


def test_the_ledger_has_images_and_no_others(frame, store):
    (report,) = make_ledger(View(frame, store=store))
    datasets = {row[1].value for section in report.sections for row in section.rows}
    assert datasets == {"cifar10", "cifar100", "imagenet-1k"}
    (imagenet,) = (section for section in report.sections if section.title == "imagenet")
    verdicts = {row[0].value: row[-1].value for row in imagenet.rows}
    assert verdicts["adam"] == "worse" and "best" in verdicts.values()
    assert list(map(str, report.notes)) == [TOLD]
