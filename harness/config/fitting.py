"""Whether the parts of a config go together: the model with the task, the batch with its divisions."""

from __future__ import annotations

import models
from harness import tasks
from harness.config import RunConfig
from harness.errors import UsageError


def check_parts(config: RunConfig) -> None:
    """Raise UsageError if task, model and lengths of a config do not go together."""
    task, model = tasks.spec(config.task), models.spec(config.model)
    if not model.fits(task.kind):
        fitting = [name for name, row in models.SIZES.items() if row.fits(task.kind)]
        raise UsageError(
            f"The model '{model.name}' does not fit the task '{task.name}'; fitting are: "
            f"{', '.join([*fitting, 'module:Name of your own'])}."
        )
    if (config.steps is None) == (config.epochs is None):
        found = "neither is" if config.steps is None else "both are"
        raise UsageError(f"Give the length of a run as steps or as epochs, one of the two; {found} set.")
    if config.seq_len is not None and task.seq_len is None:
        raise UsageError(f"The task '{task.name}' has no sequences; remove seq_len={config.seq_len}.")
    if config.dropout and not model.outside and "dropout" not in model.settings:
        raise UsageError(f"The model '{model.name}' has no dropout; remove dropout={config.dropout:g}.")
    for name in ("activation_checkpointing", "sync_batch_norm"):
        wrong = model.batch_norm == (name == "activation_checkpointing")
        if getattr(config, name) and wrong:
            why = "its batch statistics would be counted twice" if model.batch_norm else "it has no BatchNorm"
            raise UsageError(f"The model '{model.name}' can't have {name}: {why}.")
    if config.batch_size % config.processes:
        raise UsageError(
            f"processes={config.processes} must divide batch_size={config.batch_size} without remainder."
        )
    part = config.batch_size // config.processes
    if config.micro_batch and part % config.micro_batch:
        whole = f"batch_size={config.batch_size}" + (
            f" / processes={config.processes} (which is {part})" if config.processes > 1 else ""
        )
        raise UsageError(f"micro_batch={config.micro_batch} must divide {whole} without remainder.")
