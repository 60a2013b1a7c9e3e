"""`htbench table` and `htbench figure` as people call them; and what they do not import."""

import argparse
import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from htbench.harness import cli
from htbench.harness.errors import UsageError
from htbench.harness.store.points import read_points, sweep_folder, write_points
from htbench.harness.system.environment import HOME
from htbench.results import commands
from htbench.results.compare.view import View
from htbench.results.figures import files
from htbench.results.figures.registry import FIGURES
from htbench.results.figures.style import DRAWN_BY
from htbench.results.frames.load import load_rows
from htbench.results.tables import grid
from htbench.results.tables.registry import GENERAL, TABLES
from tests.helpers.json_fields import promised, read
from tests.helpers.rendering import render_all

SHIPPED = HOME / "sweeps" / "demo"


def call(name, root, *words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path)
    getattr(commands, f"add_{name}_arguments")(parser)
    return getattr(commands, name)(parser.parse_args([*map(str, words), "--root", str(root)]))


def test_the_answer_comes_first_and_the_other_tables_are_named(demo_store, capsys):
    assert call("table", demo_store.root) == 0
    out, err = capsys.readouterr()
    first, *others = GENERAL
    assert out.splitlines()[-1].endswith(", ".join(others)) and err == ""
    call("table", demo_store.root, first)
    assert out.startswith(capsys.readouterr().out.rstrip())


def test_all_tables_are_written_in_order(demo_store, capsys):
    assert call("table", demo_store.root, "--format", "md") == 0
    out, err = capsys.readouterr()
    heads = [line.split(":")[0] for line in out.splitlines() if line.startswith("## ")]
    assert heads == [f"## {name}" for name in GENERAL]
    assert err == ""


def test_one_table_of_one_sweep_as_csv(demo_store, capsys):
    assert call("table", demo_store.root, "main_result", "--sweep", "demo-pydocs", "--format", "csv") == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {row["task"] for row in rows} == {"pydocs"}
    assert [row["optimizer"] for row in rows] == ["adamw", "sgdm", "muon", "htmuon"]


@pytest.mark.parametrize(
    "words",
    [("--sweep", "demo-pydocs", "demo-digits"), ("--sweep", "demo-digits,demo-pydocs")],
)
def test_several_sweeps_in_any_order(demo_store, capsys, words):
    call("table", demo_store.root)
    everything = capsys.readouterr().out
    call("table", demo_store.root, *words)
    assert capsys.readouterr().out == everything


@pytest.mark.parametrize("name", ["table", "figure"])
def test_a_sweep_before_a_table_does_not_swallow_it(demo_copy, capsys, monkeypatch, name):
    monkeypatch.setattr(files, "render", lambda *_: {"png": b"a picture", "pdf": b"the same"})
    word = {"table": "main_result", "figure": "lr_curve"}[name]
    call(name, demo_copy.root, word, "--sweep", "demo-digits")
    behind = capsys.readouterr().out
    call(name, demo_copy.root, "--sweep", "demo-digits", word)
    before = capsys.readouterr().out
    assert before == behind and {"table": "digits"}.get(name, word) in before
    with pytest.raises(UsageError, match=f"Unknown {name} or sweep '{word}s' in .*; did you mean '{word}'"):
        call(name, demo_copy.root, "--sweep", "demo-digits", f"{word}s")


