"""Queued jobs whose points or resources the sweep file has changed."""

import json

import pytest

from htbench.harness.store import Reason, Store
from htbench.harness.store.points import read_points
from htbench.harness.system import atomic
from tests.helpers.fake_slurm import FakeSlurm
from tests.helpers.json_fields import promised
from tests.helpers.records import record

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1, 0.2]}}
resources: {timeout_min: 240}
"""
FEWER = SPEC.replace("[0.03, 0.1, 0.2]", "[0.03]")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    return FakeSlurm(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def sweep(htbench, write_spec, cluster):
    """`htbench sweep ACTION` on a file with that text; the lines that it prints."""

    def sweep(action, text, *words, status=0, **more):
        done = htbench("sweep", action, write_spec(text), *words, **more)
        assert done.returncode == status, done.stderr
        return (done.stdout if status == 0 else done.stderr).splitlines()

    sweep("submit", SPEC)
    assert cluster.jobs() == {"8_0": "PENDING", "8_1": "PENDING", "8_2": "PENDING"}
    return sweep


# --- points that are gone ---


def test_jobs_of_points_that_the_file_has_lost_are_named_and_cancelled(sweep, cluster):
    cluster.change("8_1", state="RUNNING")
    (row,) = json.loads("\n".join(sweep("status", FEWER, "--json")))
    promised("sweep status", [row])
    assert row["jobs"]["removed"] == ["8_1", "8_2"]
    fact = "tiny: 2 jobs in the queue are for runs that the sweep no longer plans; "
    hint, done = "`submit` with the file cancels those that wait", "1 is cancelled now"
    for words, end in ((["status"], hint), (["submit", "--replace"], done)):
        lines = sweep(words[0], FEWER, *words[1:])
        assert [line for line in lines if "no longer plans" in line] == [fact + end]
    assert cluster.jobs() == {"8_0": "PENDING", "8_1": "RUNNING"}, "a run at work is worth its result"


def test_nothing_is_said_of_a_file_that_is_as_it_was(sweep):
    (row,) = json.loads("\n".join(sweep("status", SPEC, "--json")))
    assert row["jobs"] == {"removed": [], "outdated": [], "ended_early": []}
    assert sweep("submit", SPEC) == ["tiny: 3 runs, 3 in the queue already"]


def test_a_job_that_another_sweep_of_the_store_waits_for_stays(sweep, cluster, htbench, write_spec):
    other = write_spec(SPEC.replace("name: tiny", "name: other"), "other.yaml")
    assert "3 in the queue already" in htbench("sweep", "submit", other).stdout
    lines = sweep("submit", FEWER, "--replace") + sweep("status", FEWER)
    assert not any("no longer plans" in line for line in lines)
    assert len(cluster.jobs()) == 3


def test_leftovers_of_settled_runs_go_and_those_of_an_owner_that_lives_stay(sweep, htbench):
    store = Store(htbench.root)
    dead, alive, failed = (store.claim(p.key, "") for p in read_points(htbench.root, "tiny"))
    left = [atomic.temporary_name(one.path) for one in (dead, alive, failed)]
    left += [dead.files.checkpoint, alive.files.checkpoint]
    for path in left:
        path.write_text("")
    for one in (dead, alive):  # both are about to note their end
        store.write_record(record(one.key))
    dead._note(owner=dead.owner.to_json() | {"started": 0})  # its pid is another process's now
    failed.end(Reason.OOM)
    assert sweep("submit", SPEC) == ["tiny: 3 runs, 2 finished, 1 in the queue already"]
    assert [path.exists() for path in left] == [False, True, False, False, True]
    assert store.index.rows().keys() == {dead.key}, "the owner that lives will note its record itself"


# --- resources that have changed ---


def test_jobs_that_ask_for_something_else_are_counted(sweep, cluster):
    changed = SPEC.replace("timeout_min: 240", "timeout_min: 240, partition: long")
    cluster.change("8_0", state="RUNNING")
    said = (
        "tiny: 2 queued jobs ask for other resources than the file; `htbench sweep cancel tiny`, then "
        "`submit` with the file, replaces them"
    )
    for action in ("status", "submit"):
        assert said in sweep(action, changed)
    (row,) = json.loads("\n".join(sweep("status", changed, "--json")))
    promised("sweep status", [row])
    assert row["jobs"]["outdated"] == ["8_1", "8_2"] and len(cluster.jobs()) == 3
    sweep("cancel", changed)
    sweep("submit", changed)
    assert not any("other resources" in line for line in sweep("status", changed))


def test_a_limit_on_jobs_in_the_queue_is_nothing_that_a_job_asks_for(sweep):
    limited = SPEC.replace("240", "240, submit_limit: 5")
    assert sweep("submit", limited) == ["tiny: 3 runs, 3 in the queue already"]
