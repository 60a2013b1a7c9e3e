"""The one screen: what is at work, what is left, what went wrong, from files and one look at the queue."""

import dataclasses
import os
import re
import signal
import socket
import time

import pytest

from htbench.harness.choice.edge import Edge
from htbench.harness.errors import EXIT_INTERRUPTED
from htbench.harness.show import terminal
from htbench.harness.show.note import Note
from htbench.harness.show.numbers import plain
from htbench.harness.store import Reason, Store, index, submissions
from htbench.harness.store.points import REPLICATE, sweep_folder
from htbench.harness.system import atomic, slurm
from htbench.sweeps.plan.planned import search_points
from htbench.sweeps.plan.replicas import everything
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.screens import status
from htbench.sweeps.screens.objectives import Objective
from htbench.sweeps.screens.runs import AtWork
from htbench.sweeps.spec import sweep_file as specs
from tests.helpers import squeue as stand_in
from tests.helpers.command import Htbench
from tests.helpers.json_fields import promised, read
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
    return read(done.stdout)


def stop(process):
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    return out


def test_what_is_left_is_told_by_finished_runs(htbench, write_spec):
    spec = write_spec(SPEC)
    assert htbench("sweep", "run", spec).returncode == 0
    (row,) = report(htbench, spec)
    assert (row["completed"], row["left_seconds"], row["failed"]) == (2, 0, 0)
    (line,) = htbench("sweep", "status", spec, "--json", "--watch").stdout.splitlines()
    assert read(line) == [row]
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
            lambda: [r for r in report(htbench, spec) if r["at_work"] and r["at_work"][0]["step"] > 10]
        )[0]
        promised("sweep status", [row])
        (run,) = row["at_work"]
        assert 0 < run["step"] < run["steps"] == 5000
        assert (run["host"], run["job"], run["attempt"]) == (socket.gethostname(), "", 1)
        assert row["left_seconds"] > 0, "by its own pace, as no run has finished"
        assert (run["block"], run["setting"]) == ("sgdm", {"lr": 0.03, "seed": 0})
        shown = htbench("sweep", "status", spec).stdout
        assert re.search(r"^running  sgdm lr 0.03 seed 0  step \d+/5000$", shown, re.M), "on this machine"
        assert re.search(r"^search  .* 0/2   ETA ", shown, re.M)
    finally:
        stop(process)
    stopped = wait_for(lambda: [r for r in report(htbench, spec) if not r["at_work"]])[0]
    assert stopped["waiting"] == 2


def fail(store, point, message):
    from htbench.harness.store import Attempt

    attempt = store.claim(point.key, "")
    assert isinstance(attempt, Attempt)
    attempt.end(Reason.ERROR, message)


@pytest.fixture
def planned(write_spec, tmp_path):
    spec = specs.load(write_spec(SPEC.replace("[0.03, 0.1]", "{low: 0.01, high: 0.1, num: 20}")))
    store, points = Store(tmp_path / "store"), search_points(spec)
    write_plan(store.root, spec, points)
    return store, spec, [one.point for one in points]


def told(screen, kind):
    """The notes of a kind on the screen."""
    (section,) = status.make_report(screen).sections
    return [note for note in (*section.above, *section.notes) if note.kind == kind]


def test_failures_are_shown_by_their_last_line_and_not_without_end(planned):
    store, spec, points = planned
    for letter, point in zip("abcdefghijklmno", points, strict=False):
        fail(store, point, f"ValueError: first\n{letter} second")
    screen = status.read_screen(store, [(spec, points)])
    assert {f.message[-8] for f in screen.blocks[0].failures} == set("abcdefghijklmno")
    promised("sweep status", [plain(screen.blocks[0])])
    failed = told(screen, "failed_alone")
    assert len(failed) == status.MOST_LINES and {note["reason"] for note in failed} == {"error"}
    assert all(note["message"].startswith("ValueError: first ") for note in failed)
    assert [note["runs"] for note in told(screen, "more_failed")] == [15 - status.MOST_LINES]


