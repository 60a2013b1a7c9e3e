"""`htbench runs ls`: which runs are listed, in which order, and with what."""

import json
import os
import re

import pytest

from htbench.harness import cli
from htbench.harness.commands import runs as runs_command
from htbench.harness.errors import EXIT_USAGE
from htbench.harness.store import Store
from htbench.harness.store.points import SEARCH, Point, sweep_folder, write_points
from tests.helpers.json_fields import promised, read
from tests.helpers.stored_runs import leave, put


@pytest.fixture
def ls(tmp_path, capsys):
    def run(*words):
        status = cli.main(["runs", "ls", "--root", str(tmp_path), *words])
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def runs(tmp_path):
    """Six runs, named by what became of them; the first is the oldest."""
    keys = {
        "completed": put(tmp_path, lr=0.1, accuracy=0.875),
        "diverged": put(tmp_path, "diverged", step=5, **{"optimizer.name": "muon"}),
        "pruned": put(tmp_path, "pruned", step=4, **{"optimizer.name": "htmuon", "optimizer.p": 0.25}),
        "waiting": leave(tmp_path, seed=1),
        "failed": leave(tmp_path, "oom", seed=2),
        "running": leave(tmp_path, "", seed=3),
    }
    for age, name in enumerate(("completed", "diverged", "pruned")):
        path = Store(tmp_path).run_folder(keys[name]) / "record.json"
        os.utime(path, (1e9 + age, 1e9 + age))
    return keys


def listed(out):
    """The keys in the table, which stands below the number of runs."""
    return [line.split()[0] for line in out.partition("\n\n")[2].splitlines()[1:]]


def test_finished_runs_the_newest_first_and_all_if_wanted(ls, runs):
    status, out, _ = ls()
    assert status == 0 and listed(out) == [runs[name] for name in ("pruned", "diverged", "completed")]
    line = out.splitlines()[-1].split()
    assert line[1:12] == "digits resnet-nano sgdm 0.1 0 completed 8 accuracy 87.5 % 125.0".split()
    assert set(listed(ls("--all")[1])) == set(runs.values())
    for name, key in runs.items():
        assert listed(ls("--status", name)[1]) == [key]
    assert "failed (oom)" in ls("--status", "failed")[1]
    assert listed(ls("--limit", "2")[1]) == [runs["pruned"], runs["diverged"]]


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[:-9], lambda text: "", lambda text: text.replace('"steps": 8', '"steps": 9999')],
)
def test_a_run_whose_record_is_damaged_is_named_and_has_no_figures(ls, runs, tmp_path, damage):
    path = Store(tmp_path).run_folder(runs["completed"]) / "record.json"
    path.write_text(damage(path.read_text()))
    (tmp_path / "index.jsonl").unlink()
    for words in ((), ("--status", "damaged")):
        status, out, _ = ls(*words)
        (line,) = [line.split() for line in out.splitlines() if line.startswith(runs["completed"])]
        assert status == 0 and "damaged" in line and "0.875" not in line and "digits" in line
    assert listed(ls("--status", "completed")[1]) == []
    (plain,) = json.loads(ls("--json", "--status", "damaged")[1])
    assert (plain["status"], plain["steps"], plain["metrics"]) == ("damaged", None, {}) and plain["reason"]
    assert set(listed(ls("--all")[1])) == set(runs.values())


def test_the_settings_that_tell_runs_apart_have_columns(ls, runs, tmp_path):
    def table(*words):
        _, _, head, *rows = ls(*words)[1].splitlines()
        return head.split(), [row.split() for row in rows]

    head, rows = table("--all")
    assert head[5:8] == ["p", "seed", "status"], "nothing else varies among runs of one optimizer"
    (htmuon,) = [row for row in rows if row[0] == runs["pruned"]]
    assert htmuon[3:8] == ["htmuon", "0.1", "0.25", "0", "pruned"]
    more = put(tmp_path, lr=0.1, batch_size=32)
    head, rows = table("optimizer.name=sgdm")
    assert head[4:8] == ["lr", "seed", "batch_size", "status"]
    assert {row[0]: row[6] for row in rows} == {more: "32", runs["completed"]: "16"}


