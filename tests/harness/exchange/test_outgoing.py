"""What of a run leaves, which runs leave, and what the command says."""

import math

import pytest

from htbench.harness.cli import main
from htbench.harness.exchange.outgoing import choose
from htbench.harness.system import environment
from tests.helpers.exporting import (
    ADAMW,
    ALONE,
    DIVERGED,
    LEAVING,
    MUON,
    SEED1,
    expected,
    same,
)


@pytest.fixture
def leaving(source):
    return {run.key: run for run in choose(source.store)[0]}


def refused(capsys, *words):
    """The one sentence with which the command refuses."""
    status = main(["runs", "export", *map(str, words)])
    (line,) = capsys.readouterr().err.splitlines()
    return status, line


# --- which runs ---


def test_finished_runs_leave_and_others_are_counted(source):
    runs, unfinished = choose(source.store)
    assert [run.key for run in runs] == [MUON, SEED1, ADAMW, DIVERGED, ALONE]
    assert unfinished == 3, "one waits, one was pruned, one was edited"


def test_sweeps_choose_runs_but_not_their_group(source):
    runs, _ = choose(source.store, ["beta"])
    assert [(run.key, run.group) for run in runs] == [(MUON, "alpha"), (ADAMW, "beta"), (DIVERGED, "beta")]


# --- what of them ---


def test_a_run_leaves_with_key_sweep_replica_and_flat_config(leaving):
    run = leaving[MUON]
    assert (run.key, run.name) == (MUON, f"muon-lr0.02-seed0-{MUON}")
    about = {name: text for name, text in run.config.items() if name.startswith("htbench.")}
    assert run.group == "alpha" and about == {
        "htbench.key": MUON,
        "htbench.stage": "search",
        "htbench.status": "completed",
    }
    assert {name: run.config[name] for name in ("optimizer.lr", "optimizer.p", "grad_clip", "compile")} == {
        "optimizer.lr": 0.02,
        "optimizer.p": 0.5,
        "grad_clip": None,
        "compile": False,
    }
    assert "node7" not in str(run)


def test_names_are_names_of_folders_and_show_what_diverged(leaving):
    assert leaving[DIVERGED].name == f"adamw-lr3-seed0-{DIVERGED}-diverged"
    assert leaving[ALONE].name == f"my.module_Opt-lr0.1-seed0-{ALONE}" and leaving[ALONE].group == "no-sweep"


def test_rows_are_the_repaired_curve(source, leaving):
    ours = {}
    for key, run in leaving.items():
        for step, row in run.rows():
            for name, value in row.items():
                ours.setdefault(key, {}).setdefault(name, []).append((step, value))
    assert same(expected(source.store), ours) and ours.keys() == set(LEAVING)


def test_the_summary_has_the_record(leaving):
    run = leaving[ADAMW]
    assert run.summary["val_loss"] == 0.25 and run.summary["train_loss"] == 0.5
    assert run.summary["run/parameters"] == 8 and run.summary["run/seconds_per_step"] == 0.5
    assert math.isnan(leaving[ALONE].summary["val_loss"])


def test_times_are_counted_from_the_beginning(leaving):
    assert leaving[ADAMW].time(4) - leaving[ADAMW].time(0) == 2.0
    assert leaving[ADAMW].time(0) == 1769860800  # 2026-01-31 12:00 UTC


# --- what is refused ---


def test_mistakes_are_told_in_a_sentence(source, tmp_path, capsys):
    root = ("--root", source.store.root)
    file = tmp_path / "file"
    file.write_text("")
    for words, told in (
        (["--to", "tensorbord", *root], "Unknown tracker 'tensorbord'; did you mean 'tensorboard'?"),
        (
            ["--to", "tensorboard", *root, "alfa"],
            f"Unknown sweep 'alfa' in the store '{source.store.root}'; did you mean 'alpha'?",
        ),
        (
            ["--to", "tensorboard", *root, "--project", "p"],
            "--project is not for tensorboard.",
        ),
        (["--to", "tensorboard", "--root", tmp_path / "none"], "There are no runs in"),
    ):
        status, line = refused(capsys, *words)
        assert status == 2 and told in line


def test_a_missing_package_is_named_with_its_extra(source, monkeypatch, capsys, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "wandb").mkdir()  # as wandb makes it
    found = environment.importlib.util.find_spec
    monkeypatch.setattr(
        environment.importlib.util, "find_spec", lambda name: found(name) if name != "tensorboard" else None
    )
    status, line = refused(capsys, "--root", source.store.root, "--to", "tensorboard")
    assert (status, line) == (
        2,
        "htbench: tensorboard is not installed; `pip install 'htbench[tensorboard]'` brings it.",
    )
