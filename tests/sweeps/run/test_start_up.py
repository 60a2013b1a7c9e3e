"""The start of a run, as `htbench bench loop` measures it."""

import pytest

from harness.errors import RunFailedError
from sweeps.run.pool import start_up

SETTINGS = {"task": "digits", "model": "resnet-nano", "batch_size": 16, "device": "cpu"}


def test_as_many_starts_as_wanted_and_one_before_them(tmp_path):
    seconds = start_up(tmp_path, SETTINGS, 2)
    assert len(seconds) == 2 and min(seconds) > 0
    assert len(list(tmp_path.glob("runs/*/*/config.yaml"))) == 3, "a run of its own each time"
    assert not list(tmp_path.glob("runs/*/*/record.json")), "stopped after the first step"


def test_a_run_that_can_not_start_ends_the_measurement(tmp_path):
    (tmp_path / "runs").write_text("not a folder")
    with pytest.raises(RunFailedError, match="before its first step"):
        start_up(tmp_path, SETTINGS, 1)
