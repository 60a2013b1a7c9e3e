"""`htbench runs export` of a store."""

import os
import shutil
import signal

import pytest

from htbench.harness.cli import main
from tests.helpers.exporting import Source, fill


@pytest.fixture(scope="session")
def _filled(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("outgoing") / "store").store.root


@pytest.fixture
def source(_filled, tmp_path):
    """The store, ours to change."""
    return Source(shutil.copytree(_filled, tmp_path / "store"))


@pytest.fixture
def export(source, capsys):
    """Run `htbench runs export WORDS` here; returns the last line, "" in place of the destination."""

    def call(*words):
        status = main(["runs", "export", "--root", str(source.store.root), *map(str, words)])
        out, err = capsys.readouterr()
        assert status == 0, err
        return " ".join(word for word in out.splitlines()[-1].split() if "/" not in word)

    return call


@pytest.fixture
def killed(source):
    """Run `htbench runs export WORDS` in a process that dies before its n-th call of some functions.

    Returns whether it died. `patch(die)` replaces the functions in that process: `die()` counts one call.
    """

    def call(words, number, patch):
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        left = [number]

        def die():
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            patch(die)
            os._exit(main(["runs", "export", "--root", str(source.store.root), *map(str, words)]))
        finally:
            os._exit(70)

    return call
