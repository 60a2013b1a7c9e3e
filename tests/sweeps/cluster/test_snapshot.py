"""The copy of the code from which jobs run: what belongs to it, and that its name tells what it holds."""

import os
import stat
import subprocess

import pytest

from htbench.harness.errors import UsageError
from htbench.sweeps.cluster import snapshot


def test_the_snapshot_has_untracked_files_and_not_the_store(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "harness").mkdir(parents=True)
    (home / "harness" / "a.py").write_text("1")
    (home / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "init", "-q", home], check=True)
    subprocess.run(["git", "-C", home, "add", "."], check=True)
    (home / "new.py").write_text("2")
    (home / "new.py").chmod(0o600)
    (home / "x.log").write_text("ignored")
    monkeypatch.setattr(snapshot, "HOME", home)
    root = home / "mystore"
    first = snapshot.take(root).folder
    copied = sorted(str(path.relative_to(first)) for path in first.rglob("*") if path.is_file())
    assert copied == [".gitignore", "digests.json", "harness/a.py", "new.py"]
    assert snapshot.take(root).folder == first, "the store, inside of the code, is not part of it"
    (home / "new.py").write_text("3")
    second = snapshot.take(root).folder
    assert second != first and (first / "new.py").read_text() == "2"
    assert stat.S_IMODE((second / "new.py").stat().st_mode) == 0o666 & ~umask(), "a group can read it"
    monkeypatch.setattr(snapshot, "HOME", second.resolve())
    assert snapshot.take(root).folder == second, "a job that submits uses the snapshot it runs from"


def umask():
    old = os.umask(0)
    os.umask(old)
    return old


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Code without git, of one small file."""
    place = tmp_path / "home"
    (place / "harness").mkdir(parents=True)
    (place / "harness" / "a.py").write_text("1")
    monkeypatch.setattr(snapshot, "HOME", place)
    return place


def test_data_that_git_does_not_ignore_are_no_code(home, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "LARGEST", 2**20)
    (home / "harness" / "data.bin").write_bytes(bytes(3 * 2**20))
    with pytest.raises(UsageError, match=r"would take 3.* MiB, the largest file being '.*data.bin'"):
        snapshot.take(tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_snapshot_is_called_by_what_it_holds_not_by_what_was_there_before(home, tmp_path, monkeypatch):
    copy = snapshot.shutil.copyfile

    def edit_and_copy(source, target):
        source.write_text("2")
        copy(source, target)

    monkeypatch.setattr(snapshot.shutil, "copyfile", edit_and_copy)
    before = snapshot.version(tmp_path / "store").folder
    taken = snapshot.take(tmp_path / "store").folder
    assert (taken / "harness" / "a.py").read_text() == "2"
    assert before != taken == snapshot.version(tmp_path / "store").folder
    assert [path.name for path in taken.parent.iterdir()] == [taken.name]