def test_words_between_and_behind_options(demo_store, capsys):
    words = ["lr_grid", "--sweep", "demo-digits", "p_grid", "--format", "csv"]
    assert cli.main(["table", *words, "main_result", "--root", str(demo_store.root)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert list(dict.fromkeys(row["table"] for row in rows)) == ["lr_grid", "p_grid", "main_result"]


def test_several_tables_as_csv_have_one_header(demo_store, tmp_path, capsys):
    call("table", demo_store.root, "--format", "csv")
    text = capsys.readouterr().out
    rows = list(csv.DictReader(text.splitlines(), strict=True))
    assert text.startswith("table,") and not any(None in row or None in row.values() for row in rows)
    assert [line for line in text.splitlines() if line.startswith("table")] == text.splitlines()[:1]
    call("table", demo_store.root, "--format", "csv", "--out", tmp_path)
    for name in GENERAL:
        alone = list(csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines()))
        here = [{k: row[k] for k in alone[0]} for row in rows if row["table"] == name]
        assert here == alone and "table" not in alone[0]


def test_the_interval_of_an_accuracy_stays_within_what_one_can_be(bench, make, capsys):
    for seed, (right, wrong) in enumerate([(1.0, 0.0), (0.94, 0.06)]):
        for optimizer, accuracy in (("muon", right), ("sgdm", wrong)):
            if seed == 0:
                bench.add("digits", optimizer, 0.02, metrics=make.image(accuracy, 0.4))
            add = {"stage": "replicate", "seed": seed + 1, "metrics": make.image(accuracy, 0.4)}
            bench.add("digits", optimizer, 0.02, **add)
    call("table", bench.write().root, "main_result", "--format", "csv")
    rows = {row["optimizer"]: row for row in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert rows["muon"]["test_accuracy_percent_high95"] == "100"
    assert float(rows["muon"]["test_accuracy_percent_low95"]) < 90
    assert rows["sgdm"]["test_accuracy_percent_low95"] == "0"


def test_tables_go_into_files(demo_store, tmp_path, capsys):
    assert (
        call("table", demo_store.root, "lr_grid", "p_grid", "--format", "latex", "--out", tmp_path / "t") == 0
    )
    assert capsys.readouterr().out.split() == [
        str(tmp_path / "t" / "lr_grid.tex"),
        str(tmp_path / "t" / "p_grid.tex"),
    ]
    assert r"\begin{tabular}" in (tmp_path / "t" / "lr_grid.tex").read_text()


def test_parquet_goes_into_files_and_pipes(demo_store, tmp_path, capsysbinary, monkeypatch):
    words = ("main_result", "--format", "parquet")
    assert call("table", demo_store.root, *words, "--out", tmp_path / "t") == 0
    path = tmp_path / "t" / "main_result.parquet"
    assert capsysbinary.readouterr().out.decode().split() == [str(path)]
    assert call("table", demo_store.root, *words) == 0
    assert capsysbinary.readouterr().out == path.read_bytes()
    assert set(pandas.read_parquet(path)["optimizer"]) == {"adamw", "sgdm", "muon", "htmuon"}
    with pytest.raises(UsageError, match="holds one table, not 3; name one, or a folder with --out"):
        call("table", demo_store.root, "--format", "parquet")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(UsageError, match="Parquet is not for a screen"):
        call("table", demo_store.root, *words)


def test_json_is_one_document_and_strictness_stays(demo_store, capsys):
    assert call("table", demo_store.root, "--json") == 0
    tables = read(capsys.readouterr().out)
    assert [table["name"] for table in tables] == list(GENERAL)
    promised("table", tables)
    assert call("table", demo_store.root, "lr_grid", "--json", "--strict") == 0
    assert [table["name"] for table in json.loads(capsys.readouterr().out)] == ["lr_grid"]


def test_figures_say_what_became_of_them(demo_copy, capsys, monkeypatch):
    monkeypatch.setattr(files, "render", lambda *_: {"png": b"a picture", "pdf": b"the same"})
    assert call("figure", demo_copy.root, "lr_curve") == 0
    folder = demo_copy.root / "figures"
    assert capsys.readouterr().out == f"lr_curve: drawn: {folder}/lr_curve.png, also .pdf and .csv\n"
    assert {path.suffix for path in folder.glob("lr_curve.*")} == {".png", ".pdf", ".csv"}
    call("figure", demo_copy.root)
    *drawn, without = capsys.readouterr().out.splitlines()
    assert all(", also .pdf" in line for line in drawn)
    assert without.startswith("nothing to draw: muon_ns_vs_svd, alpha_teaser, ")


def test_tables_that_a_screen_only_names_are_not_made(demo_copy, capsys, monkeypatch):
    """The answer stands alone; of every other table its first section tells that there is one."""
    made, proper = [], grid.make_section
    monkeypatch.setattr(grid, "make_section", lambda *words: made.append(words) or proper(*words))
    assert call("table", demo_copy.root) == 0
    assert "lr_grid" in capsys.readouterr().out and len(made) == 2
    assert call("table", demo_copy.root, "lr_grid", "p_grid") == 0
    assert len(made) > 5


KNOWN = [*FIGURES, "demo-digits", "demo-pydocs"]
ALL = f"known are: {', '.join(sorted(KNOWN))}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("table", "mainresult"), "Unknown table or sweep 'mainresult'; did you mean 'main_result'?"),
        (("figure", "lr_curves"), "Unknown figure or sweep 'lr_curves'; did you mean 'lr_curve'?"),
        (("figure", "zzz"), f"Unknown figure or sweep 'zzz'; {ALL}"),
        (("table", "--sweep", "zzz"), "Unknown sweep 'zzz'; known are: demo-digits, demo-pydocs"),
        (("table", "demo-digit"), "Unknown table or sweep 'demo-digit'; did you mean 'demo-digits'?"),
        (("ledger", "demo-pydoc"), "Unknown sweep 'demo-pydoc'; did you mean 'demo-pydocs'?"),
        (("table", "--sweep", "demo-pydoc"), "Unknown sweep 'demo-pydoc'; did you mean 'demo-pydocs'?"),
    ],
)
def test_wrong_words_are_answered_with_the_nearest_right_one(demo_store, words, message):
    with pytest.raises(UsageError) as error:
        call(words[0], demo_store.root, *words[1:])
    assert str(error.value) == message.replace(";", f" in the store '{demo_store.root}';", 1)


