"""Markdown lines up, CSV parses back, LaTeX says what the text says."""

import csv
import io
import json
import math
import re

import pandas
import pytest
from pyarrow import parquet

from htbench.harness.show import note
from htbench.harness.show.latex import escape
from htbench.harness.show.report import Cell, Column, Report, Section
from htbench.harness.show.status import Status
from htbench.harness.show.tidy import LAST
from htbench.results.compare.stats import summarize
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import GENERAL
from tests.helpers.frames import load_frame
from tests.helpers.rendering import FORMATS, as_bytes, render

NASTY = r"50% of a_b & $c ~ {d} #e ^ \f <g> |h|"


def one_cell(cell, label="x", kind="number", notes=()):
    section = Section("title", {"task": "t"}, [Column("x", label, kind)], [[cell]], notes=notes)
    return Report("name", "what", [section])


@pytest.fixture(scope="module")
def reports(mixed_store):
    view = View(load_rows(mixed_store))
    return {name: make(view) for name, make in GENERAL.items()}


@pytest.mark.parametrize("name", GENERAL)
def test_markdown_columns_line_up(name, reports):
    text = render(reports[name], "md")
    for block in text.split("\n\n"):
        widths = {tuple(map(len, line.split("|"))) for line in block.splitlines() if line.startswith("|")}
        assert len(widths) <= 1


def test_markdown_cannot_be_broken_by_a_bar():
    assert "| a\\|b |" in render(one_cell(Cell("a|b")), "md")


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell(0.00025), "0.00025"),
        (Cell(1.0), "1"),
        (Cell(1.005, digits=1), "1.0"),
        (Cell(summarize([1.0, 3.0]), digits=2), "2.00 ± 1.41"),
        (Cell(summarize([1.0]), digits=2), "1.00"),
        (Cell(summarize([1.0]), digits=2, bold=True), "**1.00**"),
        (Cell(2.5, chosen=True, notes=(note.text("why"),)), "2.5 * [a]"),
        (Cell(state=Status.DIVERGED, detail="@7"), "div.@7"),
        (Cell(), ""),
    ],
)
def test_cells_in_markdown(cell, text):
    lines = render(one_cell(cell), "md").splitlines()
    assert next(line for line in reversed(lines) if line.startswith("|")).strip("| ") == text


def test_latex_escapes_everything_that_is_special():
    assert escape(NASTY) == (
        r"50\% of a\_b \& \$c \textasciitilde{} \{d\} \#e \textasciicircum{} "
        r"\textbackslash{}f $<$g$>$ $|$h$|$"
    )


def test_latex_table_is_whole():
    cell = Cell(summarize([1.0, 3.0]), digits=2, bold=True, notes=(note.text("see `a_b: [1]  # c`"),))
    text = render(one_cell(cell, label="a_b (%)", notes=(note.text("100 % ours"),)), "latex")
    assert r"\textbf{2.00 $\pm$ 1.41}\textsuperscript{a} \\" in text
    assert r"a\_b (\%) \\" in text
    assert r"\textsuperscript{a}~see \texttt{a\_b: [1]  \# c}\par" in text
    assert r"100 \% ours\par" in text
    for part in (
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\begin{table}",
        r"\end{table}",
        r"\label{tab:name-title}",
    ):
        assert text.count(part) == 1


@pytest.mark.parametrize("name", GENERAL)
def test_latex_is_plain_ascii_with_one_ampersand_less_than_columns(name, reports):
    text = render(reports[name], "latex")
    assert text.isascii()
    for block in text.split(r"\begin{tabular}{")[1:]:
        columns = len(block.partition("}")[0])
        body = block.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert rows and all(line.replace(r"\&", "").count("&") == columns - 1 for line in rows)


def parsed(table):
    return list(csv.DictReader(io.StringIO(render(table, "csv"))))


