"""The rows of finished runs come from the index, and follow every change of a record."""

import dataclasses
import json

import pytest

from tests.helpers.frames import load_frame
from tests.helpers.records import change_record


@pytest.fixture
def store(demo_copy):
    return demo_copy


def test_the_index_may_be_deleted(store):
    first = load_frame(store)
    completed = first[first["state"] == "completed"]
    assert len(completed) > 40 and completed["score"].map(type).eq(tuple).all()
    (store.root / "index.jsonl").unlink()
    again = load_frame(store)
    assert again.equals(first) and list(again.dtypes) == list(first.dtypes)
    assert not (store.root / "cache").exists()


def test_an_amended_record_is_seen(store):
    key = load_frame(store)["key"].iloc[0]
    change_record(store, key, lambda record: dataclasses.replace(record, peak_memory=7))
    assert load_frame(store)["peak_memory"].iloc[0] == 7


def test_a_changed_record_makes_the_run_damaged(store):
    frame = load_frame(store)
    path = store.files(frame["key"].iloc[3]).record
    path.write_text(path.read_text().replace('"val_loss": ', '"val_loss": 7'))
    again = load_frame(store)
    assert again["state"].tolist() == [*frame["state"][:3], "damaged", *frame["state"][4:]]
    assert again["reason"].iloc[3] == "record.json was changed after the run"


def test_a_lost_record_is_no_longer_there(store):
    frame = load_frame(store)
    store.files(frame["key"].iloc[0]).record.unlink()
    assert load_frame(store)["state"].iloc[0] == "damaged"


def test_what_another_study_pruned_is_unfinished(bench):
    bench.add("digits", "muon", 0.02, state="pruned", metrics={"val_loss": 3.0})
    store = bench.write()
    assert load_frame(store)["state"].tolist() == ["pruned"]
    points = store.root / "sweeps" / "demo-digits" / "points.jsonl"
    point = json.loads(points.read_text())
    del point["plan"]  # the digest, without which it counts as written by older code
    points.write_text(json.dumps(point | {"slot": "another/0"}) + "\n")
    assert load_frame(store)["state"].tolist() == ["waiting"]