@pytest.mark.parametrize(
    "words",
    [
        ["demo-digits"],
        ["main_result", "--sweep", "demo-digits,demo-digits"],
        ["FILE", "main_result"],
        ["main_result", "--sweep", "FILE"],
    ],
    ids=" ".join,
)
def test_a_sweep_is_named_by_name_or_file_as_a_word_or_as_an_option(demo_store, capsys, words):
    words = [str(SHIPPED / "demo-digits.yaml") if word == "FILE" else word for word in words]
    call("table", demo_store.root, "main_result", "--sweep", "demo-digits")
    expected = capsys.readouterr().out
    assert call("table", demo_store.root, *words) == 0
    printed = capsys.readouterr().out
    assert "digits" in expected and "pydocs" not in printed and expected.rstrip() in printed
    assert printed == expected or "main_result" not in words


def test_a_sweep_that_is_called_like_a_table_is_named_by_the_option(demo_copy, capsys):
    points = read_points(demo_copy.root, "demo-digits")
    sweep_folder(demo_copy.root, "lr_grid").mkdir()
    write_points(demo_copy.root, "lr_grid", [replace(point, sweep="lr_grid") for point in points])
    call("table", demo_copy.root, "lr_grid")
    both = capsys.readouterr().out
    call("table", demo_copy.root, "lr_grid", "--sweep", "lr_grid")
    assert "pydocs" in both and "pydocs" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["table", "figure"])
def test_an_empty_store_is_a_usage_error(name, tmp_path):
    with pytest.raises(UsageError, match="There is no store '.*none'; `htbench demo`"):
        call(name, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["table", "figure"])