def test_main_result_parses_back(reports):
    rows = parsed(reports["main_result"])
    found = {(one["task"], one["optimizer"]): one for one in rows}
    assert len(rows) == 9
    htmuon = found["pydocs", "htmuon"]
    assert htmuon["setting"] == "batch_size=16, steps=200"
    assert (float(htmuon["lr"]), float(htmuon["p"])) == (0.02, 0.125)
    mean, std = float(htmuon["test_perplexity"]), float(htmuon["test_perplexity_std"])
    assert (f"{mean:.2f}", f"{std:.2f}", htmuon["test_perplexity_n"]) == ("50.50", "0.05", "3")
    assert float(htmuon["test_perplexity_low95"]) < mean < float(htmuon["test_perplexity_high95"])
    assert htmuon["test_accuracy_percent"] == ""
    single = found["pydocs", "adamw"]
    assert (single["test_perplexity_n"], single["test_perplexity_std"]) == ("1", "")
    assert found["digits", "adamw"]["test_accuracy_percent"] == "95"
    assert found["digits", "sgdm"]["state"] == "diverged"
    assert found["digits", "muon"]["state"] == "waiting"
    assert found["pydocs", "adam"]["state"] == "damaged"
    assert "add `optimizer.lr: 0.033` to block adamw" in found["digits", "adamw"]["notes"]


def test_a_grid_is_one_line_per_planned_cell(mixed_store, reports):
    frame, rows = load_frame(mixed_store), parsed(reports["p_grid"])
    assert len(rows) == 6
    found = {(float(one["p"]), float(one["lr"])): one for one in rows}
    assert (found[0.0, 0.02]["val_accuracy_percent"], found[0.0, 0.02]["chosen"]) == ("98", "yes")
    assert (found[0.125, 0.04]["val_accuracy_percent"], found[0.125, 0.04]["chosen"]) == ("95", "no")
    assert {one["state"] for one in rows} == {"completed", "running", "failed", "pruned"}
    planned = frame[frame["stage"] == "search"].groupby(["task", "model", "optimizer", "lr"]).ngroups
    assert len(parsed(reports["lr_grid"])) == planned


def test_csv_names_the_runs_behind_each_figure(mixed_store, reports):
    records = mixed_store.records(mixed_store.keys())
    main = {(one["task"], one["optimizer"]): one for one in parsed(reports["main_result"])}
    *fresh, chosen = [records[key] for key in main["pydocs", "htmuon"]["runs"].split()]
    mean = sum(one.metrics["test_perplexity"] for one in fresh) / len(fresh)
    assert mean == pytest.approx(float(main["pydocs", "htmuon"]["test_perplexity"]))
    assert chosen.config["optimizer"]["lr"] == float(main["pydocs", "htmuon"]["lr"])
    grid = [one for one in parsed(reports["lr_grid"]) if one["val_perplexity"]]
    assert grid
    for one in grid:
        (key,) = one["runs"].split()
        assert float(one["val_perplexity"]) == pytest.approx(records[key].metrics["val_perplexity"])


def as_frame(table):
    return pandas.read_parquet(io.BytesIO(as_bytes(table, "parquet")))


@pytest.mark.parametrize("name", GENERAL)
def test_parquet_has_the_rows_of_csv_with_types(name, reports):
    frame, rows = as_frame(reports[name]), parsed(reports[name])
    assert len(frame) == len(rows) and list(frame) == list(rows[0])
    for column in frame:
        for value, row in zip(frame[column], rows, strict=True):
            word = "" if pandas.isna(value) else value if isinstance(value, str) else f"{value:.10g}"
            assert word == row[column]
    words = {"task", "model", "setting", "optimizer", "runs", "state", "notes"} & set(frame)
    assert words and all(pandas.api.types.is_string_dtype(frame[column]) for column in words)
    numbers = [column for column in frame if re.match(r"lr$|(val|test)_\w+_percent$", column)]
    assert numbers and all(pandas.api.types.is_float_dtype(frame[column]) for column in numbers)


