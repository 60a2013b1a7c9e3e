"""Whole sweeps through the command, as people run them: at once, extended, interrupted, damaged, in vain."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from htbench.harness.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, EXIT_USAGE
from htbench.harness.store import Store
from htbench.harness.store.points import read_points
from tests.helpers.command import Htbench
from tests.helpers.on_cluster import attempts
from tests.helpers.stored_runs import files
from tests.helpers.sweeping import SPEC, carried_out, check_whole, die_at_each, results
from tests.helpers.waiting import wait_for

LONG = SPEC.replace("steps: 8", "steps: 150")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished tiny sweep; tests copy it before they damage it."""
    return carried_out(tmp_path_factory.mktemp("finished"), SPEC)[0]


@pytest.fixture
def copy(finished, htbench, write_spec):
    shutil.copytree(finished, htbench.root)
    return write_spec(SPEC)


def test_two_at_once_share_the_work(htbench, write_spec, finished):
    spec = write_spec(SPEC)
    both = [htbench.start("sweep", "run", spec) for _ in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    check_whole(htbench.root)
    assert results(htbench.root) == results(finished)
    assert set(attempts(htbench.root).values()) == {1}


def test_two_sweeps_that_want_the_same_run_train_it_once(htbench, write_spec):
    one, two = write_spec(LONG, "one.yaml"), write_spec(LONG.replace("name: tiny", "name: other"), "two.yaml")
    both = [htbench.start("sweep", "run", spec) for spec in (one, two)]
    for process in both:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert set(attempts(htbench.root).values()) == {1} and len(attempts(htbench.root)) == 3
    tiny, other = (read_points(htbench.root, name) for name in ("tiny", "other"))
    assert [point.key for point in tiny] == [point.key for point in other]


def test_again_trains_nothing_and_an_extended_grid_only_the_new_points(copy, htbench):
    before = results(htbench.root)
    again = htbench("sweep", "run", copy)
    assert again.returncode == 0 and "3/3 runs" in again.stdout
    assert results(htbench.root) == before
    copy.write_text(SPEC.replace("[0.03, 0.1]", "[0.03, 0.1, 0.2]"))
    extended = htbench("sweep", "run", copy)
    assert extended.returncode == 0, extended.stderr
    assert set(attempts(htbench.root).values()) == {1}
    after = results(htbench.root)
    new = after.keys() - before.keys()
    assert 1 <= len(new) <= 2, "the new point, and a replica only if it wins"
    assert all(after[key] == before[key] for key in after.keys() & before.keys())


def test_an_extended_grid_keeps_its_replicas_and_its_progress_ends_at_100_percent(copy, htbench):
    """The new point can't win, so the replica of the old winner is there already."""
    (replica,) = [point for point in read_points(htbench.root, "tiny") if point.stage == "replicate"]
    copy.write_text(SPEC.replace("[0.03, 0.1]", "[0.03, 0.1, 0.00001]"))
    die_at_each(["claimed"], htbench, "sweep", "run", copy)
    assert replica in read_points(htbench.root, "tiny"), "while the new point is at work"
    (row,) = json.loads(htbench("sweep", "status", copy, "--json").stdout)
    assert (row["points"], row["completed"], row["waiting"]) == (4, 3, 1)
    done = htbench("sweep", "run", copy)
    assert done.returncode == 0 and "4/4 runs" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("[")]
    assert line.startswith("[100 %")


def test_a_smoke_test_of_another_length_is_refused_and_costs_no_checkpoint(htbench, write_spec):
    """Its run was an orphan once, as the plan of the long run was replaced."""
    spec = write_spec(LONG)
    die_at_each(["checkpoint.after"], htbench, "sweep", "run", spec)
    before = files(htbench.root)
    for action in ("run", "retry", "replicate", "submit", "index"):
        refused = htbench("sweep", action, spec, "steps=5")
        assert refused.returncode == EXIT_USAGE and len(refused.stderr.splitlines()) == 1, action
        assert files(htbench.root) == before, action
    assert htbench("sweep", "run", spec, "steps=5", "name=smoke").returncode == 0
    assert json.loads(htbench("sweep", "status", spec, "--json").stdout)[0]["completed"] == 0
    assert htbench("sweep", "run", spec, "steps=5", "--replace").returncode == 0
    (row,) = json.loads(htbench("sweep", "status", spec, "--json").stdout)
    # two of the grid and one on a fresh seed
    assert (row["completed"], row["waiting"], row["plan"]) == (0, 3, {"new": 2, "gone": 3})
    assert json.loads(htbench("sweep", "status", "tiny", "--json").stdout)[0]["completed"] == 3
    assert htbench("runs", "gc", "--orphans").returncode == 0
    assert {path for path in before if "checkpoint" in path} <= files(htbench.root).keys()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
@pytest.mark.parametrize(
    "moment", [pytest.param("sweeps/tiny/points.jsonl", marks=pytest.mark.slow), "runs/*/*/metrics.jsonl"]
)
def test_interrupted_it_saves_and_goes_on(htbench, write_spec, moment, number):
    """While the server of a fresh Python loads torch, and in the middle of runs; Ctrl-C reaches all."""
    spec = write_spec(LONG)
    command = Htbench(htbench.root, fresh=moment.startswith("sweeps"))
    process = command.start("sweep", "run", spec, "--workers", 2)
    wait_for(lambda: list(htbench.root.glob(moment)))
    time.sleep(0.3)
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == EXIT_INTERRUPTED and "goes on from here" in errors
    assert "Traceback" not in errors
    again = htbench("sweep", "run", spec)
    assert again.returncode == 0, again.stderr
    check_whole(htbench.root)