def test_the_newest_fifty_unless_more_are_wanted(ls, tmp_path, monkeypatch):
    assert runs_command.NEWEST == 50
    monkeypatch.setattr(runs_command, "NEWEST", 5)
    keys = [put(tmp_path, seed=seed) for seed in range(8)]
    for age, key in enumerate(keys):
        os.utime(Store(tmp_path).run_folder(key) / "record.json", (1e9 + age, 1e9 + age))
    _, out, err = ls()
    assert listed(out) == keys[:2:-1] and err == ""
    assert out.startswith("8 runs, of which these 5 are the newest; `htbench runs ls --all --root ")
    assert listed(ls("--all")[1]) == keys[::-1] == listed(ls("--limit", "100")[1])
    assert len(json.loads(ls("--json")[1])) == 8 and ls("--limit", "2")[1].startswith("8 runs, of")


def test_filters_compare_values_not_words(ls, runs):
    assert listed(ls("optimizer.name=htmuon")[1]) == [runs["pruned"]]
    assert listed(ls("optimizer.p=2.5e-1")[1]) == [runs["pruned"]]
    assert listed(ls("optimizer.lr=1e-1", "steps=8.0", "--status", "completed")[1]) == [runs["completed"]]
    assert listed(ls("--all", "seed=2")[1]) == [runs["failed"]]
    assert listed(ls("optimizer.betas=[0.9,0.95]", "--all")[1]) == []


def test_json_says_everything(ls, runs):
    (row,) = json.loads(ls("--json", "optimizer.p=0.25")[1])
    assert row["key"] == runs["pruned"] and row["settings"]["optimizer.p"] == 0.25 and row["steps"] == 4
    (row,) = json.loads(ls("--json", "--status", "completed")[1])
    assert row["metrics"]["val_accuracy"] == 0.875 and row["time"] == 1e9
    promised("runs ls", read(ls("--json", "--all")[1]))


def test_a_sweep_selects_its_runs(ls, runs, tmp_path):
    points = [Point("mine", "b", SEARCH, runs["completed"], {}), Point("mine", "b", SEARCH, "0" * 12, {})]
    sweep_folder(tmp_path, "mine").mkdir(parents=True)
    write_points(tmp_path, "mine", points)
    for words in (["--sweep", "mine"], ["mine"], ["mine", "seed=0"]):
        assert listed(ls(*words, "--all")[1]) == [runs["completed"]]
    assert "No such run" in ls("mine", "seed=7")[1]


def test_finished_runs_come_from_the_index_alone(ls, runs, tmp_path):
    path = Store(tmp_path).run_folder(runs["completed"]) / "record.json"
    ls()  # the index has all of them from now on
    before = path.stat()
    path.write_bytes(b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as if nobody had touched it
    assert "accuracy 87.5 %" in ls()[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["optimizer.nam=muon"], "'optimizer.nam'.*'optimizer.name'"),
        (["optimizer.lr=abc"], "optimizer.lr.*'abc'"),
        (["muon"], "Unknown setting key=value or sweep 'muon' in the store '.*'; no sweep is known"),
        (["--status", "complete"], "'complete'.*'completed'"),
        (["--sweep", "tiny"], "Unknown sweep 'tiny'"),
        (["--limit", "0"], "--limit must be at least 1"),
    ],
    ids=str,
)
def test_mistakes_are_one_sentence(ls, words, sentence):
    status, out, err = ls(*words)
    assert status == EXIT_USAGE and out == "" and err.count("\n") == 1

    assert re.search(sentence, err)


def test_a_config_of_anybody_is_listed(ls, runs, tmp_path):
    Store(tmp_path).files(runs["waiting"]).config.write_text("task: [a, {b: 1}]\nmodel: {}\nseed: null\n")
    assert set(listed(ls("--all")[1])) == set(runs.values())


def test_an_empty_store_is_no_mistake(ls, tmp_path):
    status, out, err = ls()
    assert status == 0 and out.startswith("No such run") and err == ""
    assert ls("--root", f"{tmp_path}/stroe")[1] == f"There is no store '{tmp_path}/stroe'.\n"
