"""What the attempts at a run tell of its time, and what its record tells without them."""

import json
from datetime import datetime

import pytest

from harness.config.settings import resolve_config
from harness.cost.from_runs import from_pace, pace, wall_seconds
from harness.store import Store, curve
from tests.helpers.interrupting import finish, interrupt

NEW_FIELDS = ("ended", "start_step")
STOPPED = 4  # asked after step 3, a run stops at the next boundary


def age(files, number=1):
    """Write an attempt as version 0.1 did."""
    content = files.read_attempt(number)
    files.attempt(number).write_text(json.dumps({n: v for n, v in content.items() if n not in NEW_FIELDS}))


def logged(line):
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f")


@pytest.fixture
def config(tiny):
    return resolve_config(tiny | {"log_every": 1})


def test_an_attempt_tells_what_the_log_tells(tmp_path, config):
    record, _ = finish(config, tmp_path)
    files = Store(tmp_path).files(record.key)
    lines = files.log.read_text().splitlines()
    by_the_log = (logged(lines[-1]) - logged(lines[0])).total_seconds()
    assert wall_seconds(files, record) == pytest.approx(by_the_log, abs=0.2)
    assert files.read_attempt(1)["start_step"] == 0


def test_older_code_leaves_the_record_alone(tmp_path, config):
    record, _ = finish(config, tmp_path)
    files = Store(tmp_path).files(record.key)
    exact = wall_seconds(files, record)
    age(files)
    assert wall_seconds(files, record) == pytest.approx(exact, abs=1.1), "whole seconds"
    object.__setattr__(record, "began", "")
    assert wall_seconds(files, record) is None


def test_a_resumed_run_tells_where_each_attempt_started(tmp_path, config):
    interrupt(config, tmp_path, 3)
    record, _ = finish(config, tmp_path)
    files = Store(tmp_path).files(record.key)
    first, second = files.read_attempt(1), files.read_attempt(2)
    assert (first["start_step"], second["start_step"]) == (0, STOPPED)
    assert first["began"] < first["ended"] <= second["began"] < second["ended"]
    assert wall_seconds(files, record) is None, "a part of its time was between the attempts"


def test_the_pace_of_a_run_at_work(tmp_path, config):
    interrupt(config, tmp_path, 3)
    record, _ = finish(config, tmp_path)
    files = Store(tmp_path).files(record.key)
    last = files.read_attempt(2)
    steps = curve.last_step(files.metrics) - STOPPED
    expected = (files.metrics.stat().st_mtime - last["began"]) / steps
    assert pace(files) == expected == from_pace([files]).step
    age(files, 2)
    assert pace(files) is None and from_pace([files]) is None, "nobody knows where it started"
    files.attempt(2).unlink()
    age(files, 1)
    assert pace(files) > 0, "the first attempt of older code started at step 0"
    files.attempt(1).write_text("{")
    assert pace(files) is None
