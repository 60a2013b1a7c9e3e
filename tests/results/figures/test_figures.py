"""Figures: the right data, drawn once, the same bytes each time, and never stopped by a damaged file."""

import json
import os
import subprocess
import sys

import pytest

from htbench.harness.store.points import REPLICATE
from htbench.results.compare.view import View
from htbench.results.figures.files import draw_figure, make_pictures
from htbench.results.figures.kinds import CHOSEN, DIVERGED, LEVEL, POINT, About, Panel, Row, tidy
from htbench.results.figures.loss_figures import average_losses
from htbench.results.figures.style import DRAWN_BY
from htbench.results.frames.load import load_rows
from tests.helpers.frames import load_frame, plot

loss, lr_curve, p_curve = plot("loss", "lr_curve", "p_curve")

DRAW = """
import sys
from pathlib import Path
from htbench.results.compare.view import View
from htbench.results.figures.files import draw_figure
from htbench.results.frames.load import load_rows
from htbench.harness.store import Store
root, out, *names = sys.argv[1:]
store = Store(root)
drawn = [len(draw_figure(name, View(load_rows(store), store=store), Path(out))) for name in names]
print(drawn, "torch" in sys.modules)
"""


def draw_elsewhere(store, out, *names):
    """Draw in a new process whose sets have another order; returns what it says."""
    words = [sys.executable, "-c", DRAW, str(store.root), str(out), *names]
    env = os.environ | {"PYTHONHASHSEED": "7"}
    return subprocess.run(words, capture_output=True, text=True, check=True, env=env).stdout.strip()


@pytest.fixture
def small(bench, make):
    """Two lrs, a divergence, two replicas: enough for lr_curve and loss."""
    bench.add("digits", "muon", 0.01, metrics=make.image(0.90, 0.4))
    bench.add("digits", "muon", 0.02, metrics=make.image(0.95, 0.4))
    bench.add("digits", "muon", 0.04, state="diverged", steps=3)
    bench.keys = [
        bench.add("digits", "muon", 0.02, stage=REPLICATE, seed=seed, metrics=make.image(0.9, 0.4))
        for seed in (1, 2)
    ]
    bench.write()
    return bench


@pytest.mark.parametrize(
    ("rates", "labels"),
    [([0.01, 0.02, 0.04], [0.01, 0.02, 0.04]), ([0.00189094, 0.0137585], None), ([0.01, 0.0101, 0.1], None)],
)
def test_the_rates_that_were_tried_are_labelled_where_that_can_be_read(rates, labels):
    from matplotlib.figure import Figure as Canvas

    from htbench.results.figures.marks import draw_curves

    ax = Canvas().subplots()
    rows = [Row("y", "muon", rate, 1.0) for rate in rates]
    draw_curves(ax, Panel("rates", About("t"), tidy(rows)))
    shown = [float(tick) for tick in ax.get_xticks()]
    assert shown == labels if labels else shown != rates


def test_the_bytes_are_the_same_anywhere(small, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    view = View(load_rows(small.store), store=small.store)
    names = ("lr_curve", "loss")
    assert [len(draw_figure(name, view, here)) for name in names] == [1, 1]
    assert draw_elsewhere(small.store, there, *names) == "[1, 1] False"
    assert len(list(here.iterdir())) == 6
    for path in here.iterdir():
        assert path.read_bytes() == (there / path.name).read_bytes(), path.name


def test_pictures_are_what_their_names_say_and_hold_no_date(small, tmp_path):
    (path,) = draw_figure("lr_curve", View(load_rows(small.store), store=small.store), tmp_path)
    png, pdf, text = (path.with_suffix(f".{suffix}").read_bytes() for suffix in ("png", "pdf", "csv"))
    assert png.startswith(b"\x89PNG") and pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf and all(DRAWN_BY.encode() in file for file in (png, pdf))
    assert text.startswith(b"panel,quantity,series,x,")


def test_pictures_that_are_no_longer_made_go(small, tmp_path):
    folder = tmp_path / "figures"
    folder.mkdir()
    ours, theirs = folder / "lr_curve-2.png", folder / "lr_curve-3.png"
    ours.write_bytes(DRAWN_BY.encode())
    theirs.write_bytes(b"a picture")
    (folder / "lr_curve.txt").write_bytes(DRAWN_BY.encode())
    draw_figure("lr_curve", View(load_rows(small.store), store=small.store), folder)
    names = {path.name for path in folder.iterdir()}
    assert names == {*(f"lr_curve.{suffix}" for suffix in ("png", "pdf", "csv", "txt")), theirs.name}


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"\x00\xff garbage" * 300),
        lambda path: path.unlink(),
        lambda path: path.write_text('{"step": 1, "loss": "low"}\n{"step": 2, "loss": NaN}\n[]\n'),
    ],
    ids=["noise", "gone", "wrong types"],
)
def test_a_damaged_curve_is_left_out_and_the_rest_drawn(small, tmp_path, damage):
    damage(small.store.run_folder(small.keys[0]) / "metrics.jsonl")
    (panel,) = loss(load_rows(small.store), small.store)
    muon = panel.frame[panel.frame["optimizer"] == "muon"]
    assert len(muon) and set(muon["n"]) == {len(muon["keys"].iloc[0]) - 1}
    assert draw_figure("loss", View(load_rows(small.store), store=small.store), tmp_path)


def test_a_figure_without_data_says_so(small, tmp_path):
    assert draw_figure("p_curve", View(load_rows(small.store), store=small.store), tmp_path) == {}
    assert not list(tmp_path.glob("p_curve*"))


