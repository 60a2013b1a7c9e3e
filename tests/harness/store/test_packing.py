"""`htbench runs pack` and `unpack`: nothing changes but the number of files, whenever a process dies."""

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.config.key import run_key
from harness.errors import RunFailedError, UsageError
from harness.show.status import Status
from harness.store import Store, layout, packing, salvaging
from harness.store import archives as archives_module
from harness.system import atomic
from tests.helpers.command import Htbench
from tests.helpers.crash_points import PACK_CRASH_POINTS
from tests.helpers.stored_runs import config, leave, put
from tests.helpers.waiting import wait_for


@pytest.fixture(scope="module")
def seven(tmp_path_factory):
    root = tmp_path_factory.mktemp("seven")
    for lr in range(1, 8):
        put(root, lr=lr / 10)
    return root


@pytest.fixture
def store(seven, tmp_path):
    """Seven finished runs."""
    return Store(shutil.copytree(seven, tmp_path, dirs_exist_ok=True))


@pytest.fixture
def three(monkeypatch):
    """Archives of three runs."""
    monkeypatch.setattr(packing, "RUNS", 3)


def pack(store, keys=None):
    with packing.packing(store):
        todo = packing.plan(store, packing.choose(store, keys).keys)
        packing.pack(store, todo, lambda name: None, lambda: None)
    return todo


def unpack(store, keys=None):
    with packing.packing(store):
        keys = set(store.packed.now().runs) if keys is None else keys
        packing.pack(store, packing.plan(store, [], keys), str, lambda: None)


