"""The store's finer points; its laws are in test_store_machine.py."""

import dataclasses
import json
import multiprocessing
import os
import pwd
import shutil
import socket
import stat
import time

import psutil
import pytest

from htbench.harness.errors import UsageError
from htbench.harness.show.status import Status
from htbench.harness.store import Attempt, Reason, Store
from htbench.harness.store import owner as liveness
from htbench.harness.store.owner import Owner, is_alive
from htbench.harness.system import atomic
from htbench.harness.system.folders import make_folder
from tests.helpers.records import record
from tests.helpers.waiting import wait_for

KEY = "a" * 12


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_this_process_lives_and_a_reused_pid_does_not(tmp_path):
    me = Owner.current()
    assert is_alive(me, tmp_path)
    assert not is_alive(Owner.from_json(me.to_json() | {"started": me.started - 100}), tmp_path)
    unused = max(psutil.pids()) + 100_000
    assert not is_alive(Owner.from_json(me.to_json() | {"pid": unused}), tmp_path)


def test_a_clock_that_is_set_kills_nobody(tmp_path, monkeypatch):
    me, booted = Owner.current(), psutil.boot_time()
    created = psutil.Process().create_time()
    monkeypatch.setattr(psutil, "boot_time", lambda: booted + 100)
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: created + 100)  # as psutil computes it
    assert is_alive(me, tmp_path)


def test_the_user_is_who_the_process_runs_as(monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody-else")  # as after a plain `su`
    monkeypatch.setenv("USER", "somebody-else")
    assert Owner.current().user == pwd.getpwuid(os.getuid()).pw_name


def test_a_group_that_shares_a_store_reads_and_writes_what_we_create(tmp_path):
    tmp_path.chmod(0o2770)
    before = os.umask(0o077)
    try:
        make_folder(Store(tmp_path).root / "runs")
        assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) & 0o777 == 0o770
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "owner",
    [
        {"host": "elsewhere"},
        {"machine": "another container of the same name"},
        {"machine": ""},  # written by older code
        None,  # garbage
    ],
)
def test_an_owner_that_cannot_be_asked_lives_as_long_as_its_heartbeat(tmp_path, owner):
    gone = {"pid": max(psutil.pids()) + 100_000}
    who = Owner.from_json(Owner.current().to_json() | gone | owner) if owner is not None else None
    path = tmp_path / "1.json"
    path.write_text("{")
    assert is_alive(who, path)
    old = time.time() - liveness.STALE_SECONDS - 1
    os.utime(path, (old, old))
    assert not is_alive(who, path)
    assert os.listdir(tmp_path) == ["1.json"]


def test_a_process_that_proc_hides_lives_as_long_as_its_heartbeat(tmp_path, monkeypatch):
    """As another user's does on clusters that mount /proc with hidepid."""

    def hide(pid):
        raise psutil.NoSuchProcess(pid)

    def refuse(pid, number):
        raise PermissionError

    me, path = Owner.current(), tmp_path / "1.json"
    monkeypatch.setattr(liveness, "_started", hide)
    monkeypatch.setattr(os, "kill", refuse)
    path.touch()
    assert is_alive(me, path)
    os.utime(path, (1, 1))
    assert not is_alive(me, path)


def test_a_garbage_attempt_is_taken_over_when_its_heartbeat_is_old(store):
    first = store.claim(KEY, "")
    first.path.write_bytes(b"\x00garbage")
    assert store.claim(KEY, "").status is Status.RUNNING
    old = time.time() - liveness.STALE_SECONDS - 1
    os.utime(first.path, (old, old))
    second = store.claim(KEY, "")
    assert isinstance(second, Attempt) and second.number == 2


def test_a_heartbeat_from_the_future_is_no_proof_of_life(store):
    """As after a clock that was wrong, or `touch -d '+40 days'`; small leads are beats meanwhile."""
    first = store.claim(KEY, "")
    first.path.write_text(
        json.dumps(first.to_json() | {"owner": first.owner.to_json() | {"host": "elsewhere"}})
    )
    soon, far = time.time() + 5, time.time() + 40 * 86400
    os.utime(first.path, (soon, soon))
    assert store.claim(KEY, "").status is Status.RUNNING
    os.utime(first.path, (far, far))
    second = store.claim(KEY, "")
    assert isinstance(second, Attempt) and second.number == 2


def test_the_heartbeat_beats(store, monkeypatch):
    monkeypatch.setattr("htbench.harness.store.attempt.HEARTBEAT_SECONDS", 0.01)
    attempt = store.claim(KEY, "")
    os.utime(attempt.path, (0, 0))
    with attempt:
        wait_for(lambda: attempt.path.stat().st_mtime > 0, seconds=30)


def test_two_deaths_in_vain_are_a_failure_and_one_after_a_checkpoint_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    dead = Store(tmp_path, alive=lambda owner, path: False)
    dead.claim(KEY, "")
    second = dead.claim(KEY, "")
    assert dead.claim(KEY, "").reason == "killed"
    assert dead.reset_failure(KEY) and not dead.reset_failure(KEY)
    writing_is_living = Store(tmp_path, alive=lambda owner, path: True)
    assert writing_is_living.state(KEY).status is Status.WAITING
    third = dead.claim(KEY, "")
    third.files.checkpoint.write_text("")
    fourth = dead.claim(KEY, "")
    assert [second.number, third.number, fourth.number] == [2, 3, 4]
    assert isinstance(dead.claim(KEY, ""), Attempt), "the third got somewhere"


