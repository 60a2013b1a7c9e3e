"""A store that somebody else made: its names and links lead nowhere, and its archives are no bombs."""

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from harness import cli
from harness.store import Store, archive, check, gc, layout, packing, salvaging
from harness.store.archive import DamagedError
from harness.store.importing import merge
from harness.store.points import SEARCH, Point, read_points, slot_path, sweep_folder, write_points
from harness.system.links import LinkError
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


# --- archives ---


def hostile(root, runs, **changes):
    """An archive with any names: {key: {name: (bytes, values of its member or None)}}; returns its path."""
    data, contents = io.BytesIO(), {}
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for key, named in runs.items():
            contents[key] = {}
            for name, (content, values) in named.items():
                info = zipfile.ZipInfo(f"{key}/{name}")
                info.compress_type = zipfile.ZIP_DEFLATED
                made.writestr(info, content)
                start = data.tell() - info.compress_size
                contents[key][name] = values or [start, info.compress_size, info.file_size, info.CRC, 0]
        text = changes.get("text", json.dumps(contents)).encode()
        info = zipfile.ZipInfo("contents.json")
        info.compress_type = zipfile.ZIP_DEFLATED
        made.writestr(info, text)
        numbers = (
            data.tell() - info.compress_size,
            info.compress_size,
            changes.get("size", len(text)),
            info.CRC,
        )
        made.comment = b"htbench 1: contents.json at %012d, %012d of %012d bytes, crc %08x" % numbers
    layout.begin(root)
    path = root / "packed" / "0001-0123456789ab.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.getvalue())
    return path


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (KEY, "../../../../evil"),
        (KEY, "/tmp/evil"),
        (KEY, "attempts/../../../../evil"),
        (KEY, "evil.py"),
        (KEY, "checkpoint.pt"),
        (KEY, "attempts/1.json/evil"),
        ("../../evil", "log.txt"),
        ("..", "record.json"),
        ("evil", "record.json"),
        (KEY.upper(), "record.json"),
    ],
)
def test_names_of_an_archive_lead_nowhere(tmp_path, outside, key, name):
    path = hostile(
        tmp_path / "store", {key: {name: (b"x", None)}, "cd0123456789": {"log.txt": (b"fine", None)}}
    )
    store = Store(tmp_path / "store")
    with pytest.raises(DamagedError, match="is no list of files of runs"):
        store.keys()
    with packing.packing(store):
        salvaging.salvage(store)
    made = {str(one.relative_to(store.root)) for one in store.root.rglob("*") if one.is_file()}
    assert made - {"packed/.lock", ".store.lock", "store.json"} == {
        "runs/cd/cd0123456789/log.txt",
        f"packed/{aside(path)}",
    }


def aside(path):
    (found,) = path.parent.glob(f"{path.name}.*.damaged")
    return found.name


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[]",
        "null",
        '{"KEY": 5}',
        '{"KEY": {"log.txt": 5}}',
        '{"KEY": {"log.txt": [0, 1, 2]}}',
        '{"KEY": {"log.txt": [0, 1, 1, 1.5, 0]}}',
        '{"KEY": {"log.txt": [-1, 1, 1, 1, 0]}}',
        '{"KEY": {"log.txt": [0, 1, 99999999999, 1, 0]}}',
        '{"KEY": {"log.txt": [0, 99999999999, 1, 1, 0]}}',
        '{"KEY": {"log.txt": [0, 1, 1, 1, NINES]}}',
    ],
)
def test_a_list_that_is_none_is_damage(tmp_path, text):
    hostile(tmp_path, {}, text=text.replace("KEY", KEY).replace("NINES", "9" * 5000))
    with pytest.raises(DamagedError, match="damaged"):
        Store(tmp_path).keys()
    assert cli.main(["runs", "unpack", "--all", "--root", str(tmp_path)]) == 0


def test_files_that_share_bytes_are_damage(tmp_path):
    """Such a bomb of 100 kB is as long as one likes when it is unpacked."""
    content = bytes(50_000_000)
    values = None
    whole = hostile(tmp_path, {KEY: {"log.txt": (content, None)}})
    values = archive.read(whole).runs[KEY]["log.txt"]
    runs = {f"{number:012x}": {"log.txt": (b"", values)} for number in range(1000)}
    hostile(tmp_path, {KEY: {"log.txt": (content, None)}} | runs)
    with pytest.raises(DamagedError, match="is no list"):
        Store(tmp_path).keys()