def test_a_failure_has_its_job_its_node_and_its_log_and_twins_share_a_line(planned, monkeypatch):
    store, spec, points = planned
    one = submissions.intend(store.root, spec.name, [point.id for point in points[:5]], {})
    submissions.answer(store.root, one, job="7")
    folder = sweep_folder(store.root, spec.name) / "logs" / one.word
    folder.mkdir(parents=True)
    for task, point in enumerate(points[:5]):
        log = folder / f"7_{task}_0_log.out"
        if task < 4:
            log.touch()
        monkeypatch.setattr("socket.gethostname", lambda task=task: "gpu17" if task < 3 else "gpu18")
        monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(task))
        fail(store, point, f"OutOfMemoryError: {task} GiB are free" if task < 4 else "KeyError: 'x'")
    screen = status.read_screen(store, [(spec, points)])
    rows = plain(screen.blocks[0])["failures"]
    assert [(row["job"], row["host"]) for row in rows] == [
        *(("7_0", "gpu17"), ("7_1", "gpu17"), ("7_2", "gpu17"), ("7_3", "gpu18"), ("7_4", "gpu18"))
    ]
    assert rows[0]["log"] == str(folder / "7_0_0_log.out")
    assert rows[4]["log"] == str(store.files(points[4].key).log), "that of the run, where the job has none"
    (twins,), (other,) = told(screen, "failed_alike"), told(screen, "failed_alone")
    assert (twins["runs"], twins["nodes"], twins["job"]) == (4, ["gpu17 (3)", "gpu18 (1)"], "7_0")
    assert (twins["message"], twins["log"]) == ("OutOfMemoryError: 0 GiB are free", rows[0]["log"])
    assert (twins["key"], twins["point"]) == (points[0].key, rows[0]["point"])
    assert (other["key"], other["nodes"], other["job"]) == (points[4].key, ["gpu18"], "7_4")
    assert (other["message"], other["log"]) == ("KeyError: 'x'", rows[4]["log"])


def at_work(store, points, steps):
    """Claim runs; each has made so many steps in the last 100 seconds."""
    for point in points:
        attempt = store.claim(point.key, "")
        attempt.began -= 100
        atomic.write_json(attempt.path, attempt.to_json() | {"start_step": 0})
        files = store.files(point.key)
        files.metrics.write_text("".join(f'{{"step": {n}, "loss": 1.0}}\n' for n in range(1, steps + 1)))


def test_a_stalled_run_is_shown_first_and_counts_for_no_eta(planned):
    store, spec, points = planned
    store = Store(store.root, alive=lambda owner, path: True)  # its job runs, says SLURM
    at_work(store, points[:14], 4)
    silent = store.files(points[13].key).attempt(1)
    os.utime(silent, (time.time() - 140, time.time() - 140))
    screen = status.read_screen(store, [(spec, points)])
    quiet = [run.silent_seconds for run in screen.blocks[0].at_work]
    assert max(quiet[:13]) < 60 and 139 <= quiet[13] <= 170
    first, *others = told(screen, "at_work")
    assert (first["step"], first["steps"]) == (4, 8) and 130 <= first["silent"] < 170
    assert len(others) == status.MOST_LINES - 1 and not any(note["silent"] for note in others)
    (line,) = told(screen, "bar")
    assert [line[name] for name in ("done", "total", "silent")] == [0, 20, 1]
    assert line["eta"] == screen.blocks[0].left_seconds / 13


@pytest.mark.parametrize(("steps", "known"), [(0, False), (10, False), (11, True)])
def test_the_first_eta_waits_for_the_end_of_the_warm_up(write_spec, tmp_path, steps, known):
    spec = specs.load(write_spec(LONG))
    store, points = Store(tmp_path / "store"), [one.point for one in search_points(spec)]
    at_work(store, points[:1], steps)
    screen = status.read_screen(store, [(spec, points)])
    block = screen.blocks[0]
    assert (block.left_seconds is not None) == known
    (line,) = told(screen, "bar")
    assert (line["eta"] > 0) == known and "seconds" not in line.fields, "that is if none is at work"


def test_a_run_that_stopped_by_itself_says_why(planned):
    store, spec, points = planned
    attempt = store.claim(points[0].key, "")
    attempt.end(Reason.STOPPED, "OSError: No space left on device")
    remarks = status.read_screen(store, [(spec, points)]).remarks
    assert remarks == [Note("stopped_before", sweep="tiny", runs=1, why="OSError: No space left on device")]


