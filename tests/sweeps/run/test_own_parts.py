"""Sweeps over a user's own parts, from a folder outside of the repository, as the README shows it."""

import re
import sys

import pytest

from htbench.harness.config import parts
from htbench.harness.config.settings import resolve_config
from htbench.harness.cost.probe import probe
from htbench.harness.store import Store
from htbench.harness.store.points import read_points
from htbench.sweeps.cluster import snapshot
from tests.helpers.command import Htbench
from tests.helpers.own_parts import SWEEP, lay_out, optimizer

DATA = """
from htbench.harness.data.digits import fingerprint, load
from htbench.harness.tasks import TaskSpec

TASK = TaskSpec("", "image", "loss", False, "my_data:fingerprint", "my_data:load", adamw_lr=0.02)
"""
# Without other optimizers beside the user's own.
ALONE = SWEEP[: SWEEP.index("  - {name: adamw")]


@pytest.fixture
def user(tmp_path):
    """`htbench` called in a folder of the user's."""
    folder = tmp_path / "user"
    folder.mkdir()
    return Htbench(tmp_path / "store", cwd=folder)


def done(user, *words):
    ended = user(*words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def points(user):
    return read_points(user.root, "own")


def test_the_optimizer_of_the_readme_does_what_it_must(user):
    lay_out(user.cwd)
    assert "wrong" not in done(user, "zoo", "--check", "my_opt:SignMomentum")


def test_own_optimizers_beside_ours_in_plan_run_table_and_status(user):
    part, spec = lay_out(user.cwd)
    assert "8 runs" in done(user, "sweep", "plan", spec, "--no-measure")
    assert "8/8 runs" in done(user, "sweep", "run", spec, "--workers", "2")
    table = done(user, "table", "main_result", "--format", "md")
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    assert rows.keys() > {"adamw", "torch.optim:RAdam", "my_opt:SignMomentum"}
    assert " beta " in rows["optimizer"]
    config = Store(user.root).record(points(user)[-1].key).config
    assert config["optimizer"]["hyper"] == {"beta": 0.95} and len(config["revisions"]["optimizer"]) == 12
    listing = done(user, "runs", "ls", "optimizer.name=my_opt:SignMomentum", "optimizer.beta=0.95")
    assert listing.count("my_opt:SignMomentum") == 2
    status = done(user, "sweep", "status", spec)

    part.unlink()
    assert done(user, "table", "main_result", "--format", "md") == table, "tables need the records alone"
    assert done(user, "sweep", "status", spec) == status
    assert done(user, "runs", "ls").count("my_opt:SignMomentum") == 4
    ended = user("sweep", "plan", spec, "--no-measure")
    assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1
    assert "'my_opt:SignMomentum' is not found: there is no module 'my_opt'" in ended.stderr


def test_edited_code_makes_new_runs_and_the_old_ones_keep_their_rows(user):
    part, spec = lay_out(user.cwd)
    done(user, "sweep", "run", spec)
    before = [point.key for point in points(user)]
    part.write_text(optimizer().replace(".sign()", ".sign().mul(0.5)"))
    plan = " ".join(done(user, "sweep", "plan", spec, "--no-measure").split())
    assert " 4 to run" in plan and "; 8 runs, 4 finished" in plan
    again = r"4 runs have results and are trained again: the code of my_opt:SignMomentum was .*; 4 finished"
    assert re.search(again, plan)
    assert re.search(again, user("sweep", "run", spec).stderr), "before they are"
    after = [point.key for point in points(user)]
    assert before[:4] == after[:4] and not set(before[4:]) & set(after[4:])
    assert Store(user.root).records(before).keys() == set(before)


def test_a_search_over_an_own_optimizer(user):
    _, spec = lay_out(user.cwd, ALONE)
    text = spec.read_text().replace("[0.001, 0.003]", "{low: 0.001, high: 0.01, log: true}")
    spec.write_text(text + "search: {mode: random, trials: 2}\n")
    assert "2/2 runs" in done(user, "sweep", "run", spec)


def test_several_processes_of_a_run_find_an_own_optimizer(user):
    lay_out(user.cwd)
    words = ["task=digits", "model=resnet-nano", "steps=2", "batch_size=16", "processes=2"]
    assert "completed after 2 steps" in done(user, "run", *words, "optimizer.name=my_opt:SignMomentum")


def test_an_own_task_with_a_metric_of_its_own_is_told_by_its_records(user):
    _, spec = lay_out(user.cwd, ALONE)
    data = user.cwd / "my_data.py"
    data.write_text(DATA)
    spec.write_text(spec.read_text().replace("task: digits", "task: my_data:TASK"))
    done(user, "sweep", "run", spec)
    table, status = done(user, "table"), done(user, "sweep", "status", spec)
    assert "test loss" in table and "val loss" in status
    data.unlink()
    assert done(user, "table") == table and done(user, "sweep", "status", spec) == status
    assert "loss" in done(user, "runs", "ls")


def test_a_command_elsewhere_finds_what_lies_beside_the_file_and_says_what_is_missing(user, tmp_path):
    part, spec = lay_out(user.cwd, ALONE)
    elsewhere = Htbench(user.root, cwd=tmp_path)
    planned = done(elsewhere, "sweep", "plan", spec)
    assert "4 runs" in planned and "can't be measured" not in planned
    assert "4/4 runs" in done(elsewhere, "sweep", "run", spec)
    part.unlink()
    ended = elsewhere("sweep", "plan", spec)
    assert ended.returncode == 2 and "working folder, on PYTHONPATH or installed" in ended.stderr


def test_the_folder_of_the_file_comes_before_the_working_folder(user, tmp_path):
    part, spec = lay_out(user.cwd)
    config, stray = user.cwd / "one.yaml", tmp_path / part.name
    config.write_text(
        "{task: digits, model: resnet-nano, steps: 2, batch_size: 16, optimizer.name: 'my_opt:SignMomentum'}"
    )
    stray.write_text("raise RuntimeError('not this one')")
    elsewhere = Htbench(user.root, cwd=tmp_path)
    assert "completed after 2 steps" in done(elsewhere, "run", config)
    assert "SignMomentum" in done(elsewhere, "cost", config)
    part.rename(stray)
    assert "8 runs" in done(elsewhere, "sweep", "plan", spec, "--no-measure"), "then the working folder"


def test_the_measuring_process_finds_what_this_one_finds(user, tmp_path, monkeypatch):
    lay_out(user.cwd)
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(parts, "folders", [])
    (user.cwd / "my_opt.py").rename(user.cwd / "my_measured_opt.py")
    settings = {
        "task": "digits",
        "model": "resnet-nano",
        "steps": 4,
        "optimizer.name": "my_measured_opt:SignMomentum",
    }
    parts.allow(parts.named(settings), user.cwd)
    assert probe(tmp_path / "cache", resolve_config(settings)).step > 0


# --- the snapshot for jobs ---


def test_a_snapshot_takes_own_parts_along(tmp_path, monkeypatch):
    package, folder = tmp_path / "htbench", tmp_path / "user"
    package.mkdir()
    (package / "a.py").write_text("1")
    part, _ = lay_out(folder)
    part = part.rename(folder / "my_own_opt.py")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(snapshot, "PACKAGE", package)
    monkeypatch.setattr(snapshot, "CODE", tmp_path)
    base = {"task": "digits", "model": "resnet-nano", "steps": 1}
    names = ("my_own_opt:SignMomentum", "torch.optim:RAdam", "adamw")
    configs = [resolve_config(base | {"optimizer.name": name}) for name in names]
    taken = snapshot.take(tmp_path / "store", configs).folder
    assert sorted(str(path.relative_to(taken)) for path in taken.rglob("*.py")) == [
        *("htbench/a.py", "outside/my_own_opt.py")
    ]
    assert snapshot.name_snapshot(tmp_path / "store", configs).folder == taken
    part.write_text(part.read_text() + "# edited\n")
    assert snapshot.name_snapshot(tmp_path / "store", configs).folder != taken
    assert "# edited" not in (taken / "outside" / "my_own_opt.py").read_text()


def test_an_error_of_a_users_code_is_said_once_with_its_line_and_the_runs_that_it_ended(user):
    (user.cwd / "my_bad.py").write_text(
        "import torch\n\n\nclass Bad(torch.optim.SGD):\n    def step(self, closure=None):\n"
        "        raise ValueError('shapes differ')\n"
    )
    spec = user.cwd / "bad.yaml"
    spec.write_text(
        "base: {task: digits, model: resnet-nano, steps: 2, batch_size: 16, device: cpu}\n"
        "space: {optimizer.lr: [0.1, 0.2, 0.3, 0.4]}\n"
        "blocks: [{name: bad, set: {optimizer.name: 'my_bad:Bad'}}]\n"
    )
    ended = user("sweep", "run", spec, "--workers", "1")
    message = "failed (error): ValueError: shapes differ (my_bad.py:6)"
    first, *others, last, _ = (line for line in ended.stderr.splitlines() if not line.endswith(" ..."))
    assert first.endswith(message) and all(line.endswith("failed (error), as before") for line in others)
    assert len(others) == 3 and last.startswith("htbench: run ") and last.endswith(f" and 3 more {message}")
    assert (
        ended.returncode == 1 and "every run of my_bad:Bad ended without a value (4 failed)" in ended.stdout
    )
    assert "replicate" not in done(user, "sweep", "status", "bad"), "more seeds of nothing are no advice"