@pytest.mark.parametrize("state", ["waiting", "diverged"])
def test_a_sweep_without_any_figure_can_be_drawn(state, bench, tmp_path):
    for lr in (0.01, 0.02):
        bench.add("digits", "nobody_knows_it", lr, state=state, steps=3)
    store = bench.write()
    assert draw_figure("lr_curve", View(load_rows(store), store=store), tmp_path)


def test_a_single_rate_is_drawn_without_a_warning(bench, make, tmp_path, recwarn):
    bench.add("digits", "muon", 0.01, metrics=make.image(0.9, 0.4))
    store = bench.write()
    assert draw_figure("lr_curve", View(load_rows(store), store=store), tmp_path)
    assert [str(one.message) for one in recwarn] == []


def test_the_ladder_is_drawn_once(bench, make):
    """It is a scale of the paper's experiments, and one of the other sweeps."""
    for stage, seed in (("search", 0), (REPLICATE, 1)):
        bench.add("pydocs", "muon", 0.02, sweep="ladder-s1", stage=stage, seed=seed, metrics=make.text(3.0))
    store = bench.write()
    (one,) = make_pictures("seed_spread", View(load_rows(store), store=store))
    assert len(one.panels) == 1


# --- the data ---


def test_lr_curve_has_the_best_p_the_chosen_and_the_diverged(bench, make):
    for lr, p, accuracy in ((0.02, 0.1, 0.8), (0.01, 0.1, 0.9), (0.01, 0.2, 0.7)):
        bench.add("digits", "htmuon", lr, p=p, metrics=make.image(accuracy, 0.4))
    bench.add("digits", "htmuon", 0.04, p=0.1, state="diverged", steps=3)
    bench.add("digits", "htmuon", 0.08, p=0.1, state="waiting")
    (panel,) = lr_curve(load_rows(bench.write()), bench.store)
    assert panel.about.title == "digits · resnet-nano"
    assert [str(note) for note in panel.about.facts] == ["batch_size=64, steps=100", "1 run to come"]
    rows = panel.frame[["series", "role", "x", "y"]].values.tolist()
    chosen, other = ["htmuon", CHOSEN, 0.01, 90.0], ["htmuon", POINT, 0.02, 80.0]
    assert rows == [chosen, other, ["htmuon", DIVERGED, 0.04, None]]


def test_p_curve_takes_each_ps_best_lr_and_muon_as_level(demo_store):
    frame, panels = load_frame(demo_store), p_curve(load_rows(demo_store), demo_store)
    assert [panel.about.title for panel in panels] == ["digits · resnet-nano", "pydocs · llama-nano"]
    for panel, metric, scale, best in zip(
        panels, ("accuracy", "perplexity"), (100, 1), (max, min), strict=True
    ):
        own = frame[(frame["task"] == panel.about.family) & (frame["stage"] == "search")]
        line = panel.of(POINT, CHOSEN)
        htmuon = own[own["optimizer"] == "htmuon"]
        expected = [(p, best(group[f"val_{metric}"]) * scale) for p, group in htmuon.groupby("p")]
        assert set(line["series"]) == {"htmuon"} and list(line["x"]) == [x for x, _ in expected]
        assert list(line["y"]) == pytest.approx([y for _, y in expected])
        muon = best(own.loc[own["optimizer"] == "muon", f"val_{metric}"]) * scale
        (level,) = panel.of(LEVEL).itertuples()
        assert (level.optimizer, level.y) == ("muon", pytest.approx(muon))


def test_p_curve_leaves_out_who_has_only_one_p(bench, make):
    for optimizer, powers in (("htmuon", (0.1, 0.2)), ("htmuon_ns", (0.1,))):
        for p in powers:
            bench.add("digits", optimizer, 0.02, p=p, metrics=make.image(0.9, 0.4))
    (panel,) = p_curve(load_rows(bench.write()), bench.store)
    assert set(panel.frame["optimizer"]) == {"htmuon"} and LEVEL not in set(panel.frame["role"])


def test_loss_curves_are_moving_averages_of_the_winners_replicas(small):
    (panel,) = loss(load_rows(small.store), small.store)  # before the curves contradict the records
    assert panel.about.seeds == [2] and str(panel.about.facts[-1]) == "4-step moving average"
    for key, level in zip(small.keys, (2.0, 4.0), strict=True):
        path = small.store.run_folder(key) / "metrics.jsonl"
        rows = [{"step": s, "loss": level + s} for s in range(1, 101)] + [{"step": 100, "val_loss": 0.0}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = [{"key": key, "seed": seed, "steps": 100} for seed, key in enumerate(small.keys, 1)]
    table = average_losses({"muon": runs}, small.store, 4)["muon"]
    assert list(table.columns) == [1, 2]
    assert table[1].loc[1] == 3.0  # only itself
    assert table[1].loc[100] == pytest.approx(2.0 + 98.5)  # the mean of steps 97 to 100
    assert table[2].loc[100] == pytest.approx(4.0 + 98.5)


def test_long_curves_are_thinned_but_keep_their_end(bench, make):
    base = {"steps": 5000}
    for stage, seed in (("search", 0), (REPLICATE, 1)):
        bench.add("digits", "muon", 0.02, base=base, stage=stage, seed=seed, metrics=make.image(0.9, 0.4))
    (panel,) = loss(load_rows(bench.write()), bench.store)
    assert 200 <= len(panel.frame) <= 400
    assert panel.frame["x"].iloc[-1] == 5000