@pytest.fixture
def show_screen(capsys, monkeypatch):
    """Show a screen in a terminal of that width; what it prints."""

    def show(screen, width, *, colors=False, **more):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.delenv("NO_COLOR", raising=False) if colors else monkeypatch.setenv("NO_COLOR", "1")
        terminal.show([status.make_report(screen, **more)])
        return capsys.readouterr().out

    return show


def test_a_terminal_gets_no_line_that_is_too_long(planned, show_screen):
    store, spec, points = planned
    fail(store, points[0], "no space left " * 40)
    lines = show_screen(status.read_screen(store, [(spec, points)]), 60, when=0.0).split("\n")
    assert 50 < max(len(line) for line in lines if " " in line.strip()) <= 60, "only a path stays whole"


def objective(**given):
    facts = {"search": 9, "searched": 9, "replicas": 3, "metric": "perplexity", "value": 23.98}
    return Objective(**facts | given)


def test_the_best_of_a_finished_search_is_green_an_edge_amber_and_a_failure_red(show_screen, monkeypatch):
    edge = [Edge("optimizer.lr", 0.01, "grid", True, 0.024)]
    best, other = objective(), objective(value=31.2, edges=edge)
    monkeypatch.setenv("TERM", "xterm-256color")

    def shown(*rows, colors=True):
        blocks = [
            status.Block("tiny", f"block{n}", 9, failed=2, objectives=[own]) for n, own in enumerate(rows)
        ]
        return show_screen(status.Screen(blocks), 80, colors=colors)

    out = shown(best, other)
    assert "\x1b[32m23.98" in out and "\x1b[32m31.2" not in out
    assert "\x1b[33madd lr 0.024" in out and "\x1b[31mfailed 4" in out
    assert "\x1b[32m" not in shown(objective(searched=8), other), "a search goes on"
    assert "\x1b[3" not in shown(best, other, colors=False)


def test_fresh_seeds_that_are_not_planned_yet_are_waited_for():
    """Else `--watch` would end between a search and the runs of its winner."""
    waiting = status.Block("tiny", "sgdm", 6, completed=3, waiting=3, objectives=[objective()])
    assert not status.Screen([waiting]).settled
    assert status.Screen([dataclasses.replace(waiting, completed=6, waiting=0)]).settled


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_keeps_the_edge_whole_steps_and_the_eta(show_screen, width):
    counts = {"completed": 123, "running": 45, "queued": 678, "waiting": 90, "failed": 12}
    run = AtWork(
        "ab", "in words", 1234, 20000, "node-of-a-cluster-17", "123456_78", 2, None, "sgdm", {"lr": 1}
    )
    setting = {"lr": 0.0123456, "betas": [0.9, 0.95], "weight_decay": 0.1}
    at_edge = objective(setting=setting, edges=[Edge("optimizer.lr", 0.0123456, "grid", True, 0.024)])
    blocks = [
        status.Block("tiny", name, 948, **counts, left_seconds=7200.0, at_work=[run], objectives=[at_edge])
        for name in ("a-block-with-a-long-name", "sgdm")
    ]
    shown = show_screen(status.Screen(blocks), width)
    assert max(map(len, shown.splitlines())) <= width
    words = " ".join(shown.split())
    assert "step 1234/20000 on" in words and "ETA 2:00:00" in words and "job 123456_78" in words
    assert words.count("add lr 0.024") == 2
    assert ("left out: " in shown) == (width < 60)


def test_a_screen_of_four_blocks_fits_24_lines_of_80(show_screen):
    names = ("adamw", "sgdm", "muon", "htmuon")
    setting = {"lr": 0.015, "betas": [0.9, 0.95]}
    run = AtWork(
        "ab", "in words", 37, 120, socket.gethostname(), "", 1, 1, "muon", {"lr": 0.08, "seed": 1000}
    )
    edges = [Edge(f"optimizer.{name}", 1.0, "grid", True, 0.67) for name in ("lr", "momentum")]
    blocks = [
        status.Block("demo-digits", name, 12, running=1, at_work=[run], left_seconds=5.0)
        for name in names[:3]
    ]
    blocks = [dataclasses.replace(b, objectives=[objective(setting=setting, edges=edges)]) for b in blocks]
    screen = status.Screen([*blocks, dataclasses.replace(blocks[0], block="htmuon")])
    lines = show_screen(screen, 80).splitlines()
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    assert "left out" not in "".join(lines) and lines[-1].startswith("next: ")


