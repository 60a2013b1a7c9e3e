"""Tables on a terminal: every line fits, every number shown is whole, and what is missing is named."""

import re

from hypothesis import given
from hypothesis import strategies as st

from harness.display import Column, aligned, counted, shortened, wrapped

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")
HEADS = ("name", "task", "steps", "lr", "val", "host")
COLUMNS = {
    "name": Column(words=True, least=8, rank=0),
    "task": Column(words=True, least=6, rank=2),
    "lr": Column(rank=3),
    "val": Column(words=True, rank=1),
    "host": Column(words=True, least=4, rank=4),
}
words = st.from_regex(r"[a-z]{1,12}([-_ =][a-z]{1,12}|[-=][0-9]{1,6}(\.[0-9]{1,4})?){0,4}", fullmatch=True)
numbers = st.one_of(st.integers(0, 10**12).map(str), st.floats(1e-9, 1e9).map("{:.6g}".format), st.just(""))
rows = st.tuples(words, words, numbers, numbers, numbers.map("accuracy {}".format), words)


def numbers_of(text):
    return set(NUMBER.findall(text))


@given(st.lists(rows, min_size=1, max_size=5), st.integers(16, 160))
def test_lines_fit_and_numbers_are_whole(table, width):
    whole = aligned([HEADS, *table], COLUMNS)
    lines = aligned([HEADS, *table], COLUMNS, width).splitlines()
    assert max(map(len, lines)) <= width
    body = lines[: len(table) + 1]
    gone = " ".join(lines[len(table) + 1 :])
    assert numbers_of(" ".join(body)) <= numbers_of(whole)
    shown = body[0].split()
    assert [head for head in HEADS if head in shown] == shown, "the order stays, heads are whole"
    assert all((head in shown) != (head in gone) for head in HEADS), (
        "what is left out is named, and only that"
    )
    if max(map(len, whole.splitlines())) <= width:
        assert lines == whole.splitlines()


@given(words, st.integers(1, 40))
def test_a_shortened_text_shows_that_it_is_one(text, width):
    short = shortened(text, width)
    assert len(short) <= width and (short == text or short.endswith("…"))
    assert numbers_of(short) <= numbers_of(text)


def test_columns_go_by_their_rank_and_words_give_way_first():
    rows = [HEADS, ("a-long-name-of-a-block", "digits", 200, 0.03, "accuracy 0.95", "node")]
    assert aligned(rows, COLUMNS, 60).splitlines() == [
        "name                task    steps    lr  val            host",
        "a-long-name-of-a-…  digits    200  0.03  accuracy 0.95  node",
    ]
    assert aligned(rows, COLUMNS, 40, more="").splitlines() == [
        "name        task    steps  val",
        "a-long-na…  digits    200  accuracy 0.95",
        "left out: lr, host",
    ]


def test_a_line_is_wrapped_and_not_cut():
    line = "tiny: 3 of 200 points have a result, ETA 3.4 h"
    assert wrapped(line, None) == [line]
    assert " ".join(part.strip() for part in wrapped(line, 20)) == line
    assert max(map(len, wrapped(line, 20))) <= 20


def test_words_agree_with_their_number():
    assert [counted(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert [counted(n, "job waits", "jobs wait") for n in (1, 2)] == ["1 job waits", "2 jobs wait"]