def test_outside_of_slurm_only_deaths_that_a_launcher_saw_count(tmp_path):
    dead = Store(tmp_path, alive=lambda owner, path: False)
    for seen in (False, False, True, False, True):
        attempt = dead.claim(KEY, "")
        if seen:
            dead.note_death(KEY, attempt.number)
        assert dead.state(KEY).status is Status.WAITING
    dead.note_death(KEY, dead.claim(KEY, "").number)
    assert dead.state(KEY).reason == "killed" and dead.reset_failure(KEY)


def test_an_attempt_ends_with_its_owner_and_as_the_first_process_says(store):
    attempt = store.claim(KEY, "")
    attempt.note_start(3, 7)
    writing = atomic.temporary_name(attempt.files.checkpoint)
    writing.touch()
    dataclasses.replace(attempt, is_owner=False).end(Reason.OOM, "no memory")
    assert store.state(KEY).status is Status.RUNNING and not store.clear_leftovers(KEY) and writing.exists()
    attempt.end(Reason.ERROR, "the other one is gone")
    store.note_death(KEY, attempt.number)
    assert store.repeated_steps(KEY) == 7 and store.state(KEY).message == "no memory"
    assert store.clear_leftovers(KEY) and not writing.exists()


def test_an_owner_that_finishes_while_it_is_judged_has_finished(tmp_path):
    """Its process ends between our look for a record and our look for the process."""
    store = Store(tmp_path, alive=lambda owner, path: bool(first.finish(record(KEY, 1))) and False)
    first = store.claim(KEY, "")
    state = store.claim(KEY, "")
    assert state.status.has_ended and state.record == record(KEY, 1)
    assert store.claim(KEY, "").status.has_ended


def test_a_folder_that_is_cleared_away_during_the_claim_is_made_again(store, monkeypatch):
    proper = atomic.create_json

    def create_json(path, value):
        monkeypatch.setattr(atomic, "create_json", proper)
        shutil.rmtree(path.parent.parent)
        return atomic.create_json(path, value)

    monkeypatch.setattr(atomic, "create_json", create_json)
    assert store.claim(KEY, "").number == 1


def test_whoever_lists_a_pruned_run_leaves_alone_who_goes_on_with_it(store):
    store.claim(KEY, "").finish(dataclasses.replace(record(KEY, 1), status="pruned", pruned_by=["one"]))
    second = store.claim(KEY, "", study="two")
    half = atomic.temporary_name(second.files.checkpoint)
    half.write_text("being written")
    store.index.path.unlink()
    assert store.records([KEY]).keys() == {KEY} and half.exists()


def test_the_claim_writes_the_config_and_sweeps_up(store):
    folder = store.run_folder(KEY) / "attempts"
    folder.mkdir(parents=True)
    (folder / ".1.json.99-dead.tmp").write_text("{")
    (folder.parent / ".checkpoint.pt.99-dead.tmp").write_text("half")
    store.claim(KEY, "steps: 3\n")
    assert sorted(p.name for p in folder.parent.rglob("*")) == ["1.json", "attempts", "config.yaml"]
    assert (folder.parent / "config.yaml").read_text() == "steps: 3\n"


def test_the_index_is_a_copy_of_the_folders(store):
    store.claim(KEY, "").finish(record(KEY, 1))
    other = "b" * 12
    store.claim(other, "").finish(record(other, 1))
    whole = store.records([KEY, other, "c" * 12])
    assert whole == {KEY: record(KEY, 1), other: record(other, 1)}
    store.index.path.write_bytes(store.index.path.read_bytes()[:-9] + b"\x00")
    assert store.records([KEY, other]) == whole
    store.index.path.unlink()
    assert store.records([KEY, other]) == whole and store.rebuild_index() == 2
    (store.run_folder(KEY) / "record.json").unlink()
    assert store.records([KEY, other]).keys() == {other}, "the folders are the truth"


def _rebuild_often(root):
    for _ in range(20):
        assert Store(root).rebuild_index() == 1


def test_an_index_that_is_gone_is_written_anew_under_one_lock(store, monkeypatch):
    """A lock, a look around and an append for each of ten thousand runs took minutes."""
    keys = [f"{number:012x}" for number in range(20)]
    for key in keys:
        (store.run_folder(key)).mkdir(parents=True)
        atomic.write_json(store.files(key).record, record(key, 1).to_json())
    locked, proper = [], store.index.locked
    monkeypatch.setattr(store.index, "locked", lambda: locked.append(1) or proper())
    read = dict(store.each_record(keys))
    assert list(read) == keys and len(locked) == 1
    assert store.index.rows().keys() == {*keys} and dict(store.each_record(keys)) == read and len(locked) == 1


