"""`htbench runs gc`: what goes and what stays; nothing of a run at work, and no result ever."""

import os
import time

import pytest

from htbench.harness import cli
from htbench.harness.config.key import run_key
from htbench.harness.errors import EXIT_USAGE
from htbench.harness.store import Reason, Store
from htbench.harness.store.gc import ABANDONED_SECONDS, garbage, remove
from htbench.harness.store.points import SEARCH, Point, slot_path, sweep_folder, write_points
from htbench.harness.system import slurm
from htbench.harness.system.atomic import append_line, temporary_name, write_json
from tests.helpers import squeue as stand_in
from tests.helpers.stored_runs import config, files, leave, put


@pytest.fixture
def gc(tmp_path, capsys):
    """Run it; returns what it says has gone."""

    def run(*words):
        assert cli.main(["runs", "gc", "--root", str(tmp_path), *words]) == 0
        first, *lines = capsys.readouterr().out.splitlines()
        assert first.startswith("would go" if "--dry-run" in words else "removed")
        return [line.split()[-1] for line in lines[2:]]

    return run


def age(path, seconds=ABANDONED_SECONDS + 60):
    then = time.time() - seconds
    for one in [*path.rglob("*"), path]:
        os.utime(one, (then, then))


def plan(root, name, *keys):
    sweep_folder(root, name).mkdir(parents=True, exist_ok=True)
    write_points(root, name, [Point(name, "b", SEARCH, key, {}) for key in keys])


def test_old_temporaries_go_and_young_ones_stay(gc, tmp_path):
    key = put(tmp_path)
    young = temporary_name(tmp_path / "index.jsonl")
    young.write_text("")
    old = [temporary_name(Store(tmp_path).run_folder(key) / "record.json"), tmp_path / "cache" / ".c.1-2.tmp"]
    old[0].write_text("")
    (old[1] / "deep").mkdir(parents=True)
    (old[1] / "deep" / "file").write_text("x")
    growing = tmp_path / "cache" / ".d.1-2.tmp"
    growing.mkdir()
    (growing / "tokens").write_text("x")
    for path in (*old, growing):
        age(path)
    os.utime(growing / "tokens")  # somebody writes into it still
    before = files(tmp_path)
    gone = [str(path.relative_to(tmp_path)) for path in old]
    assert sorted(gc("--dry-run")) == sorted(gone)
    assert files(tmp_path) == before
    assert sorted(gc()) == sorted(gone)
    assert young.exists() and (growing / "tokens").exists() and not any(path.exists() for path in old)
    assert gc() == []


def test_checkpoints_of_ended_runs_go_and_all_others_stay(gc, tmp_path):
    keys = [put(tmp_path, seed=1), put(tmp_path, "diverged", seed=2)]
    ended = [Store(tmp_path).run_folder(key) / "checkpoint.pt" for key in keys]
    for path in ended:
        path.write_text("left over by a death")
    pruned = put(tmp_path, "pruned", step=4, pruned_by=["one"], seed=3)
    at_work = put(tmp_path, "pruned", step=4, pruned_by=["one"], seed=4)
    Store(tmp_path).claim(at_work, "")  # somebody else goes on with it
    waiting = leave(tmp_path, seed=5)
    kept = [Store(tmp_path).run_folder(key) / "checkpoint.pt" for key in (pruned, at_work, waiting)]
    gone = [str(path.relative_to(tmp_path)) for path in ended]
    assert sorted(gc()) == sorted(gone)
    assert all(path.exists() for path in kept)
    assert gc("--pruned") == [str(kept[0].relative_to(tmp_path))]
    assert [path.exists() for path in kept] == [False, True, True]
    assert Store(tmp_path).record(pruned) is not None


# --- snapshots of the code ---


@pytest.fixture
def code(tmp_path):
    """Snapshots by name, the last is the newest."""

    def make(*names):
        for number, name in enumerate(names):
            folder = tmp_path / "code" / name
            folder.mkdir(parents=True)
            (folder / "file.py").write_text("")
            age(folder, 1000 - number)

    return make


