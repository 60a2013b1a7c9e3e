"""What the attempts at a run tell of its time, and what its record tells without them."""

from datetime import datetime

import pytest

from htbench.harness.config.settings import resolve_config
from htbench.harness.cost.from_runs import from_pace, pace, wall_seconds
from htbench.harness.store import Store, curve
from tests.helpers.interrupting import finish, interrupt

STOPPED = 4  # asked after step 3, a run stops at the next boundary


def logged(line):
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f")


@pytest.fixture
def config(tiny):
    return resolve_config(tiny | {"log_every": 1})


def test_an_attempt_tells_what_the_log_tells_and_without_it_the_record_whole_seconds(tmp_path, config):
    record, _ = finish(config, tmp_path)
    files = Store(tmp_path).files(record.key)
    lines = files.log.read_text().splitlines()
    by_the_log = (logged(lines[-1]) - logged(lines[0])).total_seconds()
    exact = wall_seconds(files, record)
    assert exact == pytest.approx(by_the_log, abs=0.2) and files.read_attempt(1)["start_step"] == 0
    files.attempt(1).unlink()
    assert wall_seconds(files, record) == pytest.approx(exact, abs=1.1)
    object.__setattr__(record, "began", "")
    assert wall_seconds(files, record) is None


def test_a_resumed_run_tells_where_each_attempt_started_and_its_pace(tmp_path, config):
    interrupt(config, tmp_path, 3)
    record, _ = finish(config, tmp_path)
    files = Store(tmp_path).files(record.key)
    first, second = files.read_attempt(1), files.read_attempt(2)
    assert (first["start_step"], second["start_step"]) == (0, STOPPED)
    assert first["began"] < first["ended"] <= second["began"] < second["ended"]
    assert wall_seconds(files, record) is None, "a part of its time was between the attempts"
    steps = curve.last_step(files.metrics) - STOPPED
    expected = (files.metrics.stat().st_mtime - second["began"]) / steps
    assert pace(files) == expected == from_pace([files]).step
    files.attempt(2).write_text("{")
    assert pace(files) is None and from_pace([files]) is None, "nobody knows where it started"
