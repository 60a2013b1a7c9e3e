"""What every test gets: one torch thread, no settings from outside, and the tiniest real runs."""

import os
import signal

import hypothesis
import pytest

from tests.helpers.command import TINY, Htbench

# On a shared machine a slow example says nothing about the code.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")

# Whoever is started in the background of a script ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# One thread per process, set before torch is imported: more threads than cores run far slower.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch):
    for name in ("HTBENCH_ROOT", "HTBENCH_CRASH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tiny():
    return dict(TINY)


@pytest.fixture
def write_spec(tmp_path):
    """Write a sweep file; returns its path."""

    def write(text, name="tiny.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def htbench(tmp_path):
    """Run `htbench WORDS` on a store of its own."""
    return Htbench(tmp_path / "store")