def test_parquet_counts_in_whole_numbers_and_has_nothing_of_the_day(reports):
    table = reports["main_result"]
    schema = parquet.read_schema(io.BytesIO(as_bytes(table, "parquet")))
    assert str(schema.field("test_perplexity_n").type) == "int64" and list(schema.metadata) == [b"pandas"]
    frame = as_frame(table)
    counts = [name for name in frame if name.endswith("_n")]
    assert {str(frame[name].dtype) for name in counts} == {"Int64"}, "whether a section lacks it or not"
    assert frame["test_perplexity_n"].isna().any()
    assert as_bytes(table, "parquet") == as_bytes(table, "parquet")


def test_parquet_of_mixed_and_missing_values():
    columns = [Column("a", "a", "text"), Column("b", "b"), Column("c", "c", "summary"), Column("d", "d")]
    rows = [
        [Cell("x"), Cell(1), Cell(summarize([1.0, 3.0])), Cell()],
        [Cell(), Cell("two"), Cell(state=Status.FAILED), Cell()],
    ]
    frame = as_frame(Report("t", "what", [Section("title", {"task": "é"}, columns, rows)]))
    assert frame["a"].tolist() == ["x", ""] and frame["b"].tolist() == ["1", "two"]
    assert frame["c"].tolist()[0] == 2.0 and frame["c_n"].tolist()[0] == 2 and frame["c"].isna()[1]
    assert frame["d"].isna().all() and frame["d"].dtype == "float64"
    assert frame["state"].tolist() == ["completed", "failed"] and frame["task"].tolist() == ["é", "é"]
    assert list(as_frame(Report("t", "what", []))) == list(LAST)


@pytest.mark.parametrize("name", GENERAL)
def test_json_has_every_cell_in_words_and_values(name, reports):
    table = reports[name]
    (found,) = json.loads(render(table, "json"))
    assert (found["name"], found["title"]) == (table.name, table.title)
    for section, shown in zip(table.sections, found["sections"], strict=True):
        assert shown["identity"] == section.identity and shown["notes"] == list(map(str, section.notes))
        for row, cells in zip(section.rows, shown["rows"], strict=True):
            assert [cell["text"] for cell in cells] == [cell.text() for cell in row]
            assert [cell["runs"] for cell in cells] == [list(cell.runs) for cell in row]
            assert [cell["n"] for cell in cells] == [getattr(cell.value, "n", None) for cell in row]


def test_json_has_no_nan_and_cuts_the_interval_of_a_share():
    column = Column("test_accuracy_percent", "accuracy (%)", "summary", bounds=(0, 100))
    rows = [[Cell(summarize([100.0, 94.0]))], [Cell(math.nan)], [Cell(state=Status.DIVERGED, detail="@7")]]
    (table,) = json.loads(render(Report("t", "w", [Section("s", {}, [column], rows)]), "json"))
    spread, unknown, diverged = (cells[0] for cells in table["sections"][0]["rows"])
    assert (spread["value"], spread["n"], spread["interval"][1]) == (97.0, 2, 100.0)
    assert unknown["value"] is None and unknown["state"] is None
    assert (diverged["value"], diverged["state"], diverged["text"]) == (None, "diverged", "div.@7")


def test_a_grid_that_no_page_holds_stays_in_csv_only():
    columns = [Column("val", f"lr {n}", "summary", across=n) for n in range(40)]
    row = [Cell(summarize([float(n)]), digits=2) for n in range(40)]
    table = Report("lr_grid", "what", [Section("title", {"task": "t"}, columns, [row], axis="lr")])
    for fmt in ("md", "latex"):
        assert "40 values of lr" in render(table, fmt) and "lr 7" not in render(table, fmt)
    assert len(parsed(table)) == 40


@pytest.mark.parametrize("fmt", FORMATS)
def test_an_empty_table_is_still_a_table(fmt):
    text = render(Report("p_grid", "what", []), fmt)
    assert text.endswith("\n") and not text.endswith("\n\n")
