"""Records without a training, and the files of a finished run."""

import dataclasses
import json

from htbench.harness.store import Store
from htbench.harness.store.record import RunRecord
from htbench.harness.system import atomic


def record(key, attempt=1, **fields):
    made = RunRecord(
        key=key,
        config={"task": "digits"},
        status="completed",
        metrics={"val_loss": 0.5},
        steps=8,
        useful_seconds=1.0,
        seconds_per_step=0.1,
        peak_memory=1,
        cost={},
        attempts=attempt,
        environment={},
    )
    return dataclasses.replace(made, **fields)


def record_of(planned, **fields):
    """The record of a planned run, with its key and its config."""
    config = json.loads(json.dumps(dataclasses.asdict(planned.config)))
    return record(planned.point.key, config=config, **fields)


def scored(task, status="completed", **figures):
    return RunRecord("k", {"task": task}, status, figures, 1, 1.0, 1.0, 1, {}, 1, {})


def write_run(root, made, rows):
    """Write a record, and the rows of its curve."""
    folder = Store(root).run_folder(made.key)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_text(json.dumps(made.to_json()))
    write_rows(folder / "metrics.jsonl", rows)


def write_rows(path, rows):
    """A file with a line per row."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def change_record(store, key, change):
    """Let the record of a finished run be `change(record)`, as code that wrote another one would have it."""
    atomic.write_json(store.files(key).record, change(store.record(key)).to_json())
