"""The tests wait as long as there is progress, however slow the machine, and no longer."""

import time

import pytest

from tests.helpers.waiting import wait_for


class Clock:
    """Counts the seconds that were slept."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds


def test_waiting_goes_on_while_jobs_end(monkeypatch):
    clock = Clock(monkeypatch)
    wait_for(lambda: clock.now > 900, 240, every=1, progress=lambda: clock.now // 100)
    with pytest.raises(AssertionError, match="stuck"):
        wait_for(lambda: False, 240, every=1, told=lambda: "stuck", progress=lambda: clock.now // 300)
    assert clock.now < 1500
    with pytest.raises(AssertionError):
        wait_for(lambda: False, 240, every=1, progress=lambda: clock.now)
    assert clock.now < 1500 + 3700
