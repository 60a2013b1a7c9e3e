"""The kept rows of finished runs: used only while nothing has changed that they are made of."""

import dataclasses
import json
import os
import shutil
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from htbench.harness.commands import doctor
from htbench.harness.store import Store
from htbench.results.frames import row_cache, run_row
from htbench.results.frames.load import load
from tests.helpers import large_store, mutations
from tests.helpers.records import change_record


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    return large_store.fill(tmp_path_factory.mktemp("large") / "store", 60).root


@pytest.fixture
def store(filled, tmp_path, monkeypatch):
    """A store whose rows are kept at once."""
    monkeypatch.setattr(row_cache, "_SETTLED", -60)
    monkeypatch.setattr(row_cache, "_FEW", 1)
    monkeypatch.setattr(row_cache, "_SHARE", 0)
    return Store(shutil.copytree(filled, tmp_path / "store"))


@pytest.fixture
def made(monkeypatch):
    """The keys of the runs whose rows were made anew."""
    keys, finished = [], run_row.finished

    def note(record):
        keys.append(record.key)
        return finished(record)

    monkeypatch.setattr(run_row, "finished", note)
    return keys


def kept(store):
    return store.root / "cache" / "rows.json"


def test_kept_rows_make_the_same_frame(store, made):
    first = load(store)
    assert len(made) == len(first) == 60
    again = load(store)
    assert len(made) == 60 and again.equals(first)
    assert list(again.dtypes) == list(first.dtypes)
    assert first["score"].map(type).eq(tuple).all() and again["score"].tolist() == first["score"].tolist()


def forged(store, name, value):
    """Change a figure of the first row, with the right checksum."""
    head, body = map(json.loads, kept(store).read_bytes().split(b"\n"))
    body[0]["columns"][body[0]["names"].index(name)][0] = value
    text = json.dumps(body, separators=(",", ":")).encode()
    kept(store).write_bytes(json.dumps(head | {"crc": zlib.crc32(text)}).encode() + b"\n" + text)


def test_doctor_compares_kept_rows_with_what_they_were_made_of(store):
    before = load(store)
    assert row_cache.differing(store, 60.0) == (60, [])
    (finding,) = doctor._rows(store.root)
    assert finding.level == "ok"
    forged(store, "val_loss", 0.001)
    (key,) = before["key"][load(store)["val_loss"] == 0.001]
    (finding,) = doctor._rows(store.root)
    assert finding.level == "problem" and key in str(finding.finding)
    kept(store).unlink()
    assert load(store).equals(before)


def test_a_damaged_cache_is_none(store):
    """Whatever its bytes; with the right checksum, what has no sense is no row."""
    before = load(store)
    head, _, body = kept(store).read_bytes().partition(b"\n")

    @given(new=mutations.json_text(body) | mutations.any_bytes(body), forge=st.booleans())
    @settings(max_examples=60, derandomize=True, database=None)
    def check(new, forge):
        told = json.dumps(json.loads(head) | {"crc": zlib.crc32(new)}).encode() if forge else head
        kept(store).write_bytes(told + b"\n" + new)
        rows = row_cache.read(store)
        assert forge or rows == {} or new == body
        assert forge or load(store).equals(before)

    check()


def test_it_may_be_deleted(store, made):
    first = load(store)
    shutil.rmtree(store.root / "cache")
    assert load(store).equals(first) and len(made) == 120


def test_a_record_of_the_same_size_and_time_is_read_again(store, made):
    frame = load(store)
    key = frame["key"].iloc[0]
    path = store.files(key).record
    then, text = path.stat(), path.read_text()
    path.write_text(text.replace("Testium 1", "Testium 2"))
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert path.stat().st_size == then.st_size and path.stat().st_mtime_ns == then.st_mtime_ns
    load(store)
    assert made[60:] == [key]


def test_an_amended_record_is_seen(store):
    key = load(store)["key"].iloc[0]
    change_record(
        store,
        key,
        lambda record: dataclasses.replace(record, remarks=[{"kind": "text", "text": "looked at again"}]),
    )
    assert load(store)["reason"].iloc[0] == "looked at again"


def test_a_changed_record_makes_the_run_damaged(store):
    frame = load(store)
    path = store.files(frame["key"].iloc[3]).record
    path.write_text(path.read_text().replace('"val_loss": ', '"val_loss": 7'))
    again = load(store)
    assert again["state"].tolist() == [*frame["state"][:3], "damaged", *frame["state"][4:]]
    assert again["reason"].iloc[3] == "record.json was changed after the run"


def test_a_lost_record_is_no_longer_there(store):
    frame = load(store)
    store.files(frame["key"].iloc[0]).record.unlink()
    assert load(store)["state"].iloc[0] == "damaged"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("completed", "diverged"),
        lambda text: text.partition("\n")[2],
        lambda text: text.replace('"code": "', '"code": "0'),
        lambda text: json.dumps([1]) + "\n",
    ],
)
def test_a_file_that_is_damaged_or_of_other_code_is_ignored(store, made, spoil):
    frame = load(store)
    kept(store).write_text(spoil(kept(store).read_text()))
    assert load(store).equals(frame) and len(made) == 120


def test_a_store_that_can_not_be_written_to(store):
    (store.root / "cache").write_text("a file where the folder should be")
    assert len(load(store)) == 60


def test_rows_of_young_files_are_not_kept(store, monkeypatch):
    monkeypatch.setattr(row_cache, "_SETTLED", 3600)
    load(store)
    assert not kept(store).exists()


def test_rows_of_other_sweeps_stay(store, made):
    names = sorted(load(store)["sweep"].unique())
    path = store.files(made[0]).record
    path.write_text(path.read_text() + " ")
    load(store, names[:1])
    load(store)
    assert len(made) == 61


def test_what_another_study_pruned_is_unfinished(bench, monkeypatch):
    for name, value in (("_SETTLED", -60), ("_FEW", 1)):
        monkeypatch.setattr(row_cache, name, value)
    bench.add("digits", "muon", 0.02, state="pruned", metrics={"val_loss": 3.0}, reason="by asha")
    store = bench.write()
    assert load(store)["state"].tolist() == ["pruned"] and kept(store).exists()
    points = store.root / "sweeps" / "demo-digits" / "points.jsonl"
    point = json.loads(points.read_text())
    del point["plan"]  # the digest, without which it counts as written by older code
    points.write_text(json.dumps(point | {"slot": "another/0"}) + "\n")
    assert load(store)["state"].tolist() == ["waiting"]
