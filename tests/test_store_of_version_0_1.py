"""A store that version 0.1 wrote (`tests/fixtures/store-0.1`) is read, shown and finished as by itself.

Only the command line is used, so that it does not matter where modules are.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend, JournalStorage

import optimizers
from harness.cli import main

FIXTURE = Path(__file__).with_name("fixtures") / "store-0.1"
GOLDEN = sorted(path.name for path in (FIXTURE / "golden").iterdir() if path.is_file())
STOPPED = Path("runs/fb/fb3bf3c0d34d")
STOPPED_AT = 35
REPLICATED = ("grid", "search")  # sweeps whose winners have replicas
SETTINGS = ("task=digits", "model=resnet-nano", "steps=60", "batch_size=16", "checkpoint.every_steps=8")
SETTINGS += ("evaluation.every=25", "optimizer.name=sgdm", "optimizer.lr=0.02")


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    """What the commands say of a copy of the store."""
    folder = tmp_path_factory.mktemp("views")
    words = [sys.executable, FIXTURE / "views.py", folder]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), "no fault was found, and the queue was read"
    return folder


@pytest.fixture
def root(tmp_path):
    """A copy of the store to work in."""
    return shutil.copytree(FIXTURE / "store", tmp_path / "store")


def htbench(*words, **environment):
    """A command in a process of its own."""
    words = [sys.executable, "-m", "harness.cli", *map(str, words)]
    environment = os.environ | environment
    return subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def files(root):
    """All files but locks and caches with their contents."""
    found = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in found
        if path.name != ".lock" and path.relative_to(root).parts[0] != "cache"
    }


def trials(root):
    """What the studies know, as Optuna itself reads them."""
    found = {}
    for path in sorted(root.glob("studies/*.journal")):
        storage = JournalStorage(JournalFileBackend(str(path)))
        for study in optuna.get_all_study_summaries(storage):
            told = optuna.load_study(study_name=study.study_name, storage=storage).trials
            found[study.study_name] = [
                (t.number, t.state.name, t.params, t.value, t.intermediate_values, t.user_attrs["key"])
                for t in told
            ]
    return found


def told(root):
    """What the studies know of each run: state, value and evaluations."""
    rows = [row for found in trials(root).values() for row in found]
    return {key: (state, value, evaluations) for _, state, _, value, evaluations, key in rows}


@pytest.mark.parametrize("name", GOLDEN)
def test_commands_print_the_same_bytes(views, name):
    assert (views / name).read_text() == (FIXTURE / "golden" / name).read_text()


def test_the_index_and_the_studies_are_written_anew_alike(views):
    before, after = FIXTURE / "store", views / "store"
    index = rows(after / "index.jsonl")
    assert all(row.pop("modified") for row in index), "version 0.1 did not note it"
    assert all(row["record"].pop("digest") for row in index), "nor a digest"
    assert sorted(index, key=repr) == sorted(rows(before / "index.jsonl"), key=repr)
    then, now = trials(before), trials(after)
    assert len(then) == 8, "of two grids, a search and three single runs"
    assert {name: rows for name, rows in now.items() if name.startswith("search") and name in then} == {
        name: rows for name, rows in then.items() if name.startswith("search")
    }
    # A winner's replicas are a study of their own now, those of the search too, and a seed is no parameter.
    assert now.keys() - then.keys() == {
        f"{name}-replicas" for name in then if name.split(".")[0] in REPLICATED
    }
    assert told(after).items() >= told(before).items()
    (name,) = (name for name in now if name.startswith("search") and name not in then)
    assert len(told(after)) == len(told(before)) + len(now[name])
    assert {axis for name in now for row in now[name] for axis in row[2]} == {
        "optimizer.lr",
        "optimizer.momentum",
    }


def test_nothing_is_found_wrong(root, capsys):
    before = files(root)
    main(["doctor", "--root", str(root)])  # its exit status is about this machine
    said = capsys.readouterr().out
    assert "19 runs, 17 records, 4 sweeps" in said and "index.jsonl agrees with the run folders" in said
    assert files(root) == before


def test_a_stopped_run_goes_on_from_its_checkpoint_to_the_same_figures(root, capsys):
    folder, golden = root / STOPPED, FIXTURE / "golden" / "finished"
    curve = rows(folder / "metrics.jsonl")
    assert curve[-1]["step"] == STOPPED_AT
    # A mark that a training from the first step would overwrite.
    curve[0]["loss"] = 123.0
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in curve))
    assert main(["run", *SETTINGS, "--root", str(root)]) == 0, capsys.readouterr().err
    after, expected = rows(folder / "metrics.jsonl"), rows(golden / "metrics.jsonl")
    assert after[: len(curve)] == curve, "kept, with the mark"
    for row, other in zip(after[1:], expected[1:], strict=True):
        assert row == pytest.approx(other, rel=1e-4)
    record = json.loads((folder / "record.json").read_text())
    assert record["metrics"] == pytest.approx(
        json.loads((golden / "record.json").read_text())["metrics"], rel=1e-4
    )
    assert (record["steps"], record["attempts"], record["repeated_steps"]) == (60, 2, 0)
    assert not (folder / "checkpoint.pt").exists()


def test_a_finished_grid_is_trained_no_more(root, capsys, monkeypatch):
    as_then = runpy.run_path(FIXTURE / "views.py")["as_then"]
    for name, row in optimizers.ZOO.items():
        monkeypatch.setitem(optimizers.ZOO, name, as_then(row))
    words = ["sweep", "run", str(FIXTURE / "sweeps" / "grid.yaml"), "--root", str(root)]
    before = files(root)
    assert main(words) == 0
    assert capsys.readouterr().out == "grid: 8 of 8 points have a result\n"
    after = files(root)
    assert main(words) == 0 and files(root) == after
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {name.split(".")[0] for name in changed} == {"studies/grid", "sweeps/grid/points"}, (
        "studies are of another form now, and points have a digest"
    )


def test_a_search_goes_on_with_the_trials_it_had(root, tmp_path):
    before = trials(root)
    (name,) = (name for name in before if name.startswith("search"))
    spec = tmp_path / "search.yaml"
    spec.write_text((FIXTURE / "sweeps" / "search.yaml").read_text().replace("trials: 6", "trials: 7"))
    done = htbench("sweep", "run", spec, "--workers", 1, "--root", root)
    assert done.returncode == 0, done.stderr
    assert "search: 8 of 8 points have a result" in done.stdout
    *old, new = trials(root)[name]
    assert old == before[name] and new[0] == 6


def test_what_was_submitted_is_known(root, views, tmp_path):
    """Of four arrays one has ended, one waits; of one the submitter died, one was refused."""
    for name in ("sbatch", "scontrol"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    path = os.pathsep.join(map(str, (views / "bin", tmp_path, os.environ["PATH"])))
    for action, expected in {
        "submit": "4 points, 2 finished, 2 in the queue already",
        "reap": "1 array of a killed submitter never reached the queue, or left it",
    }.items():
        done = htbench("sweep", action, FIXTURE / "sweeps" / "cluster.yaml", "--root", root, PATH=path)
        assert f"cluster: {expected}\n" in done.stdout, done.stderr
