"""Progress on a terminal: short work shows nothing, long work a bar; a pipe gets lines."""

import io
import sys

import pytest

from htbench.harness.show import progress
from htbench.harness.show.progress import Progress, each


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
    monkeypatch.setattr(progress, "_PATIENCE", 60.0)  # a busy machine takes a second for nothing
    work(brief=True)
    assert not shown.getvalue()
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    work(brief=True)
    assert "figures" in shown.getvalue() and "loss" in shown.getvalue()


def test_a_pipe_gets_no_bar(capsys):
    work(brief=True)
    assert capsys.readouterr() == ("", "")


def test_a_file_is_told_once_what_long_work_waits_for(capsys):
    with Progress(3, "step") as shown:
        for said in ("preparing pydocs", "preparing pydocs", "starting", None, None):
            shown.to(0, said=said)
    assert capsys.readouterr().err == "preparing pydocs ...\nstarting ...\n"


@pytest.mark.parametrize(("pace", "first"), [(None, "?"), (2.0, "0:38")])
def test_the_time_that_is_left_is_told_without_the_start(monkeypatch, pace, first):
    """A minute of imports came before the first runs, and the demo promised an hour."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Progress(20, "step", quiet=True)
    shown.pace, shown.few, etas = pace, 2, []
    for end in (60.0, 60.1, 63.0, 63.1, 66.0):
        now[0] = end
        shown.advance()
        etas.append(shown.eta())
    assert etas[0] == f"  5 %, ETA {first}" and etas[2:] == [
        " 15 %, ETA 0:26",
        " 20 %, ETA 0:17",
        " 25 %, ETA 0:22",
    ]
    shown.to(20)
    assert shown.eta() == "100 %, ETA 0:00"


def test_items_come_one_by_one(capsys):
    assert list(each(["loss", "pareto"], "figures")) == ["loss", "pareto"]
    assert capsys.readouterr() == ("", "")
