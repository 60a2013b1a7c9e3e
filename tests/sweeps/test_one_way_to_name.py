"""A sweep is named alike in every command: its name or its file, as a word or by `--sweep`."""

import re

import pytest

from htbench import results
from htbench.harness import cli

SPEC = """
name: tiny
base: {task: digits, model: resnet-nano, steps: 2, batch_size: 16, optimizer.name: sgdm}
space: {optimizer.lr: [0.1]}
"""
COMMANDS = (
    "table",
    "table main_result",
    "figure loss --out OUT",
    "ledger --scale nano",
    "report --out OUT/report.html",
    "runs ls",
    "runs export --to tensorboard --out OUT",
    "sweep status --json",
    "sweep plan --no-measure",
    "sweep run --quiet",
    "sweep retry --quiet",
    "sweep index",
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The file of a sweep and a store with it, and with a run besides that no sweep plans."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "file.yaml").write_text(SPEC)
    root = ["--root", str(folder / "store")]
    assert cli.main(["sweep", "run", str(folder / "file.yaml"), "--quiet", *root]) == 0
    words = ["task=digits", "model=resnet-nano", "steps=2", "batch_size=16"]
    assert cli.main(["run", *words, "optimizer.name=muon", *root]) == 0
    return folder


# What differs from call to call: times of the clock, ages of runs, and what is there already.
CHANGES = r"\d+:\d\d(:\d\d)?|[\d.]+ (s|min|h)\b|drawn|exported .*|\[1/1\].*"


def said(capsys, folder, command, *words):
    """The exit status of a command and what it prints, without what changes and without spaces."""
    made = [word.replace("OUT", str(folder / "out")) for word in command.split()]
    status = cli.main([*made, *words, "--root", str(folder / "store")])
    return status, re.sub(CHANGES, "", capsys.readouterr().out).split()


@pytest.mark.parametrize("command", COMMANDS)
def test_by_name_or_file_as_a_word_or_an_option(store, capsys, command):
    capsys.readouterr()
    file = str(store / "file.yaml")
    ways = [["tiny"], ["--sweep", file], *([[file], ["--sweep", "tiny"]] if command == "table" else [])]
    first, *others = [said(capsys, store, command, *way) for way in ways]
    assert first[0] == 0 and all(other == first for other in others)
    assert not any("muon" in word for word in first[1]) or command.startswith("ledger"), (
        "that run is of no sweep"
    )


def test_the_frame_takes_a_file_as_well(store):
    by_name, by_file = (results.frame(store / "store", word) for word in ("tiny", str(store / "file.yaml")))
    assert by_name.equals(by_file) and set(by_name["optimizer"]) == {"sgdm"}


def test_runs_that_no_sweep_planned_are_shown_as_well(store, capsys):
    capsys.readouterr()
    status, shown = said(capsys, store, "table")
    assert status == 0 and "muon" in shown and "sgdm" in shown


def test_a_store_without_any_sweep_has_tables_figures_and_a_report(tmp_path, capsys):
    root = ["--root", str(tmp_path / "store")]
    words = ["task=digits", "model=resnet-nano", "steps=2", "batch_size=16", "optimizer.name=muon"]
    assert cli.main(["run", *words, *root]) == 0
    capsys.readouterr()
    assert cli.main(["table", *root]) == 0 and "muon" in capsys.readouterr().out
    assert cli.main(["figure", "loss", *root]) == 0 and (tmp_path / "store/figures/loss.png").is_file()
    assert cli.main(["report", *root]) == 0 and "muon" in (tmp_path / "store/report.html").read_text()
