"""A store that somebody else made: its names and links lead nowhere."""

import os
import shutil
from pathlib import Path

import pytest

from htbench.harness import cli
from htbench.harness.store import Store, check, gc
from htbench.harness.store.importing import import_store
from htbench.harness.store.points import SEARCH, Point, read_points, slot_path, sweep_folder, write_points
from htbench.harness.system.links import LinkError
from tests.helpers.stored_runs import config, files, leave, put

KEY = "ab0123456789"


@pytest.fixture
def outside(tmp_path):
    """What is not the store's: it is the same after every test."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    yield folder
    assert files(folder) == {"secret": b"secret"} and not list(tmp_path.rglob("evil*"))


@pytest.fixture
def store(tmp_path):
    put(tmp_path / "store")
    return Store(tmp_path / "store")


def is_secret_in(root):
    return any(b"secret" in content for content in files(root).values())


# --- links ---


NAMES = ("log.txt", "record.json", "metrics.jsonl", "config.yaml", "weights.pt", "attempts/1.json")


def test_a_link_is_not_read(outside, tmp_path, capsys):
    """Each run has another file that is a link."""
    root, links = tmp_path / "linked", []
    for seed, name in enumerate(NAMES):
        folder = Store(root).run_folder(put(root, seed=seed))
        path = folder / name
        Path(path).unlink(missing_ok=True)
        Path(path).symlink_to(outside / "secret")
        links.append(str(path.relative_to(root)))
        assert not path.exists() and not path.is_file()
        for read in (path.read_bytes, path.stat, path.open):
            with pytest.raises(FileNotFoundError):
                read()
        with pytest.raises(LinkError, match="is a link"):
            path.open("a")
    assert sorted(check.Survey(root).damaged["link"]) == sorted(links)
    for words in (["runs", "ls", "--all"], ["table"], ["report", "--out", str(tmp_path / "page.html")]):
        assert cli.main([*words, "--root", str(root)]) in (0, 1, 2)
    assert cli.main(["runs", "import", str(root), "--root", str(tmp_path / "ours")]) == 0
    assert not is_secret_in(tmp_path / "ours") and "secret" not in capsys.readouterr().out
    assert not (tmp_path / "page.html").exists() or "secret" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("level", ["prefix", "run", "attempts"])
def test_a_folder_that_is_a_link_is_not_entered(tmp_path, outside, level):
    """`gc --orphans` removed a folder outside of the store."""
    elsewhere, store = Store(tmp_path / "elsewhere"), Store(tmp_path / "store")
    key = leave(elsewhere.root)
    there, here = elsewhere.run_folder(key), store.run_folder(key)
    place = {"prefix": here.parent, "run": here, "attempts": here / "attempts"}[level]
    Path(place.parent).mkdir(parents=True)
    target = there / place.relative_to(here) if place.is_relative_to(here) else there.parent
    Path(place).symlink_to(target)
    before = files(elsewhere.root)
    assert store.last_attempt(key) == 0 and store.record(key) is None
    assert store.keys() == ([] if level != "attempts" else [key])
    with pytest.raises(LinkError, match="is a link"):
        store.claim(key, "x: 1")
    if level == "attempts":
        Path(place).unlink()
    assert cli.main(["runs", "gc", "--orphans", "--root", str(store.root)]) == 0
    assert not list(gc.garbage(store, orphans=True))
    if level != "attempts":
        put(tmp_path / "theirs")
        with pytest.raises(LinkError, match="is a link"):
            import_store(Store(store.root), tmp_path / "theirs")
    assert files(elsewhere.root) == before


def test_an_index_that_is_a_link_is_neither_read_nor_written(store, outside):
    (key,) = store.keys()
    record = store.record(key)
    shutil.move(store.index.path, outside.parent / "index.jsonl")
    before = (outside.parent / "index.jsonl").read_bytes()
    store.index.path.symlink_to(outside.parent / "index.jsonl")
    assert Store(store.root).index.rows() == {} and Store(store.root).records([key]) == {key: record}
    with pytest.raises(LinkError, match="is a link"):
        put(store.root, seed=1)
    assert (outside.parent / "index.jsonl").read_bytes() == before
    assert check.Survey(store.root).damaged["link"] == ["index.jsonl"]
    assert store.rebuild_index() == 2 and not store.index.path.is_symlink()


def test_sweeps_are_no_links_either(tmp_path, outside):
    root, theirs = tmp_path / "ours", tmp_path / "theirs"
    for name in ("folder", "file", "slots"):
        sweep_folder(theirs, name).mkdir(parents=True)
        write_points(theirs, name, [Point(name, "b", SEARCH, KEY, {})])
    shutil.move(sweep_folder(theirs, "folder"), outside.parent / "moved")
    Path(theirs, "sweeps", "folder").symlink_to(outside.parent / "moved")
    Path(theirs, "sweeps", "file", "spec.yaml").symlink_to(outside / "secret")
    (outside.parent / "slots").mkdir()
    (outside.parent / "slots" / "1.json").write_text('{"secret": 1}')
    Path(theirs, "sweeps", "slots", "slots").mkdir()
    Path(theirs, "sweeps", "slots", "slots", "s").symlink_to(outside.parent / "slots")
    with pytest.raises(LinkError, match="is a link"):
        read_points(theirs, "folder")
    with pytest.raises(LinkError, match="is a link"):
        slot_path(theirs, "slots", "s/1")
    assert cli.main(["runs", "import", str(theirs), "--root", str(root)]) == 0
    assert not is_secret_in(root) and {path.name for path in root.glob("sweeps/*")} == {"file", "slots"}
    links = {"sweeps/folder", "sweeps/file/spec.yaml", "sweeps/slots/slots/s"}
    assert set(check.Survey(theirs).damaged["link"]) == links


def test_old_links_and_linked_snapshots_are_cleared_and_not_what_they_lead_to(store, outside):
    for name in ("one", "two", "three"):
        (store.root / "code" / name).mkdir(parents=True)
    (store.root / "code" / "link").symlink_to(outside)
    leftover = store.root / "runs" / ".x.1-a.tmp"
    leftover.symlink_to(outside)
    os.utime(leftover, (1, 1), follow_symlinks=False)
    found = list(gc.garbage(store))
    assert leftover in [item.path for item in found]
    assert store.root / "code" / "link" not in [item.path for item in found]
    assert all(gc.remove(store, item) for item in found) and not leftover.is_symlink()


def test_a_pipe_in_place_of_a_record_is_not_waited_for(store):
    (key,) = store.keys()
    path = Path(store.run_folder(key), "metrics.jsonl")
    path.unlink()
    os.mkfifo(path)
    assert store.files(key).metrics.read_bytes() == b""


def test_links_at_the_root_are_those_of_people(tmp_path):
    """They put the store, `runs/` or `cache/` on another disk."""
    disk, root = tmp_path / "disk", tmp_path / "store"
    for name in ("store", "runs", "sweeps", "cache"):
        (disk / name).mkdir(parents=True)
    for name in ("runs", "sweeps", "cache"):
        (disk / "store" / name).symlink_to(disk / name)
    root.symlink_to(disk / "store")
    key = put(root)
    store = Store(root)
    assert store.keys() == [key] and store.record(key) is not None
    assert Store(root).record(key) == store.record(key) and config() is not None
    assert "link" not in check.Survey(root).damaged
