"""What every test gets: one torch thread, no settings from outside, and the tiniest real runs."""

import os
import signal
from pathlib import Path

import hypothesis
import pytest

from htbench import imported
from htbench.harness.system.machine import gpu_variable
from tests.helpers import miniature, prepared
from tests.helpers.command import TINY, Htbench

# On a shared machine a slow example says nothing about the code.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")

# Whoever is started in the background of a script ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


class _Everything(set):
    def __contains__(self, name):
        return True


# Tests name the parts that they use. What a command may import is tested on commands.
imported.allowed = _Everything()


def pytest_configure(config):
    # A GPU adds in another order from run to run, and one machine in ten has one: tests see the CPU alone.
    if config.option.markexpr != "gpu":
        os.environ[gpu_variable()] = ""
    # Only a power failure could tell whether a file was flushed to the disk, or a network file system.
    # The thousands of small files of synthetic stores would wait for the disk longer than for all else.
    if config.option.markexpr != "network":
        os.fsync = lambda handle: None


# One thread per process, set before torch is imported: more threads than cores run far slower.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True, scope="session")
def _documents_are_prepared_once(tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers
    os.environ[prepared.FOLDER] = str(folder / "prepared")
    prepared.share()


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch):
    for name in ("HTBENCH_ROOT", "HTBENCH_CRASH", "HTBENCH_DATA", "HTBENCH_PUBLISHED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """The variables of miniature corpora, which are written once."""
    return miniature.write_all(tmp_path_factory.mktemp("corpora"))


@pytest.fixture
def published_corpora(corpora, monkeypatch):
    """C4 and OpenWebText are miniatures in this test. Returns the folder of the raw files."""
    for name, value in corpora.items():
        monkeypatch.setenv(name, value)
    return Path(corpora["HTBENCH_DATA"])


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
