"""Imported runs in the store: repeated, grown, killed, damaged, merged; and everything that reads a store."""

import json
import signal

import pytest

from harness import cli
from harness.choice.winner import score
from harness.cost.from_runs import from_records
from harness.store import Store
from harness.store.check import Survey
from harness.store.points import read_points
from harness.store.record import key_of_imported
from tests.helpers.command import Htbench
from tests.helpers.stored_runs import files

FOUR = "result,run,step,val_loss\n" + "".join(
    f"{result},{run},{step},{3 + run / 8 - step / 100}\n"
    for result in ("muon", "adamw")
    for run in (1, 2)
    for step in (5, 10)
)
SET = ("--set", "task=fineweb", "model=gpt2-124m")


def sound(root):
    found = Survey(root)
    return not (found.faults or found.damaged or found.without_curve or found.differing)


def test_the_same_file_again_changes_nothing_and_a_grown_one_adds(take):
    take.tidy(FOUR)
    before = files(take.root)
    out, err = take.tidy(FOUR)
    assert out.startswith("imported 0 runs as 'others'; 4 are here already") and err == ""
    assert files(take.root) == before
    out, _ = take.tidy(FOUR + "soap,1,5,4\nsoap,1,10,3.5\n")
    assert out.startswith("imported 1 run (1 completed) as 'others'; 4 are here already")
    assert [point.block for point in read_points(take.root, "others")] == [
        *["muon"] * 2,
        *["adamw"] * 2,
        "soap",
    ]
    assert {name: text for name, text in files(take.root).items() if name in before and "runs/" in name} == {
        name: text for name, text in before.items() if "runs/" in name
    }


@pytest.mark.parametrize(
    ("change", "words", "told"),
    [
        (("10,3.025", "10,3.5"), (), "has val_loss=3.025 here and 3.5 in the file; ours stays"),
        (("5,3.075", "5,3.5"), (), "has another curve in the file, though it ends alike; ours stays"),
        (("muon,1,10", "muon,1,20"), (), "has steps=10 here and 20 in the file; ours stays"),
        (("", ""), ("batch_size=8",), "has batch_size=None here and 8 in the file; ours stays"),
        (("", ""), ("seconds_per_step=2",), "has seconds_per_step=None here and 2.0 in the file; ours stays"),
    ],
)
def test_other_numbers_of_a_run_that_is_here_are_a_conflict(take, change, words, told):
    take.tidy(FOUR)
    before = files(take.root)
    out, err = take.tidy(FOUR.replace(*change, 1), *words)
    assert out.startswith(f"imported 0 runs as 'others'; {0 if words else 3} are here already")
    assert f"run '1' of 'muon' {told}" in err and "another --name takes the file as it is now" in err
    assert files(take.root) == before


def test_runs_without_a_word_are_known_by_what_both_tell(take):
    text = "result,seed,lr,step,val_loss\nmuon,1,0.1,9,3\nmuon,1,0.2,9,3\n"
    take.tidy(text)
    assert "2 are here already" in take.tidy(text).out
    out, err = take.tidy(text, "--set", "batch_size=8")
    assert "imported 0 runs" in out and err.count("batch_size=None here and 8 in the file") == 2
    assert "imported 1 run (" in take.tidy(text.replace("muon,1,0.1", "muon,1,0.4")).out


@pytest.mark.parametrize(
    "instant", ["claim.before", "claimed", "record.before", "record.after", "slot.before"]
)
def test_killed_anywhere_the_same_command_finishes(take, instant):
    whole = take.folder / "whole"
    file = take.file("curves.csv", FOUR)
    words = ["runs", "import", "--curves", str(file), "--name", "others", *SET]
    for _ in range(2):
        process = Htbench(take.root).start(*words, crash=instant)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    for root in (whole, take.root):
        assert cli.main([*words, "--root", str(root)]) == 0
    for path in ("sweeps/others/points.jsonl", "sweeps/others/source.json"):
        assert (whole / path).read_bytes() == (take.root / path).read_bytes()
    assert [one.status for one in take.records()] == ["completed"] * 4 and sound(take.root)
    for record in take.records():
        name = f"runs/{record.key[:2]}/{record.key}/metrics.jsonl"
        assert (whole / name).read_bytes() == (take.root / name).read_bytes()


