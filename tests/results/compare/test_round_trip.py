"""Every published number comes out in its place, as printed, from records that hold it.

The places are written down here once more, by hand: they share no code with the tables.
"""

import csv
import json
import re

import pytest

from htbench.harness import cli
from htbench.harness.paper import reported

TABLES = reported.tables()
MEASURED = [name for name in TABLES if name != "commonsense"]  # no run of ours is asked questions


def of_commonsense(line):
    return [line.row], line.metric.replace("_", " ")


def of_interval(line):
    interval = line.interval
    return [line.row], f"interval {interval}" if interval else "no interval"


def of_p(line):
    return [line.model, line.row.removesuffix(" p=0")], f"p {line.p or 0:g}"


# Per table: the words of a row's first cells, and the head of the column.
PLACES = {
    **dict.fromkeys(
        ("main_result", "openwebtext", "imagenet", "llama_1b", "optimizer_variants", "htmuon_ht"),
        lambda line: ([line.row], line.model),
    ),
    "cifar": lambda line: ([line.row], f"{line.dataset} {line.model}"),
    "commonsense": of_commonsense,
    "interval_perplexity": of_interval,
    "interval_step_time": of_interval,
    "wall_clock": lambda line: (
        [line.row, str(line.interval or "")],
        f"{line.model} {line.metric}",
    ),
    "wall_clock_to_target": lambda line: ([line.row, str(line.interval or "")], line.model),
    **dict.fromkeys(
        ("lr_grid_c4", "lr_grid_cifar100", "lr_grid_cifar10"),
        lambda line: ([line.row], f"lr {line.lr:g}"),
    ),
    "p_grid_c4": of_p,
    "p_grid_openwebtext": of_p,
    "p_grid_cifar": lambda line: ([line.dataset, *of_p(line)[0]], of_p(line)[1]),
}


def printed(capsys, *words):
    """What `htbench table` writes, Markdown unless another format is asked for."""
    capsys.readouterr()
    assert cli.main(["table", "--format", "md", *map(str, words)]) == 0
    return capsys.readouterr().out


def grids(text):
    """The sections of a Markdown table: title, head, rows of cells without marks."""
    found = []
    for part in text.partition("\n### Legend")[0].split("\n### ")[1:]:
        lines = [
            [re.sub(r" \*| \[[a-z,]+\]", "", cell.strip()) for cell in line.split("|")[1:-1]]
            for line in part.splitlines()
            if line.startswith("|")
        ]
        found.append((part.splitlines()[0], lines[0], lines[2:]))
    return found


def cell(text, line):
    """The cell of a published number."""
    row, column = PLACES[line.table](line)
    (found,) = [
        cells[head.index(column)]
        for title, head, rows in grids(text)
        for cells in rows
        if cells[: len(row)] == row
        and column in head
        and (line.table not in _BY_MODEL or title.startswith(f"{line.dataset}, {line.model}, "))
    ]
    return found


_BY_MODEL = {name for name in TABLES if name.startswith(("lr_grid", "interval", "commonsense"))}


@pytest.fixture(scope="session")
def all_tables(published, tmp_path_factory):
    """Every table as Markdown, from the runs."""
    out = tmp_path_factory.mktemp("tables")
    words = ["--root", published.root, "--source", "runs", "--out", out]
    assert cli.main(["table", *MEASURED, "--format", "md", *map(str, words)]) == 0
    return {name: (out / f"{name}.md").read_text() for name in MEASURED}


@pytest.mark.parametrize("name", MEASURED)
def test_every_published_number_is_in_its_place_as_printed(name, all_tables):
    lines = reported.of_table(name)
    assert [cell(all_tables[name], line) for line in lines] == [line.printed for line in lines]


def test_there_are_329_of_them():
    assert sum(len(reported.of_table(name)) for name in TABLES) == 329


@pytest.mark.parametrize("name", TABLES)
def test_published_numbers_need_no_store(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = printed(capsys, name, "--source", "published")
    lines = reported.of_table(name)
    assert [cell(text, line) for line in lines] == [line.printed for line in lines]
    assert not list(tmp_path.iterdir())


def test_both_puts_ours_below_the_published_number(published, capsys):
    text = printed(capsys, "main_result", "--root", published.root)
    ((_, head, rows),) = grids(text)
    assert head[:2] == ["optimizer", "source"]
    assert [row[:3] for row in rows[:2]] == [["adam", "paper", "32.21"], ["adam", "ours", "32.21"]]


def test_a_changed_value_in_the_store_changes_the_table(changeable, capsys):
    words = ("main_result", "--root", changeable.root, "--source", "runs", "--format", "csv")
    rows = list(csv.DictReader(printed(capsys, *words).splitlines()))
    (key,) = (row["runs"] for row in rows if (row["optimizer"], row["model"]) == ("adam", "llama-350m"))
    files = changeable.files(key)
    for path in (files.record, files.metrics):
        path.write_text(path.read_text().replace('"test_loss_biased": 2.8', '"test_loss_biased": 2.9'))
    after = list(csv.DictReader(printed(capsys, *words).splitlines()))
    changed = [(row["optimizer"], row["model"]) for row, new in zip(rows, after, strict=True) if row != new]
    assert changed == [("adam", "llama-350m")]
    assert json.loads(files.record.read_text())["metrics"]["test_loss_biased"] > 2.9


def test_the_ledger_finds_no_difference_and_no_spread_in_the_published_numbers(published, capsys):
    assert cli.main(["ledger", "--format", "csv", "--root", str(published.root)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(rows) == 329
    without = {(row["published_table"], row["verdict"]) for row in rows if not row["runs"]}
    assert without == {("commonsense", "not run")}
    rows = [row for row in rows if row["runs"]]
    assert {row["verdict"] for row in rows} == {"no spread"}
    assert {f"{abs(float(row['difference'])):.2f}" for row in rows} == {"0.00"}