def submitted(root, sweep, code, *points, word="w1"):
    sweep_folder(root, sweep).mkdir(parents=True, exist_ok=True)
    row = {"submission": word, "points": list(points), "code": code}
    append_line(sweep_folder(root, sweep) / "submissions.jsonl", row)


@pytest.fixture
def squeue(tmp_path_factory, monkeypatch):
    """Put a `squeue` on the PATH that shows one job of this name."""

    def show(name, status=0):
        row = stand_in.row("7_1", name=name)
        folder = stand_in.install(tmp_path_factory.mktemp("bin"), row, first=f"[ {status} = 0 ] || exit 1")
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setattr(slurm, "_remembered", {})

    return show


def test_code_goes_when_all_that_was_submitted_with_it_is_finished(gc, code, squeue, tmp_path):
    squeue("others.job")
    code("unused", "done", "open", "slots", "newest")
    done, waits = put(tmp_path, seed=1), leave(tmp_path, seed=2)
    submitted(tmp_path, "one", "done", done)
    submitted(tmp_path, "one", "open", done, waits, word="w2")
    submitted(tmp_path, "two", "slots", "study/0")
    assert gc() == ["code/done", "code/unused"]
    assert sorted(path.name for path in (tmp_path / "code").iterdir()) == ["newest", "open", "slots"]
    slot = slot_path(tmp_path, "two", "study/0")
    slot.parent.mkdir(parents=True)
    write_json(slot, {"trial": 0, "key": waits, "overrides": {}})
    assert gc() == []
    write_json(slot, {"trial": 0, "key": done, "overrides": {}})
    assert gc() == ["code/slots"]


@pytest.mark.parametrize(("job", "status", "gone"), [("one.w1", 0, []), ("x", 1, []), ("x", 0, ["code/a"])])
def test_code_stays_while_a_job_may_still_need_it(gc, code, squeue, tmp_path, job, status, gone):
    squeue(job, status)
    code("a", "b")
    submitted(tmp_path, "one", "a", put(tmp_path))
    assert gc() == gone


def test_code_stays_when_the_submissions_can_not_be_read(gc, code, tmp_path):
    code("a", "b")
    submitted(tmp_path, "one", "a", put(tmp_path))
    with open(sweep_folder(tmp_path, "one") / "submissions.jsonl", "a") as file:
        file.write("{torn\n")
    assert gc() == []


# --- orphans ---


def test_orphans_go_only_if_wanted_and_never_with_a_record(gc, tmp_path):
    wanted, orphan, done = leave(tmp_path, seed=1), leave(tmp_path, seed=2), put(tmp_path, seed=3)
    running = leave(tmp_path, "", seed=4)
    plan(tmp_path, "mine", wanted, run_key(config(seed=9)))
    assert gc() == []
    assert gc("--orphans") == [str(Store(tmp_path).run_folder(orphan).relative_to(tmp_path))]
    kept = {path.name for path in tmp_path.glob("runs/*/*")}
    assert kept == {wanted, done, running}


def test_an_orphan_that_somebody_claims_meanwhile_stays(tmp_path):
    store, key = Store(tmp_path), leave(tmp_path)
    (orphan,) = garbage(store, orphans=True)
    attempt = store.claim(key, "")
    assert not remove(store, orphan)
    attempt.check()
    attempt.end(Reason.ERROR, "because")
    assert remove(store, orphan) and not attempt.files.path.exists(), "a failed one goes as well"


def test_orphans_can_not_be_told_without_all_plans(tmp_path, capsys):
    orphan = leave(tmp_path)
    (tmp_path / "sweeps" / "lost").mkdir(parents=True)
    assert cli.main(["runs", "gc", "--root", str(tmp_path), "--orphans"]) == EXIT_USAGE
    assert "sweep index lost" in capsys.readouterr().err
    assert Store(tmp_path).run_folder(orphan).exists()
