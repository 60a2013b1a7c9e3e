"""What older or newer code has written stays when ours writes the same file again."""

import dataclasses
import json
import threading

import pytest

from htbench.harness.store import Reason, Store
from htbench.harness.store.owner import Owner
from htbench.harness.system import atomic, seal
from tests.helpers.records import record

KEY = "a" * 12
NEWER = {"verdict": {"by": "newer code", "values": [1, None]}, "rest": 1}
OLDER = {"downstream": {"piqa": {"acc": 0.5, "questions": 7}}}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    store.run_folder(KEY).mkdir(parents=True)
    return store


@pytest.mark.parametrize("others", [NEWER, OLDER], ids=["newer", "older"])
def test_a_record_keeps_what_other_code_has_written(store, others):
    """Also in the parts that are mappings, and in the index."""
    store.write_record(dataclasses.replace(record(KEY, 1), status="pruned", pruned_by=["one"]))
    path = store.files(KEY).record
    told = json.loads(path.read_text()) | others
    told["environment"]["newer"] = told["config"]["newer"] = others
    path.write_text(json.dumps(seal.sealed(seal.opened(told))))
    now = store.record(KEY)
    assert not now.digest and now.to_json().items() >= others.items()
    assert store.records([KEY]) == {KEY: now} == dict(store.each_record([KEY])), "from the folder, the index"
    store.write_record(dataclasses.replace(now, status="completed", pruned_by=[]))
    again = json.loads(path.read_text())
    assert again["pruned_by"] == ["one"] and again.items() >= others.items()
    assert again["environment"] == told["environment"] and again["config"] == told["config"]


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


def test_a_reader_that_is_late_does_not_note_the_old_record(store):
    store.write_record(record(KEY, 1))
    # The reader finds nothing in the index, reads the folder, and waits for the lock.
    late = threading.Thread(target=lambda: Store(store.root).records([KEY]))
    with store.index.locked():
        late.start()
        late.join(0.3)
        assert late.is_alive()
        atomic.write_json(store.files(KEY).record, record(KEY, 2).to_json())
    late.join()
    assert store.index.rows()[KEY][1] == store.record(KEY) == record(KEY, 2)
