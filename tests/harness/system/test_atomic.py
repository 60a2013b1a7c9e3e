"""Files: whole or not at all, one winner, torn lines closed, locks that die with their holder."""

import errno
import json
import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from htbench.harness.store import layout, points
from htbench.harness.store.run_folder import RunFolder
from htbench.harness.system import atomic
from tests.helpers.crash_points import CRASH_POINTS


def test_a_failed_write_leaves_the_old_file_and_no_temporary(tmp_path):
    path = tmp_path / "a.json"
    atomic.write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        atomic.write_json(path, {"a": float("nan")})

    def half(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        atomic.write_with(path, half)
    assert atomic.read_json(path) == {"a": 1} and os.listdir(tmp_path) == ["a.json"]


def _create(path, number, results):
    results.put((number, atomic.create_json(path, {"by": number})))


def test_of_many_creators_one_wins(tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    crowd = [context.Process(target=_create, args=(tmp_path / "a.json", i, results)) for i in range(8)]
    for process in crowd:
        process.start()
    outcomes = dict(results.get(timeout=30) for _ in crowd)
    for process in crowd:
        process.join()
    winners = [number for number, won in outcomes.items() if won]
    assert len(winners) == 1 and atomic.read_json(tmp_path / "a.json") == {"by": winners[0]}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_creator_whose_answer_was_lost_has_won(tmp_path, monkeypatch):
    """NFS sends the request again, and the second one fails."""

    def link_twice(source, target):
        proper(source, target)
        proper(source, target)

    proper = os.link
    monkeypatch.setattr(os, "link", link_twice)
    assert [atomic.create_json(tmp_path / "a.json", {"by": number}) for number in (1, 2)] == [True, False]
    assert atomic.read_json(tmp_path / "a.json") == {"by": 1}


def test_in_a_folder_that_is_gone_nobody_has_won(tmp_path):
    with pytest.raises(FileNotFoundError):
        atomic.create_json(tmp_path / "gone" / "a.json", {})


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    path, proper, errors = tmp_path / "a.json", Path.read_bytes, [OSError(errno.ESTALE, "Stale file handle")]
    path.write_text('{"a": 1}')

    def read_bytes(self):
        if errors:
            raise errors.pop()
        return proper(self)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert atomic.read_json(path) == {"a": 1}


def _append_beyond_the_limit(path):
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    with pytest.raises(OSError, match="too large"):
        atomic.append_line(path, {"a": "x" * 200})


def test_a_line_of_which_only_a_part_fits_is_an_error(tmp_path):
    path = tmp_path / "a.jsonl"
    process = multiprocessing.get_context("fork").Process(target=_append_beyond_the_limit, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 0 and path.stat().st_size == 100
    atomic.append_line(path, {"a": 1})
    assert atomic.read_json_lines(path) == [{"a": 1}]


def test_a_torn_last_line_is_closed_before_the_next(tmp_path):
    path = tmp_path / "a.jsonl"
    atomic.append_line(path, {"a": 1})
    with open(path, "a") as file:
        file.write('{"a": 2, "to')
    atomic.append_line(path, {"a": 3})
    assert atomic.read_json_lines(path) == [{"a": 1}, {"a": 3}]
    assert atomic.read_json_lines(tmp_path / "none") == [] and atomic.read_json(tmp_path / "none") is None


def test_torn_lines_do_not_merge():
    lines = [b'{"a": 1', b'"b": 2}', b'{"c": 3}', b"", b"4", b'{"d": 5}']
    assert atomic.json_objects(lines) == [{"c": 3}, {"d": 5}]
    assert atomic.json_objects(lines[:3]) == [{"c": 3}]
    assert atomic.json_objects(lines[:2]) == atomic.json_objects([]) == []


def test_lines_appended_by_many_processes_are_all_there(tmp_path):
    path = tmp_path / "a.jsonl"
    row = {"text": "x" * 3000}
    context = multiprocessing.get_context("fork")
    crowd = [
        context.Process(target=lambda: [atomic.append_line(path, row) for _ in range(50)]) for _ in range(4)
    ]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()
    assert atomic.read_json_lines(path) == [row] * 200


def _hold(path, held):
    with atomic.locked(path):
        held.set()
        time.sleep(60)


def test_a_lock_dies_with_its_holder(tmp_path):
    context = multiprocessing.get_context("fork")
    held = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "l", held))
    holder.start()
    assert held.wait(30)
    holder.kill()
    holder.join()
    began = time.monotonic()
    with atomic.locked(tmp_path / "l"):
        assert time.monotonic() - began < 30


def test_every_crash_point_guards_a_file_or_stands_in_the_code():
    run, root = RunFolder(Path("runs/01/0123")), Path("store")
    files = {
        "claim": run.attempt(2),
        "checkpoint": run.checkpoint,
        "items": run.test_items,
        "record": run.record,
        "slot": points.sweep_folder(root, "tiny") / points.POINTS,
        "ask": points.slot_path(root, "tiny", "tiny.muon.ab/0"),
        "study": root / layout.STUDIES / "tiny.muon.journal",
    }
    assert {name: atomic.guard(path) for name, path in files.items()} == {name: name for name in files}
    assert not any(
        map(atomic.guard, (run.config, run.metrics, run.weights, files["ask"].with_name("study.json")))
    )
    packages = [Path(atomic.__file__).parents[2] / name for name in ("harness", "sweeps")]
    sources = "".join(path.read_text() for package in packages for path in package.rglob("*.py"))
    for name in CRASH_POINTS:
        assert name.partition(".")[0] in files or f'crash_point("{name}")' in sources, name


def _write_and_die(path, instant):
    os.setsid()  # the whole group dies
    os.environ["HTBENCH_CRASH"] = instant
    atomic.write_text(path, "1")


@pytest.mark.parametrize(
    "instant, there", [("record.before", False), ("record.after", True), ("record", True)]
)
def test_a_process_dies_before_or_after_the_rename(tmp_path, instant, there):
    process = multiprocessing.get_context("fork").Process(
        target=_write_and_die, args=(tmp_path / "record.json", instant)
    )
    process.start()
    process.join()
    assert process.exitcode == (0 if instant == "record" else -signal.SIGKILL)
    assert (tmp_path / "record.json").exists() == there


def test_json_on_disk_is_json(tmp_path):
    atomic.write_json(tmp_path / "a.json", {"a": [1, None, "ü"]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"a": [1, None, "ü"]}
