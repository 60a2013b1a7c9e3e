"""The one screen: what is at work, what is left, what went wrong, from files and one look at the queue."""

import dataclasses
import json
import os
import re
import shutil
import signal
import socket
from collections import Counter

import pytest

from harness.errors import EXIT_INTERRUPTED
from harness.store import Store
from harness.store.index import Index
from harness.store.points import sweep_folder
from harness.system import slurm
from sweeps.cluster import submissions
from sweeps.plan.planned import search_points, write_plan
from sweeps.screens import status
from sweeps.spec import sweep_file as specs
from tests.helpers import squeue as stand_in
from tests.helpers.command import Htbench
from tests.helpers.waiting import wait_for

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16, log_every: 2}
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
"""
LONG = SPEC.replace("steps: 8", "steps: 5000")


def report(htbench, spec):
    done = htbench("sweep", "status", spec, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stop(process):
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    return out


def test_what_is_left_is_told_by_finished_runs(htbench, write_spec):
    spec = write_spec(SPEC)
    assert htbench("sweep", "run", spec).returncode == 0
    (row,) = report(htbench, spec)
    assert (row["completed"], row["left_seconds"]) == (2, 0)
    write_spec(SPEC.replace("steps: 8", "steps: 16"))
    (once,) = report(htbench, spec)
    write_spec(SPEC.replace("steps: 8", "steps: 32"))
    (twice,) = report(htbench, spec)
    assert 0 < once["left_seconds"] < twice["left_seconds"] and twice["waiting"] == 2


def test_runs_at_work_show_how_far_they_are(htbench, write_spec):
    spec = write_spec(LONG)
    process = htbench.start("sweep", "run", spec, "--workers", 1)
    try:
        row = wait_for(
            lambda: [r for r in report(htbench, spec) if r["at_work"] and r["at_work"][0]["step"]]
        )[0]
        (run,) = row["at_work"]
        assert 0 < run["step"] < run["steps"] == 5000
        assert (run["host"], run["job"], run["attempt"]) == (socket.gethostname(), "", 1)
        assert row["left_seconds"] > 0, "by its own pace, as no run has finished"
        shown = htbench("sweep", "status", spec).stdout
        assert re.search(r"at work: tiny sgdm lr=0.03 seed=0: step \d+ of 5000 on", shown)
        assert re.search(
            r"tiny: 0 of 2 points have a result, 2 to go, 1 at work; .* of one worker, ETA", shown
        )
    finally:
        stop(process)
    stopped = wait_for(lambda: [r for r in report(htbench, spec) if not r["at_work"]])[0]
    assert stopped["waiting"] == 2


def fail(store, point, message):
    from harness.store import Attempt

    attempt = store.claim(point.key, "")
    assert isinstance(attempt, Attempt)
    attempt.end("error", message)


@pytest.fixture
def planned(write_spec, tmp_path):
    spec = specs.load(write_spec(SPEC.replace("[0.03, 0.1]", "{low: 0.01, high: 0.1, num: 20}")))
    store, points = Store(tmp_path / "store"), search_points(spec)
    write_plan(store.root, spec, points)
    return store, spec, [one.point for one in points]


def test_failures_are_shown_by_their_last_line_and_not_without_end(planned, capsys):
    store, spec, points = planned
    for point in points[:15]:
        fail(store, point, "ValueError: first\nsecond")
    screen = status.look(store, [(spec, points)])
    assert [f["message"] for f in screen.blocks[0].failures] == ["ValueError: first\nsecond"] * 15
    status.show(screen)
    shown = capsys.readouterr().out.splitlines()
    failed = [line for line in shown if line.startswith("failed (error)")]
    assert len(failed) == status.MOST_LINES and all("ValueError: first second" in line for line in failed)
    assert "... and 3 more failed" in shown


def test_a_run_that_stopped_by_itself_says_why(planned):
    store, spec, points = planned
    attempt = store.claim(points[0].key, "")
    attempt.end("stopped", "OSError: No space left on device")
    remarks = status.look(store, [(spec, points)]).remarks
    assert remarks == ["tiny: 1 waiting runs stopped before: OSError: No space left on device"]


def test_a_terminal_gets_no_line_that_is_too_long(planned, capsys, monkeypatch):
    store, spec, points = planned
    fail(store, points[0], "x" * 500)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    status.show(status.look(store, [(spec, points)]), again=True)
    lines = capsys.readouterr().out.split("\n")
    assert lines[0].startswith("\x1b[H\x1b[2J")
    assert max(len(line) for line in lines[1:]) == 60


def test_the_best_so_far_is_not_what_a_narrow_terminal_cuts_off(capsys, monkeypatch):
    block = status.Block("tiny", "sgdm", 2, Counter(completed=2), 0.0, "lr=0.03: val accuracy 0.9")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    status.show(status.Screen([block]))
    shown = capsys.readouterr().out
    assert "best so far" not in shown and "best of tiny sgdm: lr=0.03: val accuracy 0.9\n" in shown


# --- the best so far ---

SEEDS = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
seeds: [0, 1]
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
"""


