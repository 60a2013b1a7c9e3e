"""The gallery: every figure with a sentence, small pictures, and the page as its program writes it."""

from docs import figures_page
from htbench.results.figures.declared import FIGURES


def test_the_page_has_every_figure_and_what_the_program_writes():
    assert set(figures_page.WHEN) == set(FIGURES)
    page = figures_page.PAGE.read_text(encoding="utf-8")
    between = page.partition(figures_page.BEGIN)[2].partition(figures_page.END)[0]
    assert between.strip() == figures_page.gallery(), "python -m docs.figures_page --write"


def test_its_pictures_are_small():
    found = list(figures_page.FOLDER.glob("*.png"))
    assert {path.stem for path in found} <= set(FIGURES) and len(found) > 10
    assert max(path.stat().st_size for path in found) <= 60_000