# --- all of a sweep: replicas, edges, what to do next ---

WHOLE = """
name: whole
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
blocks:
  - name: sgdm
    set: {optimizer.name: sgdm}
    space: {optimizer.lr: [0.03, 0.1, 0.3], optimizer.momentum: [0, 0.9]}
  - {name: adamw, set: {optimizer.name: adamw}, space: {optimizer.lr: [0.01, 0.03]}}
replicate: {seeds: 3}
"""


def finish(store, planned, figures):
    """Give runs a result, by `figures(config)`: the accuracy on validation."""
    from tests.helpers.records import scored

    for one in planned:
        record = scored("digits", "completed", val_accuracy=figures(one.config), val_loss=1.0)
        store.run_folder(one.point.key).mkdir(parents=True)
        store.write_record(dataclasses.replace(record, key=one.point.key))


def test_replicas_count_from_the_beginning_and_the_sweep_is_done_with_the_last(write_spec, tmp_path):
    spec, store = specs.load(write_spec(WHOLE)), Store(tmp_path / "store")
    search = search_points(spec)
    write_plan(store.root, spec, search)

    def look():
        return status.read_screen(store, [(spec, [one.point for one in everything(store, spec)])])

    def counts():
        screen = look()
        found = [own for block in screen.blocks for own in block.objectives]
        bars = [(own.searched, own.search, own.replicated, own.replicas) for own in found]
        return bars, [block.waiting for block in screen.blocks], screen.settled, screen.blocks[0].next

    assert counts() == ([(0, 6, 0, 3), (0, 2, 0, 3)], [9, 5], False, "htbench sweep run whole")
    finish(store, search[:7], lambda config: config.optimizer.lr)
    assert counts() == ([(6, 6, 0, 3), (1, 2, 0, 3)], [3, 4], False, "htbench sweep run whole")
    finish(store, search[7:], lambda config: config.optimizer.lr)
    assert counts() == ([(6, 6, 0, 3), (2, 2, 0, 3)], [3, 3], False, "htbench sweep run whole")
    replicas = [one for one in everything(store, spec) if one.point.stage == REPLICATE]
    finish(store, replicas[:-1], lambda config: 0.5)
    assert counts()[2] is False
    finish(store, replicas[-1:], lambda config: 0.5)
    bars, waiting, settled, following = counts()
    assert (bars, waiting, settled) == ([(6, 6, 3, 3), (2, 2, 3, 3)], [0, 0], True)
    assert following == "htbench table whole"
    promised("sweep status", *map(plain, look().blocks))


def test_edges_are_named_with_what_to_add_once_the_search_is_over(write_spec, tmp_path):
    spec = specs.load(write_spec(WHOLE))
    search = search_points(spec)

    def edges(figures, planned):
        own = Store(tmp_path / str(len(list(tmp_path.iterdir()))))
        finish(own, planned, figures)
        found = status.read_screen(own, [(spec, [one.point for one in search])]).blocks[0].objectives[0]
        return found.advise(), {edge.setting for edge in found.edges}, found.setting

    highest, middle = (
        lambda c: c.optimizer.lr,
        lambda c: 1 - abs(c.optimizer.lr - 0.1) + c.optimizer.hyper.get("momentum", 0),
    )
    assert edges(highest, search[:5])[:2] == ("", set()), "a run of the block is to come"
    assert edges(highest, search) == ("add lr 0.9", {"optimizer.lr"}, {"lr": 0.3, "momentum": 0}), (
        "momentum can't be below 0"
    )
    assert edges(middle, search) == ("", {"optimizer.momentum"}, {"lr": 0.1, "momentum": 0.9}), (
        "nothing is allowed"
    )


def test_what_failed_is_tried_again_when_nothing_else_is_left(planned):
    store, spec, points = planned
    fail(store, points[0], "ValueError: x")
    assert status.read_screen(store, [(spec, points)]).blocks[0].next == "htbench sweep run tiny"
    assert status.read_screen(store, [(spec, points[:1])]).blocks[0].next == "htbench sweep retry tiny"
    submissions.intend(store.root, spec.name, [points[0].id], {})
    assert (
        status.read_screen(store, [(spec, points[:1])]).blocks[0].next == "htbench sweep submit tiny --retry"
    )