def test_damaged_files_are_written_anew_by_the_same_command(take):
    take.tidy(FOUR)
    first, *others = take.records()
    points = take.root / "sweeps/others/points.jsonl"
    points.write_text(points.read_text()[:-20])
    (Store(take.root).run_folder(first.key) / "record.json").write_text("{")
    (take.root / "index.jsonl").unlink()
    assert not sound(take.root)
    assert "imported 1 run (" in take.tidy(FOUR).out
    assert sound(take.root) and {one.key for one in take.records()} == {
        first.key,
        *(one.key for one in others),
    }


def test_scores_and_directions(take):
    take.tidy("result,run,step,val_acc\nmuon,a,1,0.75\nmuon,b,1,nan\n")
    first, second = take.records()
    assert score(first) == (-0.75, 0.0) and score(second) is None
    # The task of others may be called as one of ours, which reports another metric.
    file = take.file("curves.csv", "result,run,step,val_loss\nmuon,a,1,3.5\n")
    take(file, "--set", "task=cifar10", "model=resnet18", name="named-like-ours")
    assert score(take.records("named-like-ours")[0]) == (3.5, 3.5)


def test_another_store_takes_them_with_their_sweep(take, capsys):
    take.tidy(FOUR)
    other = take.folder / "other"
    words = ["runs", "import", str(take.root), "--root", str(other)]
    assert cli.main(words) == 0
    said = "imported 4 runs (4 completed); 0 are here already\nimported the sweeps others\n"
    assert capsys.readouterr() == (said, "")
    assert sound(other) and Store(other).records([one.key for one in take.records()])
    for name in ("points.jsonl", "source.json"):
        assert (other / "sweeps/others" / name).read_bytes() == (
            take.root / "sweeps/others" / name
        ).read_bytes()
    key = take.records()[0].key
    path = Store(take.root).files(key).record
    path.write_text(path.read_text().replace('"task": "fineweb"', '"task": "other"'))
    (take.root / "index.jsonl").unlink()
    assert cli.main(words) == 0
    assert f"refused: {key}: its config is that of another key" in capsys.readouterr().err


def test_lists_show_them_and_filters_find_them(take, capsys):
    take.tidy(FOUR)
    assert cli.main(["runs", "ls", "--root", str(take.root), "imported=others", "optimizer.name=muon"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert cli.main(["runs", "ls", "--root", str(take.root), "dropout=0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []  # they do not say so


@pytest.mark.parametrize(
    "action", ["plan", "run", "submit", "status", "retry", "replicate", "reap", "cancel", "index"]
)
def test_there_is_nothing_to_run(take, capsys, action):
    take.tidy(FOUR)
    before = files(take.root)
    spec = take.file("others.yaml", "base: {task: digits, model: resnet-nano, steps: 2}\n")
    for word in ("others", str(spec)):
        assert cli.main(["sweep", action, word, "--root", str(take.root)]) == 2
        assert "'others' was imported from files of another trainer" in capsys.readouterr().err
    assert files(take.root) == before


def test_other_commands_say_what_there_is(take, capsys):
    take.tidy(FOUR, "--set", "hardware=NVIDIA H100 80GB HBM3", "seconds_per_step=0.15")
    root, record = ["--root", str(take.root)], take.records()[0]
    for command in (
        ["spectra", record.key],
        ["export", record.key, str(take.folder / "x")],
    ):
        assert cli.main([*command, *root]) == 2
        said = capsys.readouterr().err
        assert "has its curve, but no weights" in said or "is not a model of htbench" in said
    assert from_records(Store(take.root), take.records()) == {}
    (take.root / "sweeps/others/points.jsonl").unlink()
    assert cli.main(["runs", "gc", "--orphans", *root]) == 2
    assert "the same `htbench runs import --curves --root " in capsys.readouterr().err
    assert record.key == key_of_imported(record.config)
