"""Progress on a terminal: short work shows nothing, long work a bar; a pipe gets lines."""

import io
import sys

from harness.show import progress
from harness.show.progress import Progress, each


def screen(monkeypatch):
    """What a terminal gets on stderr."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def work(**options):
    with Progress(3, "figures", **options) as shown:
        for done in range(3):
            shown.to(done, said="loss")


def test_work_that_seldom_takes_long_shows_a_bar_after_a_second_only(monkeypatch):
    shown = screen(monkeypatch)
    work(brief=True)
    assert not shown.getvalue()
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    work(brief=True)
    assert "figures" in shown.getvalue() and "loss" in shown.getvalue()


def test_a_pipe_gets_no_bar(capsys):
    work(brief=True)
    assert capsys.readouterr() == ("", "")


def test_items_come_one_by_one(capsys):
    assert list(each(["loss", "pareto"], "figures")) == ["loss", "pareto"]
    assert capsys.readouterr() == ("", "")
