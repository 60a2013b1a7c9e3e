"""Pictures: six panels at most, what they share said once, and an optimizer's colour the same in all."""

import random

import pytest
from matplotlib.colors import to_hex

from htbench.harness.show.note import Note
from htbench.results.compare.view import View
from htbench.results.figures.caveats import is_caveat
from htbench.results.figures.draw import _wrap, use_look
from htbench.results.figures.files import make_pictures
from htbench.results.figures.kinds import KINDS, About, Panel, tidy
from htbench.results.figures.marks import MARKS, PUBLISHED_TOO
from htbench.results.figures.pictures import MOST_PANELS, arrange_pictures
from htbench.results.figures.registry import FIGURES
from htbench.results.figures.style import _LOOKS, optimizer_style
from htbench.results.frames.load import load_rows
from tests.helpers.small_languages import small_languages


def panel(family, workload):
    return Panel("seeds", About(f"{family} {workload}", family), tidy([]))


@pytest.mark.parametrize("seed", range(10))
def test_a_picture_has_six_panels_at_most_and_parts_no_workload(seed):
    chance = random.Random(seed)
    groups = [
        [
            panel(chance.choice("abc"), workload)
            for workload in range(chance.randint(1, 14))
            for _ in range(chance.randint(1, 2))
        ]
        for _ in range(chance.randint(1, 3))
    ]
    found = arrange_pictures("loss", groups)
    assert max(len(one.panels) for one in found) <= MOST_PANELS
    assert sorted(map(id, sum((one.panels for one in found), []))) == sorted(map(id, sum(groups, [])))
    assert [one.name for one in found] == ["loss", *(f"loss-{n}" for n in range(2, len(found) + 1))]
    if sum(map(len, groups)) <= MOST_PANELS:
        assert len(found) == 1
    for group in groups:
        for title in {one.about.title for one in group}:
            own = {id(one) for one in group if one.about.title == title}
            where = [one for one in found if own & set(map(id, one.panels))]
            assert len(where) == 1 or len(own) > MOST_PANELS


@pytest.fixture(scope="module")
def drawn(nano_store):
    """All pictures of a store of the paper's experiments, by figure."""
    with small_languages():
        view = View(load_rows(nano_store), store=nano_store)
        return {name: make_pictures(name, view) for name in FIGURES}


def test_the_caption_says_once_what_all_panels_share(drawn):
    assert sum(map(len, drawn.values())) > 20
    for one in (one for found in drawn.values() for one in found):
        about = [panel.about for panel in one.panels]
        counts = [n for of in about for n in of.seeds]
        told = [note for note in one.shared if not is_caveat(note)]
        words = " · ".join(map(str, [one.shows, *told]))
        assert words.count(" seed") == bool(counts), one.caption
        if counts:
            said = {str(n) for n in (min(counts), max(counts))}
            assert said <= set(str(told[0]).partition(" ")[0].split("-"))
        for metric in {of.metric for of in about} - {""}:
            assert one.caption.lower().count(metric.lower()) <= 1, one.caption
        for panel in one.panels:
            _, facts, amber = _wrap(panel, one.shared, 3.0)
            assert not {*map(str, one.shared)} & {*facts, *amber}


def test_what_only_some_panels_have_stands_above_them():
    both, one, mark = Note("at_step", step=1), Note("at_step", step=2), Note("mark_edge", names=["a"], more=0)
    first, second = About("a", facts=(both, one, mark)), About("b", facts=(both,))
    (picture,) = arrange_pictures("loss", [[Panel("seeds", of, tidy([])) for of in (first, second)]])
    assert picture.shared == [both]
    assert [_wrap(panel, picture.shared, 3.0) for panel in picture.panels] == [
        (["a"], ["step 2"], ["! best at an edge: a"]),
        (["b"], [], []),
    ]


def test_every_figure_has_a_caption_and_every_caption_a_figure():
    from htbench.harness.show.note import templates

    shown = {kind for kind in templates() if kind.startswith("shows_")}
    assert shown == {f"shows_{name}" for name in FIGURES}


def test_an_optimizer_has_one_colour_in_all_figures(drawn):
    from matplotlib.figure import Figure as Canvas

    seen = set()
    for panel in (panel for found in drawn.values() for one in found for panel in one.panels):
        with use_look():
            ax = Canvas().subplots()
            MARKS[KINDS[panel.kind].mark](ax, panel)
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            name = label.removesuffix(PUBLISHED_TOO)
            if name in _LOOKS:
                assert to_hex(handle.get_color()) == optimizer_style(name)["color"], label
                seen.add(name)
    assert len(seen) > 10
