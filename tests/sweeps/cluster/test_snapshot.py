"""The copy of the code from which jobs run: what belongs to it, and that its name tells what it holds."""

import os
import stat

import pytest

from htbench.harness.errors import UsageError
from htbench.sweeps.cluster import snapshot


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A clone with a package of one small file, behind a link."""
    (tmp_path / "home" / "harness").mkdir(parents=True)
    (tmp_path / "home" / "harness" / "a.py").write_text("1")
    place = tmp_path / "home" / "src" / "htbench"
    place.mkdir(parents=True)
    (place / "harness").symlink_to(tmp_path / "home" / "harness")
    monkeypatch.setattr(snapshot, "PACKAGE", place)
    monkeypatch.setattr(snapshot, "CODE", place.parent)
    return place


def test_the_snapshot_has_all_files_of_the_package_and_not_the_store(package, monkeypatch):
    new = package / "new.py"
    new.write_text("2")
    new.chmod(0o600)
    (package / "harness" / "__pycache__").mkdir()
    (package / "harness" / "__pycache__" / "a.pyc").write_text("made")
    root = package / "harness" / "mystore"
    first = snapshot.take(root).folder
    copied = sorted(str(path.relative_to(first)) for path in first.rglob("*") if path.is_file())
    assert copied == ["digests.json", "htbench/harness/a.py", "htbench/new.py"]
    assert snapshot.take(root).folder == first, "the store, inside of the code, is not part of it"
    new.write_text("3")
    second = snapshot.take(root).folder
    assert second != first and (first / "htbench" / "new.py").read_text() == "2"
    copy = second / "htbench" / "new.py"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o666 & ~umask(), "a group can read it"
    monkeypatch.setattr(snapshot, "CODE", second.resolve())
    assert snapshot.take(root).folder == second.resolve(), "a job that submits uses the snapshot it runs from"


def umask():
    old = os.umask(0)
    os.umask(old)
    return old


def test_large_data_are_no_code(package, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "LARGEST", 2**20)
    (package / "harness" / "data.bin").write_bytes(bytes(3 * 2**20))
    with pytest.raises(UsageError, match=r"would take 3.* MiB, the largest file being '.*data.bin'"):
        snapshot.take(tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_snapshot_is_called_by_what_it_holds_not_by_what_was_there_before(package, tmp_path, monkeypatch):
    copy = snapshot.shutil.copyfile

    def edit_and_copy(source, target):
        source.write_text("2")
        copy(source, target)

    monkeypatch.setattr(snapshot.shutil, "copyfile", edit_and_copy)
    before = snapshot.name_snapshot(tmp_path / "store").folder
    taken = snapshot.take(tmp_path / "store").folder
    assert (taken / "htbench" / "harness" / "a.py").read_text() == "2"
    assert before != taken == snapshot.name_snapshot(tmp_path / "store").folder
    assert [path.name for path in taken.parent.iterdir()] == [taken.name]
