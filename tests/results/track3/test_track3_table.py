"""The table, the figure and the page: their bytes, their formats, and when they are shown."""

import csv
import io
import os
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from docs import track3_page
from harness import cli
from harness.store import Store
from harness.store.points import REPLICATE
from results.compare.view import View
from results.figures import draw as drawing
from results.figures.declared import FIGURES
from results.figures.files import groups, update, views
from results.figures.kinds import POINT, SHOWN
from results.figures.of_track3 import panels
from results.figures.pictures import pictures
from results.figures.point_labels import PointLabels
from results.frames.load import load
from results.tables.registry import TABLES
from results.track3.recomputed import committed, results
from results.track3.table import OURS, table
from tests.helpers.layout import problems
from tests.helpers.rendering import FORMATS, render

GOLDEN = Path(__file__).parents[2] / "golden" / "tables" / "track3.md"
UPDATE = os.environ.get("HTBENCH_UPDATE_GOLDEN") == "1"


def test_golden():
    text = render(table(), "md")
    if UPDATE:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), (
        "if this is meant: HTBENCH_UPDATE_GOLDEN=1 pytest tests/results/track3/test_track3_table.py"
    )


def test_it_needs_no_store_and_depends_on_nothing_else(tmp_path):
    words = [sys.executable, "-m", "harness.cli", "table", "track3", "--source", "published"]
    words += ["--format", "md"]
    places = {"LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "4711"}
    words += ["--root", str(tmp_path / "none")]
    done = subprocess.run(words, capture_output=True, check=True, env=os.environ | places)
    assert done.stdout.decode() == GOLDEN.read_text()
    assert not (tmp_path / "none").exists()


def test_as_csv_it_has_a_line_per_result():
    rows = list(csv.DictReader(io.StringIO(render(table(), "csv"))))
    every = [row for row in rows if row["part"] == "every result"]
    assert [int(row["number"]) for row in every] == list(range(1, 47))
    assert every[3] | {"loss": "3.274138", "loss_n": "5", "published_n": "5"} == every[3]
    assert every[3]["notes"] == "" and every[40]["notes"].startswith("1 of 20 runs is public")
    assert len(rows) == 46 + 19 + 45


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_changed_loss_changes_every_format(logs, fmt):
    logs.result(100, "3.2790", 3, "own/a.txt")
    for name in "abc":
        logs.log("own", name, [(0, "10.8"), (100, f"3.2790{ord(name) - 97}")])
    before = render(table(results=results(logs.write())), fmt)
    assert render(table(results=results(logs.folder)), fmt) == before
    logs.losses[-1][-1] = "3.27909"
    assert render(table(results=results(logs.write())), fmt) != before


def test_it_is_shown_if_it_or_published_numbers_are_asked_for():
    shown = {
        "published": View(None, "published"),
        "named": View(None, "both", named=["track3"]),
        "ours": View(None, "runs", named=["track3"]),
        "all": View(None, "both"),
    }
    assert {word: bool(TABLES["track3"](view).sections) for word, view in shown.items()} == {
        **{"published": True, "named": True},
        **{"ours": False, "all": False},
    }


def test_it_stands_beside_our_tables_only_if_it_is_named(demo_store, capsys):
    for words, beside in (([], False), (["track3"], True)):
        assert cli.main(["table", *words, "--format", "md", "--root", str(demo_store.root)]) == 0
        assert ("## track3" in capsys.readouterr().out) == beside


# --- the figure ---


def test_the_figure_can_be_read_and_each_result_has_its_number():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    found = panels(committed())
    with warnings.catch_warnings(), drawing.look():
        warnings.simplefilter("error")
        canvas = drawing.draw(*pictures("track3", [found]))
        assert problems(canvas) == []
        renderer = FigureCanvasAgg(canvas).get_renderer()
        for ax, panel in zip(canvas.axes, found, strict=True):
            (labels,) = [one for one in ax.artists if isinstance(one, PointLabels)]
            named = {label.text.partition(":")[0] for label, _, _ in labels.places(renderer)}
            assert named == set(panel.of(POINT, SHOWN)["series"]) and len(named) == 39


def test_the_values_of_the_figure_are_those_of_the_table():
    at_step, at_target = panels(committed())
    assert at_step.about.title == "(a) Loss at step 2625"
    result = committed()[3]
    point, interval = (row for row in at_target.frame.itertuples() if row.series == "4")
    assert (point.y, point.n, point.x) == (4875, 5, pytest.approx(result.summary.std))
    assert "46" not in set(at_target.frame["series"])
    assert (point.y_low, interval.y, interval.y_low) == (None, point.x, point.x_range[0])


def test_the_figure_is_drawn_only_if_published_numbers_are_asked_for(tmp_path, demo_store):
    store = Store(tmp_path / "none")
    assert len(groups(FIGURES["track3"], None, store, views(None, store, "published"))[0]) == 2
    done = update("track3", None, store, tmp_path, views(None, store))
    assert done.outcome.endswith("--source published") and not done.paths


# --- the page ---


def test_the_page_is_what_the_program_writes():
    assert track3_page.PLACE.read_text(encoding="utf-8") == track3_page.page(), (
        "python -m docs.track3_page --write"
    )
    assert track3_page.PICTURE.exists()


def test_the_page_names_each_result_that_does_not_reproduce_and_each_other_verdict():
    text = track3_page.page()
    part = text.partition("## What does not follow")[2].partition("\n## ")[0]
    assert [n for n in range(1, 47) if f"- **{n}** (" in part] == [6, 8, 17, 41, 44, 46]
    part = text.partition("## Below 3.28")[2].partition("\n## ")[0]
    assert [n for n in range(1, 47) if f"- **{n}**: " in part] == [16, 21, 22, 25, 29, 33, 36, 37, 42]
    assert "only 29 do" in text.replace("\n", " ")


LOSSES = {"muon": (3.2781, 3.2789, 3.2786, 3.2788), "adamw": (3.2812, 3.2795, 3.2803)}


def ours(bench, make):
    """Our runs on the benchmark's data, and others on other data."""
    base = {"task": "fineweb", "model": "modded-gpt-small", "steps": 3250}
    for name, losses in LOSSES.items():
        bench.add("pydocs", name, 0.02, metrics=make.text(3.0))
        bench.add("pydocs", name, 0.02, metrics=make.text(losses[0]), base=base, curve=False)
        for seed, loss in enumerate(losses, 1):
            own = {"stage": REPLICATE, "seed": seed, "base": base, "curve": False}
            bench.add("pydocs", name, 0.02, metrics=make.text(loss), **own)
    return View(load(bench.write()))


def test_our_runs_have_the_rule_beside_our_test(bench, make):
    report = TABLES["track3"](ours(bench, make))
    rows = {row["optimizer"]: row for row in csv.DictReader(io.StringIO(render(report, "csv")))}
    assert list(rows) == list(LOSSES) and {row["part"] for row in rows.values()} == {OURS}
    for name, losses in LOSSES.items():
        mean, row = statistics.fmean(losses), rows[name]
        assert row["steps"] == "3250" and int(row["val_loss_n"]) == len(losses)
        assert float(row["val_loss"]) == pytest.approx(mean, abs=1e-5)
        assert float(row["rule"]) == pytest.approx((3.28 - mean) * len(losses) ** 0.5, abs=1e-4)
        assert float(row["steps_to_target"]) == pytest.approx(3250 + (mean - 3.28) / 0.0045 * 100, abs=0.5)
    p_values = [ttest_1samp(losses, 3.28).pvalue for losses in LOSSES.values()]
    muon, adamw = rows.values()
    assert float(muon["p"]) == pytest.approx(2 * p_values[0], rel=0.01)  # Holm: two rows
    assert float(adamw["p"]) == pytest.approx(p_values[1], rel=0.01)
    assert (muon["benchmark"], muon["ours"]) == ("fails", "below"), "(3.28 - 3.2786) sqrt(4) is 0.0028"
    assert (adamw["benchmark"], adamw["ours"]) == ("fails", "not shown")


def test_our_runs_come_before_the_public_ones_if_both_are_asked_for(bench, make):
    view = View(ours(bench, make).frame, named=["track3"])
    assert [section.title for section in TABLES["track3"](view).sections][:2] == [OURS, "every result"]


def test_an_optimizer_that_waits_has_a_row_without_values(bench, make):
    base = {"task": "fineweb", "model": "modded-gpt-small"}
    bench.add("pydocs", "muon", 0.02, state="waiting", base=base)
    (row,) = csv.DictReader(io.StringIO(render(TABLES["track3"](View(load(bench.write()))), "csv")))
    assert row | {"optimizer": "muon", "val_loss": "", "rule": "", "benchmark": ""} == row
