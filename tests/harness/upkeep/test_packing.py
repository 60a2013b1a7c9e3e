"""Packed runs: nothing is lost at any instant, the same command goes on, `unpack` restores every byte."""

import dataclasses
import os
import signal
import threading
import time

import pytest

from harness.store import Attempt, Kind, Store, archive
from harness.store.archive import Archive
from harness.store.archives import Archives
from harness.system import atomic
from harness.system.atomic import PACK_CRASH_POINTS
from harness.upkeep import packing
from harness.upkeep.packing import pack, unpack
from tests.helpers.command import Htbench
from tests.helpers.stored_runs import files, leave, put


def old(root):
    """Give all files different times of an hour ago."""
    then = time.time() - 3600
    for number, path in enumerate(sorted((root / "runs").rglob("*.*"))):
        os.utime(path, (then, then + number / 1000))


@pytest.fixture
def root(tmp_path):
    for lr in (0.1, 0.2, 0.3):
        put(tmp_path, lr=lr)
    put(tmp_path, lr=0.4, weights=True)
    put(tmp_path, "diverged", lr=0.5)
    old(tmp_path)
    return tmp_path


def whole(root):
    """All files of runs, with bytes and times, through the eyes of a reader."""
    store = Store(root)
    names = ["config.yaml", "metrics.jsonl", "spectra.jsonl", "log.txt", "weights.pt", "record.json"]
    names += ["attempts/1.json", "attempts/2.json"]
    paths = [store.files(key).file(name) for key in store.keys() for name in names]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths if path.exists()}


def in_folders(root):
    return {name for name in files(root) if name.startswith("runs/")}


def test_unpacking_brings_back_every_byte_and_time(root):
    before, stored, found = whole(root), files(root), Store(root)
    records = found.records(found.keys())
    done = pack(found)
    assert len(done.runs) == 5 and [path.name for path in done.archives] == ["0001.zip"]
    weights = [name for name in stored if name.endswith("weights.pt")]
    assert in_folders(root) == set(weights) and len(weights) == 1
    assert len(list((root / "runs").glob("*/*"))) == 1, "empty folders are gone"
    assert whole(root) == before and Store(root).records(Store(root).keys()) == records
    assert pack(found).runs == [], "nothing is left to pack"
    assert unpack(Store(root)).runs == done.runs
    assert files(root) == stored and whole(root) == before and not list((root / "packed").iterdir())


def test_a_dry_run_changes_nothing(root):
    before = files(root)
    assert len(pack(Store(root), dry_run=True).runs) == 5 and files(root) == before
    pack(Store(root))
    before = files(root)
    assert len(unpack(Store(root), dry_run=True).runs) == 5 and files(root) == before


def test_what_is_not_over_stays(root):
    waiting, pruned = leave(root, lr=0.6), put(root, "pruned", lr=0.7, pruned_by=["s"])
    old(root)
    store = Store(root)
    at_work = put(root, lr=0.9)
    path = store.files(at_work).attempt(1)
    atomic.write_json(path, store.attempt(at_work, 1) | {"outcome": None})  # it has written its record only
    young = put(root, lr=0.8)
    assert young not in pack(store, older_than=1800).runs
    done = pack(store, older_than=1800)
    assert done.left["younger than 30 min"] == 2 and pack(store).runs == [young]
    assert set(store.keys()) - {key for one in Archives(root / "packed").all() for key in one.runs} == {
        *(waiting, pruned, at_work)
    }
    assert {name.split("/")[2] for name in in_folders(root)} > {waiting, pruned, at_work}
    assert sorted(pack(store).left.values()) == [1, 1]
    assert len(pack(Store(root, alive=lambda *_: False), {at_work}).runs) == 1, "its process has died since"


