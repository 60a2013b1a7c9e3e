"""Tables and frames of runs whose hyperparameters have schedules."""

import pytest

from htbench.results.compare.view import View
from htbench.results.frames.load import load_rows
from htbench.results.tables.registry import TABLES
from tests.helpers.frames import load_frame
from tests.helpers.rendering import render
from tests.results.tables.test_tables import row, written


def scheduled(hyper, first, last):
    return {f"schedule.{hyper}.name": "linear", f"schedule.{hyper}.from": first, f"schedule.{hyper}.to": last}


@pytest.fixture
def store(bench, make):
    for lr, loss in [(0.01, 4.0), (0.02, 3.9), (0.04, 4.1)]:
        bench.add("pydocs", "muon", lr, metrics=make.text(loss))
        bench.add("pydocs", "htmuon", lr, p=0.125, metrics=make.text(loss))
        for last in (0.125, 0.5):
            base = scheduled("p", 0.25, last) | scheduled("weight_decay", 0.1, 0)
            bench.add("pydocs", "htmuon_stream", lr, base=base, metrics=make.text(loss + last / 10))
    return bench.write()


def test_a_table_shows_a_schedule_in_place_of_the_value(store):
    text = written(store, "main_result")
    found = {name: row(text, name) for name in ("muon", "htmuon", "htmuon_stream")}
    assert [one["p"].split(" [")[0] for one in found.values()] == ["", "0.125", "0.25→0.125"]
    assert [one["weight_decay"] for one in found.values()] == ["0.1", "0.1", "0.1→0"]
    assert found["htmuon_stream"]["schedule.p.to"].startswith("0.125 [")
    assert "add `schedule.p.to: 0.031` to block htmuon_stream" in text, "at the edge of what was tried"


def test_latex_has_an_arrow(store):
    assert r"0.25$\to$0.125" in render(TABLES["main_result"](View(load_rows(store))), "latex")


def test_a_frame_has_a_column_for_each_part_and_no_value(store):
    frame = load_frame(store)
    mix, plain = (frame[frame["rule"] == name].iloc[0] for name in ("htmuon_stream", "htmuon"))
    assert (mix["schedule.p.name"], mix["schedule.p.from"], mix["schedule.p.end"]) == ("linear", 0.25, 1)
    assert mix["p"] != mix["p"] and plain["p"] == 0.125, "NaN"
    assert mix["candidate"] != plain["candidate"]
