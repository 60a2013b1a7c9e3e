"""Every task a run can name, as a literal table that can be read without torch.

A row names two functions: one fingerprints the data quickly, the other loads it with all that needs torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import nearest

if TYPE_CHECKING:
    from harness.data.task import Task


@dataclass(frozen=True)
class TaskSpec:
    """One row of `TASKS`.

    `fingerprint` and `loader` are "module:function". `adamw_lr` is the learning rate of AdamW on this task,
    also where it trains what a matrix optimizer leaves over. `revision` is raised when the same data gives
    other numbers.
    """

    name: str
    kind: str  # "lm" or "image", as in models.ModelSpec
    metric: str  # the reported entry of Task.evaluate: "perplexity" or "accuracy"
    higher_is_better: bool
    fingerprint: str
    loader: str
    adamw_lr: float
    seq_len: int | None = None  # tokens per sequence unless the run says otherwise
    revision: int = 1


def _text(name: str, module: str, *, adamw_lr: float, seq_len: int) -> TaskSpec:
    functions = (f"{module}:fingerprint", f"{module}:load")
    return TaskSpec(name, "lm", "perplexity", False, *functions, adamw_lr=adamw_lr, seq_len=seq_len)


def _images(name: str, module: str, *, adamw_lr: float) -> TaskSpec:
    return TaskSpec(
        name, "image", "accuracy", True, f"{module}:fingerprint", f"{module}:load", adamw_lr=adamw_lr
    )


_ROWS = (
    _text("pydocs", "harness.data.pydocs", adamw_lr=4e-3, seq_len=32),
    _images("digits", "harness.data.digits", adamw_lr=3e-2),
)

TASKS: dict[str, TaskSpec] = {row.name: row for row in _ROWS}


def spec(name: str) -> TaskSpec:
    """The row called `name`. Raises ValueError with the nearest valid name."""
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    return TASKS[name]


def fingerprint(name: str) -> str:
    """Hex digest of the task's raw data and of all that shapes it. Raises UsageError if data is missing."""
    digest: str = _function(spec(name).fingerprint)()
    return digest


def build(name: str, *, cache: Path, batch_size: int, seq_len: int | None = None, data_seed: int) -> Task:
    """The task, ready to train on.

    Args:
        name: a row of `TASKS`.
        cache: folder for prepared data; made if missing, filled on the first call.
        batch_size: samples of a global batch.
        seq_len: tokens per sequence; None means the row's. Images have none.
        data_seed: seed of the order of the training samples.

    Raises ValueError for an unknown name, UsageError if the data is missing.
    """
    row = spec(name)
    seq_len = row.seq_len if seq_len is None else seq_len
    load = _function(row.loader)
    task: Task = load(cache, batch_size=batch_size, seq_len=seq_len, data_seed=data_seed)
    return task


def _function(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
