"""The time of a run's attempts."""

import dataclasses
import os

import pytest

from htbench.harness.cost.from_runs import stints
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store
from htbench.harness.system.atomic import write_json
from tests.helpers.records import scored

KEY = "0123456789ab"


def attempts(store, *ended):
    """Attempts of 100 seconds each, one after the other; a dead one has a heartbeat instead of an end."""
    for number, has_ended in enumerate(ended, 1):
        began = 1000.0 * number
        path = store.files(KEY).attempt(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"owner": {}, "began": began, "ended": began + 100 if has_ended else None})
        os.utime(path, (began + 100, began + 100))


@pytest.mark.parametrize("ended", [(True, True), (False, True), (False, False)])
def test_an_attempt_lasts_to_its_end_or_its_last_sign_of_life(tmp_path, ended):
    store = Store(tmp_path)
    attempts(store, *ended)
    assert [round(one.seconds) for one in stints(store, KEY, RunState(Status.WAITING, 2))] == [100, 100]


def test_a_touched_file_of_a_dead_attempt_ends_where_the_next_begins(tmp_path):
    store = Store(tmp_path)
    attempts(store, False, True)
    os.utime(store.files(KEY).attempt(1))  # copied, or `sweep retry`
    assert [round(one.seconds) for one in stints(store, KEY, RunState(Status.WAITING, 2))] == [1000, 100]


def test_the_record_of_a_run_of_one_attempt_is_enough(tmp_path):
    times = {"began": "2026-01-31T12:00:00+00:00", "ended": "2026-01-31T13:00:00+00:00", "attempts": 1}
    record = dataclasses.replace(scored("digits", "completed", val_accuracy=1.0), **times)
    (one,) = stints(Store(tmp_path), KEY, RunState(record.status, record=record))
    assert (one.seconds, one.job) == (3600, None)


def test_an_attempt_whose_file_is_damaged_is_left_out(tmp_path):
    store = Store(tmp_path)
    attempts(store, True, True)
    store.files(KEY).attempt(1).write_text("{torn")
    assert len(stints(store, KEY, RunState(Status.WAITING, 2))) == 1
