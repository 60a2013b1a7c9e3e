"""`sweep reap`: what a kill leaves behind is counted and tidied, and nothing that somebody is at."""

import os
import signal
import time

import pytest

from htbench.harness.store import Store, submissions
from htbench.harness.store.points import sweep_folder
from htbench.sweeps.cluster import reap
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.spec import sweep_file as specs
from tests.helpers import squeue
from tests.helpers.sweeping import check_whole, trials_by_state

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, checkpoint.every_steps: 3, log_every: 2}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
"""
OLD = time.time() - 3600


def old(path):
    path.write_text("half a")
    os.utime(path, (OLD, OLD))
    return path


def test_after_a_kill_and_again(htbench, write_spec):
    spec = write_spec(SPEC)
    killed = htbench.start("sweep", "run", spec, "--workers", 1, crash="checkpoint.after")
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    (folder,) = htbench.root.glob("runs/*/*")
    remains = [old(folder / ".record.json.7-ab.tmp"), old(folder / "attempts" / ".1.json.7-ab.tmp")]
    done = htbench("sweep", "reap", spec)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "tiny: 1 run of a dead process waits for the next `run` or `submit`",
        "tiny: 2 temporary files removed",
        "tiny: 1 study brought up to date",
    ]
    assert not any(path.exists() for path in remains)
    assert len(trials_by_state(htbench.root)["WAITING"]) == 2
    assert htbench("sweep", "reap", spec).stdout.count("temporary files") == 0
    assert htbench("sweep", "run", spec).returncode == 0
    check_whole(htbench.root)
    assert htbench("sweep", "reap", spec).stdout == "tiny: 1 study brought up to date\n"


def counts(store, spec, points, **options):
    """What `reap` tells of, by the ends of the kinds of its notes."""
    notes = reap.reap(store, spec, points, **options)
    return {note.kind.removeprefix("reaped_"): note.fields.get("n", note.fields.get("why")) for note in notes}


@pytest.fixture
def planned(write_spec, tmp_path):
    spec = specs.load(write_spec(SPEC))
    return Store(tmp_path / "store"), spec, search_points(spec)


def test_what_somebody_is_at_is_left_alone(planned):
    store, spec, points = planned
    with store.claim(points[0].point.key, "") as attempt:
        live = old(attempt.files.path / ".checkpoint.pt.7-ab.tmp")
        young = store.run_folder(points[1].point.key) / ".record.json.7-ab.tmp"
        young.parent.mkdir(parents=True)
        young.write_text("a new owner may be at it")
        done = counts(store, spec, points)
    assert live.exists() and young.exists() and done == {"studies": 1}


def test_a_submission_that_never_reached_the_queue_is_noted_once(planned, tmp_path, monkeypatch):
    store, spec, points = planned
    monkeypatch.setenv("PATH", f"{squeue.install(tmp_path / 'bin')}:{os.environ['PATH']}")
    sweep_folder(store.root, spec.name).mkdir(parents=True)
    submissions.intend(store.root, spec.name, [points[0].point.id], {})
    assert [counts(store, spec, points).get("lost") for _ in range(2)] == [1, None]
    assert submissions.read(store.root, spec.name)[0].refused


def test_without_an_answer_of_slurm_the_rest_is_done(planned, monkeypatch):
    store, spec, points = planned
    sweep_folder(store.root, spec.name).mkdir(parents=True)
    submissions.intend(store.root, spec.name, [points[0].point.id], {})
    monkeypatch.setenv("PATH", "/nowhere")
    done = counts(store, spec, points)
    assert done["studies"] == 1 and "There is no 'squeue'" in done["without_queue"]


def test_a_trial_whose_teller_was_killed_is_told(htbench, write_spec):
    search = SPEC.replace("[0.03, 0.1]", "{low: 0.01, high: 0.1}") + "search: {mode: random, trials: 2}\n"
    spec = write_spec(search)
    killed = htbench.start("sweep", "run", spec, "--workers", 1, crash="tell")
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    (record,) = htbench.root.glob("runs/*/*/record.json")
    assert "COMPLETE" not in trials_by_state(htbench.root)
    assert htbench("sweep", "reap", spec).returncode == 0
    assert trials_by_state(htbench.root)["COMPLETE"] == [record.parent.name]