def test_archives_have_a_thousand_runs_each_and_the_last_one_fills_up(root, monkeypatch):
    monkeypatch.setattr(packing, "PER_ARCHIVE", 3)
    before, store = whole(root), Store(root)

    def sizes():
        return [len(Archive.read(path).runs) for path in sorted((root / "packed").glob("*.zip"))]

    pack(store)
    assert sizes() == [3, 2]
    put(root, lr=0.6)
    put(root, lr=0.7)
    old(root)
    pack(store)
    assert sizes() == [3, 3, 1]
    unpack(store, store.keys()[:2])
    assert sum(sizes()) == 5
    pack(store)
    assert sorted(sizes()) == [1, 3, 3]
    assert {path: content for path, (content, _) in whole(root).items() if path in before} == {
        path: content for path, (content, _) in before.items()
    }


# --- changes after packing ---


def test_a_changed_record_counts_and_goes_back_into_its_archive(root):
    store = Store(root)
    key = pack(store).runs[0]
    time_before = store.files(key).record.stat().st_mtime_ns
    store.amend(key, lambda record: dataclasses.replace(record, note="changed"))
    for reader in (store, Store(root)):
        assert reader.record(key).note == "changed" == reader.records([key])[key].note
    assert store.files(key).record.stat().st_mtime_ns == time_before
    done = pack(store)
    assert done.runs == [key] and done.files == 1 and store.record(key).note == "changed"
    (one,) = Archives(root / "packed").all()
    assert len(one.runs) == 5 and len(one.members(key)) == 6


def test_a_record_that_is_changed_while_it_is_packed_is_not_lost(root, monkeypatch):
    store, true = Store(root), archive.write

    def write(path, runs):
        true(path, runs)
        store.amend(store.keys()[0], lambda record: dataclasses.replace(record, note="changed"))

    monkeypatch.setattr(archive, "write", write)
    pack(store)
    monkeypatch.undo()
    assert Store(root).record(store.keys()[0]).note == "changed"
    pack(store)
    assert Store(root).record(store.keys()[0]).note == "changed" and len(in_folders(root)) == 1


def test_a_packed_run_is_not_trained_again(root):
    store = Store(root)
    pack(store)
    state = store.claim(store.keys()[0], "")
    assert state.kind is Kind.FINISHED and state.attempts == 1
    assert len(list((root / "runs").glob("*/*"))) == 1, "no folder was made for it"


def test_a_run_that_was_packed_in_part_goes_on_counting_its_attempts(root):
    store = Store(root)
    key = pack(store).runs[0]
    store.amend(key, lambda record: dataclasses.replace(record, status="pruned", pruned_by=["a"]))
    claim = store.claim(key, "", study="b")
    assert isinstance(claim, Attempt) and claim.number == 2


# --- deaths and races ---


@pytest.mark.parametrize("moment", PACK_CRASH_POINTS)
def test_a_packer_killed_at_any_instant_loses_nothing(root, moment):
    before, htbench = whole(root), Htbench(root)
    word = moment.partition(".")[0]
    if word == "unpack":
        pack(Store(root))
    words = ["runs", word, *(["--all"] if word == "unpack" else [])]
    assert htbench(*words, crash=moment).returncode == -signal.SIGKILL
    assert whole(root) == before
    again = htbench(*words)
    assert again.returncode == 0, again.stderr
    assert whole(root) == before
    if word == "unpack":
        assert files(root).keys() == {*in_folders(root), "index.jsonl"}
    else:
        assert in_folders(root) == {name for name in in_folders(root) if name.endswith("weights.pt")}
        assert [path.name for path in (root / "packed").iterdir()] == ["0001.zip"]


def test_readers_find_every_run_while_it_is_packed_and_unpacked(root):
    store, wrong, over = Store(root), [], threading.Event()
    keys, records = store.keys(), store.records(store.keys())

    def read():
        while not over.is_set():
            reader = Store(root)
            if reader.keys() != keys or reader.records(keys) != records:
                wrong.append("keys or records")
            if any(reader.state(key).kind is not Kind.FINISHED for key in keys):
                wrong.append("states")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        pack(store)
        unpack(store)
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_packers_pack_each_run_once(root):
    htbench = Htbench(root)
    both = [htbench.start("runs", "pack") for _ in range(2)]
    said = sorted(process.communicate(timeout=120)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert said[0].startswith("packed: 5 runs") and said[1] == "packed: nothing\n"