def best_of(write_spec, tmp_path, text, accuracy):
    """What status shows where `accuracy(config)` tells how a run ended: a figure, a status, or None."""
    from tests.helpers.records import scored as run

    def record(config):
        found = accuracy(config)
        figures = {} if isinstance(found, str) else {"val_accuracy": found, "val_loss": 1.0}
        return run("digits", found if isinstance(found, str) else "completed", **figures)

    spec, store = specs.load(write_spec(text)), Store(tmp_path / "store")
    planned = search_points(spec)
    for one in planned:
        if accuracy(one.config) is not None:
            path = store.run_folder(one.point.key)
            path.mkdir(parents=True)
            store.write_record(dataclasses.replace(record(one.config), key=one.point.key))
    return status.look(store, [(spec, [one.point for one in planned])]).blocks[0].best


@pytest.mark.parametrize(
    ("table", "best"),
    [
        ({0.03: (0.8, 0.8), 0.1: (0.9, 0.5)}, "lr=0.03: val accuracy 0.8 (n=2)"),  # not the lucky seed
        ({0.03: (0.8, 0.7), 0.1: (0.9, None)}, "lr=0.03: val accuracy 0.75 (n=2)"),  # a seed is to come
        ({0.03: (0.8, 0.7), 0.1: (0.9, "diverged")}, "lr=0.03: val accuracy 0.75 (n=2)"),
        ({0.03: (0.8, None), 0.1: (0.9, None)}, ""),
    ],
)
def test_the_best_so_far_is_the_best_mean_of_a_setting_whose_seeds_are_all_in(
    write_spec, tmp_path, table, best
):
    assert best_of(write_spec, tmp_path, SEEDS, lambda c: table[c.optimizer.lr][c.seed]) == best


def test_the_best_of_one_seed_says_which(write_spec, tmp_path):
    text = SEEDS.replace("[0, 1]", "[5]")
    assert best_of(write_spec, tmp_path, text, lambda c: c.optimizer.lr) == "lr=0.1 seed=5: val accuracy 0.1"


def test_settings_that_do_not_compete_each_have_a_best(write_spec, tmp_path):
    text = SEEDS.replace("[0.03, 0.1]", "[0.03, 0.1], batch_size: [16, 32]").replace("[0, 1]", "[0]")
    found = best_of(
        write_spec, tmp_path, text, lambda c: c.optimizer.lr * (1 if c.batch_size == 16 else -1) + 0.5
    )
    assert found == (
        "batch_size=16: lr=0.1 seed=0: val accuracy 0.6; batch_size=32: lr=0.03 seed=0: val accuracy 0.47"
    )


# --- the queue ---


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """A `squeue` with an empty queue that counts how often it is asked."""
    asked = tmp_path / "asked"
    folder = stand_in.install(tmp_path / "bin", first=f"echo asked >>{asked}")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "_remembered", {})
    return lambda: len(asked.read_text().splitlines()) if asked.exists() else 0