def folders(store):
    """Every file below runs/ with its bytes and its time."""
    return {
        str(path.relative_to(store.root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in Path(store.root, "runs").rglob("*")
        if path.is_file()
    }


def seen(store):
    """All that a reader finds of all runs."""
    return {
        key: (store.record(key), store.last_attempt(key), store.attempt(key, 1), contents(store, key))
        for key in store.keys()
    }


def contents(store, key):
    files = store.files(key)
    return [
        (path.read_bytes(), path.stat().st_mtime_ns)
        for path in (files.config, files.metrics, files.spectra, files.log, files.record)
    ]


def archives(store):
    """The numbers of the archives, and of the runs in each."""
    return {
        int(path.stem.partition("-")[0]): len(one.runs) for path, one in store.packed.now().archives.items()
    }


def archive_file(store, number):
    """The archive of this number."""
    (path,) = Path(store.root, "packed").glob(f"{number:04d}-*.zip")
    return path


def test_the_index_needs_no_folder(store):
    known = store.records(store.keys())
    pack(store)
    index = store.index.path.read_bytes()
    assert Store(store.root).records(store.keys()) == known
    assert store.index.path.read_bytes() == index, "no line was missing or had another size"
    store.index.path.unlink()
    assert Store(store.root).rebuild_index() == 7
    assert Store(store.root).records(store.keys()) == known


def test_only_finished_runs_go(tmp_path):
    key = put(tmp_path, lr=0.1)
    stay = {
        "pruned": put(tmp_path, "pruned", lr=0.2),
        "stopped": leave(tmp_path, lr=0.3),
        "failed": leave(tmp_path, "oom", lr=0.4),
        "at work": leave(tmp_path, "", lr=0.5),
    }
    store = Store(tmp_path)
    with_checkpoint, linked = put(tmp_path, lr=0.6), put(tmp_path, lr=0.7)
    store.files(with_checkpoint).checkpoint.write_text("x")
    (store.run_folder(linked) / "mine").symlink_to(tmp_path)
    before = {k: v for k, v in folders(store).items() if key not in k}
    choice = packing.choose(store)
    assert choice.keys == [key]
    left = {"pruned": 1, "unfinished": 3, "with a checkpoint or temporary files": 1, "with links": 1}
    assert choice.left == left
    pack(store)
    assert folders(store) == before and store.state(stay["at work"]).status is Status.RUNNING


def test_a_run_whose_owner_may_still_write_stays(tmp_path):
    key = leave(tmp_path, "", lr=0.1)
    finished = put(tmp_path, lr=0.2)
    store = Store(tmp_path)
    record = dataclasses.replace(store.record(finished), key=key)
    atomic.write_json(store.files(key).record, record.to_json())  # this process owns it, and lives
    store.files(key).checkpoint.unlink()
    choice = packing.choose(store)
    assert choice.keys == [finished] and choice.left == {"running": 1}


def test_a_run_that_ended_lately_can_stay(store):
    old = store.keys()[2]
    then = store.files(old).record.stat().st_mtime - 1000
    os.utime(store.files(old).record, (then, then))
    choice = packing.choose(store, older_than=900)
    assert choice.keys == [old] and choice.left == {"too young": 6}
    assert packing.choose(store, keys=store.keys()[:2]).keys == store.keys()[:2]


def test_the_weights_stay_in_their_folder(tmp_path):
    key = put(tmp_path, weights=True)
    store, known = Store(tmp_path), seen(Store(tmp_path))
    pack(store)
    assert [Path(name).name for name in folders(store)] == ["weights.pt"]
    assert seen(store) == known and store.files(key).weights.read_text() == "weights"
    assert packing.choose(store) == packing.Choice(), "there is nothing more to do"
    unpack(store)
    assert len(folders(store)) == 8 and seen(store) == known


def test_short_archives_are_merged_even_without_new_runs(store, three):
    for key in store.keys()[:3]:
        with packing.packing(store):  # as if other versions had left them
            packing.write(store, [[key]], str, lambda: None)
    assert len(archives(store)) == 3
    pack(store, keys=[])
    assert list(archives(store).values()) == [3]


def test_an_archive_whose_runs_are_all_in_later_ones_goes(store, three):
    """Its removal did not happen: the command was killed just before."""
    pack(store, keys=store.keys()[:3])
    first = archive_file(store, 1)
    data = first.read_bytes()
    store.amend(
        store.keys()[0],
        lambda record: dataclasses.replace(record, remarks=[{"kind": "text", "text": "amended"}]),
    )
    pack(store, keys=store.keys()[:3])
    first.write_bytes(data)
    known = seen(store)
    assert archives(store) == {1: 3, 2: 3}
    pack(store, keys=[])
    assert archives(store) == {2: 3} and seen(store) == known


def test_an_amended_run_shows_its_new_record_and_is_packed_again(store, three):
    pack(store)
    key = store.keys()[0]
    when = store.files(key).record.stat().st_mtime_ns
    amended = store.amend(
        key, lambda record: dataclasses.replace(record, remarks=[{"kind": "text", "text": "amended"}])
    )
    for one in (store, Store(store.root)):
        assert one.record(key) == amended and one.records([key]) == {key: amended}
    assert Path(store.files(key).record).exists() and store.files(key).record.stat().st_mtime_ns == when
    known, index = seen(store), store.index.path.read_bytes()
    Store(store.root).records(store.keys())
    assert store.index.path.read_bytes() == index, "its size was that of the new record"
    pack(store)
    assert not folders(store) and seen(store) == known == seen(Store(store.root))
    assert sorted(archives(store).values()) == [1, 3, 3]
    unpack(store, {key})
    assert store.record(key) == amended


def test_an_amendment_of_the_same_size_and_time_is_not_lost(store):
    pack(store)
    key = store.keys()[0]
    for word in ("abc", "xyz"):
        store.amend(
            key,
            lambda record, word=word: dataclasses.replace(record, remarks=[{"kind": "text", "text": word}]),
        )
        pack(store)
        assert store.record(key).note == word and not folders(store)


def test_a_record_that_is_amended_while_it_is_packed_is_not_lost(store, monkeypatch):
    key, original = store.keys()[0], packing.archive.read

    def amend_meanwhile(path):
        store.amend(
            key, lambda record: dataclasses.replace(record, remarks=[{"kind": "text", "text": "amended"}])
        )
        return original(path)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(packing.archive, "read", amend_meanwhile)
        pack(store)
    assert store.record(key).note == "amended" and [Path(name).name for name in folders(store)] == [
        "record.json"
    ]
    pack(store)
    assert store.record(key).note == "amended" and not folders(store)


def test_a_packed_run_is_not_claimed_and_its_record_stays(store):
    pack(store)
    key = store.keys()[0]
    assert store.claim(key, "x: 1").status.has_ended
    assert store.state(key).status.has_ended and not store.reset_failure(key)
    other = dataclasses.replace(store.record(key), metrics={})
    assert store.write_record(other) == store.record(key) != other
    assert not folders(store) and not list(Path(store.root, "runs").glob("*/*"))


def test_a_claimer_that_saw_the_run_wait_finds_it_finished(tmp_path, monkeypatch):
    """Its view is old: the run has ended and was packed after it had looked."""
    key = put(tmp_path)
    store = Store(tmp_path)
    pack(store)
    record, state = store.record(key), Store.state
    views = [dataclasses.replace(state(store, key), status=Status.WAITING, record=None)]
    monkeypatch.setattr(Store, "state", lambda *args: views.pop() if views else state(*args))
    claim = store.claim(key, "x: 1")
    assert claim.status.has_ended and claim.record == record and not views
    assert store.state(key).status.has_ended
    pack(store)
    assert store.record(key) == record and not folders(store)


# --- damage ---


def cut(store, number, size):
    path = archive_file(store, number)
    path.write_bytes(path.read_bytes()[:size])
    return path


def test_a_damaged_archive_stops_readers_and_what_is_sound_comes_back(store, three):
    before, known = folders(store), seen(store)
    pack(store)
    path, (first, *_, last) = cut(store, 2, -600), sorted(known)
    assert store.record(first) and store.record(last), "they are in others"
    for ask in (store.keys, lambda: store.records(known), lambda: store.state(sorted(known)[3])):
        with pytest.raises(UsageError, match=r"0002-\w+.zip' is damaged"):
            ask()
    with packing.packing(store), pytest.raises(UsageError, match=r"0002-\w+.zip' is damaged"):
        packing.plan(store, [])
    with packing.packing(store):
        (saved,) = salvaging.salvage(store)
    assert (saved.runs, saved.lost) == (3, 0) and saved.path.exists() and not path.exists()
    assert seen(store) == known
    unpack(store)
    assert folders(store) == before


def test_a_run_at_work_goes_on_whatever_happens_to_archives(store):
    live, new = (run_key(config(lr=lr)) for lr in (0.8, 0.9))
    attempt = store.claim(live, "x: 1")
    pack(store)
    record = dataclasses.replace(store.record(min(store.packed.now().runs)), key=live)
    cut(store, 1, 100)
    attempt.check()
    attempt.note_start(0, 0)
    assert store.state(live).status is Status.RUNNING
    assert attempt.finish(record) == record == store.record(live)
    assert store.state(live).status.has_ended
    with pytest.raises(UsageError, match=r"0001-\w+.zip' is damaged"):
        store.claim(new, "x: 1")
    assert not store.run_folder(new).exists()


def test_of_a_run_that_lost_files_the_index_has_the_record(store):
    known = store.records(store.keys())
    pack(store)
    (one,) = store.packed.now().archives.values()
    key = store.keys()[3]
    member, data = one.member(key, "record.json"), one.path.read_bytes()
    one.path.write_bytes(data[: member.offset] + bytes(member.stored) + data[member.offset + member.stored :])
    with pytest.raises(UsageError, match=f"record.json of run {key} can't be read"):
        store.record(key)
    with packing.packing(store):
        (saved,) = salvaging.salvage(store)
    assert (saved.runs, saved.lost) == (7, 0)
    assert store.records(store.keys()) == known and store.record(key) == known[key]


def test_runs_that_are_elsewhere_are_not_brought_back_from_a_damaged_archive(store):
    key = store.keys()[0]
    old = store.record(key)
    pack(store)
    path = archive_file(store, 1)
    damaged = path.read_bytes()[:-10]
    amended = store.amend(
        key, lambda record: dataclasses.replace(record, remarks=[{"kind": "text", "text": "amended"}])
    )
    pack(store)
    path.write_bytes(damaged)
    with packing.packing(store):
        salvaging.salvage(store)
    assert store.record(key) == amended != old and not folders(store)


def test_an_archive_that_can_not_be_read_back_goes_again(store, monkeypatch):
    before = folders(store)
    monkeypatch.setattr(packing.archive, "_sound", lambda stored, size, crc: None)
    with pytest.raises(RunFailedError, match="could not be read back"):
        pack(store)
    monkeypatch.undo()
    assert folders(store) == before and not store.packed.now().runs


# --- deaths, and others at the same time ---


def command(store, *words, crash=""):
    return Htbench(store.root).start("runs", *words, crash=crash)


@pytest.mark.parametrize("instant", PACK_CRASH_POINTS)
def test_killed_at_any_instant_the_same_command_finishes(store, instant):
    known, before = seen(store), folders(store)
    pack(store, keys=store.keys()[:3])  # an archive that is to be replaced
    store.amend(store.keys()[0], lambda record: record)
    words = ("unpack", "--all") if instant == "unpack" else ("pack",)
    assert command(store, *words, crash=instant).wait() == -signal.SIGKILL
    assert seen(store) == seen(Store(store.root)) == known
    assert command(store, *words).wait() == 0
    assert seen(store) == known
    if words == ("pack",):
        assert not folders(store) and list(archives(store).values()) == [7]
        assert not list(atomic.temporaries(store.root / "packed"))
        unpack(store)
    assert folders(store) == before and not store.packed.now().archives


def test_killed_while_it_replaces_an_archive_unpack_finishes(store):
    known, before = seen(store), folders(store)
    pack(store)
    key = store.keys()[0]
    for instant in ("pack.before", "pack.after", "pack.merged"):
        assert command(store, "unpack", key, crash=instant).wait() == -signal.SIGKILL
        assert seen(store) == known
    unpack(store)
    assert seen(store) == known and folders(store) == before


def test_two_packers_share_the_work(store):
    known = seen(store)
    both = [command(store, "pack") for _ in range(2)]
    said = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(line.splitlines()[-1] for line in said) == [
        "packed 0 runs",
        "packed 7 runs into 1 archive",
    ]
    assert seen(store) == known and list(archives(store).values()) == [7]


READER = """
import sys
from pathlib import Path
from harness.store import Store
root, stop = map(Path, sys.argv[1:])
store = Store(root)
def look():
    found = []
    for key in store.keys():
        files = store.files(key)
        whole = files.metrics.read_bytes(), files.log.stat().st_size
        found.append((key, store.record(key), files.last_attempt(), whole))
    return found, dict(store.records([row[0] for row in found]))
first = look()
print("began", flush=True)
while not stop.exists():
    assert look() == first
print("ended", flush=True)
"""


def test_a_reader_finds_every_run_at_every_instant(store, three, tmp_path):
    stop = tmp_path / "stop"
    words = [sys.executable, "-c", READER, str(store.root), str(stop)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "began\n"
        try:
            chance = random.Random(0)
            for _ in range(12):
                pack(store, keys=chance.sample(store.keys(), 5))
                unpack(store, set(chance.sample(sorted(store.packed.now().runs), 2)))
        finally:
            stop.touch()
        out, err = reader.communicate()
        assert (out, reader.returncode) == ("ended\n", 0), err


def test_an_archive_that_is_replaced_while_the_names_are_read_is_found(store, monkeypatch):
    known = seen(store)
    pack(store, keys=store.keys()[:3])
    numbered, meanwhile = archives_module.numbered, [lambda: pack(store)]

    def then_replaced(folder):
        names = numbered(folder)
        if meanwhile:
            meanwhile.pop()()
        return names

    reader = Store(store.root)
    reader.packed = archives_module.Archives(store.packed.folder)  # of another process
    monkeypatch.setattr(archives_module, "numbered", then_replaced)
    assert set(reader.packed.now().runs) == set(known) and not meanwhile


def test_runs_that_go_and_come_back_while_they_are_listed_are_listed(store, monkeypatch):
    known, listed, moves = store.keys(), layout.run_keys, [pack, unpack]

    def meanwhile(root):
        if len(moves) == 2:
            moves.pop(0)(store)
            found = listed(root)
            moves.pop(0)(store)
            return found
        return listed(root)

    with monkeypatch.context() as patched:
        patched.setattr(layout, "run_keys", meanwhile)
        assert store.keys() == known and not moves


def test_a_record_that_comes_back_just_after_a_look_into_the_folder_is_found(store, monkeypatch):
    key, look = store.keys()[0], archives_module.Archives.look
    record = store.record(key)
    pack(store)
    assert store.record(key) == record
    moves = [lambda: unpack(store)]

    def come_back(self):
        if moves:
            moves.pop()()
        return look(self)

    monkeypatch.setattr(archives_module.Archives, "look", come_back)
    assert store.record(key) == record and not moves and not store.packed.known.runs


def test_the_second_packer_says_that_it_waits(store):
    with packing.packing(store):
        second = command(store, "pack")
        wait_for(lambda: b"waiting for it" in os.pread(second.stderr.fileno(), 1000, 0))
    assert second.communicate()[0].endswith("packed 7 runs into 1 archive\n")
