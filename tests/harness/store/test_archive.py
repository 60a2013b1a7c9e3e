"""An archive of runs: what is written is read, by any unzip too; damage is told, and the rest saved."""

import os
import zipfile
import zlib

import pytest

from harness.store import archive
from harness.store.archive import Content, DamagedError

RUNS = {
    "a" * 12: {"attempts/1.json": b'{"n": 1}', "metrics.jsonl": b'{"step": 1}\n' * 400, "log.txt": b""},
    "b" * 12: {"record.json": os.urandom(3000)},
}
MODIFIED = 1_700_000_000_123_456_789


@pytest.fixture
def path(tmp_path):
    return written(tmp_path)


def written(folder, modified=MODIFIED):
    contents = {
        key: [(name, Content(data, modified)) for name, data in files.items()] for key, files in RUNS.items()
    }
    return archive.write(folder, 1, contents.items())


def test_what_was_written_is_read(path):
    found = archive.read(path)
    assert {key: {name: found.read(key, name) for name in names} for key, names in found.runs.items()} == RUNS
    member = found.member("a" * 12, "metrics.jsonl")
    assert (member.size, member.modified) == (4800, MODIFIED) and member.stored < 200, "deflated"
    said = found.stat("a" * 12, "metrics.jsonl")
    assert (said.st_size, said.st_mtime_ns) == (4800, MODIFIED)
    assert found.member("a" * 12, "no.such") is found.member("c" * 12, "record.json") is None


@pytest.mark.parametrize("nanoseconds", [0, 1, 123_456_789, 200_023_001, 999_999_999])
def test_its_time_is_that_of_a_file_to_the_last_bit(tmp_path, nanoseconds):
    modified = 1_795_445_726 * 10**9 + nanoseconds
    file = tmp_path / "file"
    file.touch()
    os.utime(file, ns=(modified, modified))
    found = archive.read(written(tmp_path, modified))
    said = found.stat("a" * 12, "log.txt")
    assert (said.st_mtime, said.st_mtime_ns) == (file.stat().st_mtime, file.stat().st_mtime_ns)


def test_any_unzip_opens_it(path):
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert file.read(f"{'b' * 12}/record.json") == RUNS["b" * 12]["record.json"]
        assert archive.CONTENTS in file.namelist()


@pytest.mark.parametrize("modified", [0, -(10**18), 2**62])
def test_any_time_is_kept(tmp_path, modified):
    found = archive.read(written(tmp_path, modified))
    assert found.member("a" * 12, "log.txt").modified == modified
    assert {content.modified for _, _, content in archive.salvage(found.path)} == {modified}


def test_of_a_whole_archive_all_is_saved(path):
    found = {(key, name): content for key, name, content in archive.salvage(path)}
    assert found == {
        (key, name): Content(data, MODIFIED) for key, files in RUNS.items() for name, data in files.items()
    }


@pytest.mark.parametrize("size", [0, 1, 30, 200, 3000, -1, -100, -300])
def test_a_truncated_archive_is_told_in_a_sentence_and_what_is_there_is_saved(path, size):
    data = path.read_bytes()
    path.write_bytes(data[:size])
    with pytest.raises(DamagedError, match=r"0001-\w+.zip' is damaged .*`htbench runs unpack --all`"):
        archive.read(path)
    saved = {(key, name): content.data for key, name, content in archive.salvage(path)}
    assert all(RUNS[key][name] == data for (key, name), data in saved.items())
    assert len(saved) == {0: 0, 1: 0, 30: 0, 200: 2, 3000: 3}.get(size, 4)


def test_a_flipped_bit_is_never_taken_for_content(path):
    sound, data = archive.read(path), path.read_bytes()
    member = sound.member("b" * 12, "record.json")
    place = member.offset + member.stored // 2
    path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
    found = archive.read(path)
    assert found.read("a" * 12, "metrics.jsonl") == RUNS["a" * 12]["metrics.jsonl"]
    with pytest.raises(DamagedError, match=f"record.json of run {'b' * 12} can't be read"):
        found.read("b" * 12, "record.json")
    assert len(list(archive.salvage(path))) == 3


def test_a_flipped_bit_in_the_list_is_told(path):
    data = path.read_bytes()
    offset = int(data[-110:].partition(b" at ")[2][:12])
    path.write_bytes(data[: offset + 9] + bytes([data[offset + 9] ^ 1]) + data[offset + 10 :])
    with pytest.raises(DamagedError, match="contents.json can't be read"):
        archive.read(path)


def test_another_archive_under_the_same_name_is_not_taken_for_this_one(path):
    found = archive.read(path)
    path.rename(path.with_name("old"))
    written(path.parent)
    with pytest.raises(FileNotFoundError):
        found.read("a" * 12, "log.txt")


def test_nothing_is_left_of_an_archive_that_could_not_be_written(tmp_path):
    def runs():
        yield "a" * 12, [("log.txt", Content(b"x", 1))]
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        archive.write(tmp_path, 1, runs())
    assert not list(tmp_path.iterdir())


def test_the_list_has_the_crc_that_the_zip_has(path):
    found = archive.read(path)
    assert all(
        found.member(key, name).crc == zlib.crc32(data)
        for key, files in RUNS.items()
        for name, data in files.items()
    )
