"""The time of a run's attempts, and what of it was in vain."""

import dataclasses
import os

import pytest

from htbench.harness.cost.from_runs import stints
from htbench.harness.show.status import Status
from htbench.harness.store import RunState, Store
from htbench.harness.system.atomic import write_json
from tests.helpers.records import scored

KEY = "0123456789ab"


def attempts(store, *rows):
    """Attempts of 100 seconds each, one after the other; a dead one has a heartbeat instead of an end."""
    for number, (start, repeats, reason) in enumerate(rows, 1):
        began = 1000.0 * number
        path = store.files(KEY).attempt(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        ended = None if reason is None else began + 100
        write_json(
            path,
            {
                **{"owner": {}, "began": began, "ended": ended, "start_step": start, "repeats": repeats},
                "outcome": reason and {"reason": reason},
            },
        )
        os.utime(path, (began + 100, began + 100))


@pytest.mark.parametrize(
    ("rows", "kind", "lost"),
    [
        ([(0, 0, "stopped"), (50, 0, "finished")], Status.COMPLETED, [0, 0]),  # preempted, saved
        ([(0, 0, None), (60, 20, "finished")], Status.COMPLETED, [25, 0]),  # killed at 80, checkpoint at 60
        ([(0, 0, None), (40, 10, None), (40, 0, "finished")], Status.COMPLETED, [20, 100, 0]),  # made no step
        (
            [(0, 0, "stopped"), (50, 0, None), (0, 75, "finished")],
            Status.COMPLETED,
            [100, 100, 0],
        ),  # all anew
        ([(0, 0, "error"), (30, 30, "finished")], Status.COMPLETED, [50, 0]),  # tried again
        ([(None, 0, None), (0, 0, "finished")], Status.COMPLETED, [100, 0]),  # never trained
        ([(0, 0, "stopped"), (50, 0, "oom")], Status.FAILED, [0, 100]),
        ([(0, 0, None), (0, 0, None)], Status.FAILED, [100, 100]),  # given up as killed
        ([(0, 0, None)], Status.WAITING, [0]),  # who knows what is kept
        ([(0, 0, None)], Status.RUNNING, [0]),
    ],
)
def test_what_later_attempts_make_again_was_lost(tmp_path, rows, kind, lost):
    store = Store(tmp_path)
    attempts(store, *rows)
    found = stints(store, KEY, RunState(kind, len(rows)))
    assert [round(one.seconds) for one in found] == [100] * len(rows)
    assert [round(one.lost) for one in found] == lost
    reasons = ("oom", "error")
    given_up = [kind is Status.FAILED and n == len(rows) for n in range(1, len(rows) + 1)]
    assert [one.failed for one in found] == [
        row[2] in reasons or last for row, last in zip(rows, given_up, strict=True)
    ]


def test_a_touched_file_of_a_dead_attempt_ends_where_the_next_begins(tmp_path):
    store = Store(tmp_path)
    attempts(store, (0, 0, None), (0, 5, "finished"))
    os.utime(store.files(KEY).attempt(1))  # copied, or `sweep retry`
    assert [round(one.seconds) for one in stints(store, KEY, RunState(Status.WAITING, 2))] == [1000, 100]


def test_the_record_of_a_run_of_one_attempt_is_enough(tmp_path):
    times = {"began": "2026-01-31T12:00:00+00:00", "ended": "2026-01-31T13:00:00+00:00", "attempts": 1}
    record = dataclasses.replace(scored("digits", "completed", val_accuracy=1.0), **times)
    (one,) = stints(Store(tmp_path), KEY, RunState(record.status, record=record))
    assert (one.seconds, one.lost, one.job) == (3600, 0, None)


def test_an_attempt_whose_file_is_damaged_is_left_out(tmp_path):
    store = Store(tmp_path)
    attempts(store, (0, 0, "stopped"), (10, 0, "stopped"))
    store.files(KEY).attempt(1).write_text("{torn")
    assert len(stints(store, KEY, RunState(Status.WAITING, 2))) == 1
