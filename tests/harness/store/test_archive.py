"""Archives: what goes in comes out, readers notice whatever changes, damage is told in one sentence."""

import os
import random
import time
import zipfile

import pytest

from harness.errors import UsageError
from harness.store import archive
from harness.store.archive import Archive, File, Member, ReplacedError
from harness.store.archives import Archives
from harness.store.run_folder import RunFolder

NOW = 1_764_000_000_123_456_789
RUNS = {
    "aa1": [File("record.json", b'{"key": "aa1"}\n', NOW), File("attempts/1.json", b"", NOW + 1)],
    "bb2": [File("metrics.jsonl", bytes(range(256)) * 99, 0), File("Notizen über p=½.txt", b"x" * 9, NOW)],
}


def write(path, runs=RUNS):
    path.parent.mkdir(exist_ok=True)
    archive.write(path, ((key, lambda key=key: runs[key]) for key in runs))
    return path


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "packed" / "0001.zip")


def test_what_goes_in_comes_out(path):
    found = Archive.read(path)
    assert {key: found.files(key) for key in found.runs} == RUNS
    assert found.members("cc3") == {}


def test_every_unzip_reads_it(path):
    with zipfile.ZipFile(path) as found:
        assert found.testzip() is None
        names = [f"{key}/{file.name}" for key, files in RUNS.items() for file in files]
        assert found.namelist() == [*names, archive.LIST]
        assert found.read("bb2/metrics.jsonl") == RUNS["bb2"][0].content
        assert found.getinfo("aa1/record.json").date_time[:3] == time.localtime(NOW // 10**9)[:3]


@pytest.mark.parametrize("seed", range(50))
def test_a_member_has_the_size_and_the_time_of_its_file(tmp_path, seed):
    (tmp_path / "file").write_bytes(b"x" * seed)
    moment = random.Random(seed).randrange(2**62)
    os.utime(tmp_path / "file", ns=(moment, moment))
    true, found = os.stat(tmp_path / "file"), Member(0, 0, seed, 0, moment).stat(7, NOW)
    for name in ("st_size", "st_mtime", "st_mtime_ns"):  # as a float, too: `runs ls --json` shows it
        assert getattr(found, name) == getattr(true, name)


@pytest.mark.parametrize("part", ["record", "list", "comment", "cut"])
def test_damage_is_told(path, part):
    whole, member = path.read_bytes(), Member(*Archive.read(path).members("bb2")["metrics.jsonl"])
    places = {
        "record": member.offset + 3,
        "list": whole.rindex(b"PK\x01\x02") - 400,
        "comment": len(whole) - 2,
    }
    if part == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    else:
        place = places[part]
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
    with pytest.raises(UsageError, match=r"^The archive '.*0001\.zip' is damaged \(.*\); put a copy"):
        found = Archive.read(path)
        for key in found.runs:
            found.files(key)


def test_an_archive_in_its_place_is_noticed(path):
    found = Archive.read(path)
    member = found.members("bb2")["metrics.jsonl"]
    write(path, {"bb2": RUNS["bb2"]})
    with pytest.raises(ReplacedError):
        found.content(member)
    path.unlink()
    with pytest.raises(ReplacedError):
        found.content(member)


# --- the archives of a store ---


def test_archives_are_looked_at_again_when_they_change(tmp_path):
    found = Archives(tmp_path / "packed")
    assert found.find("aa1") is None and found.all() == []
    path = write(tmp_path / "packed" / "0001.zip", {"aa1": RUNS["aa1"]})
    assert found.find("aa1").path == path and found.find("bb2") is None
    write(path.with_name("0002.zip"), {"bb2": RUNS["bb2"]})
    assert found.find("bb2").path.name == "0002.zip" and len(found.all()) == 2
    path.unlink()
    assert [one.path.name for one in found.all()] == ["0002.zip"] and found.find("aa1") is None


def test_lists_of_archives_that_have_not_changed_are_read_once(tmp_path, monkeypatch):
    read, found = [], Archives(tmp_path / "packed")
    true = Archive.read
    monkeypatch.setattr(Archive, "read", lambda path: read.append(path.name) or true(path))
    for name in ("0001.zip", "0002.zip"):
        write(tmp_path / "packed" / name)
        assert found.find("aa1") and found.find("cc3") is None
    write(tmp_path / "packed" / "0001.zip", {"bb2": RUNS["bb2"]})
    assert found.find("dd4") is None
    assert read == ["0001.zip", "0002.zip", "0001.zip"]


# --- the files of a run ---


@pytest.fixture
def run(tmp_path):
    write(tmp_path / "packed" / "0001.zip")
    return RunFolder(tmp_path / "runs" / "aa" / "aa1")


def test_a_file_is_read_from_an_archive_if_the_folder_lacks_it(run):
    assert run.record.exists() and run.record.read_bytes() == b'{"key": "aa1"}\n'
    assert run.record.read_text() == '{"key": "aa1"}\n' and run.record.stat().st_mtime_ns == NOW
    assert run.last_attempt() == 1 and run.attempt(1).exists() and not run.attempt(2).exists()
    for read in (run.config.read_text, run.config.stat, run.config.open):
        with pytest.raises(FileNotFoundError):
            read()
    with pytest.raises(FileNotFoundError):
        run.record.open("w")


def test_the_file_in_the_folder_counts(run):
    run.path.mkdir(parents=True)
    run.record.write_text("new")
    assert run.record.read_text() == "new" and run.record.stat().st_size == 3
    run.attempts.mkdir()
    run.attempt(2).write_text("{}")
    assert run.last_attempt() == 2 and run.attempt(1).exists()


@pytest.mark.parametrize("into", ["another", "folder"])
def test_a_file_that_moves_while_it_is_looked_for_is_found(run, tmp_path, monkeypatch, into):
    """It was in the first archive; by the time that this is opened, it is elsewhere."""
    assert run.record.exists()  # the list is read
    true = Archive.content

    def late(self, member):
        monkeypatch.setattr(Archive, "content", true)
        if into == "another":
            write(tmp_path / "packed" / "0002.zip")
        else:
            run.path.mkdir(parents=True)
            (run.path / "record.json").write_bytes(b'{"key": "aa1"}\n')
        (tmp_path / "packed" / "0001.zip").unlink()
        return true(self, member)

    monkeypatch.setattr(Archive, "content", late)
    assert run.record.read_bytes() == b'{"key": "aa1"}\n'


def test_a_file_that_was_unpacked_between_two_looks_is_found(run, tmp_path, monkeypatch):
    """The folder lacked it, then it came there and left the archive, before the archive was looked at."""
    true, found = Archives.find, []

    def late(self, key):
        if not found:
            found.append(key)
            run.path.mkdir(parents=True)
            (run.path / "record.json").write_bytes(b"moved")
            (tmp_path / "packed" / "0001.zip").unlink()
        return true(self, key)

    assert run.record.exists()
    monkeypatch.setattr(Archives, "find", late)
    monkeypatch.setattr(Archive, "content", Archive.content)
    assert run.record.read_bytes() == b"moved"
