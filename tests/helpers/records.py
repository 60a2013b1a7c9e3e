"""Records without a training."""

from htbench.harness.store.record import RunRecord
from htbench.harness.system import atomic


def record(key, attempt):
    return RunRecord(
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


def scored(task, status="completed", **figures):
    return RunRecord("k", {"task": task}, status, figures, 1, 1.0, 1.0, 1, {}, 1, {})


def change_record(store, key, change):
    """Let the record of a finished run be `change(record)`, as code that wrote another one would have it."""
    atomic.write_json(store.files(key).record, change(store.record(key)).to_json())
