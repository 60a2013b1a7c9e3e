"""What every test gets: one torch thread, no settings from outside, and the tiniest real runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

# On a shared machine a slow example says nothing about the code.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")

# Whoever is started in the background of a script ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# One thread per process, set before torch is imported: more threads than cores run far slower.
os.environ["OMP_NUM_THREADS"] = "1"

HTBENCH = [sys.executable, "-m", "harness.cli"]

# A real run on real data, about 10 ms per step: small enough to be trained dozens of times in the suite.
TINY = {
    "task": "digits",
    "model": "resnet-nano",
    "steps": 8,
    "batch_size": 16,
    "optimizer.name": "sgdm",
    "optimizer.lr": 0.1,
}


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


class Htbench:
    """The command in a process group of its own, so that a crash point can take the whole group down."""

    def __init__(self, root, cwd=None):
        self.root, self.cwd = Path(root), cwd

    def start(self, *words, crash=None, **environment):
        env = os.environ | {"HTBENCH_ROOT": str(self.root)} | environment
        if crash:
            env["HTBENCH_CRASH"] = crash
        return subprocess.Popen(
            [*HTBENCH, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=env,
            cwd=self.cwd,
            start_new_session=True,
        )

    def __call__(self, *words, timeout=300, **environment):
        process = self.start(*words, **environment)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.fixture
def htbench(tmp_path):
    """Run `htbench WORDS` on a store of its own."""
    return Htbench(tmp_path / "store")
