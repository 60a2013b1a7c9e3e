"""Figures of all optimizers at once: no text covers another or leaves the canvas."""

import dataclasses

import pytest

from htbench.harness.store.points import REPLICATE
from htbench.results.compare.view import Side, View
from htbench.results.figures.draw import draw, use_look
from htbench.results.figures.files import make_pictures
from htbench.results.figures.pictures import arrange_pictures
from htbench.results.figures.registry import FIGURES
from htbench.results.frames.load import load_rows
from tests.helpers.layout import problems
from tests.results.conftest import Bench, text

NAMES = ("pareto", "to_target", "lr_width", "seed_spread")
_MANY = (
    "adam adamw sgdm muon muon_svd htmuon htmuon_ns htmuon_ht normuon htmuon_normuon htmuon_ht_normuon "
    "adamuon mars soap cautious cosmos galore sophia"
).split()


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A workload with every optimizer of the paper; the last one has not begun, one run has diverged."""
    bench = Bench(tmp_path_factory.mktemp("many") / "store")
    for number, name in enumerate(_MANY):
        for lr, worse in ((0.01, 0.2), (0.02, 0.0), (0.04, 0.1)):
            state = "waiting" if number == len(_MANY) - 1 else "completed"
            metrics = text(4 + 0.03 * number + worse)
            bench.add("pydocs", name, lr, state=state, metrics=metrics, curve=False)
        for seed in (1, 2) if number < len(_MANY) - 1 else ():
            metrics = text(4 + 0.03 * number + 0.01 * seed)
            add = {"stage": REPLICATE, "seed": seed, "seconds": 0.01 + 0.002 * (number * 7 % 11)}
            bench.add("pydocs", name, 0.02, metrics=metrics, **add)
    return bench.write()


def picture(name, store):
    (found,) = make_pictures(name, View(load_rows(store), "runs", store=store))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_text_covers_another(name, many, recwarn):
    with use_look():
        assert problems(draw(picture(name, many))) == []
    assert [str(one.message) for one in recwarn] == []


def test_the_published_ones_are_readable_too():
    for name in ("pareto", "lr_width"):
        with use_look():
            assert problems(draw(*arrange_pictures(name, [FIGURES[name].paper(Side(published=True))]))) == []


def test_a_name_is_no_formula(many):
    """Two dollars began one, and what is none ended the drawing."""
    panel = picture("lr_width", many).panels[0]
    about = dataclasses.replace(panel.about, title="$\\frac$")
    with use_look():
        canvas = draw(*arrange_pictures("lr_width", [[dataclasses.replace(panel, about=about)]]))
        canvas.draw_without_rendering()
    assert canvas.axes[0].get_title(loc="left") == "$\\frac$"