def test_a_place_that_cannot_be_written_is_a_usage_error(name, demo_store, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be made"):
        call(name, demo_store.root, "--out", tmp_path / "file")


LOOK = """
import argparse, sys
from pathlib import Path
from htbench.results import commands
args = argparse.Namespace(root=Path(sys.argv[1]), names=["lr_grid"], sweep=[], format="md", out=None)
args.strict, args.source, args.scale = False, "both", None
heavy = {"torch", "matplotlib", "seaborn", "optuna"}
commands.table(args)
print("loaded:", sorted((heavy | {"scipy"}).intersection(sys.modules)), file=sys.stderr)
args.names = []
commands.table(args)  # compares rows, which needs scipy
import htbench.results.page.command
print("loaded:", sorted(heavy.intersection(sys.modules)), file=sys.stderr)
args.names = ["lr_curve"]
commands.figure(args)
print("loaded:", sorted({"torch", "optuna"}.intersection(sys.modules)), file=sys.stderr)
"""


def test_tables_and_the_page_need_neither_torch_nor_matplotlib_and_figures_no_torch(demo_copy):
    done = subprocess.run(
        [sys.executable, "-c", LOOK, demo_copy.root], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines() == ["loaded: []"] * 3


def test_tables_survive_a_terminal_that_has_ascii_only(mixed_store):
    words = [sys.executable, "-m", "htbench", "table", "--format", "md", "--root", mixed_store.root]
    done = subprocess.run(words, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    view = View(load_rows(mixed_store), store=mixed_store)
    text = render_all([TABLES[name](view) for name in GENERAL], "md")
    assert "±" in text and done.stdout == text.encode("ascii", "replace")


# --- whose files, and which figure ---


@pytest.fixture
def pictures(monkeypatch):
    """Figures that are drawn at once."""
    monkeypatch.setattr(files, "render", lambda *_: {"png": DRAWN_BY.encode(), "pdf": DRAWN_BY.encode()})


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_figure_of_some_runs_is_not_in_the_place_of_that_of_all(demo_copy, pictures):
    root, figures = demo_copy.root, demo_copy.root / "figures"
    assert call("figure", root, "lr_curve") == 0
    before = tree(figures)
    for words in (["--sweep", "demo-digits"], ["--source", "runs"], ["--scale", "nano"]):
        assert call("figure", root, "lr_curve", *words) == 0
    after = tree(figures)
    assert before.items() <= after.items() and {"demo-digits", "source=runs"} <= {
        path.parent.name for path in figures.rglob("lr_curve.png")
    }
    drawn = {*figures.rglob("*.png")}
    assert call("figure", root, "lr_curve", "--sweep", "demo-digits") == 0  # the same runs, the same place
    assert call("figure", root, "lr_curve", "--sweep", "demo-digits,demo-pydocs") == 0  # these are all
    assert {*figures.rglob("*.png")} == drawn


def test_a_folder_of_many_sweeps_has_a_short_name(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "sweep_names", lambda root: ["another"])
    names = [f"sweep-{number}" for number in range(40)]
    one, other = (files.choose_folder(tmp_path, tmp_path, chosen) for chosen in (names, names[1:]))
    assert one != other and len(one.name) < 40 and one.parent == tmp_path
    assert files.choose_folder(tmp_path, tmp_path, names[::-1]) == one


@pytest.mark.parametrize("name", ["lr_curve.csv", "lr_curve.png", "lr_curve-2.pdf"])
def test_a_figure_replaces_no_file_of_somebody_else(demo_store, tmp_path, pictures, name):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).write_text('["theirs"]')
    with pytest.raises(UsageError, match=f"mine/{name}' was not written"):
        call("figure", demo_store.root, "lr_curve", "--out", folder)
    assert tree(folder) == {name: b'["theirs"]'}
    (folder / name).unlink()
    for _ in range(2):
        assert call("figure", demo_store.root, "lr_curve", "--out", folder) == 0
    assert len(tree(folder)) == 3


def test_what_a_killed_call_has_drawn_is_known_as_ours(demo_store, tmp_path, pictures, monkeypatch):
    def killed(path, content, write=files.atomic.write_bytes):
        write(path, content)
        raise KeyboardInterrupt

    words = ("figure", demo_store.root, "lr_curve", "--out", tmp_path / "mine")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(files.atomic, "write_bytes", killed)
        call(*words)
    assert call(*words) == 0
    assert len(tree(tmp_path / "mine")) == 3
