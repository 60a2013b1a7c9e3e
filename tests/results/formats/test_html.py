"""HTML says what the text says: every cell and footnote is there, and nothing in it is markup of its own."""

from html.parser import HTMLParser

import pytest

from htbench.harness.show import html, note
from htbench.harness.show.report import Cell, Column, Report, Section
from htbench.harness.show.status import Status
from htbench.results.compare.stats import summarize
from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import GENERAL
from tests.helpers.rendering import render, render_all

HOSTILE = "<script>alert('1')</script> & \"x\" </td>"
VOID = {"meta", "!doctype"}


class Reader(HTMLParser):
    """The tags of a page, which must close in order, and the text of each table's cells by row."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.rows = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & {*self.open}:
            self.rows[-1][-1] += data


def a_table(text, **cell):
    column = Column("x", text, "text")
    return Report(text, text, [Section(text, {}, [column], [[Cell(text, **cell)]], notes=(note.text(text),))])


@pytest.mark.parametrize("name", GENERAL)
def test_all_cells_are_there(name, mixed_store):
    table = GENERAL[name](View(load_rows(mixed_store)))
    rows = Reader(render(table, "html")).rows
    shown = [section for section in table.sections if not section.too_wide()]
    assert len(rows) == sum(1 + len(section.rows) for section in shown) > 0
    texts = [text for row in rows for text in row]
    cells = [[cell for row in section.rows for cell in row] for section in shown]
    heads = [len(section.columns) for section in shown]
    at = 0
    for own, head in zip(cells, heads, strict=True):
        at += head
        assert all(texts[at + i].startswith(cell.text()) for i, cell in enumerate(own))
        at += len(own)


def test_nothing_is_markup_of_its_own():
    page = Reader(render(a_table(HOSTILE, notes=(HOSTILE,)), "html"))
    names = {tag for tag, _ in page.tags}
    assert names.isdisjoint({"script"}) and page.rows == [[HOSTILE], [HOSTILE + "a"]]


def test_a_summary_is_aligned_and_bold():
    cell = Cell(summarize([1.0, 3.0]), digits=2, bold=True, chosen=True, notes=(note.text("see `lr: [1]`"),))
    section = Section(
        "title", {}, [Column("x", "x (%)", "summary")], [[cell]], notes=(note.text("all of it"),)
    )
    text = html.section(section)
    wanted = '<td class="number"><strong>2.00 ± 1.41</strong> *<sup>a</sup></td>'
    assert wanted in text
    assert "<li><sup>a</sup> see <code>lr: [1]</code></li>" in text and "<li>all of it</li>" in text


def test_an_outcome_without_number_sorts_as_text():
    cell = Cell(3.0, state=Status.DIVERGED, detail="@7")
    assert "<td>div.@7</td>" in render(
        Report("t", "t", [Section("s", {}, [Column("x", "x", "text")], [[cell]])]), "html"
    )


def test_several_tables_are_one_page(demo_store):
    frame = load_rows(demo_store)
    text = render_all([GENERAL[name](View(frame)) for name in GENERAL], "html")
    page = Reader(text)
    assert [tag for tag, _ in page.tags].count("html") == 1 and text.endswith("</html>\n")
    assert [tag for tag, _ in page.tags].count("h2") == len(GENERAL)


def test_an_empty_table_says_so():
    assert "There is nothing to show" in render(Report("name", "what", []), "html")
