"""Tables on a terminal: every line fits, every number shown is whole, and what is missing is named."""

import io
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from htbench.harness.show.note import Note
from htbench.harness.show.numbers import counted
from htbench.harness.show.report import Cell, Column, Report, table
from htbench.harness.show.terminal import _JSON, _fit_table, shortened, show, wrapped

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")
COLUMNS = [
    Column("name", kind="text", least=8, importance=9),
    Column("task", kind="text", least=6, importance=3),
    Column("steps", importance=4),
    Column("lr", importance=2),
    Column("val", kind="text", importance=5),
    Column("host", kind="text", least=4, importance=1),
]
HEADS = [column.name for column in COLUMNS]
words = st.from_regex(r"[a-z]{1,12}([-_ =][a-z]{1,12}|[-=][0-9]{1,6}(\.[0-9]{1,4})?){0,4}", fullmatch=True)
numbers = st.one_of(st.integers(0, 10**12).map(str), st.floats(1e-9, 1e9).map("{:.6g}".format), st.just(""))
rows = st.tuples(words, words, numbers, numbers, numbers.map("accuracy {}".format), words)


def grid_lines(columns, rows, width):
    cells = [[((text, ""),) for text in row] for row in rows]
    return [line.text for line in _fit_table(columns, lambda: cells, width, _JSON)]


def numbers_of(text):
    return set(NUMBER.findall(text))


@given(st.lists(rows, min_size=1, max_size=5), st.integers(16, 160))
def test_lines_fit_and_numbers_are_whole(rows, width):
    whole = grid_lines(COLUMNS, rows, None)
    lines = grid_lines(COLUMNS, rows, width)
    assert max(map(len, lines)) <= width
    body = lines[: len(rows) + 1]
    gone = " ".join(lines[len(rows) + 1 :])
    assert numbers_of(" ".join(body)) <= numbers_of(" ".join(whole))
    shown = body[0].split()
    assert [head for head in HEADS if head in shown] == shown, "the order stays, heads are whole"
    assert all((head in shown) != (head in gone) for head in HEADS), (
        "what is left out is named, and only that"
    )
    if max(map(len, whole)) <= width:
        assert lines == whole


@given(words, st.integers(1, 40))
def test_a_shortened_text_shows_that_it_is_one(text, width):
    short = shortened(text, width)
    assert len(short) <= width and (short == text or short.endswith("…"))
    assert numbers_of(short) <= numbers_of(text)


def test_columns_go_by_their_importance_and_words_give_way_first():
    rows = [("a-long-name-of-a-block", "digits", "200", "0.03", "accuracy 0.95", "node")]
    assert grid_lines(COLUMNS, rows, 60) == [
        "name                task    steps    lr  val            host",
        "a-long-name-of-a-…  digits    200  0.03  accuracy 0.95  node",
    ]
    assert grid_lines(COLUMNS, rows, 40) == [
        "name        task    steps  val",
        "a-long-na…  digits    200  accuracy 0.95",
        "left out: lr, host (--json has all)",
    ]


def test_a_line_is_wrapped_and_not_cut():
    line = "tiny: 3 of 200 points have a result, ETA 3.4 h"
    assert wrapped(line, None) == [line]
    assert " ".join(part.strip() for part in wrapped(line, 20)) == line
    assert max(map(len, wrapped(line, 20))) <= 20


def test_words_agree_with_their_number():
    assert [counted(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert [counted(n, "job waits", "jobs wait") for n in (1, 2)] == ["1 job waits", "2 jobs wait"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, stream, **variables):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm-256color", "COLUMNS": "60"} | variables).items():
        monkeypatch.setenv(name, value)
    columns = [Column("run", kind="text"), Column("state", kind="text"), Column("took", unit="s")]
    section = table(columns, [["a[1]", "damaged", 90], ["b", Cell("[red]x"), 0.5]], notes=[Note("chosen")])
    show([Report("runs", "", [section])], stream)
    return stream.getvalue()


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    plain = shown(monkeypatch, io.StringIO())
    assert "a[1]  damaged    90 s" in plain and "b     [red]x   500 ms" in plain
    coloured = shown(monkeypatch, Terminal())
    assert "\x1b[" in coloured and re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert shown(monkeypatch, Terminal(), NO_COLOR="1").count("\x1b[3") == 0
    assert shown(monkeypatch, Terminal(), TERM="dumb") == plain


def test_no_word_of_a_report_is_obeyed_wherever_it_stands(monkeypatch):
    """A terminal obeys the colours that we write, so all words are made harmless before, heads as well."""
    evil = "a\x1b]0;title\x07\x1b[2J"
    note = Note("text", text=evil)
    columns = [Column(evil, kind="text"), Column("x", label=evil), Column(f"{evil}3", importance=0)]
    section = table(columns, [[evil, Cell(1, notes=(note,)), evil]], title=evil, notes=[note], above=[note])
    report = Report(evil, evil, [replace(section, verbatim=evil)], [note])
    monkeypatch.setenv("TERM", "xterm-256color")
    for width in ("300", "60"):
        monkeypatch.setenv("COLUMNS", width)
        stream = Terminal()
        stream.obeys = False
        show([report], stream)
        assert re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).count("\x1b") == 0
        assert "\x07" not in stream.getvalue()
