"""The gallery: every figure with a sentence, and small pictures."""

from docs import figures_page
from htbench.results.figures.registry import FIGURES


def test_every_figure_is_in_the_gallery():
    assert set(figures_page.WHEN) == set(FIGURES)


def test_its_pictures_are_small():
    found = list(figures_page.FOLDER.glob("*.png"))
    assert {path.stem for path in found} <= set(FIGURES) and len(found) > 10
    assert max(path.stat().st_size for path in found) <= 60_000
