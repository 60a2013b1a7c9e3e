"""Shared by the tests of `htbench runs`: stores whose runs have true keys and go the way of true runs."""

import dataclasses
import json

import numpy as np

from htbench.harness.config.key import run_key
from htbench.harness.config.settings import resolve_config, to_yaml
from htbench.harness.store import Store, items
from htbench.harness.system.atomic import write_text
from tests.helpers.command import TINY
from tests.helpers.records import record


def config(**settings):
    """A tiny run's config; `lr=0.1` is short for `optimizer.lr`."""
    named = {"optimizer.lr" if name == "lr" else name: value for name, value in settings.items()}
    return resolve_config(TINY | {"data_fingerprint": "f" * 16} | named)


def put(root, status="completed", *, step=8, accuracy=0.9, pruned_by=(), weights=False, **settings):
    """Write a finished run; returns its key."""
    made = config(**settings)
    key, store = run_key(made), Store(root)
    attempt = store.claim(key, to_yaml(made))
    figures = {"val_accuracy": accuracy, "val_loss": 1 - accuracy} if status == "completed" else {}
    _write_curve(attempt.files.path, step, figures)
    if status == "pruned":
        (attempt.files.path / "checkpoint.pt").write_text(f"at {step}")
    scored = {}
    if status == "completed":
        scored = {"test_items": 5, "test_tokens": 10, "test_split": 5, "items_digest": "0123456789abcdef"}
        items.write(attempt.files.test_items, some_items())
    if weights:
        (attempt.files.path / "weights.pt").write_text("weights")
    attempt.finish(
        record(
            key,
            config=dataclasses.asdict(made),
            status=status,
            metrics=figures,
            steps=step,
            seconds_per_step=0.125,
            environment={"code": "abc", "host": "node7"},
            pruned_by=list(pruned_by),
            **scored,
        )
    )
    return key


def some_items(correct=None, digest="0123456789abcdef"):
    """Five windows of two tokens in three documents, or five images."""
    sums = np.arange(5) + 0.5
    return items.TestItems(sums, np.full(5, 2), np.array([0, 0, 1, 2, 2]), correct, digest)


def leave(root, reason="stopped", *, step=3, **settings):
    """Write an unfinished run with a checkpoint (none at step 0); without a reason it is under way."""
    made = config(**settings)
    attempt = Store(root).claim(run_key(made), to_yaml(made))
    _write_curve(attempt.files.path, step)
    if step:
        (attempt.files.path / "checkpoint.pt").write_text(f"at {step}")
    if reason:
        attempt.end(reason, "because")
    return attempt.key


def _write_curve(folder, step, figures=()):
    rows = [{"step": number, "loss": 1 / number} for number in range(1, step + 1)]
    rows += [{"step": step, **figures}] if figures else []
    write_text(folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write_text(folder / "spectra.jsonl", json.dumps({"step": step, "layer": "w", "alpha": 2.0}) + "\n")
    write_text(folder / "log.txt", f"{step} steps\n")


def files(root):
    """Every file of a store but locks, with its bytes."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith("lock")
    }
