"""The paper's figures: each can be read, shows what the tables have, and says what is missing."""

import csv
import io
import warnings

import pandas as pd
import pytest

from htbench.harness.paper import reported
from htbench.harness.store import Store
from htbench.results.compare.view import View
from htbench.results.figures import draw
from htbench.results.figures.files import draw_figure, make_pictures
from htbench.results.figures.kinds import DIVERGED, DOT, csv_text
from htbench.results.figures.registry import FIGURES
from htbench.results.figures.style import display_name, optimizer_style
from htbench.results.frames.load import load_rows
from tests.helpers import layout

PAPER = list(dict.fromkeys(row["figure"] for row in reported.rows("figures")))
PICTURES = ["muon_ns_vs_svd", "alpha_layers", "alpha_layers_more", "norms", "loss"]
PUBLISHED = [name for name in PAPER if name not in PICTURES]
LADDER = {"multiplier", "horizon"}  # tests/results/tables/test_ladder_tables.py draws them


@pytest.fixture(scope="module")
def nano_frame(nano_store):
    return load_rows(nano_store)


@pytest.fixture(scope="module")
def mixed_frame(mixed_store):
    return load_rows(mixed_store)


def pictures(name, frame, store, source):
    return make_pictures(name, View(frame, source, store=store))


def panels(name, frame, store, source):
    return [group for one in pictures(name, frame, store, source) for group in one.groups]


def rows(found):
    text = csv_text({"": [panel for group in found for panel in group]})
    return list(csv.DictReader(io.StringIO(text)))


def assert_readable(found):
    """No warning, no text on top of another or outside."""
    with warnings.catch_warnings(), draw.use_look():
        warnings.simplefilter("error")
        assert [layout.problems(draw.draw(one)) for one in found] == [[]] * len(found)


def test_every_figure_of_the_paper_has_a_name():
    assert [name for name, figure in FIGURES.items() if figure.paper][: len(PAPER)] == PAPER


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_figures_can_be_read(name, nano_store, nano_frame):
    assert_readable(pictures(name, nano_frame, nano_store, "both"))
    found = panels(name, nano_frame, nano_store, "both")
    letters = "".join(row["panels"] for row in reported.rows("figures") if row["figure"] == name)
    first, last = letters.replace(" ", "-").split("-")[0][0], letters[-1]
    titles = [panel.about.title for panel in found[-1]]
    assert titles[0].startswith(f"({first})") and titles[-1].startswith(f"({last})")


@pytest.mark.parametrize("name", [name for name in FIGURES if FIGURES[name].sweeps])
def test_figures_of_half_finished_sweeps_can_be_read(name, mixed_store, mixed_frame):
    found = pictures(name, mixed_frame, mixed_store, "both")
    assert bool(found) == (name not in LADDER)  # it has no two sizes of one task
    assert_readable(found)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures_need_no_store(name, tmp_path):
    assert_readable(pictures(name, None, Store(tmp_path / "none"), "published"))
    found = panels(name, None, Store(tmp_path / "none"), "published")
    assert {row["source"] for row in rows(found)} == {"published"}


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_not_published_is_not_drawn(name, tmp_path):
    assert draw_figure(name, View(None, "published"), tmp_path) == {}


def test_published_values_are_those_of_the_tables(tmp_path):
    def shown(name):
        found = rows(panels(name, None, Store(tmp_path), "published"))
        return sorted(float(row["y"]) for row in found)

    def printed(*tables, of=lambda _: True):
        return sorted(one.value for name in tables for one in reported.of_table(name) if of(one))

    assert shown("lr_curve") == printed("lr_grid_c4", "lr_grid_cifar10", "lr_grid_cifar100")
    assert shown("p_curve") == printed("p_grid_c4")
    bars = {"normuon", "htmuon_normuon", "adamuon"}
    others = printed("optimizer_variants", of=lambda one: one.optimizer not in bars)
    assert shown("optimizer_variants") == others


