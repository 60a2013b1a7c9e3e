"""Prepared data survives whatever happens to its builders and to its files."""

import os
import signal
import subprocess
import sys
import time

import pytest

from htbench.harness.data.cache import cached, damaged, under_way


def fill_with(text, calls=None):
    def fill(folder):
        if calls is not None:
            calls.append(folder)
        (folder / "a.txt").write_text(text)
        (folder / "b.bin").write_bytes(bytes(1000))

    return fill


def test_it_is_built_once(tmp_path):
    calls = []
    folder = tmp_path / "cache" / "data-1"
    for _ in range(2):
        assert cached(folder, fill_with("hello", calls)) == folder
    assert (folder / "a.txt").read_text() == "hello"
    assert len(calls) == 1


DAMAGES = {
    "truncate": lambda folder: os.truncate(folder / "b.bin", 500),
    "flip": lambda folder: (folder / "b.bin").write_bytes(bytes(999) + b"\1"),
    "remove": lambda folder: (folder / "a.txt").unlink(),
    "add": lambda folder: (folder / "c").touch(),
    "garbage manifest": lambda folder: (folder / "manifest.json").write_text("{"),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed_and_repaired(tmp_path, damage):
    folder = cached(tmp_path / "data", fill_with("first"))
    DAMAGES[damage](folder)
    cached(folder, fill_with("second"))
    assert (folder / "a.txt").read_text() == "second"
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b.bin", "manifest.json"]
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == ["data"]


def test_an_intact_folder_is_only_read(tmp_path):
    folder = cached(tmp_path / "data", fill_with("hello"))
    before = sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    cached(folder, fill_with("other"))
    assert sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_a_failing_builder_leaves_nothing(tmp_path):
    def fill(folder):
        (folder / "a.txt").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cached(tmp_path / "data", fill)
    assert [path.name for path in tmp_path.iterdir()] == [".data.lock"]


BUILDER = """
import sys, time
from pathlib import Path
from htbench.harness.data import cache
from htbench.harness.data.cache import cached, damaged

def fill(folder):
    (folder / "a.txt").write_text("half of it")
    print("filling", flush=True)
    time.sleep(float(sys.argv[2]))
    (folder / "a.txt").write_text("all of it")

cached(Path(sys.argv[1]), fill)
"""


def start_builder(folder, seconds):
    words = [sys.executable, "-c", BUILDER, str(folder), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_killed_builder_is_followed_by_one_that_cleans_up(tmp_path):
    folder = tmp_path / "data"
    killed = start_builder(folder, seconds=600)
    assert killed.stdout.readline() == "filling\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not folder.exists()
    assert any(path.name.endswith(".tmp") for path in tmp_path.iterdir())
    cached(folder, fill_with("hello"))
    assert (folder / "a.txt").read_text() == "hello"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".data.lock", "data"]


def test_of_two_builders_one_waits_for_the_other(tmp_path):
    folder = tmp_path / "data"
    first = start_builder(folder, seconds=1)
    assert first.stdout.readline() == "filling\n"
    second = start_builder(folder, seconds=0)
    time.sleep(0.1)  # let it reach the lock; without this the test is weaker, not wrong
    assert second.communicate()[0] == ""  # it never filled anything
    assert first.communicate()[0] == ""
    assert (first.returncode, second.returncode) == (0, 0)
    assert (folder / "a.txt").read_text() == "all of it"


def test_damage_is_named_by_the_file(tmp_path):
    folder = cached(tmp_path / "data", fill_with("first"))
    assert damaged(folder) == []
    for damage, names in (
        ("flip", ["b.bin"]),
        ("remove", ["a.txt", "b.bin"]),
        ("no manifest", ["manifest.json"]),
    ):
        DAMAGES[damage](folder)
        assert damaged(folder) == names


def test_what_is_built_for_the_first_time_is_under_way_until_it_is_there(tmp_path):
    seen = []

    def fill(folder):
        seen.extend(under_way(tmp_path))
        (folder / "file").touch()

    assert not under_way(tmp_path)
    cached(tmp_path / "digits-0123", fill)
    assert seen == ["digits-0123"] and not under_way(tmp_path)
