"""The weights of a run in the store, and its model with them."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from harness.errors import UsageError
from harness.store.record import RunRecord, is_imported
from harness.store.run_folder import RunFolder
from harness.system import atomic
from harness.train import checkpoint


def load(files: RunFolder) -> tuple[dict[str, Tensor], int | None]:
    """The final weights of a run, or those of its last checkpoint, on the CPU.

    Returns:
        the model's state_dict, and the step of the checkpoint; None: the weights are the final ones.

    Raises:
        UsageError: the run has kept neither, or the file is damaged.
    """
    if files.weights.exists():
        return _state_dict(files), None
    try:
        saved = checkpoint.load(files.checkpoint)
    except checkpoint.UnusableCheckpointError as error:
        raise UsageError(_missing(files, str(error))) from None
    return saved["model"], int(saved["loop"]["step"])


def _state_dict(files: RunFolder) -> dict[str, Tensor]:
    try:
        state: Any = torch.load(files.weights, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, KeyError, UnpicklingError) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"The weights '{files.weights}' are damaged: {said[:200]}.") from None
    return dict(state)


def _missing(files: RunFolder, why: str) -> str:
    key, record = files.path.name, RunRecord.from_json(atomic.read_json(files.record))
    if record is not None and is_imported(record.config):
        return f"Run {key} was made by another trainer; the store has its curve, but no weights."
    if files.checkpoint.exists():
        return f"The checkpoint of run {key} can't be used: {why}."
    return (
        f"Run {key} has kept no weights; train it again with checkpoint.keep_weights=true and, to make it a "
        f"run of its own, replica=weights."
    )
