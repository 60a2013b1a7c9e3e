"""Metrics and points: the small pure parts."""

import math

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import curve
from htbench.harness.store.check import Survey
from htbench.harness.store.points import SEARCH, Point, read_points, sweep_folder, sweep_names, write_points
from htbench.harness.store.record import RunRecord
from tests.helpers.records import scored


def test_metrics_are_cut_at_the_step_and_read_without_garbage(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with curve.MetricsFile(path, 0) as file:
        for step in (1, 2, 3):
            file.add(step, {"loss": float(step), "lr": 0.1})
        file.add(2, {"val_loss": math.nan})
    with open(path, "a") as torn:
        torn.write('{"step": 4, "lo')
    with curve.MetricsFile(path, 2) as file:
        file.add(3, {"loss": 30.0, "lr": 0.1})
    rows = curve.read(path)
    assert [(row["step"], row.get("loss")) for row in rows] == [(1, 1.0), (2, 2.0), (2, None), (3, 30.0)]
    assert curve.covers(rows, 3) and not curve.covers(rows, 4) and not curve.covers(rows[1:], 3)


def test_points_survive_a_round_trip_and_know_their_twins(tmp_path):
    points = [
        Point("s", "b", SEARCH, key * 12, {"optimizer.lr": lr, "seed": seed})
        for key, lr, seed in [("a", 0.1, 0), ("b", 0.1, 1), ("c", 0.2, 0)]
    ]
    sweep_folder(tmp_path, "s").mkdir(parents=True)
    write_points(tmp_path, "s", points)
    assert read_points(tmp_path, "s") == points and sweep_names(tmp_path) == ["s"]
    assert points[0].candidate == points[1].candidate != points[2].candidate


def test_a_record_from_another_version_is_read_as_far_as_it_goes():
    whole = scored("digits", val_loss=1.0).to_json()
    assert RunRecord.from_json(whole | {"later": 1}).metrics == {"val_loss": 1.0}
    for broken in (None, [], {}, {"key": "k"}, {name: whole[name] for name in whole if name != "attempts"}):
        assert RunRecord.from_json(broken) is None


def test_what_json_cannot_say_is_null():
    assert curve.finite({"a": math.inf, "b": math.nan, "c": 1.0}) == {"a": None, "b": None, "c": 1.0}


@pytest.mark.parametrize("damage", [None, b"", b"{\n", b'{"sweep": "s"}\n', b"\x00\xff"])
def test_damaged_points_are_one_sentence(tmp_path, damage):
    assert read_points(tmp_path, "s") == [], "never planned"
    sweep_folder(tmp_path, "s").mkdir(parents=True)
    name, what = ("spec.yaml", "missing") if damage is None else ("points.jsonl", "damaged")
    (sweep_folder(tmp_path, "s") / name).write_bytes(damage or b"")
    with pytest.raises(UsageError, match=f"points.jsonl' is {what}; `htbench sweep index s"):
        read_points(tmp_path, "s")
    assert Survey(tmp_path).damaged == {"points": ["sweeps/s/points.jsonl"]}