def test_when_its_minutes_are_over_it_tells_what_is_known_and_goes_on(htbench, write_spec):
    spec = write_spec(SPEC)
    late = htbench("sweep", "run", spec, "--minutes", 0)
    assert late.returncode == EXIT_RUN_FAILED and "goes on from here" in late.stderr
    assert "0/2 runs" in late.stdout and not list(htbench.root.glob("runs/*"))
    assert htbench("sweep", "run", spec, "--minutes", 60).returncode == 0
    check_whole(htbench.root)


def test_a_killed_worker_is_replaced(htbench, write_spec):
    spec = write_spec(LONG)
    process = htbench.start("sweep", "run", spec, "--workers", 1)
    started = wait_for(lambda: list(htbench.root.glob("runs/*/*/checkpoint.pt")))
    owner = json.loads((started[0].parent / "attempts" / "1.json").read_text())["owner"]
    os.kill(owner["pid"], signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    check_whole(htbench.root)
    assert sorted(attempts(htbench.root).values()) == [1, 1, 2]


def test_failures_are_shown_with_their_reason_and_retried_on_request(htbench, write_spec):
    text = SPEC.replace("optimizer.lr: [0.03, 0.1]", "optimizer.lr: [0.1]")
    spec = write_spec(text)
    assert htbench("sweep", "run", spec).returncode == 0
    key = next(p.key for p in read_points(htbench.root, "tiny") if p.stage == "search")
    folder = Store(htbench.root).run_folder(key)
    (folder / "record.json").unlink()
    attempt = json.loads((folder / "attempts" / "1.json").read_text())
    (folder / "attempts" / "1.json").write_text(
        json.dumps(attempt | {"outcome": {"reason": "oom", "message": "out of <memory>"}})
    )
    failed = htbench("sweep", "run", spec)
    assert (
        failed.returncode == EXIT_RUN_FAILED and f"run {key} failed (oom): out of <memory>" in failed.stderr
    )
    status = htbench("sweep", "status", spec)
    assert status.returncode == 0 and "failed (oom)" in status.stdout
    assert htbench("sweep", "retry", spec).returncode == 0
    assert htbench("sweep", "index", spec).returncode == 0  # its first record was deleted by hand
    check_whole(htbench.root)


DAMAGES = {"truncated": lambda data: data[: len(data) // 2], "garbage": lambda data: b"\x00\xff{garbage\n"}
# Each is mended from something else than the others beside it, so these are damaged together; of the files
# that runs have, those of different runs.
FILES = [
    ["runs/*/*/record.json", "runs/*/*/attempts/1.json", "runs/*/*/config.yaml"],
    ["runs/*/*/metrics.jsonl"],
    ["sweeps/tiny/points.jsonl", "studies/*.journal"],
    ["index.jsonl", "sweeps/tiny/spec.yaml", "studies/*.json"],
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("patterns", FILES, ids=lambda patterns: Path(patterns[0]).stem)
def test_damaged_files_of_a_finished_sweep_are_mended(copy, htbench, finished, patterns, damage):
    for number, pattern in enumerate(patterns):
        found = sorted(htbench.root.glob(pattern))
        path = found[number if pattern.startswith("runs") else 0]
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    again = htbench("sweep", "run", copy)
    assert again.returncode == 0, again.stderr
    assert "Traceback" not in again.stderr
    index = htbench("sweep", "index", copy)
    assert index.returncode == 0, index.stderr
    whole, mended = results(finished), results(htbench.root)
    for key in whole:
        assert mended[key][:3] == whole[key][:3]
        if patterns != ["runs/*/*/metrics.jsonl"]:
            assert mended[key] == whole[key]
    if patterns != ["runs/*/*/metrics.jsonl"]:
        check_whole(htbench.root)


def test_a_record_that_nothing_can_mend_is_trained_again(copy, htbench, finished):
    path = sorted(htbench.root.glob("runs/*/*/record.json"))[0]
    path.write_bytes(b"")
    (htbench.root / "index.jsonl").unlink()
    assert htbench("sweep", "run", copy).returncode == 0
    assert results(htbench.root) == results(finished)
    check_whole(htbench.root)


@pytest.mark.slow
def test_twenty_random_kills_of_the_whole_group(htbench, write_spec, tmp_path):
    spec = write_spec(LONG.replace("[0.03, 0.1]", "[0.03, 0.05, 0.1, 0.2]").replace("seeds: 1", "seeds: 2"))
    calm = Htbench(tmp_path / "calm")
    assert calm("sweep", "run", spec).returncode == 0
    chance = random.Random(0)
    kills = 0
    while kills < 20:
        process = htbench.start("sweep", "run", spec)
        time.sleep(chance.uniform(0.1, 3.0))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        assert process.returncode == 0, process.communicate()[1]
        check_whole(htbench.root)
        assert results(htbench.root) == results(calm.root)
        shutil.rmtree(htbench.root)  # done already: begin again on an empty store
    done = htbench("sweep", "run", spec)
    assert done.returncode == 0, done.stderr
    check_whole(htbench.root)
    assert results(htbench.root) == results(calm.root)
