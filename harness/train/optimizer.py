"""From a config to the optimizer of a run's model."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

import optimizers
from harness.config import RunConfig
from harness.errors import UsageError


def build_optimizer(config: RunConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of the config; its groups note their peak learning rate as `initial_lr`."""
    rule = config.optimizer
    optimizer = optimizers.build(
        rule.name,
        model,
        lr=rule.lr,
        weight_decay=rule.weight_decay,
        routing=rule.routing,
        aux_lr=rule.aux_lr,
        **rule.hyper,
    )
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    return optimizer


def own_groups(config: RunConfig, optimizer: torch.optim.Optimizer, name: str) -> list[int]:
    """The numbers of the groups that a schedule of a hyperparameter sets.

    These are groups of the rule itself, not of an auxiliary AdamW. A group with a value of its own (weight
    decay 0 for vectors) keeps it.

    Args:
        config: of the run.
        optimizer: as `build_optimizer` made it.
        name: the hyperparameter.

    Raises:
        UsageError: there is none. A class from outside need not keep its arguments in its groups.
    """
    first = config.schedule.hyper[name]["from"]
    aux = _groups_of_aux(config, optimizer)
    exempt = name == "weight_decay" and config.optimizer.hyper.get("no_decay_1d")
    found = [
        number
        for number, group in enumerate(optimizer.param_groups)
        if group.get(name) == first
        and not any(group is other for other in aux)
        and not (exempt and all(p.ndim < 2 for p in group["params"]))
    ]
    if not found:
        raise UsageError(
            f"The optimizer '{config.optimizer.name}' has no '{name}' in its groups, so schedule.{name} "
            "can't set it; remove it."
        )
    return found


def _groups_of_aux(config: RunConfig, optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    if not optimizers.spec(config.optimizer.name).has_aux:
        return []
    parts = getattr(optimizer, "parts", ())
    return [group for part in parts if isinstance(part, AdamW) for group in part.param_groups]
