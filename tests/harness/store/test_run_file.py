"""A path in a run's folder is read from an archive if the folder has no such file."""

import os
import pickle
from pathlib import Path

import pytest

from harness.store import archive, archives
from harness.store.archive import Content
from harness.store.run_file import RunFile, names_in
from harness.store.run_folder import RunFolder

KEY = "ab0123456789"
FILES = {"metrics.jsonl": b"one\ntwo\n", "attempts/1.json": b"{}", "attempts/2.json": b'{"n": 2}'}


@pytest.fixture
def folder(tmp_path):
    """Where the folder of a packed run would be."""
    return packed(tmp_path, 1, FILES)


def packed(root, number, files, key=KEY):
    (root / "packed").mkdir(exist_ok=True)
    contents = [(name, Content(data, 10**18)) for name, data in files.items()]
    made = archive.write(root / "packed", number, [(key, contents)])
    made.rename(made.with_name(f"{number:04d}.zip"))  # as the first versions of `runs pack` called them
    return RunFile(root, "runs", key[:2], key)


def test_all_ways_to_read_find_it(folder):
    path = folder / "metrics.jsonl"
    assert path.read_bytes() == b"one\ntwo\n" and path.read_text() == "one\ntwo\n"
    assert path.exists() and path.is_file() and not path.is_dir()
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (8, 10**18)
    with path.open() as text, path.open("rb", buffering=0) as data, path.open("r", -1, "utf-8") as given:
        assert (list(text), data.read(3), given.readline()) == (["one\n", "two\n"], b"one", "one\n")
    assert pickle.loads(pickle.dumps(path)).read_bytes() == b"one\ntwo\n"


def test_the_run_folder_finds_its_attempts(folder):
    assert RunFolder(Path(folder)).last_attempt() == 2
    assert RunFolder(Path(folder)).read_attempt(2) == {"n": 2}
    assert names_in(folder) == {"metrics.jsonl", "attempts"}
    (folder / "attempts").mkdir(parents=True)
    Path(folder, "attempts", "3.json").write_text("{}")
    assert RunFolder(folder).last_attempt() == 3


def test_what_is_in_the_folder_wins(folder):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("newer")
    assert (folder / "metrics.jsonl").read_text() == "newer" and (
        folder / "metrics.jsonl"
    ).stat().st_size == 5
    (folder / "metrics.jsonl").unlink()
    assert (folder / "metrics.jsonl").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("name", ["record.json", "attempts/3.json", "metrics", "attempts"])
def test_what_is_nowhere_is_missing(folder, name):
    path = folder / name
    assert not path.exists()
    for read in (path.read_bytes, path.read_text, path.stat, path.open):
        with pytest.raises(FileNotFoundError):
            read()


def test_a_write_never_goes_to_the_archive(folder):
    with pytest.raises(FileNotFoundError):
        (folder / "metrics.jsonl").write_text("x")
    with pytest.raises(FileNotFoundError):
        (folder / "metrics.jsonl").open("r+")
    assert (folder / "metrics.jsonl").read_bytes() == FILES["metrics.jsonl"]


def test_of_two_archives_the_later_counts(folder, tmp_path):
    packed(tmp_path, 10, {"metrics.jsonl": b"later"})
    assert (folder / "metrics.jsonl").read_bytes() == b"later"
    assert not (folder / "attempts" / "1.json").exists()


def test_a_store_at_any_place_is_found(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert RunFile("runs", KEY[:2], KEY, "metrics.jsonl").read_bytes() == FILES["metrics.jsonl"]
    inner = tmp_path / "runs" / "my" / "store"
    inner.mkdir(parents=True)
    assert (packed(inner, 1, {"log.txt": b"x"}) / "log.txt").read_bytes() == b"x"
    assert not RunFile(tmp_path, "elsewhere", KEY, "metrics.jsonl").exists()


def test_a_reader_that_knows_the_archives_finds_a_run_wherever_it_goes(folder, tmp_path):
    path = folder / "metrics.jsonl"
    assert path.read_bytes() == FILES["metrics.jsonl"]
    os.rename(tmp_path / "packed" / "0001.zip", tmp_path / "packed" / "0002.zip")
    assert path.read_bytes() == FILES["metrics.jsonl"], "merged into another archive"
    folder.mkdir(parents=True)
    Path(path).write_bytes(b"here")
    (tmp_path / "packed" / "0002.zip").unlink()
    assert path.read_bytes() == b"here", "unpacked"


def test_a_run_that_is_unpacked_between_two_looks_is_found(folder, monkeypatch):
    """The folder is looked at first. The run comes back just then, and its archive goes."""
    path, look = folder / "metrics.jsonl", archives.Archives.look
    assert path.exists()

    def come_back(self):
        if not os.path.isdir(folder):
            folder.mkdir(parents=True)
            Path(path).write_bytes(FILES["metrics.jsonl"])
            Path(folder, "attempts").mkdir()
            Path(folder, "attempts", "2.json").write_bytes(b"{}")
            (folder.parents[2] / "packed" / "0001.zip").unlink()
        return look(self)

    monkeypatch.setattr(archives.Archives, "look", come_back)
    assert path.read_bytes() == FILES["metrics.jsonl"]


def test_the_attempts_of_a_run_that_is_unpacked_between_two_looks_are_found(folder, monkeypatch):
    files = RunFolder(folder)
    assert files.last_attempt() == 2
    original, calls = os.listdir, []

    def listdir(path="."):
        if str(path).endswith("attempts") and not calls:
            calls.append(path)
            try:
                return original(path)
            finally:  # after this look the run comes back
                Path(folder, "attempts").mkdir(parents=True)
                Path(folder, "attempts", "2.json").write_bytes(b"{}")
                (folder.parents[2] / "packed" / "0001.zip").unlink()
        return original(path)

    monkeypatch.setattr(os, "listdir", listdir)
    assert files.last_attempt() == 2 and calls


def test_archives_are_read_once(folder, monkeypatch):
    assert (folder / "metrics.jsonl").exists()
    os.utime(folder.parents[2] / "packed", (1, 1))  # long ago: nothing has changed since
    monkeypatch.setattr(archive, "read", None)
    monkeypatch.setattr(archives.Archives, "_packed", None)
    for _ in range(3):
        assert (folder / "metrics.jsonl").read_bytes() == FILES["metrics.jsonl"]
        assert not (folder / "record.json").exists()


def test_a_damaged_archive_is_an_error_for_runs_that_may_be_in_it(folder, tmp_path):
    (tmp_path / "packed" / "0002.zip").write_bytes(b"PK")
    other = folder.with_name("abcabcabcabc")
    for look in (lambda: (other / "record.json").exists(), lambda: names_in(other / "attempts")):
        with pytest.raises(archive.DamagedError, match="0002.zip' is damaged"):
            look()
    assert (folder / "metrics.jsonl").exists(), "it is in another one"
    other.mkdir(parents=True)
    (other / "record.json").write_text("{}")
    assert (other / "record.json").read_text() == "{}"
    with pytest.raises(archive.DamagedError):
        (other / "metrics.jsonl").exists()
    (other / "attempts").mkdir()
    assert not (other / "metrics.jsonl").exists() and names_in(other / "attempts") == set()
