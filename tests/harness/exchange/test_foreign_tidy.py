"""A tidy CSV of another trainer: which column means what, and what the store then has."""

import pytest

from harness.store import Store
from harness.store.check import Survey
from harness.store.integrity import contradiction

TWO = """\
result,run,seed,step,val_loss,train_loss,lr,batch_size,gpu,step_ms,mood
muon,a,1,0,10.5,,0.02,512,H100,150,fine
muon,a,1,100,3.5,3.6,0.02,512,H100,150,fine
adamw,b,1,0,10.5,,0.001,512,A100,140,bad
adamw,b,1,100,3.75,3.9,0.001,512,A100,140,bad
"""


def test_every_column_that_is_known_or_mapped_is_in_the_store(take):
    out, err = take.tidy(TWO, "--map", "seconds_per_step=step_ms/1000")
    assert out.splitlines() == [
        "imported 2 runs (2 completed) as 'others'; 0 are here already",
        "the files have 2 runs of 2 results; val_loss, lower is better",
    ]
    assert err == "htbench: 'curves.csv': left out, as nothing says what they mean: mood\n"
    first, second = take.records()
    assert first.config == {
        **{"imported": "others", "run": "a", "task": "fineweb", "model": "gpt2-124m"},
        **{"optimizer": {"name": "muon", "lr": 0.02}, "seed": 1, "data_seed": 1},
        **{"replica": "", "data_fingerprint": "", "batch_size": 512},
    }
    assert first.metrics == {"val_loss": 3.5} and first.steps == 100 and first.status == "completed"
    assert first.seconds_per_step == 0.15 and first.useful_seconds == 15
    assert first.environment["gpu"] == "H100" and second.environment["gpu"] == "A100"
    assert take.curve(first) == [{"step": 0, "val_loss": 10.5}, {"step": 100, "loss": 3.6, "val_loss": 3.5}]
    for record in (first, second):
        assert not contradiction(Store(take.root).run_folder(record.key), record)
    found = Survey(take.root)
    assert not (found.faults or found.damaged or found.leftovers or found.without_curve) and found.runs == 2


def test_a_file_with_a_line_per_run_is_joined(take):
    curves = "result,run,step,val_loss\nmuon,a,10,3.5\nmuon,b,10,3.25\nadamw,a,10,3.75\n"
    runs = take.file(
        "runs.csv", "result;run;seed;gpu;final_val_loss\nmuon;a;1;H100;3.5\nadamw;a;7;;3.7\nsoap;c;1;;1\n"
    )
    _, err = take.tidy(curves, "--runs", runs)
    assert err.splitlines() == [
        "htbench: 1 of 3 runs have no line in 'runs.csv'",
        "htbench: 1 of 3 lines of 'runs.csv' are of runs without a curve",
        "htbench: 'runs.csv': left out, as nothing says what they mean: final_val_loss",
    ]
    told = [
        (one.config["optimizer"]["name"], one.config["seed"], one.environment.get("gpu"))
        for one in take.records()
    ]
    assert told == [("muon", 1, "H100"), ("muon", None, None), ("adamw", 7, None)]


def test_what_is_compared_may_be_known_from_the_second_file_alone(take):
    runs = take.file("runs.csv", "run,optimizer\na,muon\nb,adamw\n")
    take.tidy("run,step,val_loss\na,10,3.5\nb,10,3.25\n", "--runs", runs)
    assert [one.config["optimizer"]["name"] for one in take.records()] == ["muon", "adamw"]


def test_a_line_per_metric_with_a_factor(take):
    text = "optimizer,seed,step,metric,value\nmuon,1,5,eval/acc,91.3\nmuon,1,5,test_acc,90\nmuon,1,5,norm,2\n"
    _, err = take.tidy(text, "--map", "val_accuracy=eval/acc/100", "test_accuracy=test_acc/100")
    assert take.records()[0].metrics == {"test_accuracy": 0.9, "val_accuracy": 0.913}
    assert err == "htbench: 'curves.csv': left out, as nothing says what they mean: norm\n"
    assert take.records()[0].environment["task"]["higher_is_better"] is True


@pytest.mark.parametrize(
    ("text", "flags", "loss"),
    [
        ("optimizer,seed,val_loss\nmuon,1,3.5\n", ["--set", "step=7"], 3.5),
        ("optimizer,seed,ksteps,val_loss\nmuon,1,0.007,3.5\n", ["--map", "step=ksteps*1000"], 3.5),
        ("Optimizer,Seed,Step,val/loss\nmuon,1.0,7.0,3.5\n", [], 3.5),
        ("\ufeffoptimizer;seed;step;val_loss\r\n\r\nmuon;1;7;3.5\r\n", [], 3.5),
        ("optimizer\tseed\tstep\tval_loss\nmuon\t1\t7\t 3.5 \n", [], 3.5),
        ('optimizer,seed,step,"val_loss"\nmuon,1,7,"3.5"', [], 3.5),
        ("a/2,optimizer,seed,step\n3.5,muon,1,7\n", ["--map", "val_loss=a/2"], 3.5),
        ("optimizer,seed,step,val_loss,lr\nmuon,1,7,3.5,0.1\nmuon,1,6,4,0.2\n", ["--drop", "lr"], 3.5),
    ],
)
def test_spellings_of_one_run(take, text, flags, loss):
    take.tidy(text, *flags)
    (record,) = take.records()
    assert (record.steps, record.metrics, record.config["seed"]) == (7, {"val_loss": loss}, 1)


def test_settings_tell_runs_apart_where_no_word_does(take):
    rows = [f"muon,{seed},{lr},{step},3.{step}" for seed in (1, 2) for lr in (0.1, 0.2) for step in (1, 2)]
    take.tidy("\n".join(["optimizer,seed,lr,step,val_loss", *rows, ""]))
    assert [(one.config["seed"], one.config["optimizer"]["lr"]) for one in take.records()] == [
        *((1, 0.1), (1, 0.2), (2, 0.1), (2, 0.2))
    ]


def test_a_dry_run_tells_the_meaning_and_writes_nothing(take):
    out, _ = take.tidy(TWO, "--map", "seconds_per_step=step_ms/1000", "--dry-run")
    assert out.splitlines()[:2] == [
        "'curves.csv': result, run, seed, step, val_loss, train_loss, batch_size, optimizer.lr = lr, "
        "hardware = gpu, seconds_per_step = step_ms/1000",
        "would import 2 runs (2 completed) as 'others'; 0 are here already",
    ]
    assert not take.root.exists()


def test_the_store_keeps_what_was_read(take):
    import hashlib

    from harness.exchange.foreign_store import sources

    take.tidy(TWO, "--drop", "step_ms", "mood")
    data = (take.folder / "curves.csv").read_bytes()
    told = {"file": "curves.csv", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert sources(take.root, "others") == [
        {
            **{"files": [told], "map": [], "set": ["task=fineweb", "model=gpt2-124m"]},
            **{"drop": ["step_ms", "mood"], "restarts": ""},
        }
    ]
    before = (take.root / "sweeps/others/source.json").read_bytes()
    take.tidy(TWO, "--drop", "step_ms", "mood")
    assert (take.root / "sweeps/others/source.json").read_bytes() == before