def test_a_line_of_the_index_that_was_changed_does_not_count(store):
    key = "0123456789ab"
    store.claim(key, "").finish(record(key, 1))
    text = store.index.path.read_text()
    for other in (text.replace('"steps": 8', '"steps": 9'), text.replace('": ', '" :', 3)):
        assert other != text
        store.index.path.write_text(other)
        assert dict(store.each_record([key])) == {key: record(key, 1)}


def test_the_index_is_written_anew_by_many_at_once(store):
    store.claim(KEY, "").finish(record(KEY, 1))
    context = multiprocessing.get_context("fork")
    crowd = [context.Process(target=_rebuild_often, args=(store.root,)) for _ in range(4)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()
    assert [process.exitcode for process in crowd] == [0] * 4


def test_the_first_record_stays_even_if_a_second_process_gets_past_the_fence(store):
    store.claim(KEY, "").finish(record(KEY, 1))
    assert store.write_record(record(KEY, 2)) == record(KEY, 1) == store.record(KEY)


def test_an_index_that_was_copied_over_ours_changes_nothing(tmp_path):
    ours, theirs = Store(tmp_path / "ours"), Store(tmp_path / "theirs")
    for place, other in ((ours, 1), (theirs, 2)):
        place.claim(KEY, "").finish(record(KEY, other))
    sizes = {place.files(KEY).record.stat().st_size for place in (ours, theirs)}
    assert len(sizes) == 1, "else it is no case"
    shutil.copy(theirs.index.path, ours.index.path)
    assert ours.records([KEY]) == dict(ours.each_record([KEY])) == {KEY: record(KEY, 1)}


def test_a_record_changed_behind_the_index_is_read_from_its_folder(store):
    store.claim(KEY, "").finish(record(KEY, 1))
    atomic.write_json(store.run_folder(KEY) / "record.json", record(KEY, 1234).to_json())
    assert store.records([KEY]) == {KEY: record(KEY, 1234)}


def test_a_damaged_record_is_none_whatever_the_index_has(store):
    store.claim(KEY, "").finish(record(KEY, 1))
    for text in ("{", atomic.json_text(record("b" * 12, 1).to_json())):  # of another run
        store.files(KEY).record.write_text(text)
        assert store.record(KEY) is None and store.records([KEY]) == {}
    assert isinstance(store.claim(KEY, ""), Attempt), "it is trained again"


def test_a_run_that_older_code_imported_from_another_trainer_is_no_record(store):
    """It stands as damaged: its config told no default, and ours must not be read into it."""
    store.claim(KEY, "")
    own = record(KEY, 1)
    path = store.run_folder(KEY) / "record.json"
    atomic.write_json(path, own.to_json())
    assert Store(store.root).record(KEY) == own
    atomic.write_json(path, dataclasses.replace(own, config={**own.config, "imported": "theirs"}).to_json())
    assert Store(store.root).record(KEY) is None


def test_an_owner_says_who_it_is():
    assert socket.gethostname() in str(Owner.current()) and Owner.from_json({"pid": 1}) is None


def test_an_impossible_root_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another place"):
        make_folder(tmp_path / "file" / "store")


def test_a_file_in_place_of_a_run_is_no_run(tmp_path):
    (tmp_path / "runs" / "ab").mkdir(parents=True)
    key = "abc" * 4
    (tmp_path / "runs" / "ab" / key).write_text("not ours")
    assert Store(tmp_path).record(key) is None and Store(tmp_path).records([key]) == {}
    assert Store(tmp_path).state(key).status is Status.WAITING


@pytest.mark.parametrize("key", ["../../../etc", "", "abc", "A" * 12, "a" * 13, f"{'a' * 12}\n"])
def test_what_is_no_key_leads_nowhere(tmp_path, key):
    with pytest.raises(UsageError, match="is not the key of a run"):
        Store(tmp_path).claim(key, "x: 1")
    assert not list(tmp_path.iterdir())


# --- the format ---


@pytest.mark.parametrize("says", [None, "", "[]", "{}", '{"nonce": "0123abcd"}', '{"format": 2}'])
def test_a_store_of_another_format_is_refused_in_one_sentence(tmp_path, says):
    store = Store(tmp_path)
    store.claim(KEY, "").finish(record(KEY, 1))
    assert json.loads((tmp_path / "store.json").read_text()) == {"format": 1}
    assert Store(tmp_path).record(KEY) == store.record(KEY)
    (tmp_path / "store.json").unlink()
    if says is not None:
        (tmp_path / "store.json").write_text(says)
    other = {None: "store.json is missing; ", '{"format": 2}': "by newer code, in format 2, .*name another"}
    other['{"nonce": "0123abcd"}'] = r"before version 0\.1\.0, .*name another one"
    with pytest.raises(UsageError, match=other.get(says, "store.json is damaged; ")):
        Store(tmp_path)


def test_a_store_without_runs_needs_no_format(tmp_path):
    (tmp_path / "sweeps" / "tiny").mkdir(parents=True)
    (tmp_path / "runs" / "aa").mkdir(parents=True)
    Store(tmp_path).claim(KEY, "")
    assert Store(tmp_path).state(KEY).status is Status.RUNNING