@pytest.mark.parametrize("kind", ["file", "list"])
def test_a_bomb_takes_no_memory(tmp_path, kind):
    """Two gigabytes of zeros in two megabytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)  # needs nothing before it
    bomb = block * 128 + packer.flush()
    assert zlib.decompressobj(-zlib.MAX_WBITS).decompress(bomb, 1 << 25) == bytes(1 << 25)
    path = hostile(tmp_path, {KEY: {"log.txt": (b"x", None), "record.json": (b"{}", None)}})
    if kind == "file":
        data = path.read_bytes()
        header = (
            b"PK\x03\x04"
            + bytes(10)
            + b"\0" * 4
            + len(bomb).to_bytes(4, "little")
            + (2**31 - 1).to_bytes(4, "little")
        )
        path.write_bytes(header + b"\x18\0\0\0" + f"{KEY}/log.txt".ljust(24).encode() + bomb + data)
    else:
        comment = b"htbench 1: contents.json at %012d, %012d of %012d bytes, crc %08x"
        path.write_bytes(bomb + comment % (0, len(bomb), 1 << 31, 0))
    limit = 1 << 30  # of the address space
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "runs", "unpack", "--all", "--root", str(tmp_path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1, 2) and "MemoryError" not in done.stderr, done.stderr


def test_what_is_too_large_for_an_archive_stays_in_its_folder(store, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST", 50)
    choice = packing.choose(store)
    assert choice.keys == [] and choice.left == {"with large files": 1}


def test_files_that_are_not_of_runs_stay_in_their_folder(store):
    name = os.fsencode(store.run_folder(store.keys()[0])) + b"/not-\xff-utf8"
    Path(os.fsdecode(name)).touch()
    choice = packing.choose(store)
    assert choice.keys == [] and choice.left == {"with other files": 1}


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
    store = Store(root)
    assert sorted(check.Survey(root).damaged["link"]) == sorted(links)
    with_weights = links[NAMES.index("weights.pt")].split("/")[2]
    assert packing.choose(store).keys == [with_weights], "the others are not packed"
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
            merge(Store(store.root), tmp_path / "theirs")
    assert files(elsewhere.root) == before


def test_a_packed_run_stays_whole_beside_a_link(store, outside):
    """Unpacking and packing again write nothing through it."""
    (key,) = store.keys()
    with packing.packing(store):
        packing.pack(store, packing.plan(store, [key]), str, lambda: None)
    folder = Path(store.run_folder(key))
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(outside)
    record = store.record(key)
    assert record is not None and store.last_attempt(key) == 1
    with pytest.raises(LinkError, match="is a link"):
        store.amend(key, lambda now: now)
    with packing.packing(store), pytest.raises(LinkError, match="is a link"):
        packing.pack(store, packing.plan(store, [], {key}), str, lambda: None)
    put(store.root, seed=1)
    with packing.packing(store):
        packing.pack(store, packing.plan(store, packing.choose(store).keys), str, lambda: None)
    assert folder.is_symlink() and store.record(key) == record


def test_files_of_people_beside_a_packed_run_stay(store):
    (key,) = store.keys()
    with packing.packing(store):
        packing.pack(store, packing.plan(store, [key]), str, lambda: None)
    note = Path(store.run_folder(key), "note.md")
    note.parent.mkdir(parents=True)
    note.write_text("look again")
    put(store.root, seed=1)
    with packing.packing(store):
        packing.pack(store, packing.plan(store, packing.choose(store).keys), str, lambda: None)
    assert len(store.packed.now().archives) == 1 and note.read_text() == "look again"


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


def test_an_archive_that_is_a_link_is_damage(store, outside):
    (key,) = store.keys()
    with packing.packing(store):
        packing.pack(store, packing.plan(store, [key]), str, lambda: None)
    (path,) = store.packed.now().archives
    moved = shutil.move(path, outside.parent / "archive.zip")
    path.symlink_to(moved)
    with pytest.raises(DamagedError, match="it is a link"):
        store.keys()
    with packing.packing(store):
        salvaging.salvage(store)
    assert Path(moved).exists() and store.packed.now().runs == {}


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
    assert packing.choose(store).left == {"with links": 1}


def test_links_at_the_root_are_those_of_people(tmp_path):
    """They put the store, `runs/` or `cache/` on another disk."""
    disk, root = tmp_path / "disk", tmp_path / "store"
    for name in ("store", "runs", "sweeps", "cache", "packed"):
        (disk / name).mkdir(parents=True)
    for name in ("runs", "sweeps", "cache", "packed"):
        (disk / "store" / name).symlink_to(disk / name)
    root.symlink_to(disk / "store")
    key = put(root)
    store = Store(root)
    assert store.keys() == [key] and store.record(key) is not None
    assert cli.main(["runs", "pack", "--root", str(root)]) == 0
    assert cli.main(["runs", "unpack", "--all", "--root", str(root)]) == 0
    assert Store(root).record(key) == store.record(key) and config() is not None
    assert "link" not in check.Survey(root).damaged