def test_without_a_sweep_all_of_the_store_have_a_line(htbench, write_spec):
    assert "No sweep has been planned" in htbench("sweep", "status").stdout
    for name in ("one", "two"):
        spec = write_spec(SPEC.replace("tiny", name).replace("[0.03, 0.1]", "[0.03]"))
        assert htbench("sweep", "run", spec).returncode == 0
    (htbench.root / "sweeps" / "one" / "spec.yaml").write_text("blocks: [{set: 1}]\n")
    done = htbench("sweep", "status")
    assert done.returncode == 0 and "two" in done.stdout and "htbench table two" in done.stdout
    assert "one" in done.stderr, "its file is damaged, which is said, and hides no other"
    assert [row["sweep"] for row in read(htbench("sweep", "status", "--json").stdout)] == ["two"]


# --- the best so far ---

SEEDS = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 8, batch_size: 16}
seeds: [0, 1]
blocks:
  - {name: sgdm, set: {optimizer.name: sgdm}, space: {optimizer.lr: [0.03, 0.1]}}
"""


def best_of(write_spec, tmp_path, text, accuracy):
    """The best of each objective where `accuracy(config)` says how a run ended."""
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
    (block,) = status.read_screen(store, [(spec, [one.point for one in planned])]).blocks
    assert {own.metric for own in block.objectives} <= {"accuracy", ""}
    return [(*own.fixed.values(), *own.setting.values(), own.text(), own.seeds) for own in block.objectives]


@pytest.mark.parametrize(
    ("table", "best"),
    [
        ({0.03: (0.8, 0.8), 0.1: (0.9, 0.5)}, (0.03, "80.0", 2)),  # not the lucky seed
        ({0.03: (0.8, 0.7), 0.1: (0.9, None)}, (0.03, "75.0", 2)),  # a seed is to come
        ({0.03: (0.8, 0.7), 0.1: (0.9, "diverged")}, (0.03, "75.0", 2)),
        ({0.03: (0.8, None), 0.1: (0.9, None)}, ("", 0)),
    ],
)
def test_the_best_so_far_is_the_best_mean_of_a_setting_whose_seeds_are_all_in(
    write_spec, tmp_path, table, best
):
    assert best_of(write_spec, tmp_path, SEEDS, lambda c: table[c.optimizer.lr][c.seed]) == [best]


def test_settings_that_do_not_compete_each_have_a_best(write_spec, tmp_path):
    text = SEEDS.replace("[0.03, 0.1]", "[0.03, 0.1], batch_size: [16, 32]").replace("[0, 1]", "[0]")
    found = best_of(
        write_spec, tmp_path, text, lambda c: c.optimizer.lr * (1 if c.batch_size == 16 else -1) + 0.5
    )
    assert found == [(16, 0.1, "60.0", 1), (32, 0.03, "47.0", 1)]


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
    status.read_screen(store, both)
    assert squeue() == 0
    for sweep, _ in both:
        sweep_folder(store.root, sweep.name).mkdir(exist_ok=True)
        submissions.intend(store.root, sweep.name, [points[0].id], {})
    for _ in range(3):
        status.read_screen(store, both)
    assert squeue() == 1


def test_the_index_is_read_once_for_all_sweeps(planned, monkeypatch):
    store, spec, points = planned
    parsed = []
    proper = index._lines
    monkeypatch.setattr(index, "_lines", lambda file: parsed.append(1) or proper(file))
    (store.root / "index.jsonl").write_text("")
    status.read_screen(store, [(spec, points), (spec, points)])
    assert len(parsed) == 1


# --- again and again ---


def test_watching_draws_again_until_it_is_interrupted(htbench, write_spec, tmp_path):
    fresh = Htbench(htbench.root, fresh=True)  # its output can be read as it comes
    process = fresh.start("sweep", "status", write_spec(SPEC), "--watch", "--every", "0.2")
    lines = [process.stdout.readline() for _ in range(12)]
    out = stop(process)
    assert sum("search  " in line for line in lines) >= 2, "".join(lines) + out
    assert process.returncode == EXIT_INTERRUPTED
    assert not htbench.root.exists()