def test_slurm_is_asked_once_for_all_sweeps_and_looks_and_never_without_submissions(planned, squeue):
    store, spec, points = planned
    both = [(spec, points), (specs.SweepSpec("other", {}, [0], spec.blocks), points)]
    status.look(store, both)
    assert squeue() == 0
    for sweep, _ in both:
        sweep_folder(store.root, sweep.name).mkdir(exist_ok=True)
        submissions.intend(store.root, sweep.name, [points[0].id], {})
    for _ in range(3):
        status.look(store, both)
    assert squeue() == 1


def test_what_a_job_said_before_its_run_began_is_shown(planned, squeue):
    store, spec, points = planned
    one = submissions.intend(store.root, spec.name, [point.id for point in points[:3]], {})
    submissions.answer(store.root, one, job="7")
    folder = sweep_folder(store.root, spec.name) / "logs" / one.word
    folder.mkdir(parents=True)
    for task in (0, 1):
        (folder / f"7_{task}_0_log.out").write_text("hello\nmodule: command not found\n\n")
    fail(store, points[0], "it had begun")
    remarks = status.look(store, [(spec, points)]).remarks
    assert remarks == ["tiny: 1 jobs ended before their run began: module: command not found"]


def test_jobs_that_find_nothing_to_do_are_explained(planned, squeue, tmp_path):
    """Somebody has removed the folder with their pickles, or one of them."""
    store, spec, points = planned
    names = [point.id for point in points[:3]]
    one = dataclasses.replace(submissions.intend(store.root, spec.name, names, {}), job="7")
    submissions.answer(store.root, one, job="7")
    rows = [stand_in.row(f"7_{n}", "PENDING", name=one.name) for n in range(2)]
    stand_in.install(tmp_path / "bin", *rows)
    folder = sweep_folder(store.root, spec.name) / "logs" / one.word
    folder.mkdir(parents=True)
    (folder / "7_0_submitted.pkl").touch()
    log = folder / "7_2_0_log.out"
    log.write_text(
        f"RuntimeError: Waited for 60 seconds but could not find submitted jobs in path:\n{folder}\n"
    )
    _, *remarks = status.look(store, [(spec, points)]).remarks
    assert remarks == [
        f"tiny: 1 jobs in the queue will end at once, what they are to do is gone from '{folder}'; "
        f"`htbench sweep cancel` and `submit` replace them",
        f"tiny: 1 jobs ended before their run began: what they were to do was missing in '{folder}'; "
        f"the next `submit` submits them again",
    ]
    shutil.rmtree(folder)
    _, *remarks = status.look(store, [(spec, points)]).remarks
    assert [line.split(",")[0] for line in remarks] == [
        "tiny: 2 jobs in the queue will end at once",
        f"tiny: 1 jobs ended before their run began: '{folder}'",
    ]


def test_the_index_is_read_once_for_all_sweeps(planned, monkeypatch):
    store, spec, points = planned
    parsed = []
    parse = Index._parse
    monkeypatch.setattr(Index, "_parse", lambda self: parsed.append(1) or parse(self))
    (store.root / "index.jsonl").write_text("")
    status.look(store, [(spec, points), (spec, points)])
    assert len(parsed) == 1


# --- again and again ---


def test_watching_ends_with_the_sweep(htbench, write_spec):
    spec = write_spec(SPEC)
    assert htbench("sweep", "run", spec).returncode == 0
    done = htbench("sweep", "status", spec, "--watch", timeout=60)
    assert done.returncode == 0 and done.stdout.count("2 of 2 points have a result") == 1


def test_watching_draws_again_until_it_is_interrupted(htbench, write_spec, tmp_path):
    fresh = Htbench(htbench.root, fresh=True)  # its output can be read as it comes
    process = fresh.start("sweep", "status", write_spec(SPEC), "--watch", "--every", "0.2")
    lines = [process.stdout.readline() for _ in range(12)]
    out = stop(process)
    assert sum("2 to go, 0 at work" in line for line in lines) >= 2, "".join(lines) + out
    assert process.returncode == EXIT_INTERRUPTED
    assert not htbench.root.exists()
