"""Files that Weights & Biases and TensorBoard export."""

import importlib
import sys

import pytest

SET = ("--set", "task=fineweb", "model=gpt2-124m")

HEAD = [f'"{run} - val_loss{end}"' for run in ("a - b", "c") for end in ("", "__MIN", "__MAX")]
CHART = (
    ",".join(["Step", *HEAD])
    + """
"0","10.5","10.5","10.5","","",""
"100","3.5","3.5","3.5","3.75","3.5","4"
"""
)


def test_the_chart_of_weights_and_biases_with_the_table_of_its_runs(take):
    chart = take.file("chart.csv", CHART)
    more = take.file("more.csv", "Step,a - b - train/loss\n100,3.25\n")
    runs = take.file(
        "runs.csv", "Name,State,optimizer,lr,seed\na - b,finished,muon,0.02,1\nc,failed,adamw,,2\n"
    )
    _, err = take(chart, more, "--runs", runs, *SET)
    assert err.splitlines() == [
        "htbench: 'runs.csv': left out, as nothing says what they mean: State",
        "htbench: run 'c' of 'adamw', seed 2: 1 of its values are means, as its chart had them",
    ]
    first, second = take.records()
    assert first.config["run"] == "a - b" and first.config["optimizer"] == {"name": "muon", "lr": 0.02}
    assert take.curve(first)[-1] == {"step": 100, "loss": 3.25, "val_loss": 3.5}
    assert second.remarks == [{"kind": "import_means", "values": 1}]
    assert second.metrics == {"val_loss": 3.75} and second.config["seed"] == 2


def test_a_chart_over_something_else_than_steps(take):
    chart = take.file("chart.csv", CHART.replace("Step", "tokens"))
    assert "it has no step; name its column" in take(chart, *SET, "result=x", status=2).err
    take(chart, *SET, "--map", "result=run", "step=tokens/50")
    assert [(one.config["optimizer"]["name"], one.steps) for one in take.records()] == [
        ("a - b", 2),
        ("c", 2),
    ]


HISTORY = ",_step,_runtime,_timestamp,val/loss,train/loss\n0,0,0.1,1e9,,9\n1,10,0.9,1e9,3.5,3.25\n"


def test_histories_of_runs_are_called_as_their_files(take):
    files = [take.file(f"{name}.csv", HISTORY) for name in ("muon-1", "muon-2")]
    _, err = take(*files, *SET, "result=muon")
    assert "left out, as nothing says what they mean: (no name), _runtime, _timestamp" in err
    assert [one.config["run"] for one in take.records()] == ["muon-1", "muon-2"]
    take(take.file("adamw-1.csv", HISTORY), *SET, "result=adamw")  # a second import under the same name
    assert [one.config["optimizer"]["name"] for one in take.records()] == ["muon", "muon", "adamw"]
    other = take.file("other/muon-1.csv", HISTORY + "2,20,1.9,1e9,3,3\n")
    assert "Two files would be the run 'muon-1'" in take(files[0], other, *SET, "result=x", status=2).err


def test_scalars_of_tensorboard_are_called_as_their_files(take):
    names = ("run-muon_1-tag-val_loss", "run-muon_1-tag-val_loss (1)", "run-adamw_1-tag-val_loss")
    text = "Wall time,Step,Value\n1.7e9,0,10.5\n1.7e9,{step},3.5\n"
    files = [take.file(f"{name}.csv", text.format(step=10 * i)) for i, name in enumerate(names, 1)]
    loss = take.file("run-muon_1-tag-train_loss.csv", text.format(step=10))
    _, err = take(*files, loss, *SET, "--map", "result=run")
    first, second = take.records()
    assert first.remarks == [{"kind": "import_doubled", "steps": 1, "differing": 0}]
    assert f"run 'muon_1' of 'muon_1': {first.note}" in err
    assert (first.config["run"], first.steps, second.steps) == ("muon_1", 20, 30)
    assert take.curve(first)[1] == {"step": 10, "loss": 3.5, "val_loss": 3.5}


def test_scalars_in_a_file_of_another_name_need_their_metric(take):
    file = take.file("muon.csv", "Wall time,Step,Value\n1.7e9,10,3.5\n")
    assert "no measured value" in take(file, *SET, "result=muon", status=2).err
    take(file, *SET, "result=muon", "metric=val_loss")
    assert take.records()[0].config["run"] == "muon"


def write_events(folder, rows):
    writers = importlib.import_module("tensorboard.summary.writer.event_file_writer")
    protos = importlib.import_module("tensorboard.compat.proto.event_pb2")
    summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
    writer = writers.EventFileWriter(str(folder))
    for step, tag, value in rows:
        summary = summaries.Summary(value=[summaries.Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(protos.Event(step=step, wall_time=1.7e9 + step, summary=summary))
    writer.close()


def test_event_folders_of_tensorboard(take):
    pytest.importorskip("tensorboard")
    rows = [(0, "val/loss", 10.5), (10, "val/loss", 3.28), (10, "train/loss", 3.1), (10, "lr", 0.1)]
    write_events(take.folder / "logs/muon/1", rows)
    write_events(take.folder / "logs/muon/2", [*rows[:2], (10, "val/loss", float("nan"))])
    out, err = take(take.folder / "logs", *SET, "result=muon")
    assert "(1 completed, 1 diverged)" in out
    assert "left out, as nothing says what they mean: lr" in err
    first, second = take.records()
    assert second.remarks == [{"kind": "import_doubled", "steps": 1, "differing": 1}]
    assert first.config["run"] == "muon/1" and first.metrics == {"val_loss": 3.28}  # a float32 in the file
    assert second.status == "diverged"
    from harness.exchange.foreign_store import sources

    names = [one["file"] for one in sources(take.root, "others")[0]["files"]]
    assert len(names) == 2 and names[0].startswith("logs/muon/1/events.out.tfevents.")


def test_event_folders_without_events_or_without_tensorboard(take, monkeypatch):
    (take.folder / "empty").mkdir()
    assert "has no event files of TensorBoard" in take(take.folder / "empty", *SET, status=2).err
    take.file("logs/events.out.tfevents.1.host", "")
    for name in ("tensorboard", "tensorboard.backend.event_processing.event_accumulator"):
        monkeypatch.setitem(sys.modules, name, None)
    said = take(take.folder / "logs", *SET, status=2).err
    assert "tensorboard is not installed; `pip install 'htbench[tensorboard]'` brings it." in said
