"""The end of a command: its facts, and that it fits a terminal."""

import io
import re

from htbench.harness.show.report import Report
from htbench.harness.show.terminal import show
from htbench.harness.store.points import REPLICATE
from htbench.results.page.ending import ending

LEADERS = {"adam": (3.00, 3.01, 3.02), "cautious": (2.999, 3.014, 3.027)}
ALL = LEADERS | {"adamw": (3.3, 3.31, 3.325), "sgdm": (3.6, 3.61, 3.62)}


def contest(bench, make, tests, rates=(0.01, 0.02, 0.04), **more):
    """Optimizers with these losses on their fresh seeds at a rate of 0.02, which is the best."""
    for optimizer, values in tests.items():
        for rate in rates:
            loss = 3.0 if rate == 0.02 else 4.0
            bench.add("pydocs", optimizer, rate, metrics=make.text(loss), **more)
        for seed, test in enumerate(values, start=1):
            metrics = make.text(test, test=0.0)
            bench.add("pydocs", optimizer, 0.02, stage=REPLICATE, seed=seed, metrics=metrics, **more)


def end(bench, **more):
    return ending(bench.write(), list(bench.points), 211.0, **more)


def kinds(report):
    return [note.kind for section in report.sections for note in section.notes]


def test_the_end_says_what_was_found_and_where_to_read_on(bench, make):
    contest(bench, make, ALL)
    report = end(bench)
    (section,) = report.sections
    (verdict,) = [note for note in section.notes if note.kind == "end_verdict"]
    assert (verdict["workload"], verdict["verdict"].kind) == ("pydocs", "answer_ahead")
    assert section.title == "24/24 runs · 3:31"
    places = {note["name"]: note["place"] for note in report.notes}
    assert places == {"table": "htbench table", "report": "htbench report"}


def test_what_could_change_the_winner_has_a_line(bench, make):
    contest(bench, make, ALL, rates=(0.01, 0.02))
    report = end(bench)
    notes = report.sections[0].notes
    assert "danger_edge" in {note["danger"].kind for note in notes if note.kind == "end_danger"}


def test_a_workload_without_a_winner_says_why(bench, make):
    contest(bench, make, LEADERS)
    report = end(bench, small=True)
    (verdict,) = [note for note in report.sections[0].notes if note.kind == "end_verdict"]
    assert verdict["verdict"].kind in ("answer_seeds", "answer_search") and len(verdict["ends"]) == 2
    assert kinds(report)[-1] == "end_small"


def test_failed_runs_are_counted_with_the_command_that_tries_them_again(bench, make):
    contest(bench, make, ALL)
    bench.add("pydocs", "adamw", 0.08, state="failed", reason="error")
    report = end(bench)
    again = report.notes[0]
    assert (again.kind, again["runs"], again["sweeps"]) == ("end_failed", 1, ["demo-pydocs"])
    assert report.sections[0].title.startswith("24/25 runs")


def test_sweeps_are_named_where_the_store_has_others(bench, make):
    contest(bench, make, ALL)
    bench.add("digits", "adamw", 0.08, metrics=make.image(0.9, 0.4))
    report = ending(bench.write(), ["demo-pydocs"], 1.0)
    assert [note["place"] for note in report.notes] == [
        "htbench table demo-pydocs",
        "htbench report demo-pydocs",
    ]


def test_the_page_and_the_figures_are_named_once_they_are_there(bench, make, tmp_path):
    contest(bench, make, ALL)
    store = bench.write()
    folder = store.root / "figures"
    folder.mkdir()
    (folder / "lr_curve.png").touch()
    report = ending(store, list(bench.points), 1.0, page=store.root / "report.html")
    assert report.notes[1]["place"] == str(store.root / "report.html")
    assert (report.notes[2].kind, report.notes[2]["names"]) == ("end_figures", ["lr_curve"])


def test_many_workloads_fit_into_24_lines_of_80_columns(bench, make, monkeypatch):
    for steps in range(200, 212):
        contest(bench, make, ALL, rates=(0.01, 0.02), base={"steps": steps})
    lines = shown(end(bench), 80, monkeypatch)
    assert len(lines) <= 24 and max(map(len, lines)) <= 80


def test_doubts_are_yellow_and_failures_red_unless_colours_are_unwanted(bench, make, monkeypatch):
    contest(bench, make, ALL, rates=(0.01, 0.02))
    bench.add("digits", "adamw", 0.08, state="failed", reason="error")
    report = end(bench)
    text = "\n".join(shown(report, 120, monkeypatch, plain=False))
    assert "\x1b[33m! " in text and "\x1b[31mfailed" in text
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in "\n".join(shown(report, 120, monkeypatch, plain=False))


def shown(report: Report, width, monkeypatch, plain=True):
    """The lines of a terminal of this width."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()
    show([report], out)
    text = out.getvalue()
    return (re.sub(r"\x1b\[[\d;]*m", "", text) if plain else text).splitlines()
