"""`htbench runs import --curves` on files that a test writes, and `htbench runs export` of a store."""

import os
import shutil
import signal

import pytest

from harness import cli
from harness.cli import main
from harness.store import Store, curve
from harness.store.points import read_points
from tests.helpers.exporting import Source, fill


class Importer:
    """`htbench runs import --curves` on files that a test writes."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        self.root = folder / "store"

    def file(self, name, text, encoding="utf-8"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
        return path

    def __call__(self, *words, name="others", status=0):
        """Import; `words` begin with the files. Returns what was said on stdout and on stderr."""
        words = [str(word) for word in words]
        command = ["runs", "import", "--root", str(self.root), "--name", name, "--curves", *words]
        assert cli.main(command) == status
        return self.capsys.readouterr()

    def tidy(self, text, *words, **options):
        """Import one tidy file on a task and a model."""
        file = self.file("curves.csv", text)
        return self(file, "--set", "task=fineweb", "model=gpt2-124m", *words, **options)

    def refused(self, *words, **options):
        """The sentence that refuses a tidy file; nothing may be written."""
        out, err = self.tidy(*words, status=2, **options)
        assert out == "" and not list(self.root.glob("runs/*/*"))
        lines = err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("htbench: ") and len(lines[0]) < 400
        return lines[0].removeprefix("htbench: ")

    def records(self, name="others"):
        """The records of an import in the order of its points."""
        return [Store(self.root).record(point.key) for point in read_points(self.root, name)]

    def curve(self, record):
        return curve.read(Store(self.root).files(record.key).metrics)


@pytest.fixture
def take(tmp_path, capsys):
    return Importer(tmp_path, capsys)


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
