"""A record is amended after the run: by several processes, with the index right at any time."""

import dataclasses
import json
import multiprocessing
import os
import threading

import pytest

from htbench.harness.errors import UsageError
from htbench.harness.store import Reason, Store
from htbench.harness.store.owner import Owner
from htbench.harness.system import atomic, seal
from tests.helpers.records import record

KEY = "a" * 12


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    store.run_folder(KEY).mkdir(parents=True)
    store.write_record(record(KEY, 1))
    return store


def add(store, task, entry):
    return store.amend(KEY, lambda now: dataclasses.replace(now, downstream={**now.downstream, task: entry}))


def known(store):
    """What a fresh reader finds in the index and in the folder."""
    fresh = Store(store.root)
    assert fresh.records([KEY])[KEY] == fresh.record(KEY)
    return fresh.record(KEY).downstream


def test_what_others_have_added_stays_and_the_run_keeps_its_time(store):
    path = store.files(KEY).record
    os.utime(path, (1000, 1000))
    add(store, "piqa", {"acc": 0.5})
    assert add(store, "boolq", {"acc": 0.6}).downstream == {"piqa": {"acc": 0.5}, "boolq": {"acc": 0.6}}
    assert known(store) == {"piqa": {"acc": 0.5}, "boolq": {"acc": 0.6}}
    assert path.stat().st_mtime == 1000


NEWER = {"verdict": {"by": "newer code", "values": [1, None]}, "rest": 1}


def test_what_newer_code_has_written_stays(store):
    """In the record, also in the parts that are mappings, in the index, in an attempt and in its owner."""
    path = store.files(KEY).record
    told = json.loads(path.read_text()) | NEWER
    told["environment"]["newer"] = told["config"]["newer"] = NEWER
    path.write_text(json.dumps(seal.sealed(told)))
    add(store, "piqa", {"acc": 0.5, "newer": NEWER})
    now = json.loads(path.read_text())
    expected = seal.opened(told) | {"downstream": {"piqa": {"acc": 0.5, "newer": NEWER}}}
    assert {name: now[name] for name in expected} == expected
    known(store)
    path.write_bytes(b"")
    assert Store(store.root).record(KEY).to_json() == now, "as the index has it"


def test_an_attempt_keeps_what_newer_code_has_written(store):
    attempt = store.claim("b" * 12, "")
    told = json.loads(attempt.path.read_text()) | NEWER
    told["owner"] |= NEWER
    attempt.path.write_text(json.dumps(told))
    attempt.end(Reason.STOPPED)
    now = json.loads(attempt.path.read_text())
    assert now["outcome"]["reason"] == "stopped"
    assert now["owner"] == told["owner"] and now.items() >= NEWER.items()
    assert Owner.from_json(now["owner"]).to_json() == told["owner"]


def _add_many(root, name):
    for number in range(5):
        add(Store(root), f"{name}{number}", {"acc": number})


def test_processes_add_at_once(store):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add_many, args=(store.root, name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert known(store) == {f"{name}{number}": {"acc": number} for name in "ab" for number in range(5)}


def test_figures_of_the_same_length_are_seen(store):
    add(store, "piqa", {"acc": 0.5})
    reader = Store(store.root)
    assert reader.records([KEY])[KEY].downstream == {"piqa": {"acc": 0.5}}
    add(store, "piqa", {"acc": 0.6})
    assert reader.records([KEY])[KEY].downstream == {"piqa": {"acc": 0.6}}


def test_a_crash_between_record_and_index_hides_nothing(store, monkeypatch):
    add(store, "piqa", {"acc": 0.5})
    append, lines = store.index.append, []

    def die_at_the_second(found, size):
        lines.append(size)
        if len(lines) == 2:
            raise KeyboardInterrupt
        append(found, size)

    monkeypatch.setattr(store.index, "append", die_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        add(store, "piqa", {"acc": 0.6})  # as long as before
    assert known(store) == {"piqa": {"acc": 0.6}}


def test_a_reader_that_is_late_does_not_note_the_old_record(store):
    store.index.path.unlink()  # the reader finds nothing there, reads the folder, and waits for the lock
    late = threading.Thread(target=lambda: Store(store.root).records([KEY]))
    with store.index.locked():
        late.start()
        late.join(0.3)
        assert late.is_alive()
        after = dataclasses.replace(store.record(KEY), downstream={"piqa": {"acc": 0.5}})
        atomic.write_json(store.files(KEY).record, after.to_json())
    late.join()
    assert known(store) == {"piqa": {"acc": 0.5}}


def test_a_run_without_record_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has not ended"):
        Store(tmp_path).amend(KEY, lambda now: now)