def test_missing_values_say_why(nano_store, nano_frame):
    (group,) = panels("optimizer_variants", nano_frame, nano_store, "runs")
    states = {row.optimizer: row.text for row in group[0].of(DOT).query("y != y").itertuples()}
    assert states == {"soap": "diverged", "cosmos": "not run yet"}
    assert set(group[0].about.seeds) == {2} and str(group[0].about.facts[-1]) == "1 diverged, 1 not run yet"


def test_dots_and_points_are_means_over_fresh_seeds(nano_store, nano_frame):
    (group,) = panels("muon_variants", nano_frame, nano_store, "runs")
    row = next(row for row in rows([group]) if row["series"] == "muon")
    frame = pd.DataFrame(nano_frame)
    own = frame[frame["key"].isin(row["keys"].split())]
    assert set(own["stage"]) == {"replicate"} and int(row["n"]) == len(own) == 2
    assert float(row["y"]) == pytest.approx(own["test_perplexity"].mean(), rel=1e-8)
    assert float(row["y_sd"]) == pytest.approx(own["test_perplexity"].std(), rel=1e-6)


def test_a_rate_that_diverged_is_a_cross(nano_store, nano_frame):
    (group,) = panels("lr_curve", nano_frame, nano_store, "runs")
    assert len(group) == 6
    frame = group[0].frame
    normuon = frame[frame["optimizer"] == "normuon"]
    assert list(normuon["x"]) == [0.02, 0.04, 0.08]
    assert [role == DIVERGED for role in normuon["role"]] == [False, False, True]


def test_both_shows_published_and_ours_in_rows_of_their_own(nano_store, nano_frame):
    published, ours = panels("p_curve", nano_frame, nano_store, "both")
    assert published[0].about.title == "(a) c4 · llama-60m"
    assert [str(note) for note in published[0].about.facts] == ["published numbers"]
    assert ours[0].about.title == "(a) pydocs · llama-nano-60m"
    assert "stands for llama-60m on c4" in map(str, ours[0].about.facts)


def test_at_full_scale_published_and_ours_share_a_panel(paper_store):
    frame = load_rows(paper_store)
    assert_readable(pictures("lr_curve", frame, paper_store, "both"))
    (group,) = panels("lr_curve", frame, paper_store, "both")
    shown = dict(list(group[0].frame.groupby(["optimizer", "source"])))
    published, ours = shown["htmuon", "published"], shown["htmuon", "runs"]
    assert list(ours["x"]) == list(published["x"]) == [0.01, 0.02, 0.03, 0.04]
    assert [a - b for a, b in zip(published["y"], ours["y"], strict=True)] == pytest.approx([0.1] * 4)
    assert_readable(pictures("muon_variants", frame, paper_store, "both"))
    (bars,) = panels("muon_variants", frame, paper_store, "both")
    assert set(bars[0].of(DOT)["source"]) == {"published", "runs"}


def test_a_store_without_such_sweeps_has_no_published_row(demo_store):
    frame = load_rows(demo_store)
    assert len(panels("lr_curve", frame, demo_store, "both")) == 1
    assert panels("muon_variants", frame, demo_store, "both") == []


def test_optimizers_differ_in_grey_where_the_paper_shows_them_together():
    """By their markers; where the axis has their names they need not."""
    for names in (
        ("muon", "normuon", "htmuon", "htmuon_normuon"),
        ("muon", "htmuon", "htmuon_ns", "htmuon_ht"),
        ("muon", "muon_svd"),
        ("muon", "cosmos"),
    ):
        assert len({optimizer_style(name)["marker"] for name in names}) == len(names)


def test_a_version_of_an_optimizer_keeps_its_version():
    assert display_name("htmuon_normuon (revision 2)") == "htmuon_normuon (revision 2)"
    assert display_name("mine") == "mine"


def test_of_a_long_name_the_middle_is_left_out():
    names = [display_name(f"20260506_trustlight/idea_10e_attnproj_bounded/seed_{n}") for n in (0, 1)]
    assert max(map(len, names)) <= 26 and names[0] != names[1]
