"""From a config to the model that a run trains, on its device."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import models
from harness.config import RunConfig
from harness.data.task import Task
from harness.errors import UsageError
from harness.parallel.batch_norm import synchronise
from harness.parallel.group import Group


def build_model(config: RunConfig, task: Task, device: torch.device, group: Group) -> nn.Module:
    """The model with its first weights, which the run's seed decides.

    Args:
        config: of the run.
        task: its `model_options` are offered to the model, which takes those that it has a setting for.
        device: of the model.
        group: the processes of the run, over which BatchNorm may take its statistics.

    Raises:
        UsageError: the model can't compute activations again, as the config asks.
    """
    row = models.spec(config.model)
    offered: dict[str, Any] = task.model_options | ({"dropout": config.dropout} if config.dropout else {})
    torch.manual_seed(config.seed)
    model = models.build(
        config.model, **{name: x for name, x in offered.items() if row.outside or name in row.settings}
    )
    if config.activation_checkpointing:
        if not hasattr(model, "recompute"):
            raise UsageError(
                f"The model '{config.model}' can't compute activations again (it has no attribute "
                f"`recompute`); remove activation_checkpointing."
            )
        model.recompute = True  # type: ignore[assignment]
    if config.sync_batch_norm:
        synchronise(model, group)
    return model.to(device, getattr(torch, config.precision.params))
