"""The figures of spectra: of the winner's replicas, means over the same layers for all, ticks that fit."""

import re
from pathlib import Path

import pandas as pd
import pytest

from htbench import results
from htbench.harness.errors import UsageError
from htbench.harness.store.points import REPLICATE
from htbench.results.compare.view import View
from htbench.results.figures.files import draw_figure
from htbench.results.figures.kinds import DOT, LEFT_OUT, MARK, POINT, RANDOM, About, Panel, Row, tidy
from htbench.results.figures.registry import FIGURES
from htbench.results.frames.load import load_rows
from tests.helpers.frames import load_frame, plot

NAMES = ("alpha_layers", "alpha_bars", "norms", "update_spectra")
alpha_layers, alpha_bars, norms, update_spectra = plot(*NAMES)
UPDATES = [(1, 0.9), (45, 1.1)]


@pytest.fixture
def two(bench, make):
    """AdamW and Muon with two replicas each; one layer of Muon has an alpha that does not count."""
    for optimizer, lr, alpha in (("adamw", 0.01, 1.9), ("muon", 0.02, 2.5)):
        bench.add("digits", optimizer, lr, metrics=make.image(0.9, 0.4))
        for seed in (1, 2):
            key = bench.add("digits", optimizer, lr, stage=REPLICATE, seed=seed, metrics=make.image(0.9, 0.4))
            flags = ["flat"] if optimizer == "muon" else []
            alphas = (alpha, alpha + 0.2 * seed, None if flags else 2.0)
            bench.spectra(key, alphas, flags=flags, updates=UPDATES)
    bench.write()
    return bench


def test_alpha_by_layer_has_seeds_random_matrices_and_what_is_left_out(two):
    (panel,) = alpha_layers(load_rows(two.store), two.store)
    lines = dict(list(panel.of(POINT, LEFT_OUT).groupby("series")))
    assert panel.labels == ("layer", "alpha (hill_mid)")
    assert list(lines["adamw"]["x"]) == ["0 q", "0 up", "1 q"]
    assert list(lines["adamw"]["y"]) == pytest.approx([1.9, 2.2, 2.0])
    assert list(lines["adamw"]["y_low"]) == pytest.approx([1.9, 2.1, 2.0])
    assert list(lines["adamw"]["y_high"]) == pytest.approx([1.9, 2.3, 2.0])
    assert list(lines["muon"]["y"].isna()) == [False, False, True] and set(panel.of(LEFT_OUT)["x"]) == {"1 q"}
    assert panel.frame.loc[panel.frame["role"] == RANDOM, "y"].tolist() == [2.1, 2.1, None]
    assert panel.about.title == "digits · resnet-nano" and panel.about.seeds == [2, 2]


def test_means_are_over_the_layers_that_are_sound_for_all(two):
    """Alpha depends on the shape: AdamW's mean leaves out the layer that Muon's must leave out."""
    (panel,) = alpha_bars(load_rows(two.store), two.store)
    adamw, muon = panel.of(DOT).itertuples()
    assert (adamw.optimizer, muon.optimizer) == ("adamw", "muon")
    assert (adamw.y, adamw.n) == (pytest.approx((1.9 + 2.1 + 1.9 + 2.3) / 4), 2)
    assert adamw.y_sd == pytest.approx(0.1 / 2**0.5)
    assert panel.of(MARK)["y"].iloc[1] == pytest.approx((2.6 + 2.7) / 2)
    assert str(panel.about.facts[-1]) == "mean over 2 of 3 layers (flat: 1), hill_mid"


def test_without_a_sound_layer_there_are_no_bars(bench, make):
    for stage, seed in (("search", 0), (REPLICATE, 1)):
        key = bench.add("digits", "muon", 0.02, stage=stage, seed=seed, metrics=make.image(0.9, 0.4))
    bench.spectra(key, (None, None, None))
    store = bench.write()
    assert alpha_bars(load_rows(store), store) == [] and len(alpha_layers(load_rows(store), store)) == 1


def test_other_figures(two):
    frame = load_rows(two.store)
    assert [panel.labels[1] for panel in norms(frame, two.store)] == ["spectral norm", "Frobenius norm"]
    first, last = update_spectra(frame, two.store)
    assert [str(note) for note in first.about.facts[1:]] == ["step 1", "3 matrices of 64 x 64"]
    early, late = (panel.of(POINT).query("optimizer == 'muon'") for panel in (first, last))
    assert early[["y", "y_low", "y_high"]].values.tolist() == [[0.9] * 3] * 64
    assert list(late["y"]) == pytest.approx([1.1] * 64) and list(late["x"]) == list(range(1, 65))


def test_runs_without_spectra_give_nothing_to_draw(demo_store, tmp_path):
    frame = load_rows(demo_store)
    for name in NAMES:
        assert draw_figure(name, View(frame, store=demo_store), tmp_path) == {}


@pytest.mark.parametrize("damage", [b"\x00\xff garbage\n", b'{"step": 100, "layer": "a", "alpha": 2}\n[]\n'])
def test_a_damaged_file_stops_no_figure(two, damage):
    path = next(iter(two.store.root.rglob("spectra.jsonl")))
    path.write_bytes(damage)
    for name in NAMES:
        assert FIGURES[name].sweeps(View(load_rows(two.store), store=two.store))


def test_many_layers_are_numbered_and_have_few_ticks():
    from matplotlib.figure import Figure as Canvas

    from htbench.results.figures.marks import draw_curves

    ax = Canvas(figsize=(3.6, 2.9)).subplots()
    rows = [Row("alpha", "muon", str(number), 2.0) for number in range(1, 85)]
    draw_curves(ax, Panel("layers", About("t"), tidy(rows)))
    assert len(ax.get_xticks()) <= 24


def test_a_notebook_gets_the_rows(two):
    key = load_frame(two.store).query("stage == 'replicate' and optimizer == 'adamw'")["key"].iloc[0]
    table = results.spectra(two.store.root, key)
    assert isinstance(table, pd.DataFrame) and set(table["step"]) == {1, 45, 100}
    assert table.query("step == 100")["alpha"].tolist() == [1.9, pytest.approx(2.1), 2.0]
    assert table.query("step == 1")["update"].iloc[0] == [0.9] * 64
    with pytest.raises(UsageError, match="has recorded no spectra"):
        results.spectra(two.store.root, "abcabcabcabc")


def test_the_page_names_every_column():
    page = (Path(__file__).parents[3] / "docs" / "spectra.md").read_text(encoding="utf-8")
    from htbench.harness.spectra.layers import LayerSpectrum

    named = set(re.findall(r"`(\w+)`", page))
    assert set(LayerSpectrum.__dataclass_fields__) - {"name"} | {"layer", "update", "momentum"} <= named
