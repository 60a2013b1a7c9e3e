"""Every task a run can name, as a literal table that can be read without torch.

A row names three functions: two quickly fingerprint and count the data, one loads it with all that needs
torch.
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

    `fingerprint`, `loader` and `train_size` are "module:function". `adamw_lr` is the learning rate of AdamW
    on this task, also where it trains what a matrix optimizer leaves over. `revision` is raised when the same
    data gives other numbers.
    """

    name: str
    kind: str  # "lm" or "image", as in models.ModelSpec
    metric: str  # the reported entry of Task.evaluate: "perplexity" or "accuracy"
    higher_is_better: bool
    fingerprint: str
    loader: str
    train_size: str
    adamw_lr: float
    seq_len: int | None = None  # tokens per sequence unless the run says otherwise
    revision: int = 1


def _text(name: str, module: str, *, adamw_lr: float, seq_len: int) -> TaskSpec:
    return TaskSpec(name, "lm", "perplexity", False, *_functions(module), adamw_lr=adamw_lr, seq_len=seq_len)


def _images(name: str, module: str, *, adamw_lr: float) -> TaskSpec:
    return TaskSpec(name, "image", "accuracy", True, *_functions(module), adamw_lr=adamw_lr)


def _functions(module: str) -> tuple[str, str, str]:
    return f"{module}:fingerprint", f"{module}:load", f"{module}:train_size"


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


def train_size(name: str, cache: Path, seq_len: int | None = None) -> int:
    """The number of training samples, or a bound above it where data is not prepared yet. Torch-free, quick.

    Args:
        name: a row of `TASKS`.
        cache: folder for prepared data, which is only read.
        seq_len: tokens per sequence; None means the row's.
    """
    row = spec(name)
    count: int = _function(row.train_size)(cache, seq_len or row.seq_len)
    return count


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
